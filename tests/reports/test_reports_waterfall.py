"""Waterfalls: means add up to the measured whole, percentiles keep their own, what nobody measured is not drawn."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from reports.figures.cell import cell_figures
from reports.figures.waterfall import (
    ACKED,
    FETCH,
    LAG,
    POLLED,
    QUEUE,
    REPLICATION,
    UNSPLIT,
    WIRE,
    Bars,
    Waterfall,
    Whole,
    cell_stages,
    waterfall_figures,
    waterfalls,
)
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.model import CORRECTED, END_TO_END, Latency
from reports.render.csv_tables import STAGES as HEADER
from reports.render.csv_tables import stage_rows
from runlog.records.codec import from_document
from runlog.records.hosts import LoadHostRecord
from tests.reports.cells import changed, document_of
from tests.reports.synthetic_run import STAGES, stage
from tests.reports.test_reports_verdict import facts


def item(
    stages: dict[str, Any],
    *,
    queue_ms: float | None = None,
    cell_id: str = "c",
    kind: str = "sweep",
    title: str = "one title",
    schedule: str = "",
) -> Judged:
    own = facts(kind=kind)
    outcome = {**document_of(own.cell)["outcome"], "health": {"stages": stages}}
    stats: tuple[dict[str, Any], ...] = ()
    if queue_ms is not None:
        start_us, end_us = own.cell.window_us()
        # 1,000 records of the warm-up waited 50 ms each, and those after the window too: neither counts.
        totals = (
            (start_us - 1, 1_000, 50_000.0),
            (end_us + 1, 3_000, 50_000.0 + 2_000 * queue_ms),
            (end_us + 2, 4_000, 1e6),
        )
        stats = tuple(
            {
                "name": "client", "source": "workloads", "t_us": at_us,
                "values": {"0": {
                    "record-accumulate-total": count, "record-accumulate-time-total": sum_ms,
                    "record-queue-time-avg": 9.0,
                }},
            }
            for at_us, count, sum_ms in totals
        )  # fmt: skip
    document = {**document_of(own.cell), "outcome": outcome, "title": title}
    if schedule:
        document["workload"] = {**document["workload"], "schedule": {"kind": schedule}}
    cell = changed(own.cell, cell_id=cell_id, document=document, stats=stats)
    one = replace(own, cell=cell)
    return Judged(facts=one, verdict=judge(one))


def fall(judged: Judged, path: str, level: str = "mean") -> Waterfall:
    return next(found for found in waterfalls(judged) if (found.path, found.level) == (path, level))


def parts(found: Waterfall) -> dict[str, float]:
    return {part.series: part.us for part in found.parts}


def test_means_add_up_on_both_ways_and_the_clients_queue_is_taken_out_of_its_stage() -> None:
    judged = item(STAGES, queue_ms=1.1)
    acked, polled = fall(judged, ACKED), fall(judged, POLLED)
    assert parts(acked) == pytest.approx({LAG: 200, QUEUE: 1_100, WIRE: 400, REPLICATION: 800})
    assert parts(polled) == pytest.approx({LAG: 200, QUEUE: 1_100, WIRE: 400, FETCH: 600})
    for found in (acked, polled):
        assert sum(parts(found).values()) == found.whole_us


def test_a_percentile_keeps_its_own_whole_and_is_never_split_by_a_mean() -> None:
    found = fall(item(STAGES, queue_ms=1.1), ACKED, "p99")
    assert parts(found) == {LAG: 800, UNSPLIT: 6_000, REPLICATION: 3_200}
    assert found.whole_us == 10_000
    assert not any(one.level == "p99.9" for one in waterfalls(item(STAGES)))  # the sample does not carry it


def test_without_the_leaders_time_the_stages_around_the_append_are_one() -> None:
    blind = {name: STAGES[name] for name in ("schedule_lag", "send_to_ack", "intended_to_ack", "intended_to_poll")}
    assert parts(fall(item(blind), ACKED)) == {LAG: 200, UNSPLIT: 2_300}
    assert parts(fall(item(blind, queue_ms=2.0), ACKED)) == {LAG: 200, QUEUE: 2_000, WIRE: 300}
    assert parts(fall(item(blind, queue_ms=9.0), ACKED)) == {LAG: 200, UNSPLIT: 2_300}, "an average of another time"
    assert parts(fall(item(blind), POLLED)) == {LAG: 200, UNSPLIT: 2_100}
    assert parts(fall(item(blind), POLLED, "p99")) == {LAG: 800}, "percentiles cannot be subtracted"


def test_the_queue_of_batches_is_not_that_of_records() -> None:
    blind = item(STAGES)
    only_batches = {"name": "client", "source": "workloads", "t_us": 0, "values": {"0": {"record-queue-time-avg": 1.1}}}
    cell = changed(blind.facts.cell, stats=(only_batches,))
    assert QUEUE not in parts(fall(replace(blind, facts=replace(blind.facts, cell=cell)), ACKED))


def test_a_latency_has_one_value_in_all_tables() -> None:
    """The load processes' bins are coarser than those of the analysis: two values stood under one name."""
    counted = item(STAGES)
    fine = Latency(
        n=STAGES["intended_to_ack"]["n"], mean_us=2_500.0, max_us=9_100,
        quantiles={"p50": 2_490.0, "p90": 4_900.0, "p99": 8_950.0, "p999": None},
    )  # fmt: skip
    own = replace(counted, facts=replace(counted.facts, latency={**counted.facts.latency, CORRECTED: fine}))
    row = next(one for one in cell_stages(own).rows if one.stage == "intended_to_ack")
    assert row.us == (fine.mean_us, fine.p50_us, fine.p90_us, fine.p99_us, None, fine.max_us)
    assert fall(own, ACKED, "p99").whole_us == fine.p99_us
    fewer = replace(own, facts=replace(own.facts, latency={**own.facts.latency, CORRECTED: replace(fine, n=7)}))
    assert fall(fewer, ACKED, "p99").whole_us == 10_000, "other records have their own figure"


@pytest.mark.parametrize("counted_n", [5_000, 5_112])
def test_a_stage_that_never_ended_for_some_records_is_not_reached_as_in_the_table_of_latencies(counted_n: int) -> None:
    """The table of stages and stages.csv had a dash there, or what the load processes counted of those that came."""
    came = Latency(n=5_000, unanswered=750, mean_us=2_300.0, max_us=9_200, quantiles={"p50": 2_300.0})
    counted = item({**STAGES, "intended_to_poll": stage(2_300, n=counted_n)})
    own = replace(counted, facts=replace(counted.facts, latency={**counted.facts.latency, END_TO_END: came}))
    row = next(one for one in cell_stages(own).rows if one.stage == "intended_to_poll")
    assert row.us == (2_300, 2_300, math.inf, math.inf, math.inf, row.us[-1])
    written = next(one for one in stage_rows([cell_figures(own)]) if one[1] == "intended_to_poll")
    assert dict(zip(HEADER, written, strict=True))["p99_us"] == math.inf
    assert {one.level for one in waterfalls(own) if one.path == POLLED} == {"mean", "p50"}, "nothing endless is drawn"


def test_repetitions_are_joined_by_the_weight_of_their_records() -> None:
    slow = {**STAGES, "schedule_lag": stage(1_200, n=15_000), "intended_to_ack": stage(3_500, n=15_000)}
    found = waterfall_figures([item(STAGES), item(slow, cell_id="d")])
    row = next(one for one in found.rows if one.path == ACKED)
    assert (row.parts[0], row.whole_us, row.n) == (950.0, 3_250.0, 20_000)


def test_bars_of_a_chart_stand_one_after_the_other_and_the_whole_is_marked() -> None:
    bars = waterfall_figures([item(STAGES)]).charts[0].bars
    assert [(bar.start, bar.end) for bar in bars.stages] == [(0.0, 0.2), (0.2, 1.7), (1.7, 2.5)]
    assert bars.wholes == (Whole(label="one title", title="one title", whole=2.5, n=5_000),)


def test_a_bar_that_is_one_unsplit_stage_is_in_the_table_and_not_drawn() -> None:
    blind = {name: STAGES[name] for name in ("schedule_lag", "send_to_ack", "intended_to_ack", "intended_to_poll")}
    found = waterfall_figures([item(blind)])
    assert found.charts == ()
    assert [(row.path, row.whole_us) for row in found.rows] == [(ACKED, 2_500), (POLLED, 2_300)]
    counted = waterfall_figures([item(blind, queue_ms=2.0)])
    assert [(way.name, {bar.stage for bar in way.bars.stages}) for way in counted.charts] == [
        ("acked", {LAG, QUEUE, WIRE})
    ]
    assert {one.label for one in cell_stages(item(blind, queue_ms=2.0)).bars.wholes} == {f"mean, {ACKED}"}
    assert cell_stages(item(blind)).bars == Bars(stages=(), wholes=())


def test_cells_under_faults_have_charts_of_their_own() -> None:
    found = waterfall_figures([item(STAGES), item(STAGES, cell_id="d", kind="chaos")])
    assert [(way.name, len(way.bars.wholes)) for way in found.charts] == [
        ("acked", 1), ("acked-under-faults", 1), ("polled", 1), ("polled-under-faults", 1)
    ]  # fmt: skip
    paths = [ACKED, f"{ACKED}, under faults", POLLED, f"{POLLED}, under faults"]
    assert [way.heading for way in found.charts] == [f"From the intended time {path}" for path in paths]
    assert [row.path for row in found.rows] == paths
    only_faults = waterfall_figures([item(STAGES, kind="chaos")])
    assert "acked" not in {way.name for way in only_faults.charts}


def test_a_closed_loop_has_no_intended_time_and_a_chart_of_its_own() -> None:
    found = waterfall_figures([item(STAGES), item(STAGES, cell_id="d", kind="ceiling", schedule="closed")])
    assert [way.heading for way in found.charts if way.name.startswith("acked")] == [
        f"From the intended time {ACKED}",
        f"From the hand-over {ACKED}, in a closed loop",
    ]
    assert cell_stages(item(STAGES, kind="ceiling", schedule="closed")).is_closed_loop


def test_a_cell_that_is_not_drawn_is_named_and_a_chart_of_few_bars_is_left_out() -> None:
    blind = {name: STAGES[name] for name in ("schedule_lag", "send_to_ack", "intended_to_ack", "intended_to_poll")}
    split = [item(STAGES, cell_id=name, title=name) for name in ("a", "b")]
    found = waterfall_figures([*split, item(blind, cell_id="c", title="not split at all")])
    assert [way.undrawn[-42:] for way in found.charts if way.name == "acked"] == [
        "not be split (the table has it): not split at all."[-42:]
    ]
    mostly = waterfall_figures([split[0], *(item(blind, cell_id=name, title=name) for name in ("c", "d"))])
    assert mostly.charts == ()
    assert [text.partition(",")[0] for text in mostly.without] == [
        f"From the intended time {ACKED}: not drawn", f"From the intended time {POLLED}: not drawn"
    ]  # fmt: skip


def test_long_names_take_several_lines_and_the_tooltip_has_them_whole() -> None:
    title = "acks=1 (with enable.idempotence=false: idempotence needs acks=all)"
    bar = waterfall_figures([item(STAGES, title=title)]).charts[0].bars.stages[0]
    assert (bar.title, bar.label) == (title, "acks=1 (with enable.idempotence=false:|idempotence needs acks=all)")


def test_only_charts_with_percentiles_explain_them() -> None:
    blind = {name: STAGES[name] for name in ("schedule_lag", "send_to_ack", "intended_to_ack", "intended_to_poll")}
    assert cell_stages(item(STAGES)).has_percentiles
    assert not cell_stages(item(blind, queue_ms=2.0)).has_percentiles


def test_the_table_has_every_stage_and_what_has_no_end_beside_it() -> None:
    rows = list(stage_rows([cell_figures(item({**STAGES, "censored": {"failed": 3, "unknown": 4}}))]))
    assert len(rows) == len(STAGES) - 1 == len(cell_stages(item(STAGES)).rows)
    lag = dict(zip(HEADER, rows[0], strict=True))
    assert lag == {
        "cell_id": "c", "stage": "schedule_lag", "n": 5_000, "mean_us": 200, "p50_us": 200, "p90_us": 400,
        "p99_us": 800, "p999_us": None, "max_us": 1_600, "negative": 0, "failed": 3, "unknown": 4,
        "clock_error_us": None,
    }  # fmt: skip


def host(name: str, producers: list[int], consumers: list[int]) -> dict[str, Any]:
    clock = {"offset_us": 0.0, "error_us": 1_200.0, "samples": 9, "round_trip_us_min": 1.0}
    return {"name": name, "state": "done", "producers": producers, "consumers": consumers, "clock": clock}


def placed(own: Judged, *hosts: dict[str, Any], engine: str = "reference") -> Judged:
    """The load ran on these hosts (none: on the harness's), against this cluster."""
    record = replace(own.facts.cell.record, engine=engine, outcome=replace(
        own.facts.cell.record.outcome, load_hosts=tuple(from_document(LoadHostRecord, each) for each in hosts)
    ))  # fmt: skip
    return replace(own, facts=replace(own.facts, cell=replace(own.facts.cell, record=record)))


AROUND_THE_APPEND = {"send_to_append", "append_to_ack", "append_to_poll"}


@pytest.mark.parametrize(
    ("far", "why"),
    [
        (placed(item(STAGES), engine="external"), "the brokers may be on other hosts"),
        (placed(item(STAGES), host("a", [0], [0]), engine="external"), "the brokers may be on other hosts"),
        (placed(item(STAGES), host("a", [0], [0]), engine="kafka"), "the load ran on load hosts"),
    ],
    ids=["external cluster", "external cluster and load hosts", "load hosts"],
)
def test_stages_around_the_append_are_not_shown_where_nobody_knows_the_brokers_clock(far: Judged, why: str) -> None:
    own, here = cell_stages(far), cell_stages(placed(item(STAGES), engine="kafka"))
    assert {row.stage for row in here.rows} - {row.stage for row in own.rows} == AROUND_THE_APPEND
    assert not here.not_shown
    assert why in own.not_shown
    assert {row[1] for row in stage_rows([cell_figures(far)])}.isdisjoint(AROUND_THE_APPEND)
    assert {part.series for fall in waterfalls(far) for part in fall.parts} == {LAG, UNSPLIT}
    sentences = waterfall_figures([item(STAGES), far]).without
    assert [sentence for sentence in sentences if "broker's append" in sentence] == [f"one title: {own.not_shown}"]
    assert not any("broker's append" in sentence for sentence in waterfall_figures([item(STAGES)]).without)


def test_a_way_between_two_load_hosts_has_the_bound_in_the_chart_and_table_over_all_cells() -> None:
    figures = waterfall_figures([placed(item(STAGES, queue_ms=0.5), host("a", [0], []), host("b", [], [0]))])
    assert {row.path: row.clock_error_us for row in figures.rows} == {ACKED: None}, "the mean to the reader is hidden"
    slow = {**STAGES, "intended_to_poll": stage(90_000)}
    near = placed(item(slow, queue_ms=0.5), host("a", [0], []), host("b", [], [0]))
    rows = waterfall_figures([near, item(STAGES, cell_id="d", title="of one host")]).rows
    assert [(row.label, row.path, row.clock_error_us) for row in rows] == [
        ("one title", ACKED, None), ("of one host", ACKED, None), ("one title", POLLED, 2_400.0),
        ("of one host", POLLED, None),
    ]  # fmt: skip


def test_a_stage_between_two_load_hosts_has_the_bound_of_their_clocks() -> None:
    far = placed(item(STAGES), host("a", [0], []), host("b", [], [0]))
    rows = {row.stage: row for row in cell_stages(far).rows}
    assert {row.stage for row in rows.values() if row.clock_error_us} == {"intended_to_poll"}
    here = {row.stage: row for row in cell_stages(item(STAGES)).rows}["intended_to_poll"]
    found = rows["intended_to_poll"]
    assert found.clock_error_us == 2_400.0
    assert found.us == tuple(us if us is not None and us > 2_400 else None for us in here.us)
    assert None in found.us[:2]
    assert {name: row.us for name, row in rows.items() if name != "intended_to_poll"} == {
        row.stage: row.us
        for row in cell_stages(item(STAGES)).rows
        if row.stage != "intended_to_poll" and row.stage not in AROUND_THE_APPEND
    }


def test_a_cell_that_measured_nothing_draws_nothing() -> None:
    silent = [item({}), item({"censored": {"failed": 0, "unknown": 0}})]
    found = waterfall_figures(silent)
    assert (found.charts, found.rows, found.more) == ((), (), 0)
    assert [cell_stages(one).bars for one in silent] == [Bars(stages=(), wholes=())] * 2
    assert cell_stages(silent[0]).rows == ()
