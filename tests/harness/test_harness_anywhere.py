"""The command line where something that most hosts have is not there."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.environment.descriptors import DESCRIPTORS_MIN, require_descriptors
from harness.cli.hosts import doctor
from harness.cli.main import execute
from harness.errors import EnvironmentFault, ExitCode
from tests.harness.harness_process import write_suite
from tests.patience import run_command

REPOSITORY = Path(__file__).resolve().parents[2]
STRANGER = 54_321  # no entry in the user database, as in a container with `--user N`
PACKAGES = [path for path in sys.path if path.endswith("site-packages")]


@pytest.mark.parametrize("home", ["/proc/nowhere", "/dev/null"])
def test_a_home_that_cannot_be_written_is_told_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert execute(["run", "smoke", "--no-report"]) == ExitCode.ENVIRONMENT
    told = capsys.readouterr().err
    assert "Set XDG_STATE_HOME to a directory that can be written" in told
    assert "Traceback" not in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["cluster", "up"],
        ["explore", "--client", "confluent"],
        ["explore", "--program", f"{sys.executable} -V"],
        ["client", "check", "--client", "confluent"],
    ],
)
def test_each_command_that_starts_something_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert execute(words) == ExitCode.ENVIRONMENT
    told = capsys.readouterr().err
    assert "Set XDG_STATE_HOME to a directory that can be written" in told
    assert list(tmp_path.iterdir()) == []


def test_doctor_tries_the_directories_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CI asks it first, and a home or a workspace that cannot be written is what it has most often."""
    mine = ("run directory", "state directory")
    every = doctor._checks("embedded")
    monkeypatch.setattr(doctor, "_checks", lambda _: [check for check in every if check.name in mine])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert execute(["doctor"]) == ExitCode.PASS
    assert f"ok       run directory: {tmp_path} can be written" in " ".join(capsys.readouterr().out.split("\n"))
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    monkeypatch.chdir("/proc/self/fd")
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert execute(["doctor"]) == ExitCode.ENVIRONMENT
    told = capsys.readouterr().out
    assert "FAIL     run directory: " in told
    assert "FAIL     state directory: no state can be kept" in told


@pytest.mark.slow
def test_a_plan_is_shown_without_home_in_the_c_locale_to_an_ascii_terminal(tmp_path: Path) -> None:
    dropped = ("HOME", "LANG", "PYTHONUTF8", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HARNESS_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    done = subprocess.run(
        [sys.executable, "-m", "harness", "run", "smoke", "--dry-run"],
        env={**environment, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path, capture_output=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == ExitCode.PASS, done.stderr.decode(errors="replace")
    assert b"chaos-response-lost-idempotence-on" in done.stdout


@pytest.mark.parametrize("hard", [0, 256, DESCRIPTORS_MIN - 1])
def test_too_few_descriptors_are_told_with_what_is_needed(hard: int) -> None:
    with pytest.raises(EnvironmentFault, match=f"at least {DESCRIPTORS_MIN}, got {hard}\\. .*ulimit"):
        require_descriptors(hard)


@pytest.mark.parametrize("hard", [DESCRIPTORS_MIN, 1_048_576, resource.RLIM_INFINITY])
def test_enough_descriptors_are_not_spoken_of(hard: int) -> None:
    require_descriptors(hard)


@pytest.mark.slow
def test_with_256_descriptors_nothing_is_started(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness", "run", "smoke", "--no-report"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "XDG_STATE_HOME": str(tmp_path)},
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
    )  # fmt: skip
    assert done.returncode == ExitCode.ENVIRONMENT, done.stderr[-3000:]
    assert f"at least {DESCRIPTORS_MIN}, got 256" in done.stderr
    assert not (tmp_path / "runs").exists()


def python_of_stranger() -> str:
    """An interpreter of this version that the user can run and that finds the packages: not one below root's home."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    script = "import locust, pyspark, harness"
    for program in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        try:
            done = as_stranger([program, "-c", script], Path("/"))
        except OSError:
            continue
        if done.returncode == 0:
            return program
    pytest.skip(f"no {name} that uid {STRANGER} can run with these packages from {REPOSITORY}")


def as_stranger(command: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    """With a home of its own, no group of root's, and no more descriptors than a run must have."""
    limits = (DESCRIPTORS_MIN, DESCRIPTORS_MIN)
    return run_command(
        command, cwd=home, user=STRANGER, group=STRANGER, extra_groups=(),
        env={
            "PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *PACKAGES]),
        },
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits),
    )  # fmt: skip


@pytest.fixture
def home_of_stranger() -> Iterator[Path]:
    """Not below pytest's directories: those are root's alone."""
    home = Path(tempfile.mkdtemp(prefix="harness-stranger-", dir="/tmp"))
    os.chown(home, STRANGER, STRANGER)
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(os.getuid() != 0, reason="only root can run something as another user")
def test_a_user_without_a_name_runs_a_cell_with_faults_and_its_report(home_of_stranger: Path) -> None:
    suite = write_suite(home_of_stranger)
    run_dir = home_of_stranger / "run"
    command = [python_of_stranger(), "-m", "harness", "run", str(suite), "--run-dir", str(run_dir)]
    done = as_stranger(command, home_of_stranger)
    told = done.stderr[-3000:] + done.stdout[-1000:]
    # On a busy host a follower may fall behind at the very end, which makes so short a cell inconclusive.
    assert done.returncode in (ExitCode.PASS, ExitCode.INCONCLUSIVE), told
    assert "chaos-short-only: done" in told, told
    made = [run_dir / "manifest.json", run_dir / "junit.xml", run_dir / "report.html"]
    assert [path.stat().st_uid for path in made] == [STRANGER] * 3
    leases = home_of_stranger / ".local" / "state" / "kafka-harness" / "leases"
    assert list(leases.iterdir()) == []
