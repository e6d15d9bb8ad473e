"""The analysis: one pass of Spark SQL over all cells, a session passed in, DataFrame and SQL only.

Returns `CellFacts` for each cell. This module decides which query runs when, and what stays in memory. The rules are in
`record_sets.py` and `predict.py`. `cell_facts.py` and `stories.py` turn the answers into facts and stories.
tests/reports/test_reports_analysis.py plants damage of known size and counts it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from reports.analyse import log_queries, queries
from reports.analyse.cell_facts import Found, Frames, cell_facts
from reports.analyse.record_sets import (
    Kept,
    compare_sets,
    register_intervals,
    register_keys,
    register_removals,
    register_topics,
)
from reports.analyse.side_by_side import Pair, both, in_turn
from reports.analyse.stories import stories
from reports.analyse.tolerant import unusable_by
from reports.evidence.completeness import cell_files
from reports.evidence.happenings import suspect_intervals
from reports.evidence.history import (
    clock_errors,
    commit_limits,
    committed_readers,
    early_readers,
    several_topics,
    transactions,
    whole_readers,
)
from reports.evidence.predict import Prediction, predict
from reports.evidence.record_keys import key_rows, record_keys
from reports.evidence.removals import Removals, removals
from reports.evidence.topic_events import Interval
from reports.read.cell import Cell, Run
from reports.read.model import CellFacts, SetComparison, Story
from reports.read.parts import parquet_bytes, parts_of
from reports.read.session import SMALL_RUN_BYTES
from reports.read.tables import LONG, TEXT, open_tables, small_table

SLOT_US_MIN = 100_000
SLOTS_MAX = 600
TRANSACTION_COLUMNS = {
    "cell": TEXT,
    "copier": LONG,
    "copier_incarnation": LONG,
    "txn": LONG,
    "is_committed": LONG,
    "asked_us": LONG,
}
WINDOW_COLUMNS = {
    "cell": TEXT,
    "start_us": LONG,
    "end_us": LONG,
    "first_us": LONG,
    "last_us": LONG,
    "slot_us": LONG,
}
EARLY_READER_COLUMNS = {"cell": TEXT, "reader": LONG, "end_partition": LONG}
WHOLE_READER_COLUMNS = {"cell": TEXT, "reader": LONG}
CLOCK_ERROR_COLUMNS = {"cell": TEXT, "producer": LONG, "host": LONG, "error_us": LONG}
COMMIT_LIMIT_COLUMNS = {"cell": TEXT, "reader": LONG, "limit_us": LONG}


def analyse(spark: SparkSession, run: Run) -> list[CellFacts]:
    """Facts of every cell of the run, in the run's order."""
    told: dict[str, _Told] = {}
    found: dict[str, CellFacts] = {}
    for cell in run.cells:
        try:
            told[cell.cell_id] = _told(cell)
        except Exception as error:  # whatever its documents hold costs this cell
            found[cell.cell_id] = unusable_by(cell, error)
    sound = replace(run, cells=tuple(cell for cell in run.cells if cell.cell_id in told))
    files = cell_files(sound)
    # A large run's halves come one after the other: each of them uses all cores and much memory by itself.
    pair: Pair = both if parquet_bytes(run) < SMALL_RUN_BYTES else in_turn
    pair(lambda: open_tables(spark, parts_of(run), files), lambda: _register_told(spark, told))
    answers = _ask(spark, sound, pair, sum(count for own in files.values() for count in own.rows.values()))
    frames = answers.frames.by_cell(told)
    for cell in sound.cells:
        own = Found(
            cell=cell,
            files=files[cell.cell_id],
            prediction=told[cell.cell_id].prediction,
            removals=told[cell.cell_id].removals,
            slot_us=told[cell.cell_id].slot_us,
            frames=frames[cell.cell_id],
            sets=answers.sets[cell.cell_id],
            stories=answers.stories.get(cell.cell_id, ()),
        )
        try:
            found[cell.cell_id] = cell_facts(own)
        except Exception as error:
            found[cell.cell_id] = unusable_by(cell, error)
    return [found[cell.cell_id] for cell in run.cells]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a cell's documents and events say without any record: rows of the small tables."""

    prediction: Prediction
    slot_us: int
    window: tuple[object, ...]
    intervals: tuple[Interval, ...]
    removals: Removals
    keys: NDArray[np.int64] | None  # only where a removal asks for a newer record
    transactions: tuple[tuple[object, ...], ...]
    limits: tuple[tuple[object, ...], ...]
    early: tuple[tuple[object, ...], ...]
    whole: tuple[tuple[object, ...], ...]
    committed: tuple[tuple[object, ...], ...]
    clocks: tuple[tuple[object, ...], ...]
    several_topics: tuple[tuple[int, int], ...]
    has_copiers: bool
    is_transactional: bool


def _told(cell: Cell) -> _Told:
    prediction, slot_us, removed = predict(cell), _slot_us(cell), removals(cell)
    return _Told(
        prediction=prediction,
        slot_us=slot_us,
        window=(cell.cell_id, *cell.window_us(), *cell.span_us(), slot_us),
        intervals=(*prediction.intervals, *suspect_intervals(cell)),
        removals=removed,
        keys=record_keys(cell) if any(item.needs_newer for item in removed.found) else None,
        transactions=tuple(transactions(cell)),
        limits=tuple((cell.cell_id, *limit) for limit in commit_limits(cell)),
        early=tuple((cell.cell_id, *reader) for reader in early_readers(cell)),
        whole=tuple((cell.cell_id, reader) for reader in whole_readers(cell)),
        committed=tuple((cell.cell_id, reader) for reader in committed_readers(cell)),
        clocks=tuple((cell.cell_id, *clock) for clock in clock_errors(cell)),
        several_topics=tuple(several_topics(cell)),
        has_copiers=cell.record.workload.has_copiers,
        is_transactional=cell.record.workload.commit_interval_ms > 0,
    )


def _register_told(spark: SparkSession, told: Mapping[str, _Told]) -> None:
    small_table(spark, "windows", WINDOW_COLUMNS, [item.window for item in told.values()])
    register_intervals(spark, ((cell, interval) for cell, item in told.items() for interval in item.intervals))
    register_removals(spark, ((cell, removal) for cell, item in told.items() for removal in item.removals.found))
    register_keys(spark, (row for cell, item in told.items() for row in key_rows(cell, item.keys)))
    register_topics(spark, ((cell, *row) for cell, item in told.items() for row in item.several_topics))
    rows = [row for item in told.values() for row in item.transactions]
    small_table(spark, "transactions", TRANSACTION_COLUMNS, rows)
    limits = [row for item in told.values() for row in item.limits]
    small_table(spark, "commit_limits", COMMIT_LIMIT_COLUMNS, limits)
    early = [row for item in told.values() for row in item.early]
    small_table(spark, "early_readers", EARLY_READER_COLUMNS, early)
    whole = [row for item in told.values() for row in item.whole]
    small_table(spark, "whole_readers", WHOLE_READER_COLUMNS, whole)
    committed = [row for item in told.values() for row in item.committed]
    small_table(spark, "committed_readers", WHOLE_READER_COLUMNS, committed)
    transacting: list[tuple[object, ...]] = [(cell,) for cell, item in told.items() if item.is_transactional]
    small_table(spark, "transacting", {"cell": TEXT}, transacting)
    clocks = [row for item in told.values() for row in item.clocks]
    small_table(spark, "clock_errors", CLOCK_ERROR_COLUMNS, clocks)
    small_table(spark, "copying", {"cell": TEXT}, [(cell,) for cell, item in told.items() if item.has_copiers])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """The answers to all queries, over all cells."""

    frames: Frames
    sets: Mapping[str, Mapping[str, SetComparison]]  # cell -> kind
    stories: Mapping[str, tuple[Story, ...]]  # The key is the cell. A cell without damage has none.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Damage:
    """What happened to the records, of all cells."""

    sets: Mapping[str, Mapping[str, SetComparison]]
    stories: Mapping[str, tuple[Story, ...]]
    log_ends: pd.DataFrame
    repeated: pd.DataFrame


def _ask(spark: SparkSession, run: Run, pair: Pair, rows: int) -> _Answers:
    """All that is asked of Spark: two halves, and neither reads what the other keeps. Damage has two halves again.
    `rows`: of the whole run log."""
    damage, speed = pair(lambda: _ask_damage(spark, run, pair, rows), lambda: _ask_speed(spark, run))
    frames = replace(speed, log_ends=damage.log_ends, repeated=damage.repeated)
    return _Answers(frames=frames, sets=damage.sets, stories=damage.stories)


def _ask_damage(spark: SparkSession, run: Run, pair: Pair, rows: int) -> _Damage:
    kept = Kept(spark, rows_max=rows)
    try:
        sets = compare_sets(kept, pair)
        log_ends, repeated = kept.collect(log_queries.LOG_ENDS), kept.collect(log_queries.REPEATED_ROWS)
    finally:
        kept.release()
    told = stories(kept, [cell.cell_id for cell in run.cells], sets)
    return _Damage(sets=sets, stories=told, log_ends=log_ends, repeated=repeated)


def _ask_speed(spark: SparkSession, run: Run) -> Frames:
    """When it happened and how fast, of all cells. What the log itself shows is not there yet."""
    kept = Kept(spark)
    has_several_readers = any(len(cell.record.workload.reader_groups) > 1 for cell in run.cells)

    def of_readers(sql: str) -> pd.DataFrame:
        return kept.collect(sql) if has_several_readers else pd.DataFrame({"cell": []})

    try:
        kept.keep("send_slots", queries.SEND_SLOTS)
        kept.keep("recv_slots", queries.RECV_SLOTS)
        counts, rates = _counts(kept), kept.collect(queries.RATES)
        gaps, batches = kept.collect(queries.GAPS), kept.collect(queries.BATCHES)
        latencies = kept.collect(queries.LATENCIES)
        kept.keep("slot_latencies", queries.SLOT_LATENCIES)
        kept.keep("arrived", queries.ARRIVED)
        kept.keep("missing_slots", queries.MISSING_SLOTS)
        return Frames(
            log_ends=pd.DataFrame(),
            repeated=pd.DataFrame(),
            counts=counts,
            rates=rates,
            gaps=gaps,
            batches=batches,
            latencies=latencies,
            latency_blocks=kept.collect(queries.LATENCY_BLOCKS),
            latency_slots=kept.collect(queries.LATENCY_SLOTS),
            reader_latencies=of_readers(queries.READER_LATENCIES),
            reader_blocks=of_readers(queries.READER_LATENCY_BLOCKS),
            arrived=kept.collect(queries.ARRIVED_IN_WINDOW),
            missing_slots=kept.collect("SELECT * FROM missing_slots"),
        )
    finally:
        kept.release()


def _slot_us(cell: Cell) -> int:
    """Width of a time bucket: 100 ms, wider only if a cell is long and its page would grow too large."""
    first, last = cell.span_us()
    return SLOT_US_MIN * max(1, math.ceil((last - first) / (SLOT_US_MIN * SLOTS_MAX)))


def _counts(kept: Kept) -> pd.DataFrame:
    frame = kept.collect(queries.COUNTS_SEND)
    for sql in (queries.COUNTS_LOG, queries.COUNTS_RECV):
        frame = frame.merge(kept.collect(sql), on="cell", how="outer")
    numbers = [column for column in frame.columns if column != "cell"]
    frame[numbers] = frame[numbers].fillna(0).astype("int64")
    return frame
