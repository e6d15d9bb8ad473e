"""A view is broadcast if it has few rows, and never without a bound: damage may be as large as the run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from reports.analyse import (
    copy_queries,
    delivery_queries,
    identity_queries,
    log_queries,
    mark_queries,
    queries,
    record_sets,
    set_queries,
)
from reports.analyse.record_sets import Kept

MODULES = (copy_queries, delivery_queries, identity_queries, log_queries, mark_queries, queries, set_queries)
# Rows of these follow from cells, faults, readers, partitions and stories, and never from records.
BOUNDED = frozenset(
    {
        "windows", "early_readers", "whole_readers", "copying", "intervals", "interval_blocks", "interval_shifts",
        "removals", "clock_errors", "commit_limits", "examples", "readers", "unread_partitions", "transactions",
    }
)  # fmt: skip


def statements(module: ModuleType) -> Iterator[tuple[str, str]]:
    for name, value in vars(module).items():
        if isinstance(value, str) and "SELECT" in value:
            yield name, value


def test_every_hint_without_a_count_is_of_a_table_that_does_not_grow_with_the_records() -> None:
    for module in MODULES:
        for name, sql in statements(module):
            for alias in re.findall(r"BROADCAST\((\w+)\)", sql):
                tables = set(re.findall(rf"(?:FROM|JOIN)\s+(\w+)\s+{alias}\b", sql))
                named = set(re.findall(rf"FROM (\w+)\) {alias}\b", sql))
                assert tables | named, (module.__name__, name, alias)
                assert tables | named <= BOUNDED | {alias}, (module.__name__, name, alias, tables | named)


def test_every_hint_with_a_count_names_the_view_that_it_joins() -> None:
    found = 0
    for module in MODULES:
        for name, sql in statements(module):
            for alias, view in re.findall(r"SMALL\((\w+), (\w+)", sql):
                assert re.search(rf"\b{view}\b(?: {alias}\b|.*\) {alias}\b)", sql, re.DOTALL), (name, alias, view)
                found += 1
    assert found > 9


@pytest.mark.spark
def test_a_large_view_is_sorted_and_merged_and_a_small_one_broadcast(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.range(40).createOrReplaceTempView("few")
    spark.range(4_000).createOrReplaceTempView("records")
    sql = "SELECT /*+ SMALL(f, few) */ r.id FROM records r LEFT SEMI JOIN few f ON r.id = f.id"

    def plan(limit: int, rows_max: int | None = None) -> str:
        monkeypatch.setattr(record_sets, "BROADCAST_ROWS_MAX", limit)
        kept = Kept(spark, rows_max=rows_max)
        try:
            frame = kept.keep("joined", sql)
            assert frame.count() == 40
            told: str = frame._jdf.queryExecution().toString()
        finally:
            kept.release()
        return told

    assert "BroadcastHashJoin" in plan(40)
    assert "BroadcastHashJoin" not in plan(39)
    assert "BroadcastHashJoin" in plan(4_000, rows_max=4_000), "no view can be larger than the run"


@pytest.mark.spark
def test_all_views_that_are_broadcast_at_one_time_have_one_bound(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each had a bound of its own. Of a large run with damage everywhere, ten views were just below it."""
    for name, rows in (("few", 40), ("more", 60), ("records", 4_000)):
        spark.range(rows).createOrReplaceTempView(name)
    monkeypatch.setattr(record_sets, "BROADCAST_ROWS_MAX", 99)
    kept = Kept(spark)
    asked = (
        "SELECT /*+ SMALL(m, more) */ /*+ SMALL(f, few) */ r.id FROM records r LEFT SEMI JOIN more m ON r.id = m.id "
        "LEFT SEMI JOIN few f ON r.id = f.id"
    )
    try:
        hinted, taken = kept._hinted(asked)
        assert "BROADCAST(f)" in hinted
        assert "BROADCAST(m)" not in hinted, "the smallest come first, and both are too many"
        assert taken == 40
        kept.release()
        for _ in range(3):
            assert len(kept.collect(asked)) == 40
            assert kept._hinted("")[1] == 0
        kept.keep("joined", asked)
        assert kept._hinted(asked)[1] == 40, "an answer has given its room back, and a kept view has not"
        assert "BROADCAST" not in kept._hinted(asked)[0]
    finally:
        kept.release()
    assert kept._hinted(asked)[1] == 40
