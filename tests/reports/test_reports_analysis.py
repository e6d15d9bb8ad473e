"""Planted damage is found to the record, by Spark and by the plain SQL of `anomalies.py` in DuckDB."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from reports.anomalies import ANOMALIES
from reports.model import IdentitySet
from reports.rundir import read_run
from runlog.schema import SendStatus
from tests.reports.conftest import Planted
from tests.reports.duck_rules import sets_by_rule
from tests.reports.synthetic_run import Identity, SyntheticCell

pytestmark = pytest.mark.spark
WITH_SQL = [anomaly for anomaly in ANOMALIES if anomaly.sql]
# What synthetic_run plants; every anomaly is planted in planted_cases.
PLANTED = ("lost", "duplicated", "reordered", "recovered", "unexpected", "corrupt", "dup_delivered")


def identities(found: IdentitySet) -> set[Identity]:
    assert found.complete
    return {
        (item.producer, item.incarnation, seq)
        for item in found.ranges
        for seq in range(item.first_seq, item.last_seq + 1)
    }


@pytest.mark.parametrize("kind", PLANTED)
def test_each_anomaly_is_the_planted_set_in_every_cell(planted: Planted, kind: str) -> None:
    for cell, facts in zip(planted.cells, planted.facts, strict=True):
        assert identities(facts.observed[kind]) == cell.truth.sets[kind], (cell.cell_id, kind)


def test_planting_was_no_empty_exercise(planted: Planted) -> None:
    for kind in PLANTED:
        assert sum(len(cell.truth.sets[kind]) for cell in planted.cells) > 3


def test_duckdb_finds_the_same_sets_with_the_rules_as_they_are_written(planted: Planted) -> None:
    expected = sets_by_rule(read_run(planted.directory))
    for cell, facts in zip(planted.cells, planted.facts, strict=True):
        for anomaly in WITH_SQL:
            found, wanted = facts.observed[anomaly.name], expected[anomaly.name].get(cell.cell_id, set())
            assert found.count == len(wanted), (cell.cell_id, anomaly.name)
            if found.complete:
                assert identities(found) == wanted, (cell.cell_id, anomaly.name)


def test_predicted_sets_equal_the_planted_ones_with_and_without_a_journal(planted: Planted) -> None:
    for cell, facts in zip(planted.cells, planted.facts, strict=True):
        for kind in ("lost", "duplicated", "reordered"):
            comparison = facts.predictions[kind]
            assert comparison.equal, (cell.cell_id, kind, comparison.as_json())
            assert comparison.predicted.count == len(cell.truth.sets[kind]), (cell.cell_id, kind)


def test_counts_are_those_of_the_sends(planted: Planted) -> None:
    for cell, facts in zip(planted.cells, planted.facts, strict=True):
        assert facts.counts.acked_total == cell.truth.acked
        assert facts.counts.unknown_total == cell.truth.unknown
        assert facts.counts.log_total == len(cell.columns["log"]["seq"])
        assert facts.counts.received_total == len(cell.columns["recv"]["seq"])


def _exact_latencies(cell: SyntheticCell) -> np.ndarray:  # type: ignore[type-arg]
    send = {name: np.array(values) for name, values in cell.columns["send"].items()}
    keep = send["status"] == SendStatus.ACKED
    return np.asarray((send["acked_us"] - send["intended_us"])[keep])


def test_percentiles_are_within_a_bin_of_the_exact_ones_and_the_maximum_is_exact(planted: Planted) -> None:
    for cell, facts in zip(planted.cells, planted.facts, strict=True):
        exact = _exact_latencies(cell)
        found = facts.latency["corrected"]
        assert found.n == len(exact)
        assert found.max_us == exact.max()
        for name, quantile in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            value = found.quantiles[name]
            expected = float(np.quantile(exact, quantile, method="inverted_cdf"))
            assert value == pytest.approx(expected, rel=0.008), (cell.cell_id, name)
        assert found.quantiles["p999"] is None  # 3,000 samples do not carry it
        interval = found.p99_interval_us
        assert interval is not None
        assert interval[0] <= (found.quantiles["p99"] or 0) <= interval[1]


def test_the_gap_is_the_longest_time_without_an_acknowledgement(planted: Planted) -> None:
    for cell, facts in zip(planted.cells, planted.facts, strict=True):
        start_us, end_us = facts.cell.window_us()
        send = cell.columns["send"]
        acks = [t for t, status in zip(send["acked_us"], send["status"], strict=True) if status == SendStatus.ACKED]
        points = sorted([start_us, end_us, *(t for t in acks if start_us <= t < end_us)])
        expected = max(after - before for before, after in pairwise(points))
        assert expected > 1000
        assert facts.gap_us == expected


def test_time_buckets_add_up_to_the_rows(planted: Planted) -> None:
    for cell, facts in zip(planted.cells, planted.facts, strict=True):
        assert int(facts.slots["sent"].sum()) == len(cell.columns["send"]["seq"])
        assert int(facts.slots["acked"].sum()) == cell.truth.acked
        assert int(facts.slots["received"].sum()) == len(cell.columns["recv"]["seq"])
        assert facts.slots["corrected_max_us"].max() == facts.latency["corrected"].max_us


def test_batches_give_records_per_batch_and_compression(planted: Planted) -> None:
    for cell, facts in zip(planted.cells, planted.facts, strict=True):
        columns = cell.columns["batches"]
        assert facts.records_per_batch == round(sum(columns["records"]) / len(columns["records"]), 2)
        ratio = sum(columns["uncompressed_bytes"]) / sum(columns["size_bytes"])
        assert facts.compression_ratio == round(ratio, 3)


def test_with_acks_0_throughput_counts_what_the_log_has(planted: Planted) -> None:
    facts = next(item for item in planted.facts if item.cell.cell_id == "sweep-none")
    assert facts.throughput_basis == "found in the log"
    assert facts.throughput_records_per_s == facts.counts.log_in_window / 2


def test_stories_end_as_their_records_did(planted: Planted) -> None:
    told = [(facts, story) for facts in planted.facts for story in facts.stories]
    assert {story.kind for _, story in told} == {"lost", "duplicated", "reordered"}
    for _, story in told:
        assert len(story.send) == 1
        assert len(story.log) == {"lost": 0, "duplicated": 2, "reordered": len(story.log)}[story.kind]
