"""A limit whose verdict lies within the bound of two hosts' clocks is undecided, and says so with the bound."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import validate

from harness.run.report.reporting import print_verdicts
from reports.analyse.beyond_clocks import latency_beyond
from reports.figures.cell import cell_figures
from reports.figures.figures import figures_of
from reports.figures.gaps import gap_text
from reports.figures.measurements import measure
from reports.judge.catalogue import IN_CSV
from reports.judge.cell_values import is_certain, span_of
from reports.judge.judged import Judged, exit_code
from reports.judge.limits import with_limits
from reports.judge.run_limits import run_limits
from reports.judge.verdict import judge
from reports.read.model import SET_KINDS, CellFacts, IdentitySet, Latency, Recovery
from reports.render.csv_tables import cell_row
from reports.render.junit import junit
from reports.render.markdown import summary
from reports.render.page import render
from reports.render.results_schema import verdicts_schema
from reports.render.verdicts_json import verdicts_record
from runlog.records.codec import to_json
from runlog.records.hosts import clock_error_of_gap_us
from runlog.records.run import RunLimitRecord
from runlog.records.verdicts import LimitOutcome
from tests.reports.cells import changed, document_of, make_run
from tests.reports.test_reports_limits import STOLEN
from tests.reports.test_reports_verdict import facts

HELD, BROKEN, UNDECIDED = LimitOutcome.HELD, LimitOutcome.BROKEN, LimitOutcome.UNDECIDED


def host(name: str, error_us: float | None, *, producer: int, reads: bool = False) -> dict[str, Any]:
    """`error_us` None: no bound of its clock is known."""
    clock: dict[str, Any] = {"offset_us": 0.0, "error_us": error_us or 0.0, "samples": 9, "round_trip_us_min": 1.0}
    if error_us is None:
        clock["problem"] = "its clock was set"
    consumers = [0] if reads else []
    return {
        "name": name, "state": "done", "is_gathered": True, "producers": [producer], "consumers": consumers,
        "clock": clock,
    }  # fmt: skip


def cell(
    *limits: str,
    error_us: float | None = 2_500.0,
    p99_us: float = 48_000.0,
    first_ack_us: int | None = 3_000_000,
    gap_us: int | None = 900_000,
    cell_id: str = "c",
    document: dict[str, Any] | None = None,
    stats: tuple[dict[str, Any], ...] = (),
) -> CellFacts:
    """With two load hosts whose clocks are known to `error_us` each."""
    made = facts(kind="sweep")
    hosts = [host("a", error_us, producer=0, reads=True), host("b", error_us, producer=1)]
    whole = document_of(made.cell)
    outcome = {**whole["outcome"], "load_hosts": hosts}
    own = changed(
        made.cell,
        cell_id=cell_id,
        document={**whole, "limits": list(limits), "repetition": 1, **(document or {}), "outcome": outcome},
        stats=stats,
    )
    read_us = Latency(n=10_000, quantiles={"p99": p99_us}, max_us=90_000, mean_us=4_000.0)
    error = math.inf if error_us is None else error_us
    return replace(
        made,
        cell=own,
        observed=dict.fromkeys(SET_KINDS, IdentitySet()),
        latency={**made.latency, "end_to_end": latency_beyond(read_us, 2 * error)},
        recovery=Recovery(
            fault="kill on leader", fault_us=0, detect_us=40_000, elect_us=50_000, first_ack_us=first_ack_us,
            clock_error_us=error, beyond_clocks=frozenset() if first_ack_us else frozenset({"first_ack_us"}),
        ),
        gap_us=gap_us,
        gap_beyond_clocks=gap_us is None,
    )  # fmt: skip


def held(*cells: CellFacts) -> list[Judged]:
    return with_limits([Judged(facts=one, verdict=judge(one)) for one in cells])


def outcomes(*cells: CellFacts) -> list[LimitOutcome]:
    """Of the last cell."""
    return [one.outcome for one in held(*cells)[-1].verdict.limits]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("end_to_end_p99_ms <= 53", HELD),
        ("end_to_end_p99_ms <= 52.9", UNDECIDED),
        ("end_to_end_p99_ms <= 48", UNDECIDED),
        ("end_to_end_p99_ms <= 43", UNDECIDED),
        ("end_to_end_p99_ms <= 42.9", BROKEN),
        ("end_to_end_p99_ms < 53", UNDECIDED),
        ("end_to_end_p99_ms >= 43", HELD),
        ("end_to_end_p99_ms >= 50", UNDECIDED),
        ("end_to_end_p99_ms > 60", BROKEN),
        ("end_to_end_p99_ms == 48", UNDECIDED),
        ("end_to_end_p99_ms == 60", BROKEN),
        ("end_to_end_p99_ms != 60", HELD),
        ("first_ack_ms <= 3002.5", HELD),
        ("first_ack_ms <= 3001", UNDECIDED),
        ("first_ack_ms <= 2997", BROKEN),
        ("gap_ms <= 905", HELD),
        ("gap_ms <= 904", UNDECIDED),
        ("gap_ms <= 894", BROKEN),
        # the harness sees the fault and what the cluster does about it by its own clock
        ("elect_ms <= 50", HELD),
        ("elect_ms <= 49.999", BROKEN),
        ("detect_ms <= 39.999", BROKEN),
    ],
)
def test_only_a_limit_beyond_the_bound_of_the_clocks_is_decided(limit: str, expected: LimitOutcome) -> None:
    assert outcomes(cell(limit)) == [expected]


def test_an_undecided_limit_says_how_much_the_figure_can_be_wrong() -> None:
    judged = held(cell("end_to_end_p99_ms <= 50", "first_ack_ms <= 3000", "elect_ms <= 50"))
    latency, first_ack, elected = judged[0].verdict.limits
    assert latency.reason == (
        "limit end_to_end_p99_ms <= 50: undecided, 48 ± 5.000 ms; the clocks of the load hosts leave it open: it can "
        "be wrong by 5.000 ms"
    )
    assert (latency.clock_error, first_ack.clock_error, elected.clock_error) == (5.0, 2.5, None)
    assert "it can be wrong by 2.500 ms" in first_ack.reason
    assert elected.reason == "limit elect_ms <= 50: held, 50 ms"
    assert exit_code(judged) == 4


def test_a_decided_limit_has_the_bound_beside_its_figure() -> None:
    (item,) = held(cell("end_to_end_p99_ms <= 60"))
    assert item.verdict.limits[0].reason == "limit end_to_end_p99_ms <= 60: held, 48 ± 5.000 ms"


def test_a_figure_that_is_not_shown_is_still_below_twice_its_bound() -> None:
    hidden = {"p99_us": 3_000.0, "first_ack_us": None, "gap_us": None}
    assert outcomes(cell("end_to_end_p99_ms <= 10", **hidden)) == [HELD]
    assert outcomes(cell("end_to_end_p99_ms <= 9", **hidden)) == [UNDECIDED]
    assert outcomes(cell("end_to_end_p99_ms > 10", **hidden)) == [BROKEN]
    assert outcomes(cell("first_ack_ms <= 5", "gap_ms <= 10", **hidden)) == [HELD, HELD]
    (item,) = held(cell("end_to_end_p99_ms <= 9", **hidden))
    (limit,) = item.verdict.limits
    assert limit.value is None
    assert "not shown, because it is not above the 5.000 ms that the clocks of its hosts may be off" in limit.reason


@pytest.mark.thorough
def test_without_a_bound_of_a_clock_nothing_that_spans_it_is_decided_or_shown() -> None:
    limits = ("end_to_end_p99_ms <= 1000000", "first_ack_ms <= 1000000", "gap_ms <= 1000000")
    unknown = cell(*limits, error_us=None, first_ack_us=None, gap_us=None)
    (item,) = held(unknown)
    assert [one.outcome for one in item.verdict.limits] == [UNDECIDED] * 3
    assert all("no bound of the clocks of its load hosts is known" in one.reason for one in item.verdict.limits)
    assert [one.clock_error for one in item.verdict.limits] == [None] * 3
    assert "end-to-end latencies between two load hosts are not shown" in " ".join(item.verdict.notes)
    figures = figures_of(make_run("r", manifest={"run_id": "r"}, cells=(unknown.cell,)), [item])
    document = to_json(verdicts_record(figures))
    validate(document, verdicts_schema())
    shown = document["cells"][0]
    assert (shown["latency_us"]["end_to_end"]["p99"], shown["latency_us"]["end_to_end_clock_error"]) == (None, None)
    assert "inf" not in render(figures).lower().split("<script")[0].replace("info", "").replace("infinit", "")


def test_the_baseline_has_a_bound_too() -> None:
    def baseline(error_us: float) -> CellFacts:
        return cell(cell_id="baseline", document={"baseline": True}, error_us=error_us)

    wanted = "end_to_end_p99_ms <= 1.1 * baseline"  # 48 ms against 52.8 ms
    assert outcomes(baseline(100.0), cell(wanted, error_us=100.0)) == [HELD]
    assert outcomes(baseline(2_500.0), cell(wanted, error_us=100.0)) == [UNDECIDED], "of the baseline: 47.3 to 58.3 ms"
    assert outcomes(baseline(100.0), cell(wanted, error_us=2_500.0)) == [UNDECIDED]
    last = held(baseline(2_500.0), cell("elect_ms <= baseline"))[-1].verdict.limits[0]
    assert (last.outcome, last.bound) == (HELD, 50.0)


def test_a_disturbed_host_and_the_clocks_together_decide_no_more_than_each_alone() -> None:
    assert outcomes(cell("end_to_end_p99_ms <= 53", stats=STOLEN)) == [HELD]
    assert outcomes(cell("end_to_end_p99_ms <= 52", stats=STOLEN)) == [UNDECIDED]
    assert outcomes(cell("end_to_end_p99_ms <= 40", stats=STOLEN)) == [UNDECIDED]


def of_several(text: str, *cells: CellFacts) -> Any:
    (one,) = run_limits([RunLimitRecord(limit=text)], held(*cells))
    return one.held


def repeated(*p99_us: float, error_us: float = 2_500.0, baseline: bool = False) -> list[CellFacts]:
    name = "baseline" if baseline else "a"
    return [
        cell(
            p99_us=value, error_us=error_us, cell_id=f"sweep-{name}-r{number}",
            document={"repetition": number, "baseline": baseline},
        )
        for number, value in enumerate(p99_us, start=1)
    ]  # fmt: skip


def test_a_limit_over_several_cells_has_the_bound_of_its_cells() -> None:
    three = repeated(48_000, 20_000, 90_000)
    assert of_several("median(end_to_end_p99_ms) <= 53", *three).outcome is HELD
    assert of_several("median(end_to_end_p99_ms) <= 42", *three).outcome is BROKEN
    undecided = of_several("median(end_to_end_p99_ms) <= 50", *three)
    assert (undecided.outcome, undecided.value, undecided.clock_error) == (UNDECIDED, 48.0, 5.0)
    assert "48 ± 5.000 ms over 3 cells" in undecided.reason
    assert "it can be wrong by 5.000 ms" in undecided.reason
    hidden = of_several("max(end_to_end_p99_ms) <= 10", *repeated(3_000, 2_000))
    assert (hidden.outcome, hidden.value) == (HELD, None)
    assert "not shown in 2" in hidden.reason


def test_a_baseline_of_several_cells_has_the_bound_of_its_cells() -> None:
    wanted = "median(end_to_end_p99_ms) <= 1.1 * baseline"
    exact = repeated(48_000, error_us=100.0)
    assert of_several(wanted, *repeated(48_000, error_us=100.0, baseline=True), *exact).outcome is HELD
    open_there = of_several(wanted, *repeated(48_000, baseline=True), *exact)
    assert open_there.outcome is UNDECIDED
    assert "it can be wrong by 5.000 ms" in open_there.reason


def test_the_bound_stands_wherever_the_limit_does(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    cells = (cell("end_to_end_p99_ms <= 50"),)
    judged = held(*cells)
    records = [RunLimitRecord(limit="median(end_to_end_p99_ms) <= 50")]
    run = make_run("r", manifest={"run_id": "r", "limits": [{"limit": one.limit} for one in records]},
                   cells=tuple(item.facts.cell for item in judged))  # fmt: skip
    figures = figures_of(run, judged)
    assert len(figures.run.limits) == 1
    wrong, beside = "can be wrong by 5.000 ms", "48 ± 5.000 ms"
    record = verdicts_record(figures)
    document = to_json(record)
    validate(document, verdicts_schema())
    assert document["cells"][0]["limits"][0]["clock_error"] == document["limits"][0]["clock_error"] == 5.0
    assert document["cells"][0]["gap_clock_error_ms"] == 5.0
    print_verdicts(record, tmp_path / "report.html")
    terminal = " ".join(capsys.readouterr().out.split())
    suites = [ElementTree.tostring(suite, "unicode") for suite in ElementTree.fromstring(junit(figures))]
    for told in (terminal, summary(figures), render(figures)):
        assert told.count(wrong) >= 2, "of the cell, and of the run"
        assert beside in told
    assert sum(wrong in suite for suite in suites) == 2


def test_the_gap_spans_the_two_clocks_that_are_known_worst() -> None:
    hosts = cell().cell.record.outcome.load_hosts
    assert clock_error_of_gap_us(()) == 0.0
    assert clock_error_of_gap_us(hosts[:1]) == 2_500.0, "to the window's end, by the harness's clock"
    assert clock_error_of_gap_us(hosts) == 5_000.0
    (item,) = held(cell())
    row = dict(zip([figure.name for figure in IN_CSV], cell_row(cell_figures(item)), strict=True))
    assert (row["gap_ms"], row["gap_clock_error_ms"]) == (900.0, 5.0)
    (measurement,) = measure([item], ())
    assert (measurement.gap_ms, measurement.gap_clock_error_ms) == (900.0, 5.0)
    figures = figures_of(make_run("r", manifest={"run_id": "r"}, cells=(item.facts.cell,)), [item])
    assert figures.cells[0].gap_text == gap_text(900_000, hosts) == "0.90 ± 0.005"
    assert all("| 0.90 ± 0.005 |" in told or ">0.90 ± 0.005" in told for told in (summary(figures), render(figures)))
    assert gap_text(900_000, ()) == "0.90"
    assert gap_text(900_000, [replace(host, clock=replace(host.clock, error_us=0.2)) for host in hosts]).endswith(
        "0.001"
    )


@pytest.mark.parametrize(("comparison", "answers"), [("<=", (True, None, False)), (">", (False, None, True))])
def test_a_range_is_on_one_side_of_its_bound_or_neither(comparison: str, answers: tuple[bool | None, ...]) -> None:
    assert tuple(is_certain(comparison, low, low + 2, 5, 6) for low in (3, 4, 7)) == answers


def test_a_figure_of_one_clock_has_no_range() -> None:
    span = span_of(facts(kind="sweep", throughput=1000.0), "throughput_per_s")
    assert span is not None
    assert (span.low, span.value, span.high, span.finite_error, span.why_open()) == (1000, 1000, 1000, None, "")
