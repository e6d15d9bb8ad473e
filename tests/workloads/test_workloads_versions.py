"""`NAME==VERSION` is a client installed once into a directory of its own; what cannot be had is told by name."""

from __future__ import annotations

import json
import multiprocessing
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reports.judge.figure_checks import is_apart
from workloads.clients import BUILTIN, is_client
from workloads.clients.process import making
from workloads.clients.process.build import Built
from workloads.clients.process.library import SHIPPED, is_process
from workloads.clients.process.making import BuildError, made, run_step
from workloads.clients.process.versions import installing
from workloads.clients.process.versions.installers import NoSuchVersion, Tool
from workloads.clients.process.versions.installing import (
    RESOLVED,
    installed,
    installed_versions,
    is_installed,
    resolved_of,
    version_problem,
)
from workloads.clients.process.versions.names import client_of, versioned
from workloads.clients.process.versions.nearest import nearest_versions
from workloads.clients.process.versions.table import VERSIONS

pytestmark = pytest.mark.slow  # some of them start processes


@dataclass
class Registry:
    """An installer without a registry. It counts what it was asked for."""

    has: tuple[str, ...] = ("1.0", "1.1", "2.0")
    asked: list[str] = field(default_factory=list)
    sources: Mapping[str, str] = field(default_factory=lambda: {"client.py": "print()\n"})
    tools: Sequence[Tool] = ()
    registry: str = "the registry of this test"

    def install(self, client: str, version: str, directory: Path) -> Mapping[str, str]:
        self.asked.append(version)
        (directory / "half").write_text("made")
        if version not in self.has:
            raise NoSuchVersion(client, f"no {version} here", version, self.has)
        return {"library": version, "beside": "7"}

    def start(self, directory: Path) -> Built:
        return Built(command=(sys.executable, str(directory / "client.py")))


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    row = Registry()
    monkeypatch.setattr(installing, "VERSIONS", {"confluent": row, "kafkajs": Registry()})
    return row


def test_a_version_is_installed_once_with_what_was_resolved_written_down(registry: Registry, tmp_path: Path) -> None:
    assert not is_installed("confluent==1.1", tmp_path)
    first = installed("confluent==1.1", tmp_path)
    assert installed("confluent==1.1", tmp_path) == first
    assert registry.asked == ["1.1"]
    place = Path(first.command[1]).parent
    assert (place / "client.py").read_text() == "print()\n"
    document = json.loads((place / RESOLVED).read_text())
    assert document == {"client": "confluent", "version": "1.1", "resolved": {"beside": "7", "library": "1.1"}}
    assert resolved_of("confluent==1.1", tmp_path) == {"beside": "7", "library": "1.1"}
    assert installed_versions("confluent", tmp_path) == ["1.1"]
    assert installed_versions("kafkajs", tmp_path) == []


def test_each_version_and_each_program_of_ours_has_a_directory_of_its_own(registry: Registry, tmp_path: Path) -> None:
    places = {installed(f"confluent=={version}", tmp_path).command[1] for version in ("1.0", "1.1")}
    registry.sources = {"client.py": "print('anew')\n"}
    assert installed_versions("confluent", tmp_path) == []
    installed("confluent==2.0", tmp_path)
    installed("confluent==1.1", tmp_path)
    assert installed_versions("confluent", tmp_path) == ["1.1", "2.0"], "1.1 is there twice"
    assert len(places | {installed("confluent==1.0", tmp_path).command[1]}) == 3


def test_a_version_that_is_not_there_is_told_with_the_nearest_ones_and_leaves_nothing(
    registry: Registry, tmp_path: Path
) -> None:
    with pytest.raises(NoSuchVersion, match=r"client confluent==1\.5: no 1\.5 here; nearest: 1\.0, 1\.1, 2\.0"):
        installed("confluent==1.5", tmp_path)
    assert [path.suffix for path in (tmp_path / "clients").iterdir()] == [".lock"]


def test_what_a_process_that_died_has_left_is_never_used(registry: Registry, tmp_path: Path) -> None:
    place = Path(installed("confluent==1.0", tmp_path).command[1]).parent
    left = place.with_name(f".{place.name}.growing")
    place.rename(left)
    (left / "of the dead").touch()
    assert not is_installed("confluent==1.0", tmp_path)
    installed("confluent==1.0", tmp_path)
    assert not (place / "of the dead").exists()
    assert not left.exists()


def _make_slowly(place: Path, told: Path) -> None:
    def fill(directory: Path) -> None:
        with told.open("a") as file:
            file.write("made\n")
        (directory / "whole").touch()

    assert (made(place, fill) / "whole").exists()


def test_of_processes_that_want_the_same_one_makes_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    arguments = (tmp_path / "clients" / "same", tmp_path / "told")
    processes = [context.Process(target=_make_slowly, args=arguments) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert (tmp_path / "told").read_text() == "made\n"


def test_who_waits_too_long_for_another_process_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "_LOCK_TIMEOUT_S", 0)

    def fill(directory: Path) -> None:
        with pytest.raises(BuildError, match="another process has been making it for 0 s"):
            made(tmp_path / "clients" / "one", lambda _: None)

    made(tmp_path / "clients" / "one", fill)


def test_a_step_that_takes_too_long_ends_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child of the step holds its output open: who waited for its end would wait for an hour."""
    monkeypatch.setattr(making, "MAKE_TIMEOUT_S", 0.5)
    with pytest.raises(BuildError, match=r"client a: sh -c .*: not done within 0\.5 s"):
        run_step("a", ["sh", "-c", "sleep 3600 & sleep 3600"], tmp_path)


def test_a_step_that_lasts_says_what_it_does_and_how_long_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It goes on when that was told, so that no time has to be waited for."""
    monkeypatch.setattr(making, "_TOLD_EVERY_S", 0.05)
    told = making._tell

    def tell(text: str) -> None:
        told(text)
        if "Compiling two" in text:
            (tmp_path / "told").touch()

    monkeypatch.setattr(making, "_tell", tell)
    script = "echo Compiling one >&2; echo Compiling two >&2; until [ -e told ]; do sleep 0.02; done; echo done"
    assert run_step("a", ["sh", "-c", script], tmp_path, timeout_s=900) == "done\n"
    assert re.search(
        r"^client a: sh -c .*: \d+ s of at most 900 s; Compiling two$", capfd.readouterr().err, re.MULTILINE
    )


def test_a_step_that_says_nothing_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "_TOLD_EVERY_S", 0.05)
    monkeypatch.setattr(making, "_tell", lambda text: (tmp_path / "told").write_text(text))
    run_step("a", ["sh", "-c", "until [ -e told ]; do sleep 0.02; done"], tmp_path, timeout_s=900)
    assert (tmp_path / "told").read_text().endswith(" s of at most 900 s")


def test_a_tool_that_is_missing_is_told_with_how_to_get_it(registry: Registry, tmp_path: Path) -> None:
    registry.tools = (Tool("no-such-tool", "install it"),)
    with pytest.raises(BuildError, match=r"client confluent==1\.0 cannot be installed: no-such-tool is not on PATH; i"):
        installed("confluent==1.0", tmp_path)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("confluent==2.4.0", ""),
        ("confluent==2.4.0rc1", ""),
        ("confluent==", "expected a version like 2.4.0 after ==, got ''"),
        ("confluent==latest", "expected a version like 2.4.0 after ==, got 'latest'"),
        ("confluent==1/../../x", "not a version"),
        ("confluant==2.4.0", "versions of confluant cannot be chosen; did you mean confluent==2.4.0?"),
        ("reference==1.0", "versions of reference cannot be chosen; of these they can: confluent, "),
    ],
)
def test_a_name_with_a_version_is_a_client_only_if_both_are_right(name: str, problem: str) -> None:
    assert is_process(name) == (not problem or "/" in name)
    assert is_client(name) == is_process(name)
    if versioned(name) is not None:
        assert version_problem(name).startswith(problem)
    assert client_of("confluent==2.4.0") == client_of("confluent") == "confluent"


def test_the_report_knows_which_clients_work_beside_the_load_process() -> None:
    """What such a client takes of the processor is not recorded, so its ceiling is no capacity."""
    assert {name for name in (*BUILTIN, *SHIPPED) if is_apart(name)} == {"java", *SHIPPED}
    assert all(is_apart(name) for name in ("confluent==2.4.0", "./mine", "process:mine --fast"))
    assert not is_apart("shop")


def test_a_command_is_never_taken_for_a_version() -> None:
    for name in ("./a==1.0", "process:python x.py --a==1", "confluent"):
        assert versioned(name) is None


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("2.3.5", ["2.2", "2.3.0", "2.10.0", "3.0"]),
        ("0.1", ["1.9", "2.0", "2.2", "2.3.0"]),
        ("9", ["2.2", "2.3.0", "2.10.0", "3.0"]),
    ],
)
def test_the_nearest_versions_are_those_beside_it_by_number(wanted: str, near: list[str]) -> None:
    assert nearest_versions(wanted, ["3.0", "2.10.0", "2.3.0", "2.2", "2.0", "1.9", "2.4.0rc1"]) == near
    assert nearest_versions(wanted, []) == []
    assert nearest_versions("1.0", ["1.0b1"]) == ["1.0b1"]


def test_pip_is_held_to_the_constraints_of_a_client_and_another_client_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[str]] = []

    def note(_client: str, command: Sequence[str], _directory: Path, **_: object) -> str:
        asked.append(command)
        return ""

    monkeypatch.setattr("workloads.clients.process.versions.pypi.run_step", note)
    for client in ("aiokafka", "kafka_python"):
        VERSIONS[client].install(f"{client}==1.0", "1.0", tmp_path)
    held, free = (each for each in asked if "install" in each)
    name = held[held.index("--constraint") + 1]
    assert VERSIONS["aiokafka"].sources[name] == "kafka-python<2.0.3\n"
    assert "--constraint" not in free
