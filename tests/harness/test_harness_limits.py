"""Which limits of a suite hold for which cell; what is wrong with one is told before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.errors import ExitCode, UsageError
from harness.limit_cells import run_limits_of
from harness.plan import build_plan, first_try
from harness.planned_cell import PlannedCell
from harness.run.directory.run_directory import new_run_record
from harness.scenarios import cases_of
from harness.suite import Suite, load_suite
from runlog.files.clock import RunClock
from runlog.files.redaction import Redactor
from runlog.records.codec import from_document, to_json
from runlog.records.run import RunLimitRecord, RunRecord

HEAD = """\
name: x
workload: {rate_per_s: 100, record_size_bytes: 100, producers: 1, consumers: 1, warmup_ms: 1000, measure_ms: 3000, drain_ms: 1000}
"""  # noqa: E501 (a suite's line)
SWEEP = "sweep: {baseline: {linger.ms: 5}, vary: {linger.ms: [0]}, repetitions: 2}\n"
CHAOS = "chaos: [{scenario: leader-loss, cases: [acks-1]}]\n"
CEILINGS = "sweep: {baseline: {linger.ms: 5}, vary: {linger.ms: [0]}, repetitions: 2, ceiling: {outstanding: 64}}\n"
SEARCH = "search: {properties: {acks: all}, low_per_s: 100, high_per_s: 1000}\n"


def suite_of(tmp_path: Path, text: str) -> Suite:
    path = tmp_path / "x.yaml"
    path.write_text(HEAD + text)
    return load_suite(str(path))


def plan(suite: Suite) -> tuple[PlannedCell, ...]:
    return build_plan(suite, cases_of, seed=1, client="reference")


def test_a_limit_holds_for_every_cell_and_one_against_the_baseline_for_the_others_of_the_sweep(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, SWEEP + CHAOS + "limits: [lost == 0, throughput >= 0.9 * baseline]\n")
    found = {
        cell.cell_id.removesuffix("-r1"): cell.record.limits for cell in plan(suite) if not cell.cell_id.endswith("-r2")
    }
    assert found == {
        "sweep-baseline": ("lost == 0",),
        "sweep-linger.ms-0": ("lost == 0", "throughput >= 0.9 * baseline"),
        "chaos-leader-loss-acks-1": ("lost == 0",),
    }


def test_throughput_against_the_baseline_and_capacity_hold_for_the_ceilings_of_a_sweep_that_has_them(
    tmp_path: Path,
) -> None:
    against, absolute = "throughput >= 0.9 * baseline", "throughput_per_s >= 50"
    text = f"limits: [{against}, {absolute}, capacity >= 500, p99_ms <= 2 * baseline]\n"
    found = {cell.cell_id: cell.record.limits for cell in plan(suite_of(tmp_path, CEILINGS + CHAOS + text))}
    assert {name.removesuffix("-r1"): own for name, own in found.items() if not name.endswith("-r2")} == {
        "sweep-baseline": (absolute,),
        "sweep-linger.ms-0": (absolute, "p99_ms <= 2 * baseline"),
        "ceiling-baseline": ("capacity >= 500",),
        "ceiling-linger.ms-0": (against, "capacity >= 500"),
        "chaos-leader-loss-acks-1": (absolute,),
    }


def test_patterns_say_otherwise(tmp_path: Path) -> None:
    at_rate = "limits: [{limit: throughput >= 0.9 * baseline, cells: sweep-*}, {limit: capacity >= 5, cells: '*'}]\n"
    found = {cell.cell_id: cell.record.limits for cell in plan(suite_of(tmp_path, CEILINGS + at_rate))}
    assert found["sweep-linger.ms-0-r1"] == ("throughput >= 0.9 * baseline",)
    assert found["ceiling-linger.ms-0-r1"] == ("capacity >= 5",)


def test_cells_are_chosen_by_patterns(tmp_path: Path) -> None:
    suite = suite_of(
        tmp_path, SWEEP + CHAOS + "limits:\n  - {limit: gap_ms <= 4000, cells: chaos-*}\n  - p99_ms <= 50\n"
    )
    found = {cell.cell_id: cell.record.limits for cell in plan(suite)}
    assert found["chaos-leader-loss-acks-1"] == ("gap_ms <= 4000", "p99_ms <= 50")
    assert found["sweep-baseline-r2"] == ("p99_ms <= 50",)


def test_a_limit_of_several_cells_is_of_the_run_and_of_no_cell(tmp_path: Path) -> None:
    text = (
        SWEEP
        + CHAOS
        + "limits:\n  - {limit: median(p99_ms) <= 50, cells: sweep-*}\n  - total_lost == 0\n  - lost == 0\n"
    )
    suite = suite_of(tmp_path, text)
    assert {cell.record.limits for cell in plan(suite)} == {("lost == 0",)}
    assert run_limits_of(suite) == (
        RunLimitRecord(limit="median(p99_ms) <= 50", cells=("sweep-*",)),
        RunLimitRecord(limit="total(lost) == 0"),
    )


@pytest.mark.slow
def test_the_manifest_has_the_limits_of_the_run(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, SEARCH + "limits: [found_rate_per_s >= 500]\n")
    record = new_run_record(
        run_dir=tmp_path, clock=RunClock.starting_now(), argv=["run", "x.yaml"], engine="reference",
        client="reference", seed=1, suite=suite, cells=[], redactor=Redactor(), mark="m",
    )  # fmt: skip
    assert record.limits == (RunLimitRecord(limit="found_rate_per_s >= 500"),)
    assert from_document(RunRecord, to_json(record)).limits == record.limits


def test_the_tries_of_a_search_have_limits_only_if_they_are_named(tmp_path: Path) -> None:
    (trial,) = first_try(suite_of(tmp_path, SEARCH + "limits: [p99_ms <= 50]\n"), "reference")
    assert trial.record.limits == ()
    named = suite_of(tmp_path, SEARCH + "limits: [{limit: p99_ms <= 50, cells: search-*}]\n")
    assert first_try(named, "reference")[0].record.limits == ("p99_ms <= 50",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SWEEP + "limits: [p99 <= 50]\n", "limits.0.limit: p99 is no figure, got 'p99 <= 50'; did you mean 'p99_ms'?"),
        (SWEEP + "limits: [{limit: lost == 0, cells: sweep-baselin}]\n", "did you mean 'sweep-baseline-r"),
        (SWEEP + "limits: [{limit: lost == 0, cell: sweep-*}]\n", "no such key; did you mean 'cells'?"),
        (CHAOS + "limits: [throughput >= 0.9 * baseline]\n", "there is no baseline to compare with"),
        (
            "sweep: {baseline: {linger.ms: 5}, vary: {}}\nlimits: [throughput >= 0.9 * baseline]\n",
            "it holds for no cell: only sweep cells beside the baseline have a baseline",
        ),
        (SWEEP + "limits: [med(p99_ms) <= 50]\n", "did you mean median(p99_ms)?"),
        (SWEEP + "limits: [{limit: total(lost) == 0, cells: chaos-*}]\n", "no cell is named 'chaos-*'"),
        (SWEEP + "limits: [found_rate_per_s >= 500]\n", "the suite has no search that could find a rate"),
        (SEARCH + "limits: [{limit: found_rate_per_s >= 500, cells: search-*}]\n", "leave `cells` out"),
        (SWEEP + "limits: [capacity >= 500]\n", "the suite has no `sweep.ceiling`"),
        (CEILINGS + "limits: [{limit: capacity >= 500, cells: sweep-*}]\n", "none of these cells is a ceiling"),
        (SWEEP + "thresholds: [p99_ms <= 50]\n", "no such key; here it is limits"),
    ],
)
def test_a_wrong_limit_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        plan(suite_of(tmp_path, text))
    assert told in str(error.value)
    assert f"x.yaml:{HEAD.count(chr(10)) + text.count(chr(10))}: " in str(error.value)


def test_validate_tells_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.yaml").write_text(HEAD + SWEEP + "limits: [{limit: lost == 0, cells: nothing-*}]\n")
    assert execute(["validate", str(tmp_path / "x.yaml")]) == ExitCode.USAGE
    assert "no cell is named 'nothing-*'" in capsys.readouterr().err


def test_bench_takes_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["bench", "--limit", "p99_ms <= 50", "--dry-run"]) == ExitCode.PASS
    assert (
        execute(["bench", "--limit", "median(p99_ms) <= 50", "--limit", "total_lost == 0", "--dry-run"])
        == ExitCode.PASS
    )
    assert execute(["bench", "--limit", "p99 <= 50", "--dry-run"]) == ExitCode.USAGE
    assert "did you mean 'p99_ms'?" in capsys.readouterr().err
