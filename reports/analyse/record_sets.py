"""Compares, in Spark, the observed with the predicted record identities of each cell and kind of anomaly.

Owns the order in which the statements of the modules of queries run, and which results are kept in memory. They use
scans and hash aggregates, never a join of records to records. It knows views and rows, no run directory: `analysis.py`
registers the streams. tests/reports/test_reports_exactness.py shows, against plain Python, that the sets are exact.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType

from reports.analyse import delivery_queries, identity_queries, log_queries, place_queries, set_queries
from reports.analyse.mark_queries import marks
from reports.analyse.side_by_side import Pair, in_turn
from reports.evidence.removals import Removal
from reports.evidence.topic_events import Interval
from reports.read.model import IdentityRange, IdentitySet, SetComparison
from reports.read.tables import LONG, TEXT, empty_frame, small_table

RANGES_PER_SET_MAX = 400
BLOCKS_PER_INTERVAL_MAX = 512
OFFSET_BITS_PER_BLOCK = 6
_OFFSET_MAX = 2**62  # beyond what any log holds; keeps arithmetic of offsets within 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """May read the views before it. If any of the views `of` is empty, or all of `any_of`, so is this one."""

    name: str
    sql: str
    of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    is_of_every_run: bool = False  # the others hold what a calm run has none of
    is_stream: bool = False  # as large as a stream of the run log, and not kept in memory


# Read by both groups below.
_SHARED_VIEWS = (
    _View(name="log_runs", sql=log_queries.LOG_RUNS, is_of_every_run=True),
    _View(name="log_words", sql=log_queries.LOG_WORDS, is_of_every_run=True),
    _View(name="crowded_blocks", sql=log_queries.CROWDED_BLOCKS),
    _View(name="superseded", sql=identity_queries.SUPERSEDED, of=("record_keys", "removals")),
)
# Neither of these two groups reads a view of the other, so they can run at the same time.
_LOG_VIEWS = (
    _View(name="bad_words", sql=identity_queries.BAD_WORDS),
    _View(name="crowded_log_words", sql=identity_queries.CROWDED_LOG_WORDS, of=("bad_words",)),
    _View(name="duplicates", sql=identity_queries.DUPLICATES, of=("crowded_log_words",)),
    _View(name="astray", sql=log_queries.ASTRAY),
    _View(name="astray_words", sql=place_queries.ASTRAY_WORDS, of=("astray",)),
    _View(name="named_words", sql=place_queries.NAMED_WORDS),
    _View(name="elsewhere_words", sql=place_queries.ELSEWHERE_WORDS, any_of=("astray_words", "named_words")),
    _View(name="misrouted", sql=place_queries.MISROUTED, any_of=("elsewhere_words", "duplicates", "several_topics")),
    _View(name="placed", sql=place_queries.PLACED, is_stream=True),
    _View(name="missing", sql=identity_queries.MISSING, of=("bad_words", "removals")),
    _View(name="removed", sql=identity_queries.REMOVED, of=("missing",)),
    _View(name="crowded_send_words", sql=identity_queries.CROWDED_SEND_WORDS, of=("bad_words",)),
    _View(name="answers", sql=identity_queries.ANSWERS, of=("crowded_send_words",)),
    _View(name="broken_runs", sql=log_queries.BROKEN_RUNS),
    _View(name="late_runs", sql=log_queries.LATE_RUNS),
    _View(name="misplaced", sql=log_queries.MISPLACED, of=("astray",)),
    _View(name="realtime_bins", sql=log_queries.REALTIME_BINS),
)
_READER_VIEWS = (
    _View(name="read_runs", sql=delivery_queries.READ_RUNS, is_of_every_run=True),
    _View(name="read_words", sql=delivery_queries.READ_WORDS, is_of_every_run=True),
    _View(name="readers", sql=delivery_queries.READERS, is_of_every_run=True),
    _View(name="twice_words", sql=delivery_queries.TWICE_WORDS),
    _View(name="again_words", sql=delivery_queries.AGAIN_WORDS),
    _View(name="redeliveries", sql=delivery_queries.REDELIVERIES, of=("again_words",)),
    _View(name="unread_partitions", sql=delivery_queries.UNREAD_PARTITIONS, of=("early_readers",)),
    _View(name="gone", sql=delivery_queries.GONE),
    _View(name="undelivered", sql=delivery_queries.UNDELIVERED),
    _View(name="odd_polls", sql=delivery_queries.ODD_POLLS),
    _View(name="gap_ends", sql=delivery_queries.GAP_ENDS, of=("odd_polls",)),
    _View(name="gap_blocks", sql=delivery_queries.GAP_BLOCKS, of=("gap_ends",)),
)
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
TOPIC_COLUMNS = {"cell": TEXT, "topics": LONG, "partitions": LONG}
REMOVAL_COLUMNS = {
    "cell": TEXT,
    "partition": LONG,
    "from_offset": LONG,
    "end_offset": LONG,
    "sent_before_us": LONG,
    "is_known": LONG,
    "needs_newer": LONG,
}
KEY_COLUMNS = {"cell": TEXT, "turn": LONG, "key": LONG}


def register_intervals(spark: SparkSession, intervals: Iterable[tuple[str, Interval]]) -> None:
    """The views `intervals`, of (cell id, interval), and `interval_shifts`, which widths their blocks have."""
    rows: list[tuple[str, str, int, int, int, int, int, int]] = []
    for cell, item in intervals:
        first, end = max(0, item.from_offset), min(item.end_offset, _OFFSET_MAX)
        if first < end:
            shift = _shift(first, end)
            rows.append((cell, item.kind, item.partition, first, end, item.after_us, item.before_us, shift))
    small_table(spark, "intervals", INTERVAL_COLUMNS, list(rows))
    widths: list[tuple[object, ...]] = [(width,) for width in sorted({row[-1] for row in rows})]
    small_table(spark, "interval_shifts", {"width": IntegerType()}, widths)


def register_removals(spark: SparkSession, removed: Iterable[tuple[str, Removal]]) -> None:
    """The view `removals`, of (cell id, removal)."""
    rows: list[tuple[object, ...]] = [
        (
            cell, item.partition, item.from_offset, item.end_offset, item.sent_before_us, int(item.is_known),
            int(item.needs_newer),
        )
        for cell, item in removed
    ]  # fmt: skip
    small_table(spark, "removals", REMOVAL_COLUMNS, rows)


def register_keys(spark: SparkSession, keys: Iterable[tuple[str, int, int]]) -> None:
    """The view `record_keys`: cell id, turn, key, of the cells with a removal that `needs_newer`."""
    rows: list[tuple[object, ...]] = list(keys)
    small_table(spark, "record_keys", KEY_COLUMNS, rows)


def register_topics(spark: SparkSession, several: Iterable[tuple[str, int, int]]) -> None:
    """The view `several_topics`: cell id, topics, partitions of each, of the cells whose records take turns."""
    rows: list[tuple[object, ...]] = list(several)
    small_table(spark, "several_topics", TOPIC_COLUMNS, rows)


def _shift(first: int, end: int) -> int:
    """How many bits of offset a block has, so that the interval has few; in steps, so that few widths are met."""
    shift = OFFSET_BITS_PER_BLOCK
    while ((end - 1) >> shift) - (first >> shift) >= BLOCKS_PER_INTERVAL_MAX:
        shift += 8
    return shift


# Of all views together that are broadcast at one time. Each row is some 40 bytes, and three times that in the table
# that a join makes of it. A view of damage may have a row for each word of the run log or for each record, and whoever
# broadcasts it has it whole in each process, outside of the memory that Spark counts. The bound was of each view: with
# 100 million rows that are damaged everywhere, each view of words is just below it, and ten of them are there at once.
BROADCAST_ROWS_MAX: Final = 1_000_000
_SMALL: Final = re.compile(r"/\*\+ SMALL\((\w+), (\w+)\) \*/")


class Kept:
    """Runs SQL on a session and remembers what is cached, so that all of it is let go at the end.

    `SMALL(alias, view)` in a query's hint becomes BROADCAST(alias) if there is room for the view's rows among
    `BROADCAST_ROWS_MAX`, and no hint otherwise: then Spark sorts and merges. What is broadcast for a kept view takes
    its room until all is let go, because Spark may compute such a view at any time until then.

    Two threads may share it if they keep views of different names: each step on its own fields is a single operation.
    """

    def __init__(self, spark: SparkSession, rows_max: int | None = None) -> None:
        """`rows_max`: no view can have more, as far as that is known. Then none has to be counted."""
        self._spark, self._rows_max = spark, rows_max
        self._cached: list[DataFrame] = []
        self._is_empty: dict[str, bool] = {}
        self._rows: dict[str, int] = {}
        self._room = BROADCAST_ROWS_MAX
        self._room_lock = threading.Lock()

    @property
    def spark(self) -> SparkSession:
        return self._spark

    def keep(self, view: str, sql: str) -> DataFrame:
        """Makes the result of `sql` the view `view` and keeps it: it is read more than once."""
        hinted, _ = self._hinted(sql)
        frame = self._spark.sql(hinted)
        frame.persist()
        self._cached.append(frame)
        frame.createOrReplaceTempView(view)
        return frame

    def keep_findings(self, view: str, sql: str) -> bool:
        """The same for what a calm run has none of, and then nothing that asks this view reads any record."""
        frame = self.keep(view, sql)
        is_found = not frame.isEmpty()
        if not is_found:
            empty_frame(self._spark, frame.schema).createOrReplaceTempView(view)
        self._is_empty[view] = not is_found
        return is_found

    def know_empty(self, view: str, sql: str) -> None:
        """A view that follows from an empty one is so itself: the optimiser sees that, and nothing is asked."""
        self._spark.sql(_SMALL.sub("", sql)).createOrReplaceTempView(view)
        self._is_empty[view] = True

    def is_empty(self, view: str) -> bool:
        """Whether a view has no row; asked once."""
        if view not in self._is_empty:
            self._is_empty[view] = self._spark.table(view).isEmpty()
        return self._is_empty[view]

    def collect(self, sql: str) -> pd.DataFrame:
        hinted, taken = self._hinted(sql)
        frame: pd.DataFrame = self._spark.sql(hinted).toPandas()
        with self._room_lock:
            self._room += taken
        return frame

    def _hinted(self, sql: str) -> tuple[str, int]:
        """The statement with its hints decided, the smallest views first, and the room that it took."""
        hints = sorted((self._rows_of(hint[2]), hint.start()) for hint in _SMALL.finditer(sql))
        taken, broadcast = 0, set()
        with self._room_lock:
            for rows, place in hints:
                if rows <= self._room:
                    self._room -= rows
                    taken += rows
                    broadcast.add(place)
        decided = _SMALL.sub(lambda hint: f"/*+ BROADCAST({hint[1]}) */" if hint.start() in broadcast else "", sql)
        return decided, taken

    def _rows_of(self, view: str) -> int:
        if self._rows_max is not None and self._rows_max <= BROADCAST_ROWS_MAX:
            return 0
        if self._is_empty.get(view):
            return 0
        if view not in self._rows:
            self._rows[view] = self._spark.table(view).count()
        return self._rows[view]

    def release(self) -> None:
        while self._cached:
            self._cached.pop().unpersist()
        self._room = BROADCAST_ROWS_MAX


def compare_sets(kept: Kept, pair: Pair = in_turn) -> dict[str, dict[str, SetComparison]]:
    """The comparison of sets, by cell and kind. `pair` runs the two groups of views. Views needed: the streams,
    intervals, removals, several_topics, transactions, commit_limits, early_readers, clock_errors, copying."""
    kept.spark.sql(set_queries.INTERVAL_BLOCKS).createOrReplaceTempView("interval_blocks")
    _keep_views(kept, _SHARED_VIEWS)
    pair(lambda: _keep_views(kept, _LOG_VIEWS), lambda: _keep_views(kept, _READER_VIEWS))
    asked = marks(kept.is_empty)
    if asked is None or not kept.keep_findings("marks", asked):
        return defaultdict(dict)
    totals = kept.collect(set_queries.TOTALS)
    edges = kept.collect(set_queries.EDGES.format(limit=RANGES_PER_SET_MAX))
    ranges = {key: _ranges(rows) for key, rows in edges.groupby(["cell", "kind", "part"], sort=False)}
    parts = {
        (str(cell), str(kind), str(part)): IdentitySet(
            count=int(total), hash=int(hashed), ranges=ranges[cell, kind, part]
        )
        for cell, kind, part, total, hashed in totals.itertuples(index=False, name=None)
    }
    empty = IdentitySet()
    result: dict[str, dict[str, SetComparison]] = defaultdict(dict)
    for cell, kind, _ in parts:
        result[cell][kind] = SetComparison(
            both=parts.get((cell, kind, "both"), empty),
            only_predicted=parts.get((cell, kind, "only_predicted"), empty),
            only_observed=parts.get((cell, kind, "only_observed"), empty),
        )
    return result


def _ranges(edges: pd.DataFrame) -> tuple[IdentityRange, ...]:
    """The first runs of a set, from its edges in their order: a start, and then its end, which may be the same
    record."""
    found: list[IdentityRange] = []
    first = 0
    columns = (edges[name] for name in ("producer", "incarnation", "seq", "is_start", "is_end"))
    for producer, incarnation, seq, is_start, is_end in zip(*columns, strict=True):
        if is_start:
            first = int(seq)
        if is_end:
            found.append(
                IdentityRange(producer=int(producer), incarnation=int(incarnation), first_seq=first, last_seq=int(seq))
            )
    return tuple(found[:RANGES_PER_SET_MAX])


def _keep_views(kept: Kept, views: Iterable[_View]) -> None:
    """Words, runs, and where they do not agree: what `marks` opens."""
    for view in views:
        if view.is_of_every_run:
            kept.keep(view.name, view.sql)
        elif view.is_stream:
            kept.spark.sql(view.sql).createOrReplaceTempView(view.name)
        elif any(kept.is_empty(source) for source in view.of) or (
            view.any_of and all(kept.is_empty(source) for source in view.any_of)
        ):
            kept.know_empty(view.name, view.sql)
        else:
            kept.keep_findings(view.name, view.sql)
