"""The analysis: one pass of Spark SQL over all cells, a session passed in, DataFrame and SQL only.

Gives `CellFacts` per cell. Owns which query runs when and what is kept in memory in between; the rules are in
`record_queries.py` and `predict.py`. tests/reports/test_reports_analysis.py plants damage of known size and counts it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from reports.analyse import queries, record_queries
from reports.analyse.histogram import rate_interval, summarise
from reports.analyse.record_sets import Kept, compare_sets, register_intervals
from reports.analyse.tolerant import unusable_by
from reports.evidence.asked import schedule_kind, unsent
from reports.evidence.completeness import cell_files, missing_beside, missing_evidence
from reports.evidence.contradictions import contradictions
from reports.evidence.group_story import DELIVERY_STORIES
from reports.evidence.happenings import findings, suspect_intervals
from reports.evidence.history import commit_limits, early_readers, transactions
from reports.evidence.predict import Prediction, predict
from reports.evidence.recovery import recovery
from reports.evidence.topic_events import Interval
from reports.read.cell import Cell, Json, Run
from reports.read.model import (
    LATENCY_KINDS,
    PREDICTED_KINDS,
    SET_KINDS,
    CellFacts,
    Counts,
    EpochRange,
    IdentityRange,
    IdentitySet,
    SetComparison,
    Story,
)
from reports.read.tables import LONG, TEXT, open_tables, small_table
from runlog.quality.criteria import Criteria
from runlog.quality.steadiness import CHANGING_KINDS, steady_ratio
from runlog.streams.inventory import CellFiles

STORIES_PER_KIND = 2
SLOT_US_MIN = 100_000
SLOTS_MAX = 600
UNTIL_ACKNOWLEDGED = ("corrected", "uncorrected")
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
COMMIT_LIMIT_COLUMNS = {"cell": TEXT, "reader": LONG, "limit_us": LONG}


def analyse(spark: SparkSession, run: Run, criteria: Criteria | None = None) -> list[CellFacts]:
    """Facts of every cell of the run, in the run's order."""
    criteria = criteria or Criteria()
    told: dict[str, _Told] = {}
    found: dict[str, CellFacts] = {}
    for cell in run.cells:
        try:
            told[cell.cell_id] = _told(cell)
        except Exception as error:  # whatever its documents hold costs this cell
            found[cell.cell_id] = unusable_by(cell, error)
    sound = replace(run, cells=tuple(cell for cell in run.cells if cell.cell_id in told))
    files = cell_files(sound)
    open_tables(spark, Path(run.directory), files)
    _register_told(spark, told)
    frames, sets, stories = _frames(spark, sound)
    by_cell = {
        name: {str(cell): part for cell, part in frame.groupby("cell", sort=False)} for name, frame in frames.items()
    }
    for cell in sound.cells:
        try:
            found[cell.cell_id] = _facts(
                cell,
                {name: parts.get(cell.cell_id, pd.DataFrame()) for name, parts in by_cell.items()},
                sets[cell.cell_id],
                told[cell.cell_id].prediction,
                stories.get(cell.cell_id, ()),
                told[cell.cell_id].slot_us,
                files[cell.cell_id],
                criteria,
            )
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
    transactions: tuple[tuple[object, ...], ...]
    limits: tuple[tuple[object, ...], ...]
    early: tuple[tuple[object, ...], ...]
    has_copiers: bool


def _told(cell: Cell) -> _Told:
    prediction, slot_us = predict(cell), _slot_us(cell)
    return _Told(
        prediction=prediction,
        slot_us=slot_us,
        window=(cell.cell_id, *cell.window_us(), *cell.span_us(), slot_us),
        intervals=(*prediction.intervals, *suspect_intervals(cell)),
        transactions=tuple(transactions(cell)),
        limits=tuple((cell.cell_id, *limit) for limit in commit_limits(cell)),
        early=tuple((cell.cell_id, *reader) for reader in early_readers(cell)),
        has_copiers=cell.record.workload.has_copiers,
    )


def _register_told(spark: SparkSession, told: Mapping[str, _Told]) -> None:
    small_table(spark, "windows", WINDOW_COLUMNS, [item.window for item in told.values()])
    register_intervals(spark, ((cell, interval) for cell, item in told.items() for interval in item.intervals))
    rows = [row for item in told.values() for row in item.transactions]
    small_table(spark, "transactions", TRANSACTION_COLUMNS, rows)
    limits = [row for item in told.values() for row in item.limits]
    small_table(spark, "commit_limits", COMMIT_LIMIT_COLUMNS, limits)
    early = [row for item in told.values() for row in item.early]
    small_table(spark, "early_readers", EARLY_READER_COLUMNS, early)
    small_table(spark, "copying", {"cell": TEXT}, [(cell,) for cell, item in told.items() if item.has_copiers])


_Sets = dict[str, dict[str, SetComparison]]


def _frames(spark: SparkSession, run: Run) -> tuple[dict[str, pd.DataFrame], _Sets, dict[str, tuple[Story, ...]]]:
    """All that is asked of Spark."""
    kept = Kept(spark)
    try:
        sets = compare_sets(kept)
        extra_copies = kept.collect(record_queries.EXTRA_COPIES)
        whole = {
            "log_ends": kept.collect(record_queries.LOG_ENDS),
            "repeated": kept.collect(record_queries.REPEATED_ROWS),
        }
        kept.release()
        kept.keep("send_slots", queries.SEND_SLOTS)
        kept.keep("recv_slots", queries.RECV_SLOTS)
        frames = {
            **whole,
            "counts": _counts(kept, extra_copies),
            "rates": kept.collect(queries.RATES),
            "gaps": kept.collect(queries.GAPS),
            "batches": kept.collect(queries.BATCHES),
        }
        frames["latencies"] = kept.collect(queries.LATENCIES)
        kept.keep("slot_latencies", queries.SLOT_LATENCIES)
        frames["latency_blocks"] = kept.collect(queries.LATENCY_BLOCKS)
        frames["latency_slots"] = kept.collect(queries.LATENCY_SLOTS)
        stories = _stories(kept, run, sets)
    finally:
        kept.release()
    return frames, sets, stories


def _slot_us(cell: Cell) -> int:
    """Width of a time bucket: 100 ms, wider only for cells so long that the page would grow too large."""
    first, last = cell.span_us()
    return SLOT_US_MIN * max(1, math.ceil((last - first) / (SLOT_US_MIN * SLOTS_MAX)))


def _counts(kept: Kept, extra_copies: pd.DataFrame) -> pd.DataFrame:
    frame = kept.collect(queries.COUNTS_SEND)
    for sql in (queries.COUNTS_LOG, queries.COUNTS_RECV):
        frame = frame.merge(kept.collect(sql), on="cell", how="outer")
    frame = frame.merge(extra_copies, on="cell", how="outer")
    numbers = [column for column in frame.columns if column != "cell"]
    frame[numbers] = frame[numbers].fillna(0).astype("int64")
    return frame


def _examples(sets: Mapping[str, Mapping[str, SetComparison]]) -> list[tuple[str, str, IdentityRange]]:
    """For each cell and kind of damage the records whose story is told: from the middle of the largest ranges."""
    chosen: list[tuple[str, str, IdentityRange]] = []
    for cell, kinds in sets.items():
        for kind in (*PREDICTED_KINDS, *DELIVERY_STORIES):
            observed = kinds[kind].observed if kind in kinds else IdentitySet()
            largest = sorted(observed.ranges, key=lambda item: -item.count)[:STORIES_PER_KIND]
            for item in largest:
                middle = (item.first_seq + item.last_seq) // 2
                one = IdentityRange(
                    producer=item.producer, incarnation=item.incarnation, first_seq=middle, last_seq=middle
                )
                chosen.append((cell, kind, one))
    return chosen


def _stories(kept: Kept, run: Run, sets: Mapping[str, Mapping[str, SetComparison]]) -> dict[str, tuple[Story, ...]]:
    known = {cell.cell_id for cell in run.cells}
    examples = [item for item in _examples(sets) if item[0] in known]
    if not examples:
        return {}
    columns = {"cell": TEXT, "producer": LONG, "incarnation": LONG, "seq": LONG}
    keys = sorted({(cell, one.producer, one.incarnation, one.first_seq) for cell, _, one in examples})
    small_table(kept.spark, "examples", columns, list(keys))
    rows: dict[tuple[str, int, int, int, str], list[Json]] = defaultdict(list)
    found = kept.collect(queries.STORIES).to_dict("records")
    found += [{**record, "stream": "copies"} for record in kept.collect(queries.COPY_STORIES).to_dict("records")]
    for record in found:
        clean: Json = {
            str(name): None if value is None or value != value else int(value)
            for name, value in record.items()
            if name not in ("cell", "stream")
        }
        key = (str(record["cell"]), int(record["producer"]), int(record["incarnation"]), int(record["seq"]))
        rows[(*key, str(record["stream"]))].append(clean)
    stories: dict[str, list[Story]] = defaultdict(list)
    for cell, kind, one in examples:
        key = (cell, one.producer, one.incarnation, one.first_seq)
        by_offset = {
            stream: tuple(sorted(rows.get((*key, stream), []), key=lambda row: row["offset"] or 0))
            for stream in ("send", "log", "recv", "copies")
        }
        stories[cell].append(
            Story(
                kind=kind,
                producer=one.producer,
                incarnation=one.incarnation,
                seq=one.first_seq,
                send=by_offset["send"],
                log=by_offset["log"],
                recv=by_offset["recv"],
                copies=by_offset["copies"],
            )
        )
    return {cell: tuple(items) for cell, items in stories.items()}


def _facts(
    cell: Cell,
    frames: Mapping[str, pd.DataFrame],
    sets: Mapping[str, SetComparison],
    prediction: Prediction,
    stories: tuple[Story, ...],
    slot_us: int,
    files: CellFiles,
    criteria: Criteria,
) -> CellFacts:
    row: Json = {} if frames["counts"].empty else dict(frames["counts"].iloc[0])
    extra_copies = int(row.pop("extra_copies", 0))
    counts = Counts(**{name: int(value) for name, value in row.items() if name != "cell"})
    start_us, end_us = cell.window_us()
    seconds = (end_us - start_us) / 1e6
    slots = _slots(cell, frames["rates"], frames["latency_slots"], slot_us)
    seed = cell.record.seed
    from_log = cell.effective_client.get("acks") == "0"
    first_us = cell.span_us()[0]
    first_slot, end_slot = -(-(start_us - first_us) // slot_us), (end_us - first_us) // slot_us
    per_slot = slots["received" if from_log else "acked"].to_numpy(dtype=np.float64)[first_slot:end_slot]
    changes = schedule_kind(cell) in CHANGING_KINDS
    due_per_slot = slots["intended"].to_numpy(dtype=np.float64)[first_slot:end_slot] if changes else None
    done = counts.log_in_window if from_log else counts.acks_in_window
    batches = frames["batches"]
    size = int(batches["size_bytes"].sum()) if len(batches) else 0
    number = int(batches["batches"].sum()) if len(batches) else 0
    gap = frames["gaps"].iloc[0] if len(frames["gaps"]) and counts.acked_total and seconds else None
    unseen = 0
    if "lost" in sets and not cell.is_read_to_end:
        unseen = sets["lost"].observed.count
        sets = {**sets, "lost": SetComparison(only_predicted=sets["lost"].predicted)}
    return CellFacts(
        cell=cell,
        counts=counts,
        throughput_records_per_s=round(done / seconds, 1) if seconds else 0.0,
        throughput_interval=rate_interval(per_slot, slot_us / 1e6, seed),
        throughput_basis="found in the log" if from_log else "acknowledged",
        steady_ratio=steady_ratio(per_slot, due_per_slot),
        latency={
            kind: summarise(
                _of_kind(frames["latencies"], kind),
                _of_kind(frames["latency_blocks"], kind),
                criteria,
                seed,
                unanswered=counts.failed + counts.unknown + unsent(cell) if kind in UNTIL_ACKNOWLEDGED else 0,
            )
            for kind in LATENCY_KINDS
        },
        observed={kind: sets[kind].observed if kind in sets else IdentitySet() for kind in SET_KINDS},
        unseen=unseen,
        predictions={kind: _with_how(sets.get(kind), prediction.how[kind]) for kind in PREDICTED_KINDS},
        dup_extra_copies=extra_copies,
        gap_us=int(gap["gap_us"]) if gap is not None else None,
        gap_start_us=int(gap["gap_start_us"]) if gap is not None else None,
        records_per_batch=round(int(batches["records"].sum()) / number, 2) if number else None,
        batches=number,
        compression_ratio=round(int(batches["uncompressed_bytes"].sum()) / size, 3) if size else None,
        log_bytes=size,
        epochs=_epochs(batches),
        stories=stories,
        findings=findings(cell, _epochs(batches)),
        recovery=recovery(cell, slots, slot_us),
        missing_streams=missing_evidence(cell, files, counts),
        missing_beside=missing_beside(files),
        contradictions=contradictions(cell, counts, frames["log_ends"], batches, frames["repeated"]),
        slots=slots,
        slot_us=slot_us,
    )


def _of_kind(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    return frame[frame["kind"] == kind] if len(frame) else frame


def _with_how(comparison: SetComparison | None, how: str) -> SetComparison:
    found = comparison or SetComparison()
    return SetComparison(
        both=found.both, only_predicted=found.only_predicted, only_observed=found.only_observed, how=how
    )


def _epochs(batches: pd.DataFrame) -> tuple[EpochRange, ...]:
    if batches.empty:
        return ()
    ordered = batches.sort_values(["partition", "first_offset"])
    columns = (ordered["partition"], ordered["leader_epoch"], ordered["first_offset"], ordered["end_offset"])
    return tuple(
        EpochRange(partition=int(p), leader_epoch=int(e), first_offset=int(f), end_offset=int(end))
        for p, e, f, end in zip(*columns, strict=True)
    )


def _slots(cell: Cell, rates: pd.DataFrame, latencies: pd.DataFrame, slot_us: int) -> pd.DataFrame:
    """One row per time bucket from the cell's start to its end, empty buckets included."""
    first, last = cell.span_us()
    number = max(0, math.ceil((last - first) / slot_us))
    frame = pd.DataFrame({"slot": np.arange(number, dtype=np.int64)})
    for column in ("intended", "sent", "acked", "received"):
        series = rates.set_index("slot")[column] if len(rates) else pd.Series(dtype="int64")
        frame[column] = frame["slot"].map(series).fillna(0).astype("int64")
    frame["t_us"] = first + frame["slot"] * slot_us
    for kind in ("corrected", "uncorrected", "end_to_end"):
        rows = latencies[latencies["kind"] == kind].set_index("slot") if len(latencies) else pd.DataFrame()
        for column in ("n", "min_us", "mean_us", "p99_us", "max_us"):
            values = rows[column] if len(rows) else pd.Series(dtype="float64")
            frame[f"{kind}_{column}"] = frame["slot"].map(values).astype("float64").round(0)
    return frame
