"""What the harness takes for the verdict of an analysis: that of the one it began, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.errors import EnvironmentFault, ExitCode, HarnessError, UsageError
from harness.run.report import analysis_process, reporting
from harness.run.report.artifacts import collect_artifacts
from harness.run.report.reporting import AnalysisCheck, make_report
from harness.run.report.spark_choice import THIS_HOST
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag
from runlog.records.verdicts import VerdictsRecord
from tests.harness.small_disk import SmallDisk, why_no_disk
from tests.patience import run_command

OLD_ID = "0" * 16
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """One that an analysis before has called a pass."""
    directory = tmp_path / "run"
    (directory / "results").mkdir(parents=True)
    (directory / "manifest.json").write_text('{"cells": [], "status": "finished"}')
    old = {"analysis": {"id": OLD_ID}, "verdict": "pass", "exit_code": 0, "cells": []}
    (directory / "results" / "verdicts.json").write_text(json.dumps(old))
    (directory / "junit.xml").write_text("<testsuites/>")
    (directory / "summary.md").write_text("# pass")
    return directory


def analysis(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    """The analysis is this script: `own(exit_code)` writes verdicts as a real one does, in one step."""
    head = """
        import json, os, sys
        from pathlib import Path
        run, own_id = Path(sys.argv[1]), sys.argv[sys.argv.index("--analysis-id") + 1]
        def own(code, analysis_id=own_id):
            document = {"analysis": {"id": analysis_id}, "verdict": "x", "exit_code": code, "cells": []}
            (run / "results" / "verdicts.json").write_text(json.dumps(document))
            sys.exit(code)
    """
    path = tmp_path / "analysis.py"
    path.write_text(textwrap.dedent(head) + textwrap.dedent(script))
    monkeypatch.setattr(analysis_process, "_ANALYSIS", (sys.executable, str(path)))


def report(run_dir: Path) -> VerdictsRecord:
    return make_report(run_dir, spark=THIS_HOST, stop=StopFlag(), progress=Progress(0))


@pytest.mark.slow
@pytest.mark.skipif(bool(why_no_disk()), reason=why_no_disk())
def test_a_full_disk_is_told_before_spark_is_started(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It took a minute, and then ended with 5: the analysis could not even write down why it ended."""
    disk = SmallDisk(tmp_path, fails=False)
    try:
        shutil.move(run_dir, disk.path / "run")
        disk.spoil()
        analysis(monkeypatch, tmp_path, f"Path({str(tmp_path / 'started')!r}).touch(); own(0)")
        assert execute(["report", str(disk.path / "run")]) == ExitCode.ENVIRONMENT
    finally:
        disk.close()
    assert f"the disk of {disk.path / 'run'} is full" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "started").exists()


@pytest.mark.slow
def test_a_disk_that_gets_full_under_an_analysis_is_the_reason(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis(monkeypatch, tmp_path, f"Path({str(tmp_path / 'started')!r}).touch(); sys.exit(1)")
    monkeypatch.setattr(reporting, "_free_bytes", lambda _: 0 if (tmp_path / "started").exists() else 1 << 30)
    with pytest.raises(EnvironmentFault, match="is full"):
        report(run_dir)


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 1, 4])
def test_the_verdict_is_that_of_the_analysis_that_was_begun(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    analysis(monkeypatch, tmp_path, f"own({code})")
    assert report(run_dir).exit_code == code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "kind", "text"),
    [
        ("raise RuntimeError('a bug')", HarnessError, "a bug"),  # exit 1, as a verdict of fail has
        ("sys.exit(0)", HarnessError, f"is of analysis {OLD_ID}"),
        ("own(0, analysis_id='f' * 16)", HarnessError, "another one was begun meanwhile"),
        ("(run / 'results' / 'verdicts.json').write_text('{'); sys.exit(0)", HarnessError, "cannot be read"),
        ("(run / 'results' / 'verdicts.json').unlink(); sys.exit(1)", HarnessError, "cannot be read"),
        ("os.kill(os.getpid(), 9)", HarnessError, "ended with -9"),
        ("print('reports: no java', file=sys.stderr); sys.exit(3)", EnvironmentFault, "no java"),
        ("print('reports: no such file', file=sys.stderr); sys.exit(2)", UsageError, "no such file"),
        ("sys.exit(5)", HarnessError, "ended with 5"),
    ],
)
def test_an_analysis_that_fails_never_gives_the_verdict_of_another(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, kind: type[HarnessError], text: str
) -> None:
    analysis(monkeypatch, tmp_path, script)
    with pytest.raises(HarnessError, match=text) as caught:
        report(run_dir)
    assert type(caught.value) is kind
    assert (run_dir / "report.stderr.log").is_file()
    assert not list(run_dir.glob("report.*.stderr.log"))[1:]


@pytest.mark.slow
@pytest.mark.thorough
def test_a_dead_spark_master_is_told_at_once_and_shows_no_old_verdict(run_dir: Path) -> None:
    """The whole way, through the command line: this printed the table of before, `verdict: pass` and ended with 0."""
    artifacts = run_dir.parent / "artifacts"
    (artifacts / run_dir.name).mkdir(parents=True)
    (artifacts / run_dir.name / "junit.xml").write_text("<testsuites/>")
    done = run_command(
        [sys.executable, "-m", "harness", "report", str(run_dir), "--spark-master", "spark://127.0.0.1:1",
         "--artifacts", str(artifacts)],
    )  # fmt: skip
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "verdict" not in done.stdout
    assert "spark://127.0.0.1:1 cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (artifacts / run_dir.name / "junit.xml").exists()


def test_artifacts_of_a_failed_analysis_hold_no_results(run_dir: Path, tmp_path: Path) -> None:
    target = tmp_path / "artifacts"
    collect_artifacts(run_dir, target)
    assert (target / "run" / "results" / "verdicts.json").is_file()
    collect_artifacts(run_dir, target, with_results=False)
    assert sorted(path.name for path in (target / "run").rglob("*") if path.is_file()) == ["manifest.json"]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    "words", [["run", "demo"], ["chaos", "leader-loss"], ["report", "."], ["confirm", "."]], ids=lambda each: each[0]
)
def test_without_java_a_command_ends_before_it_imports_or_makes_anything(tmp_path: Path, words: list[str]) -> None:
    """numpy, pandas and what else takes seconds on a busy host would only be waited for."""
    work, state = tmp_path / "work", tmp_path / "state"
    work.mkdir()
    (work / "manifest.json").write_text("{}")
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = run_command(
        [sys.executable, "-X", "importtime", "-m", "harness", *words],
        cwd=work,
        env={**environment, "PATH": str(tmp_path), "XDG_STATE_HOME": str(state), "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert done.returncode == ExitCode.ENVIRONMENT
    told = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert "install a JDK 17 or newer" in told[0]
    assert told[1].startswith("nothing was ")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert not imported & {"numpy", "pandas", "pyspark", "requests", "kio", "broker"}
    assert [path.name for path in work.iterdir()] == ["manifest.json"]
    assert not state.exists()


@pytest.mark.slow
def test_a_java_home_without_java_is_told(tmp_path: Path) -> None:
    done = run_command(
        [sys.executable, "-m", "harness", "run", "demo", "--run-dir", str(tmp_path / "run")],
        env={**os.environ, "JAVA_HOME": str(tmp_path / "nothing"), "XDG_STATE_HOME": str(tmp_path / "state")},
    )  # fmt: skip
    assert done.returncode == ExitCode.ENVIRONMENT
    assert f"JAVA_HOME={tmp_path / 'nothing'}" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_needs_no_java_does_without(tmp_path: Path) -> None:
    done = run_command(
        [sys.executable, "-m", "harness", "run", "smoke", "--dry-run"],
        env={**os.environ, "JAVA_HOME": str(tmp_path / "nothing"), "XDG_STATE_HOME": str(tmp_path / "state")},
    )  # fmt: skip
    assert done.returncode == ExitCode.PASS, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("body", ["raise RuntimeError('torn')", "import no_such_module"])
def test_a_broken_pyspark_is_found_before_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="pip install --force-reinstall pyspark"):
        AnalysisCheck(THIS_HOST).result()


@pytest.mark.slow
def test_a_host_with_all_that_is_needed_passes_the_check() -> None:
    AnalysisCheck(THIS_HOST).result()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "broken"),
    [("harness", "harness/cli/main.py"), ("reports", "pydantic/__init__.py")],
)
def test_an_installation_that_is_not_whole_never_ends_with_1(tmp_path: Path, module: str, broken: str) -> None:
    """An exception's own exit code is 1, which means that a check failed."""
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent(f"""
        import sys
        class Broken:
            def find_spec(self, name, path=None, target=None):
                if name == {broken.removesuffix(".py").removesuffix("/__init__").replace("/", ".")!r}:
                    raise ImportError("half of it is gone")
        sys.meta_path.insert(0, Broken())
        """)
    )
    (tmp_path / "manifest.json").write_text("{}")
    done = run_command(
        [sys.executable, "-m", module, *([str(tmp_path)] if module == "reports" else ["list", "suites"])],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "half of it is gone" in done.stderr
