"""The interposer in a process that knows nothing of it: its clock, and its calls on files that look like segments."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.interposer import build, fault_page

pytestmark = pytest.mark.skipif(bool(build.problem()), reason=build.problem())

TRY = """
import os, sys, time
def attempt(name, call):
    try:
        call()
        print(name, "done")
    except OSError as error:
        print(name, os.strerror(error.errno))
segment = os.open(sys.argv[1] + "/t-0/00000000000000000000.log", os.O_RDWR)
index = os.open(sys.argv[1] + "/t-0/00000000000000000000.index", os.O_RDWR)
began = time.monotonic()
attempt("write", lambda: os.write(segment, b"abc"))
attempt("pwrite", lambda: os.pwrite(segment, b"abc", 0))
attempt("writev", lambda: os.writev(segment, [b"a", b"bc"]))
attempt("index", lambda: os.write(index, b"abc"))
attempt("fsync", lambda: os.fsync(segment))
attempt("truncate", lambda: os.ftruncate(segment, 3))
attempt("read", lambda: os.pread(segment, 3, 0))
print("time", time.time(), time.clock_gettime(time.CLOCK_REALTIME), "took", time.monotonic() - began)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.library(tmp_path_factory.mktemp("library"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    (directory / "t-0").mkdir(parents=True)
    for suffix in ("log", "index"):
        (directory / "t-0" / f"00000000000000000000.{suffix}").touch()
    fault_page.create(tmp_path / "page", directory)
    return directory


def run(library: Path, data: Path) -> dict[str, str]:
    environment = {"LD_PRELOAD": str(library), fault_page.ENVIRONMENT: str(data.parent / "page")}
    done = subprocess.run(
        [sys.executable, "-c", TRY, str(data)], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.slow
def test_without_a_fault_nothing_is_other_than_usual(library: Path, data: Path) -> None:
    found = run(library, data)
    assert abs(float(found.pop("time").split()[0]) - time.time()) < 60
    assert set(found.values()) == {"done"}
    assert (data / "t-0" / "00000000000000000000.log").read_bytes() == b"abc"
    assert fault_page.done(data.parent / "page") == {}


@pytest.mark.slow
def test_writes_of_segments_fail_and_those_of_other_files_do_not(library: Path, data: Path) -> None:
    control = data.parent / "page"
    fault_page.set_rules(control, [{"call": "write", "error": "ENOSPC", "skip": 1}])
    found = run(library, data)
    assert (found["write"], found["pwrite"], found["writev"], found["index"], found["fsync"]) == (
        "done", "No space left on device", "No space left on device", "done", "done",
    )  # fmt: skip
    assert fault_page.done(control) == {"write": 2}
    fault_page.set_rules(control, [])
    assert run(library, data)["pwrite"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize(("directory", "outcome"), [("t-0", "No space left on device"), ("t-1", "done")])
def test_a_rule_with_a_path_is_for_files_below_it(library: Path, data: Path, directory: str, outcome: str) -> None:
    control = data.parent / "page"
    fault_page.set_rules(control, [{"call": "write", "error": "ENOSPC", "path": f"{data / directory}/"}])
    assert run(library, data)["write"] == outcome
    assert fault_page.done(control) == ({} if outcome == "done" else {"write": 3})


@pytest.mark.slow
def test_calls_are_slowed_and_syncs_swallowed(library: Path, data: Path) -> None:
    control = data.parent / "page"
    fault_page.set_rules(control, [{"call": "any", "delay_ms": 50}, {"call": "sync", "lost": True}])
    found = run(library, data)
    assert found["fsync"] == "done"
    assert float(found["time"].split()[-1]) >= 6 * 0.05
    assert fault_page.done(control) == {"write": 3, "sync": 2, "truncate": 1, "read": 1}


@pytest.mark.slow
def test_the_wall_clock_is_off_and_the_monotonic_one_is_not(library: Path, data: Path) -> None:
    fault_page.set_clock_offset(data.parent / "page", -3_600_000_000_000)
    found = run(library, data)["time"].split()
    assert all(abs(float(shown) + 3600 - time.time()) < 60 for shown in found[:2])
    assert 0 <= float(found[-1]) < 20


def test_what_does_not_fit_the_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="3071 are the most"):
        fault_page.create(tmp_path / "page", Path("/" + "d" * 4000))
    fault_page.create(tmp_path / "page", tmp_path)
    with pytest.raises(ValueError, match="9 rules, 8 are the most"):
        fault_page.set_rules(tmp_path / "page", [{"call": "sync", "lost": True}] * 9)
    with pytest.raises(ValueError, match="path is 4000 bytes long, 3071 are the most"):
        fault_page.set_rules(tmp_path / "page", [{"call": "sync", "lost": True, "path": "d" * 4000}])
