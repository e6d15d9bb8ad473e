"""What continuous integration relies on: one cell again by its command, artefacts in one place, runs side by side."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from harness.cli.main import execute
from harness.errors import EnvironmentFault, ExitCode
from harness.run.directory.reproduce import without_options
from harness.run.report.artifacts import collect_artifacts
from reports.figures.figures import figures_of
from reports.judge.allowances import read_allowances
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, Check, Verdict
from reports.judge.judged import Judged
from reports.render.junit import junit
from runlog.records.cell import CellStatus
from runlog.records.documents import read_cell
from tests.harness.harness_process import REPOSITORY, HarnessProcess, leases, write_suite
from tests.reports.cells import changed, document_of, make_run
from tests.reports.test_reports_verdict import facts

EXAMPLES = REPOSITORY / "examples" / "ci"


def test_one_cell_of_a_plan_keeps_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["chaos", "--smoke", "--dry-run"]) == ExitCode.PASS
    *whole, duration = capsys.readouterr().out.splitlines()[1:]
    assert duration.startswith("about ")
    assert len(whole) == 6
    cell_id = whole[3].split()[1]
    assert execute(["chaos", "--smoke", "--dry-run", "--cell", cell_id]) == ExitCode.PASS
    line, _ = capsys.readouterr().out.splitlines()[1:]
    assert line.split()[1:] == whole[3].split()[1:]
    assert execute(["chaos", "--smoke", "--dry-run", "--cell", "chaos-leader-loss-acks-2"]) == ExitCode.USAGE
    assert "did you mean 'chaos-leader-loss-acks-1'?" in capsys.readouterr().err


def test_smoke_chooses_for_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["chaos", "leader-loss", "--smoke"]) == ExitCode.USAGE
    assert "--smoke chooses its own scenarios" in capsys.readouterr().err


def test_the_command_of_a_cell_leaves_out_what_belongs_to_one_execution() -> None:
    words = ["chaos", "--smoke", "--run-dir", "x", "--artifacts=y", "--cell", "a", "--client", "confluent", "--cell=b"]
    assert without_options(words) == ["chaos", "--smoke", "--client", "confluent"]


def judged(*checks: Check) -> Judged:
    document = {"seed": 7, "command": "harness chaos --seed 7 --cell chaos-x"}
    made = facts()
    cell = changed(made.cell, cell_id="chaos-x", document={**document_of(made.cell), **document})
    return Judged(facts=replace(made, cell=cell), verdict=Verdict(result=FAIL, checks=checks))


def test_each_failure_in_junit_carries_seed_and_command() -> None:
    item = judged(
        Check(name="lost", result=FAIL, reason="2 lost"),
        Check(name="fault", result=INCONCLUSIVE, reason="no proof"),
        Check(name="order", result=PASS, reason="in order"),
        Check(name="duplicates", result=PASS, reason="1", allowed="allowed until 2027-01-01 (ticket): 1"),
    )
    root = ElementTree.fromstring(junit(figures_of(make_run("r", manifest={"run_id": "r"}), [item])))
    assert [each.get("value") for each in root.iterfind(".//property[@name='client']")] == [
        item.facts.cell.record.client
    ]
    (suite,) = root
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    again = "seed 7; again by: harness chaos --seed 7 --cell chaos-x"
    assert [
        (case.get("name"), *((child.tag, child.text) for child in case)) for case in suite.iterfind("testcase")
    ] == [
        ("lost", ("failure", again)),
        ("fault", ("error", again)),
        ("order",),
        ("duplicates", ("skipped", None)),
    ]


def test_artifacts_of_several_runs_lie_in_one_directory(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run = tmp_path / name
        (run / "clusters" / "1" / "broker-1" / "data").mkdir(parents=True)
        (run / "clusters" / "1" / "broker-1" / "stderr.log").write_text("a broker's words")
        (run / "clusters" / "1" / "broker-1" / "data" / "0.log").write_text("records")
        (run / "junit.xml").write_text(f'<testsuites name="{name}"><testsuite name="cell-{name}"/></testsuites>')
        (run / "summary.md").write_text(f"# {name}\n")
        collect_artifacts(run, tmp_path / "kept")
    kept = tmp_path / "kept"
    assert [suite.get("name") for suite in ElementTree.parse(kept / "junit.xml").getroot()] == ["cell-one", "cell-two"]
    assert (kept / "summary.md").read_text() == "# one\n\n# two\n"
    assert (kept / "one" / "clusters" / "1" / "broker-1" / "stderr.log").is_file()
    assert not list(kept.rglob("0.log")), "data stays where it is"
    collect_artifacts(tmp_path / "one", tmp_path)
    assert (tmp_path / "one" / "junit.xml").is_file(), "a run that lies in the directory is not removed to be copied"
    assert [suite.get("name") for suite in ElementTree.parse(tmp_path / "junit.xml").getroot()][-1] == "cell-two"
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match="--artifacts"):
        collect_artifacts(tmp_path / "one", tmp_path / "file")


def test_the_examples_are_what_the_harness_takes_in_an_empty_repository(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (entry,) = read_allowances(EXAMPLES / "allowed-anomalies.yaml")
    assert entry.until > date(2026, 1, 1)
    yaml = YAML(typ="safe", pure=True)
    github = yaml.load((EXAMPLES / "github.yml").read_text())
    commands = [step["run"] for step in github["jobs"]["chaos"]["steps"] if "harness" in step.get("run", "")]
    commands += [line for line in yaml.load((EXAMPLES / "gitlab.yml").read_text())["kafka-chaos"]["script"]]
    runs = [command for command in commands if command.startswith("harness ")]
    assert len(runs) == 2
    for command in runs:
        assert execute([*command.split()[1:], "--dry-run"]) == ExitCode.PASS, command
    assert "KAFKA_HARNESS" in github["env"], "the package is on no index: where it is from is to be said in one place"


def test_an_allowance_file_that_cannot_be_used_stops_the_run_before_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "allowed.yaml"
    path.write_text("allow: [{cell: a}]")
    assert execute(["chaos", "--smoke", "--allow", str(path)]) == ExitCode.USAGE
    assert f"--allow {path}: allow.0.invariant: this key is required" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.slow
def test_runs_side_by_side_do_not_touch_one_another(tmp_path: Path) -> None:
    suite = str(write_suite(tmp_path))
    runs = [
        HarnessProcess(tmp_path, "run", suite, "--run-dir", name, "--toxiproxy", "embedded", "--no-report")
        for name in ("left", "right")
    ]
    try:
        for run in runs:
            run.await_text("· measure")
        cleaning = HarnessProcess(tmp_path, "clean")
        assert cleaning.wait() == ExitCode.PASS
        assert cleaning.stdout == "nothing was left behind\n", "what belongs to a living run is no wreck"
        for run, name in zip(runs, ("left", "right"), strict=True):
            assert run.wait() == ExitCode.PASS, run.screen
            assert read_cell(tmp_path / name, "chaos-short-only").outcome.status is CellStatus.DONE
        assert runs[0].family() == {}
        assert leases(tmp_path / "state") == []
    finally:
        for run in runs:
            run.close()
