"""What never arrived, and what never was acknowledged, is infinitely late: in percentiles, limits, tables, charts."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from tests.reports.readers_run import Analysed
from tests.reports.synthetic_run import SyntheticCell

pytestmark = pytest.mark.spark


def everyone(cell: SyntheticCell) -> np.ndarray:  # type: ignore[type-arg]
    """The latency of each record that was due: infinite if it never came."""
    first: dict[tuple[int, ...], int] = {}
    recv, send = cell.columns["recv"], cell.columns["send"]
    names = ("producer", "seq", "polled_us", "intended_us")
    for producer, seq, at, due in zip(*(recv[name] for name in names), strict=True):
        first[producer, seq] = at - due
    return np.sort([first.get(key, math.inf) for key in zip(send["producer"], send["seq"], strict=True)])


def test_percentiles_are_those_of_all_records_that_were_due(analysed: Analysed) -> None:
    for name in ("all", "some", "acks-0", "mute"):
        expected, found = everyone(analysed.cells[name]), analysed.facts[name].latency["end_to_end"]
        assert found.n + found.unanswered == len(expected)
        for level, quantile in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            exact = float(expected[math.ceil(quantile * len(expected) - 1e-9) - 1])
            if math.isinf(exact):
                assert (found.quantiles.get(level), found.is_beyond(level)) == (None, True), (name, level)
            else:
                assert found.quantiles[level] == pytest.approx(exact, rel=0.008), (name, level)
                assert not found.is_beyond(level)
    assert analysed.facts["some"].latency["end_to_end"].not_reached == ("p90", "p99", "p999")
    assert analysed.facts["all"].latency["end_to_end"].not_reached == ()


def test_a_record_that_came_twice_is_no_substitute_for_one_that_never_came(analysed: Analysed) -> None:
    once, twice = (analysed.facts[name].latency["end_to_end"] for name in ("some", "twice"))
    assert twice.unanswered == once.unanswered > 300
    assert twice.is_beyond("p99")


def test_each_group_of_readers_must_get_all(analysed: Analysed) -> None:
    facts = analysed.facts["two"]
    near, far = facts.reader_latency[0], facts.reader_latency[1]
    assert (near.unanswered, near.not_reached) == (0, ())
    assert far.not_reached == ("p90", "p99", "p999")
    assert facts.latency["end_to_end"].unanswered == far.unanswered


def test_a_limit_on_a_percentile_that_is_not_reached_is_broken(analysed: Analysed) -> None:
    held = {
        one.id: [(limit.outcome.value, limit.reason) for limit in one.verdict.limits] for one in analysed.figures.cells
    }
    assert [outcome for outcome, _ in held["all"]] == ["held", "held"]
    assert [outcome for outcome, _ in held["some"]] == ["broken", "held"]
    assert [outcome for outcome, _ in held["acks-0"]] == ["broken", "held"]
    assert "not reached: 87.0% of the records were read" in held["some"][0][1]


def test_with_acks_0_nothing_was_to_be_acknowledged(analysed: Analysed) -> None:
    corrected = analysed.facts["acks-0"].latency["corrected"]
    assert (corrected.unanswered, corrected.not_reached) == (0, ())


def test_tables_say_inf_and_the_share_that_came(analysed: Analysed) -> None:
    rows = {row["cell_id"]: row for row in csv.DictReader((analysed.directory / "results" / "cells.csv").open())}
    assert rows["some"]["end_to_end_p99_us"] == "inf"
    assert float(rows["some"]["end_to_end_p50_us"]) > 0
    assert float(rows["some"]["end_to_end_answered_share"]) == pytest.approx(0.87, abs=0.001)
    assert float(rows["all"]["end_to_end_answered_share"]) == 1.0
    assert rows["mute"]["end_to_end_p50_us"] == "inf"
    readers = {
        (row["cell_id"], row["reader"]): row
        for row in csv.DictReader((analysed.directory / "results" / "readers.csv").open())
    }
    assert readers["two", "far"]["end_to_end_p99_us"] == "inf"
    stages = {
        (row["cell_id"], row["stage"]): row
        for row in csv.DictReader((analysed.directory / "results" / "stages.csv").open())
    }
    assert stages["some", "intended_to_poll"]["p99_us"] == rows["some"]["end_to_end_p99_us"]
    slots = [row for row in csv.DictReader((analysed.directory / "results" / "time.csv").open())
             if row["cell_id"] == "some"]  # fmt: skip
    assert {row["end_to_end_p99_us"] for row in slots if int(row["missing_end_to_end"]) > 2} == {"inf"}


def test_json_says_which_percentiles_are_not_reached(analysed: Analysed) -> None:
    document = json.loads((analysed.directory / "results" / "verdicts.json").read_text())
    found = {one["cell_id"]: one["latency_us"]["end_to_end"] for one in document["cells"]}
    assert (found["some"]["p99"], found["some"]["not_reached"]) == (None, ["p90", "p99", "p999"])
    assert found["some"]["answered_share"] == pytest.approx(0.87, abs=0.001)
    assert found["all"]["not_reached"] == []


def test_page_and_charts_say_it(analysed: Analysed) -> None:
    page = (analysed.directory / "report.html").read_text()
    assert "not reached" in page
    some = next(one for one in analysed.figures.cells if one.id == "some")
    assert max(point.percentile for point in some.curve if point.series == "end to end") <= 87.1


def test_an_acknowledgement_that_never_came_is_endless_over_time_too(analysed: Analysed) -> None:
    slots = analysed.facts["stall"].slots
    struck = slots[slots["missing_corrected"] > 0]
    assert len(struck) in (3, 4)
    assert np.isinf(struck["corrected_p99_us"]).all()
    assert np.isfinite(slots[(slots["missing_corrected"] == 0) & (slots["corrected_n"] > 0)]["corrected_p99_us"]).all()
