"""How `python -m reports` ends: 0, 1 and 4 are verdicts and nothing else, and what fails leaves no results behind."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reports import job
from reports.__main__ import main
from reports.read.spark_bounds import ServerWatch, bounded
from reports.read.spark_needs import (
    JavaMissingError,
    SparkUnavailableError,
    addresses_of,
    require_java,
    require_what_it_takes,
)
from reports.render.publication import BEFORE, Publication
from tests.patience import communicate

ID = "a" * 16


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "verdicts.json").write_text("old")
    (tmp_path / "junit.xml").write_text("old")
    (tmp_path / "manifest.json").write_text('{"cells": [], "status": "finished"}')
    return tmp_path


def analysed_by(monkeypatch: pytest.MonkeyPatch, analyse: Callable[[Path], int]) -> None:
    monkeypatch.setattr(job, "_analyse", lambda _request, _run, _allowances, into, _session: analyse(into))


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 1, 4])
def test_a_verdict_is_published_and_is_the_exit_code(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def analyse(into: Path) -> int:
        assert not (run_dir / "junit.xml").exists(), "the old ones go first"
        (into / "results").mkdir()
        (into / "results" / "verdicts.json").write_text("new")
        return code

    analysed_by(monkeypatch, analyse)
    assert main([str(run_dir), "--analysis-id", ID]) == code
    assert (run_dir / "results" / "verdicts.json").read_text() == "new"
    assert not (run_dir / BEFORE).exists()
    assert capsys.readouterr().out.strip() == str(run_dir / "report.html")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 3),
        (OSError(errno.EROFS, "Read-only file system"), 3),
        (SparkUnavailableError("no worker"), 3),
        (ValueError("a bug"), 5),
        (MemoryError(), 5),
        (KeyError(1), 5),
        (ImportError("half of it"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_what_fails_ends_with_no_verdicts_code_and_leaves_no_results(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def analyse(into: Path) -> int:
        (into / "junit.xml").write_text("half")
        raise error

    analysed_by(monkeypatch, analyse)
    assert main([str(run_dir)]) == code
    assert not (run_dir / "results").exists()
    assert not (run_dir / "junit.xml").exists()
    assert (run_dir / BEFORE / "results" / "verdicts.json").read_text() == "old"
    assert not list(run_dir.glob(".analysis-*"))


@pytest.mark.slow
@pytest.mark.thorough
def test_a_disk_that_fills_up_while_results_are_written_leaves_none(run_dir: Path, tmp_path: Path) -> None:
    """A real refusal by the kernel: the process may write files of a few bytes only."""
    script = f"""
import resource, signal, sys
from reports import job
from reports.__main__ import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def analyse(request, run, allowances, into, session):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    (into / "junit.xml").write_text("x" * 100_000)
job._analyse = analyse
sys.exit(main([{str(run_dir)!r}]))
"""
    # Pipes: the limit holds for files alone.
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    try:
        _, told = communicate(process, "the end of the analysis")
    finally:
        process.kill()
    assert process.returncode == 3, told
    assert "no results were written" in told
    assert not (run_dir / "junit.xml").exists()


@pytest.mark.slow
def test_a_directory_that_is_being_analysed_is_refused_and_left_alone(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Publication(run_dir, ID) as publication:
        (publication.aside / "half").write_text("work")
        assert main([str(run_dir)]) == 3
        assert (publication.aside / "half").read_text() == "work"
    assert "being analysed by another process" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["--no-such"], ["/no/such/run"], ["x", "--analysis-id", "../x"], ["x", "--allow", "/no/such"]]
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11, Spark needs 17"),
        ("echo 'java version \"1.8.0_392\"' >&2", "is Java 1, Spark needs 17"),
        ("echo 'libjvm.so: cannot open shared object file' >&2; exit 127", "ended with 127 and said 'libjvm.so"),
        ("exit 0", "said 'nothing'"),
    ],
)
def test_a_java_that_does_not_do_is_told_with_the_way_to_mend_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, text: str
) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{answer}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissingError, match=text) as caught:
        require_java()
    assert "install a JDK 17" in str(caught.value)


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[2]", []),
        ("yarn", []),
        ("spark://a:1,b", [("a", 1), ("b", 7077)]),
        ("sc://h:15/;token=x", [("h", 15)]),
        ("sc://h", [("h", 15002)]),
        ("spark://[::1]:9", [("::1", 9)]),
        ("spark://[::1]", [("::1", 7077)]),
    ],
)
def test_the_addresses_of_a_master(master: str, expected: list[tuple[str, int]]) -> None:
    assert addresses_of(master) == expected


@pytest.mark.parametrize("master", ["spark://h:x", "spark://:1", "sc://", "spark://h:70000"])
def test_a_master_that_names_no_address_is_told(master: str) -> None:
    with pytest.raises(SparkUnavailableError, match="no HOST:PORT"):
        addresses_of(master)


@pytest.mark.slow
def test_a_server_that_nobody_runs_is_told_at_once() -> None:
    for master in ("spark://127.0.0.1:1", "sc://127.0.0.1:1"):
        with pytest.raises(SparkUnavailableError, match="cannot be reached"):
            require_what_it_takes(master)


def test_a_wait_that_takes_too_long_is_ended_with_a_word() -> None:
    told = threading.Event()
    words: list[str] = []
    with bounded("starting Spark", 0.01, lambda text: (words.append(text), told.set())[0]):
        assert told.wait(30)
    assert words == ["starting Spark took longer than 0 s and was given up"]


@pytest.mark.slow
def test_a_connect_server_that_is_frozen_is_given_up() -> None:
    """A frozen process still accepts connections, as this socket does: nobody greets."""
    pytest.importorskip("grpc")
    given_up = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        master = f"sc://127.0.0.1:{frozen.getsockname()[1]}"
        with ServerWatch(master, end=lambda _text: given_up.set(), interval_s=0.01, timeout_s=0.05):
            assert given_up.wait(60)
