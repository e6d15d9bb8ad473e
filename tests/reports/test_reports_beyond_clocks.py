"""A latency that is not above what the clocks may disagree is not shown; one of a single clock always is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from reports.analyse.beyond_clocks import latency_beyond, slots_beyond
from reports.figures.figures import figures_of
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.model import Latency
from reports.render.page import render
from reports.render.verdicts_json import verdicts_record
from runlog.records.codec import to_json
from tests.reports.cells import changed, document_of, make_run
from tests.reports.test_reports_verdict import facts

LATENCY = Latency(
    n=1000, unanswered=3, quantiles={"p50": 3_000.0, "p90": 4_999.0, "p99": 5_001.0, "p999": None}, max_us=90_000,
    mean_us=3_100.0, p99_interval_us=(4_000.0, 6_000.0), curve=((0.5, 3_000.0), (0.99, 5_001.0)), negative=2,
)  # fmt: skip


def test_without_a_bound_everything_is_shown() -> None:
    assert latency_beyond(LATENCY, 0.0) == LATENCY


def test_what_the_bound_does_not_allow_is_not_shown_and_the_rest_stays() -> None:
    seen = latency_beyond(LATENCY, 5_000.0)
    assert (seen.p50_us, seen.p90_us, seen.p99_us, seen.p999_us) == (None, None, 5_001.0, None)
    assert (seen.mean_us, seen.max_us, seen.p99_interval_us) == (None, 90_000, (4_000.0, 6_000.0))
    assert seen.curve == ((0.99, 5_001.0),)
    assert (seen.n, seen.unanswered, seen.negative) == (1000, 3, 2)


def test_clocks_that_are_known_too_badly_leave_nothing() -> None:
    seen = latency_beyond(LATENCY, 1e6)
    assert not any(seen.quantiles.values())
    assert (seen.mean_us, seen.max_us, seen.p99_interval_us, seen.curve) == (None, None, None, ())


def test_over_time_only_the_end_to_end_columns_have_holes() -> None:
    slots = pd.DataFrame({"corrected_p99_us": [1.0, 2.0], "end_to_end_p99_us": [4_000.0, 6_000.0]})
    seen = slots_beyond(slots, 5_000.0)
    assert seen["corrected_p99_us"].tolist() == [1.0, 2.0]
    assert seen["end_to_end_p99_us"].isna().tolist() == [True, False]
    assert slots["end_to_end_p99_us"].tolist() == [4_000.0, 6_000.0]


def host(name: str, producers: list[int], consumers: list[int]) -> dict[str, Any]:
    clock = {"offset_us": 0.0, "error_us": 2_500.0, "samples": 9, "round_trip_us_min": 1.0}
    return {
        "name": name, "state": "done", "is_gathered": True, "producers": producers, "consumers": consumers,
        "clock": clock,
    }  # fmt: skip


def shown(*hosts: dict[str, Any]) -> tuple[str, Any]:
    """The page and the document of a cell whose load ran on these hosts."""
    found = facts(kind="sweep")
    document = document_of(found.cell)
    cell = changed(found.cell, document={**document, "outcome": {**document["outcome"], "load_hosts": list(hosts)}})
    item = replace(found, cell=cell)
    run = make_run(manifest={"run_id": "r", "engine": "reference", "seed": 1}, cells=(cell,))
    figures = figures_of(run, [Judged(facts=item, verdict=judge(item))])
    return render(figures), to_json(verdicts_record(figures))["cells"][0]["latency_us"]


def test_the_bound_stands_beside_the_latencies_that_it_is_for() -> None:
    page, latency = shown(host("a", [0], [0]), host("b", [1], []))
    assert "end to end ± 5<" in page
    assert "can be wrong by up to 5 ms" in page
    assert latency["end_to_end_clock_error"] == 5_000.0


def test_latencies_of_one_host_have_no_bound() -> None:
    page, latency = shown(host("a", [0], [0]))
    assert "end to end ±" not in page
    assert latency["end_to_end_clock_error"] is None
