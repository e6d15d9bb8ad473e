"""What `harness init` writes is valid, runs, and never replaces what is there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.errors import ExitCode
from tests.patience import run_command
from workloads.clients.process.shipped import LANGUAGES, sources


@pytest.mark.parametrize(("what", "name"), [("suite", "orders.yaml"), ("scenario", "my-producer.yaml")])
def test_the_yaml_examples_are_valid_and_can_be_planned(
    what: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert execute(["init", what]) == ExitCode.PASS
    said = capsys.readouterr()
    assert said.out == f"{name}\n"
    assert f"harness validate {name}" in said.err
    assert execute(["validate", name]) == ExitCode.PASS
    assert execute(["run" if what == "suite" else "chaos", f"./{name}", "--dry-run"]) == ExitCode.PASS
    text = (tmp_path / name).read_text()
    assert text.count("#") >= 5, "an example explains itself"


def test_the_test_example_is_python_that_uses_the_plugin(tmp_path: Path) -> None:
    path = tmp_path / "test_mine.py"
    assert execute(["init", "test", str(path)]) == ExitCode.PASS
    compile(path.read_text(), str(path), "exec")
    assert "kafka_cluster" in path.read_text()


def test_a_file_that_is_there_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    assert execute(["init", "suite", str(path)]) == ExitCode.USAGE
    assert "is there already" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert execute(["init", "suite", str(tmp_path / "no" / "x.yaml")]) == ExitCode.USAGE
    assert execute(["init", "siute"]) == ExitCode.USAGE
    assert "did you mean 'suite'" in capsys.readouterr().err


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_client_is_a_directory_with_everything_and_about_200_lines_of_source(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert execute(["init", "client", "--language", language]) == ExitCode.PASS
    said = capsys.readouterr()
    assert said.out == f"my-{language}-client\n"
    assert "harness client check" in said.err
    found = {path.name: path.read_text() for path in (tmp_path / f"my-{language}-client").iterdir()}
    assert found == sources(language)
    program = max((text for name, text in found.items() if name.partition(".")[0].lower() == "client"), key=len)
    assert 50 < len(program.splitlines()) <= 235  # with all that it declares beyond what a plain client needs
    assert execute(["init", "client", "--language", language]) == ExitCode.USAGE


def test_a_client_of_no_such_language_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["init", "client"]) == ExitCode.USAGE
    assert "expected one of " + ", ".join(LANGUAGES) in capsys.readouterr().err
    assert execute(["init", "client", "--language", "pyton"]) == ExitCode.USAGE
    assert "did you mean 'python'" in capsys.readouterr().err
    assert execute(["init", "suite", "--language", "python"]) == ExitCode.USAGE


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a disk that is read-only, or full")
def test_a_disk_that_takes_nothing_is_told_and_leaves_no_half_file(tmp_path: Path) -> None:
    """It was a traceback and exit code 5; the run said 2, which is a wrong option."""
    disk = tmp_path / "disk"
    disk.mkdir()
    harness = f"{sys.executable} -m harness"
    script = f"""
        mount -t tmpfs -o ro none {disk}; cd {disk}
        {harness} init suite; echo code $?
        {harness} run --no-report demo; echo code $?
        mount -o remount,rw,size=16k {disk}; cat /dev/zero > x 2>/dev/null
        {harness} init suite; echo code $?; ls
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = run_command(["unshare", "-m", "sh", "-c", script], env=environment)
    assert done.stdout.split("\n")[:4] == ["code 3", "code 3", "code 3", "x"], done.stderr
    read_only, run, full = [line for line in done.stderr.splitlines() if line.startswith("harness: ")]
    assert read_only == f"harness: {disk}/orders.yaml cannot be written: Read-only file system"
    assert "cannot make the run directory" in run
    assert full == f"harness: {disk}/orders.yaml cannot be written: No space left on device"
    assert "Traceback" not in done.stderr
