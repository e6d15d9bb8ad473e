"""The analysis at scale, small, on a Spark standalone cluster and by Spark Connect, both started here.

What is planted is found, DuckDB agrees on every figure, and a difference is told.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.analysis import Document, compare_with_truth, render, run_job, tree_bytes
from benchmarks.analysis_damage import BATCH, Amount
from benchmarks.analysis_data import CELL, Truth, generate
from benchmarks.analysis_oracle import ARRANGED, Oracle
from reports.judge.anomalies import BY_NAME
from reports.read.spark_needs import JavaMissingError, require_java
from runlog.streams.parquet import read_stream, write_part
from runlog.streams.schema import BATCHES, LOG, RECV, SEND
from tests.reports.spark_servers import connect, standalone


def document() -> Document:
    return Document(date="d", command="c", host={"processor": "p"}, master="local[2]")


def test_the_made_run_log_holds_what_it_says(tmp_path: Path) -> None:
    truth = generate(tmp_path, records=20_000, chunk_batches=204, damage_every=17)
    assert truth.records == 20_400
    assert min(truth.lost, truth.duplicated, truth.reordered) >= 2 * BATCH
    log, send = (read_stream(tmp_path, stream, CELL).to_pandas() for stream in ("log", "send"))
    assert truth.rows == len(send) + 2 * len(log)
    assert len(send) - len(log) == truth.lost - truth.duplicated
    assert not log.duplicated(["partition", "offset"]).any()
    assert int(log.duplicated(["producer", "seq"]).sum()) == truth.duplicated
    ordered = log.sort_values("offset").drop_duplicates(["producer", "seq"])
    late = ordered["seq"] < ordered.groupby(["partition", "producer"])["seq"].cummax()
    assert int(late.sum()) == truth.reordered


@pytest.mark.thorough
def test_heavy_damage_is_what_plain_sets_say(tmp_path: Path) -> None:
    """Two chunks, so that a batch at the end of the first has no next one to be swapped with."""
    truth = generate(tmp_path, records=60_000, chunk_batches=12 * 53, amount=Amount.HEAVY)
    send, log, recv = (read_stream(tmp_path, stream, CELL).to_pandas() for stream in ("send", "log", "recv"))
    identity, place = ["producer", "seq"], ["partition", "offset", "producer", "seq"]
    assert truth.rows == len(send) + len(log) + len(recv)
    assert not log.duplicated(["partition", "offset"]).any()

    def told(frame: Any, columns: list[str]) -> set[tuple[int, ...]]:
        return set(frame[columns].itertuples(index=False, name=None))

    acked = send[send["status"] == 0]
    assert truth.unknown == len(send) - len(acked) > 0
    assert truth.lost == len(told(acked, identity) - told(log, identity)) > 0
    assert truth.duplicated == int(log.duplicated(identity).sum()) > 0
    ordered = log.sort_values("offset").drop_duplicates(identity)
    late = ordered["seq"] < ordered.groupby(["partition", "producer"])["seq"].cummax()
    assert truth.reordered == int(late.sum()) > 0
    joined = acked.merge(log, on=["partition", "offset"], suffixes=("", "_there"))
    assert truth.offset_reused == int((joined["seq"] != joined["seq_there"]).sum()) > 0
    assert truth.read_above_hw == len(told(recv, place) - told(log, place)) > 0
    assert truth.redelivered == int(recv.duplicated(place).sum()) > 0
    last = log["partition"].map(recv.groupby("partition")["offset"].max())
    assert truth.unseen_pending == len(told(log[log["offset"] > last], identity)) > 0
    unread = told(log[log["offset"] <= last], place) - told(recv, place)
    assert truth.lost_in_delivery == len({one[2:] for one in unread}) > 0
    assert 0.45 < len(told(log, place) - told(recv, place)) / len(log) < 0.6
    polls = recv.groupby(["partition", "consumer", "polled_us"])["offset"]
    assert (polls.max() - polls.min() < BATCH).all(), "a batch a poll"


@pytest.mark.thorough
def test_rules_that_are_arranged_for_many_rows_say_the_same_as_those_that_are_written(tmp_path: Path) -> None:
    """Over rows without any order, so that both rules have much to find."""
    rng = np.random.default_rng(5)
    count = 400
    identity = {
        "producer": rng.integers(0, 2, count),
        "incarnation": np.zeros(count, np.int64),
        "seq": np.arange(count),
    }
    place = {
        "partition": rng.integers(0, 2, count),
        "offset": rng.permutation(count),
        "appended_us": np.full(count, -1),
    }
    sent_us = rng.integers(0, 900_000, count)
    whole = {
        "error": np.zeros(count, np.int64),
        "status": rng.integers(0, 2, count),
        "size_bytes": np.ones(count, np.int64),
    }
    write_part(
        tmp_path, SEND, CELL,
        {**identity, **place, **whole, "intended_us": sent_us, "sent_us": sent_us,
         "acked_us": sent_us + rng.integers(0, 90_000, count)},
    )  # fmt: skip
    log = {**identity, "partition": place["partition"], "offset": place["offset"], "intended_us": sent_us}
    ones = np.ones(count, np.int64)
    write_part(tmp_path, LOG, CELL, {**log, "leader_epoch": ones, "batch_base_offset": ones, "crc_ok": ones})
    read = rng.random(count) < 0.5
    received = {name: values[read] for name, values in log.items()} | {"consumer": place["partition"][read]}
    some = int(read.sum())
    received |= {"generation": -ones[:some], "crc_ok": ones[:some], "appended_us": -ones[:some]}
    write_part(tmp_path, RECV, CELL, {**received, "polled_us": place["offset"][read] // 9 * 10})
    write_part(tmp_path, BATCHES, CELL, {column.name: ones for column in BATCHES.columns})
    oracle = Oracle(tmp_path, CELL)
    assert {name for name, anomaly in BY_NAME.items() if anomaly.sql and oracle.set_count(anomaly.sql)} > set(ARRANGED)
    for name, rule in ARRANGED.items():
        assert oracle.set_count(rule) == oracle.set_count(BY_NAME[name].sql) > 20, name


def test_what_differs_is_told_and_the_page_says_how_fast_and_how_large() -> None:
    found = document()
    found.truth = {"records": 1_000, "rows": 3_000, "lost": 1, "duplicated": 2, "reordered": 0}
    found.analysis_s, found.peak_bytes, found.duckdb_s = 2.0, 3 * 10**9, 1.0
    found.scratch_bytes = 7 * 10**9
    found.differences.append("lost: planted 1, the job found 0")
    page = render(found)
    assert "| records/s | 500 |" in page
    assert "3.00 GB" in page
    assert "| most that Spark had on disk | 7.00 GB |" in page
    assert "| planted | 1 lost, 2 duplicated |" in page
    assert "2.0 times" in page
    assert "differs: lost" in page


def test_the_memory_of_a_process_tree_is_at_least_that_of_its_root() -> None:
    own = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert tree_bytes(os.getpid()) >= 0.9 * own


@pytest.fixture(scope="module", params=list(Amount))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    directory = tmp_path_factory.mktemp("made")
    amount: Amount = request.param
    return directory, generate(directory, records=100_000, chunk_batches=504, damage_every=101, amount=amount)


def needs_java() -> None:
    try:
        require_java()
    except JavaMissingError as error:
        pytest.skip(str(error))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
def test_the_job_finds_heavy_damage_as_it_was_planted_and_duckdb_agrees_on_every_figure(tmp_path: Path) -> None:
    needs_java()
    truth = generate(tmp_path, records=25_000, chunk_batches=504, amount=Amount.HEAVY)
    found = document()
    cell = run_job(tmp_path, found, spark_conf=["spark.sql.shuffle.partitions=3"])
    compare_with_truth(cell, truth, found)
    assert found.differences + Oracle(tmp_path, CELL).differences(cell) == []
    assert found.scratch_bytes > 0


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "start", [pytest.param(standalone, id="standalone"), pytest.param(connect, id="connect", marks=pytest.mark.connect)]
)
def test_the_job_on_a_spark_server_finds_what_was_planted_and_duckdb_agrees_on_every_figure(
    made: tuple[Path, Truth], tmp_path: Path, start: Callable[[Path], AbstractContextManager[str]]
) -> None:
    needs_java()
    directory, truth = made
    found = document()
    with start(tmp_path) as found.master:
        cell = run_job(directory, found)
    compare_with_truth(cell, truth, found)
    oracle = Oracle(directory, CELL)
    assert found.differences + oracle.differences(cell) == []
    assert oracle.agreed > 40
    assert 10**8 < found.peak_bytes < 4 * 10**9
    cell["observed_sets"]["lost"]["count"] += 1
    (difference,) = Oracle(directory, CELL).differences(json.loads(json.dumps(cell)))
    assert difference == f"lost: the job says {truth.lost + 1}, DuckDB {truth.lost}"
