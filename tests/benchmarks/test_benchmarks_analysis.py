"""The analysis at scale, small: what is planted is found, DuckDB agrees on every figure, and a difference is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.analysis import Document, compare_with_truth, render, run_job, tree_bytes
from benchmarks.analysis_data import BATCH, CELL, generate
from benchmarks.analysis_oracle import Oracle
from reports.session import JavaMissingError, require_java
from runlog.parquet import read_stream


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


def test_what_differs_is_told_and_the_page_says_how_fast_and_how_large() -> None:
    found = document()
    found.truth = {"records": 1_000, "rows": 3_000, "lost": 1, "duplicated": 2, "reordered": 3}
    found.analysis_s, found.peak_bytes, found.duckdb_s = 2.0, 3 * 10**9, 1.0
    found.differences.append("lost: planted 1, the job found 0")
    page = render(found)
    assert "| records/s | 500 |" in page
    assert "3.00 GB" in page
    assert "2.0 times" in page
    assert "differs: lost" in page


def test_the_memory_of_a_process_tree_is_at_least_that_of_its_root() -> None:
    own = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert tree_bytes(os.getpid()) >= 0.9 * own


@pytest.mark.slow
@pytest.mark.spark
def test_the_real_job_finds_what_was_planted_and_duckdb_agrees_on_every_figure(tmp_path: Path) -> None:
    try:
        require_java()
    except JavaMissingError as error:
        pytest.skip(str(error))
    truth = generate(tmp_path, records=200_000, chunk_batches=2_004, damage_every=101)
    found = document()
    cell = run_job(tmp_path, found)
    compare_with_truth(cell, truth, found)
    oracle = Oracle(tmp_path, CELL)
    assert found.differences + oracle.differences(cell) == []
    assert oracle.agreed > 40
    assert 10**8 < found.peak_bytes < 4 * 10**9
    cell["observed_sets"]["lost"]["count"] += 1
    (difference,) = Oracle(tmp_path, CELL).differences(json.loads(json.dumps(cell)))
    assert difference == f"lost: the job says {truth.lost + 1}, DuckDB {truth.lost}"
