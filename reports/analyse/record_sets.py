"""Compares, in Spark, the observed with the predicted record identities of each cell and kind of anomaly.

Owns the order in which the statements of `record_queries.py` run, and which results are kept meanwhile. It knows views
and rows, no run directory: `analyse.py` registers the streams. tests/reports/test_reports_exactness.py compares it with
plain Python.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from reports.analyse import record_queries as queries
from reports.evidence.topic_events import Interval
from reports.read.model import IdentityRange, IdentitySet, SetComparison
from reports.read.tables import LONG, TEXT, empty_frame, small_table

RANGES_PER_SET_MAX = 400
BLOCKS_PER_INTERVAL_MAX = 512
OFFSET_BITS_PER_BLOCK = 6
_OFFSET_MAX = 2**62  # beyond what any log holds; keeps arithmetic of offsets within 64 bits
# Each may read those before it.
_VIEWS = (
    ("bad_words", queries.BAD_WORDS),
    ("crowded_send_words", queries.CROWDED_SEND_WORDS),
    ("crowded_log_words", queries.CROWDED_LOG_WORDS),
    ("answers", queries.ANSWERS),
    ("duplicates", queries.DUPLICATES),
    ("log_runs", queries.LOG_RUNS),
    ("log_words", queries.LOG_WORDS),
    ("crowded_blocks", queries.CROWDED_BLOCKS),
    ("broken_runs", queries.BROKEN_RUNS),
    ("late_runs", queries.LATE_RUNS),
    ("read_runs", queries.READ_RUNS),
    ("read_words", queries.READ_WORDS),
    ("readers", queries.READERS),
    ("twice_words", queries.TWICE_WORDS),
    ("again_words", queries.AGAIN_WORDS),
    ("redeliveries", queries.REDELIVERIES),
    ("unread_partitions", queries.UNREAD_PARTITIONS),
    ("astray", queries.ASTRAY),
    ("misplaced", queries.MISPLACED),
    ("offset_blocks", queries.OFFSET_BLOCKS),
    ("read_blocks", queries.READ_BLOCKS),
    ("undelivered", queries.UNDELIVERED),
    ("odd_polls", queries.ODD_POLLS),
    ("gap_ends", queries.GAP_ENDS),
    ("gap_blocks", queries.GAP_BLOCKS),
    ("realtime_bins", queries.REALTIME_BINS),
    ("interval_shifts", queries.INTERVAL_SHIFTS),
)
# The others hold what a calm run has none of.
_OF_EVERY_RUN = frozenset({"log_runs", "log_words", "read_runs", "read_words", "readers"})
INTERVAL_COLUMNS = {
    "cell": TEXT,
    "kind": TEXT,
    "partition": LONG,
    "from_offset": LONG,
    "end_offset": LONG,
    "after_us": LONG,
    "before_us": LONG,
    "shift": LONG,
}


def register_intervals(spark: SparkSession, intervals: Iterable[tuple[str, Interval]]) -> None:
    """The view `intervals`, of (cell id, interval)."""
    rows: list[tuple[object, ...]] = []
    for cell, item in intervals:
        first, end = max(0, item.from_offset), min(item.end_offset, _OFFSET_MAX)
        if first < end:
            shift = _shift(first, end)
            rows.append((cell, item.kind, item.partition, first, end, item.after_us, item.before_us, shift))
    small_table(spark, "intervals", INTERVAL_COLUMNS, rows)


def _shift(first: int, end: int) -> int:
    """How many bits of offset a block has, so that the interval has few; in steps, so that few widths are met."""
    shift = OFFSET_BITS_PER_BLOCK
    while ((end - 1) >> shift) - (first >> shift) >= BLOCKS_PER_INTERVAL_MAX:
        shift += 8
    return shift


class Kept:
    """Runs SQL on a session and remembers what is cached, so that all of it is let go at the end."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._cached: list[DataFrame] = []

    @property
    def spark(self) -> SparkSession:
        return self._spark

    def keep(self, view: str, sql: str) -> DataFrame:
        """Makes the result of `sql` the view `view` and keeps it: it is read more than once."""
        frame = self._spark.sql(sql)
        frame.persist()
        self._cached.append(frame)
        frame.createOrReplaceTempView(view)
        return frame

    def keep_findings(self, view: str, sql: str) -> bool:
        """The same for what a calm run has none of, and then nothing that asks this view reads any record."""
        frame = self.keep(view, sql)
        if not frame.isEmpty():
            return True
        empty_frame(self._spark, frame.schema).createOrReplaceTempView(view)
        return False

    def collect(self, sql: str) -> pd.DataFrame:
        frame: pd.DataFrame = self._spark.sql(sql).toPandas()
        return frame

    def release(self) -> None:
        while self._cached:
            self._cached.pop().unpersist()


def compare_sets(kept: Kept) -> dict[str, dict[str, SetComparison]]:
    """By cell and kind. Views needed: the streams, intervals, transactions, commit_limits, early_readers, copying."""
    _keep_views(kept)
    if not kept.keep_findings("marks", queries.MARKS):
        return defaultdict(dict)
    rows = kept.collect(queries.RANGES.format(limit=RANGES_PER_SET_MAX))
    parts: dict[tuple[str, str, str], IdentitySet] = {}
    for (cell, kind, part), group in rows.groupby(["cell", "kind", "part"], sort=False):
        columns = (group["producer"], group["incarnation"], group["first_seq"], group["last_seq"])
        parts[(str(cell), str(kind), str(part))] = IdentitySet(
            count=int(group["total"].iloc[0]),
            hash=int(group["hash"].iloc[0]),
            ranges=tuple(
                sorted(
                    IdentityRange(producer=int(p), incarnation=int(i), first_seq=int(f), last_seq=int(e))
                    for p, i, f, e in zip(*columns, strict=True)
                )
            ),
        )
    empty = IdentitySet()
    result: dict[str, dict[str, SetComparison]] = defaultdict(dict)
    for cell, kind, _ in parts:
        result[cell][kind] = SetComparison(
            both=parts.get((cell, kind, "both"), empty),
            only_predicted=parts.get((cell, kind, "only_predicted"), empty),
            only_observed=parts.get((cell, kind, "only_observed"), empty),
        )
    return result


def _keep_views(kept: Kept) -> None:
    """Words, runs, and where they do not agree: what `MARKS` opens."""
    for view, sql in _VIEWS:
        if view in _OF_EVERY_RUN:
            kept.keep(view, sql)
        else:
            kept.keep_findings(view, sql)
    kept.spark.sql(queries.INTERVAL_BLOCKS).createOrReplaceTempView("interval_blocks")
