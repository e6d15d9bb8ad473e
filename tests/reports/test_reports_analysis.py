"""Planted damage is found to the record, by Spark and by the plain SQL of `anomalies.py` in DuckDB."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from reports.analyse.analysis import analyse
from reports.judge.anomalies import ANOMALIES
from reports.read.run_files import read_run
from runlog.streams.parquet import write_part
from runlog.streams.schema import BATCHES, LOG, RECV, SEND, SendStatus
from tests.reports.conftest import Planted
from tests.reports.duck_rules import sets_by_rule
from tests.reports.synthetic_run import SyntheticCell
from tests.reports.test_reports_exactness import identities

pytestmark = pytest.mark.spark
WITH_SQL = [anomaly for anomaly in ANOMALIES if anomaly.sql]
# What synthetic_run plants; every anomaly is planted in planted_cases.
PLANTED = ("lost", "duplicated", "reordered", "recovered", "unexpected", "corrupt", "dup_delivered")


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
            assert comparison.equal, (cell.cell_id, kind, comparison)
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
        endless = np.full(facts.counts.failed + facts.counts.unknown, np.inf)
        everyone = np.sort(np.concatenate([exact, endless]))
        for name, quantile in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            value = found.quantiles[name]
            expected = float(everyone[int(np.ceil(quantile * len(everyone) - 1e-9)) - 1])
            if np.isinf(expected):
                assert value is None, (cell.cell_id, name)
            else:
                assert value == pytest.approx(expected, rel=0.008), (cell.cell_id, name)
        assert found.quantiles["p999"] is None  # 3,000 samples do not carry it
        interval, p99 = found.p99_interval_us, found.quantiles["p99"]
        assert (interval is None) == (p99 is None)
        assert interval is None or interval[0] <= (p99 or 0) <= interval[1]
    assert any(facts.latency["corrected"].p99_interval_us for facts in planted.facts)


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


def write_disordered_cell(directory: Path, cell_id: str, *, records: int, swaps: int, seed: int) -> None:
    """Producers whose records alternate in every log, sequence numbers with gaps, places changed, acknowledgements of
    other offsets, readers that jump: nothing that a real cluster does, and all that the rules can tell apart."""
    rng = np.random.default_rng(seed)
    producer = np.repeat(rng.integers(0, 3, records // 3 + 1), 3)[:records]  # runs of three, often longer
    seq = np.empty(records, np.int64)
    for number in range(3):
        mine = producer == number
        seq[mine] = np.cumsum(rng.choice([1, 1, 1, 2], int(mine.sum()))) - 1
    partition = rng.integers(0, 2, records)
    offset = np.empty(records, np.int64)
    for number in range(2):
        mine = np.flatnonzero(partition == number)
        places = np.arange(len(mine))
        for first in rng.integers(0, len(mine) - 9, swaps):
            other = first + rng.integers(1, 9)
            places[first], places[other] = places[other], places[first]
        offset[mine] = places
    sent_us = np.sort(rng.integers(1_000_000, 2_000_000, records))
    identity = {"producer": producer, "incarnation": np.zeros(records, np.int64), "seq": seq}
    zeros, none = np.zeros(records, np.int64), np.full(records, -1)
    wrong = rng.random(records) < 0.02
    write_part(
        directory, SEND, cell_id,
        {**identity, "partition": partition, "status": rng.choice([0, 0, 0, 1, 2], records), "error": zeros,
         "size_bytes": zeros, "intended_us": sent_us, "sent_us": sent_us,
         "acked_us": sent_us + rng.integers(0, 90_000, records), "offset": np.where(wrong, offset + 3, offset),
         "appended_us": none},
    )  # fmt: skip
    kept = rng.random(records) < 0.97
    again = np.flatnonzero(kept)[rng.integers(0, int(kept.sum()), records // 50)]
    chosen = np.concatenate([np.flatnonzero(kept), again])
    at = np.concatenate([offset[kept], np.arange(len(again)) + records])
    log = {**{name: values[chosen] for name, values in identity.items()}, "partition": partition[chosen], "offset": at,
           "intended_us": sent_us[chosen]}  # fmt: skip
    ones = np.ones(len(chosen), np.int64)
    write_part(directory, LOG, cell_id, {**log, "leader_epoch": ones, "batch_base_offset": at, "crc_ok": ones})
    read = np.flatnonzero(rng.random(len(chosen)) < 0.6)
    read = np.concatenate([read, read[: len(read) // 20]])
    received = {name: values[read] for name, values in log.items()}
    received["seq"] = np.where(rng.random(len(read)) < 0.01, received["seq"] + 1, received["seq"])
    reader = rng.integers(0, 2, len(read))
    some = np.ones(len(read), np.int64)
    write_part(
        directory, RECV, cell_id,
        {**received, "consumer": reader, "reader": reader, "generation": -some, "crc_ok": some, "appended_us": -some,
         "polled_us": 1_000_000 + received["offset"] // 7 * 7},
    )  # fmt: skip
    write_part(directory, BATCHES, cell_id, {column.name: some for column in BATCHES.columns})
    outcome = {"status": "done", "started_us": 900_000, "measure_start_us": 1_000_000, "measure_end_us": 2_000_000,
               "ended_us": 3_000_000, "final_read": {"complete": True}}  # fmt: skip
    (directory / "cells" / cell_id).mkdir(parents=True)
    document = {"cell_id": cell_id, "kind": "chaos", "title": cell_id, "topic": {"name": "t"}, "outcome": outcome}
    (directory / "cells" / cell_id / "cell.json").write_text(json.dumps(document))


@pytest.mark.long
def test_spark_and_the_written_rules_agree_where_nothing_is_in_order(spark: SparkSession, tmp_path: Path) -> None:
    cells = {"wild": 300, "swapped": 8, "alternating": 0}
    for seed, (cell_id, swaps) in enumerate(cells.items()):
        write_disordered_cell(tmp_path, cell_id, records=1_200, swaps=swaps, seed=seed)
    (tmp_path / "manifest.json").write_text(json.dumps({"run_id": "r", "cells": list(cells), "t0_monotonic_ns": 0}))
    run = read_run(tmp_path)
    expected = sets_by_rule(run)
    for facts in analyse(spark, run):
        for anomaly in WITH_SQL:
            found, wanted = facts.observed[anomaly.name], expected[anomaly.name].get(facts.cell.cell_id, set())
            assert found.count == len(wanted), (facts.cell.cell_id, anomaly.name)
            if found.complete:
                assert identities(found) == wanted, (facts.cell.cell_id, anomaly.name)
    assert all(expected["reordered"].get(cell_id) for cell_id in ("wild", "swapped"))
    assert not expected["reordered"].get("alternating")


def test_what_a_jvm_compiles_has_room_for_many_cells(spark: SparkSession) -> None:
    """With one compiler a JVM has 48 MiB by itself. Then it ended after some hundred cells."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    code_bytes = sum(pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code"))
    assert code_bytes >= 200 << 20
