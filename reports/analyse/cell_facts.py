"""Turns Spark's answers for one cell into the facts of that cell. Pure: frames in, `CellFacts` out.

Shown by tests/reports/test_reports_analysis.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from reports.analyse.beyond_clocks import latency_beyond, slots_beyond
from reports.analyse.histogram import rate_interval, summarise
from reports.analyse.queries import BOOTSTRAP_BLOCKS
from reports.evidence.asked import schedule_kind, unsent
from reports.evidence.completeness import missing_evidence
from reports.evidence.configuration import is_acknowledged
from reports.evidence.contradictions import contradictions
from reports.evidence.happenings import findings
from reports.evidence.history import whole_readers
from reports.evidence.predict import Prediction
from reports.evidence.recovery import recovery
from reports.evidence.removals import Removals
from reports.read.cell import Cell
from reports.read.model import (
    CORRECTED,
    END_TO_END,
    LATENCY_KINDS,
    PREDICTED_KINDS,
    SET_KINDS,
    UNCORRECTED,
    Basis,
    CellFacts,
    Counts,
    EpochRange,
    IdentitySet,
    Latency,
    SetComparison,
    Story,
)
from runlog.quality.steadiness import CHANGING_KINDS, steady_ratio
from runlog.records.hosts import clock_error_between_us, clock_error_of_gap_us
from runlog.streams.inventory import CellFiles

UNTIL_ACKNOWLEDGED: Final = (CORRECTED, UNCORRECTED)
_SLOT_COUNTS: Final = ("intended", "sent", "acked", "received")
_SLOT_LATENCIES: Final = (CORRECTED, UNCORRECTED, END_TO_END)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """One frame a question (the modules of queries), each with a column `cell`; of no rows also without
    columns."""

    log_ends: pd.DataFrame
    repeated: pd.DataFrame
    counts: pd.DataFrame
    rates: pd.DataFrame
    gaps: pd.DataFrame
    batches: pd.DataFrame
    latencies: pd.DataFrame
    latency_blocks: pd.DataFrame
    latency_slots: pd.DataFrame
    reader_latencies: pd.DataFrame
    reader_blocks: pd.DataFrame
    arrived: pd.DataFrame
    missing_slots: pd.DataFrame

    def by_cell(self, cell_ids: Iterable[str]) -> dict[str, Frames]:
        """The rows of each cell."""
        parts = {
            field.name: {str(cell): part for cell, part in getattr(self, field.name).groupby("cell", sort=False)}
            for field in fields(self)
        }
        return {
            cell_id: Frames(**{name: found.get(cell_id, pd.DataFrame()) for name, found in parts.items()})
            for cell_id in cell_ids
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that is known of a cell when its facts are made."""

    cell: Cell
    files: CellFiles
    prediction: Prediction
    slot_us: int
    frames: Frames  # This cell's own.
    sets: Mapping[str, SetComparison]
    stories: tuple[Story, ...]
    removals: Removals


def cell_facts(found: Found) -> CellFacts:
    cell, frames = found.cell, found.frames
    counts = _counts(frames.counts)
    slots = _slots(cell, frames, found.slot_us)
    speed, log, gap = _speed(cell, counts, slots, found.slot_us), _log(frames.batches), _gap(cell, counts, frames.gaps)
    sets, unseen = _told_apart(cell, found.sets)
    clock_error_us = clock_error_between_us(cell.record.outcome.load_hosts)
    gap_error_us = clock_error_of_gap_us(cell.record.outcome.load_hosts)
    is_gap_hidden = gap is not None and gap_error_us > 0 and gap.us <= gap_error_us
    shown_gap = None if is_gap_hidden else gap
    latency = _latencies(cell, counts, frames, slots)
    return CellFacts(
        cell=cell,
        counts=counts,
        throughput_records_per_s=speed.records_per_s,
        throughput_interval=speed.interval,
        throughput_basis=speed.basis,
        steady_ratio=speed.steady_ratio,
        latency={**latency, END_TO_END: latency_beyond(latency[END_TO_END], clock_error_us)},
        reader_latency={
            reader: latency_beyond(own, clock_error_us)
            for reader, own in _reader_latencies(cell, counts, frames).items()
        },
        observed={kind: sets[kind].observed if kind in sets else IdentitySet() for kind in SET_KINDS},
        unseen=unseen,
        predictions={kind: _with_how(sets.get(kind), found.prediction.how[kind]) for kind in PREDICTED_KINDS},
        removed_by=found.removals.causes if "removed" in sets else (),
        removal_doubts=found.removals.doubts if "removed_in_doubt" in sets else (),
        removed_beyond=found.removals.beyond,
        gap_us=shown_gap.us if shown_gap is not None else None,
        gap_start_us=shown_gap.start_us if shown_gap is not None else None,
        gap_beyond_clocks=is_gap_hidden,
        records_per_batch=log.records_per_batch,
        batches=log.batches,
        compression_ratio=log.compression_ratio,
        log_bytes=log.size_bytes,
        epochs=log.epochs,
        stories=found.stories,
        findings=findings(cell, log.epochs),
        recovery=recovery(cell, slots, found.slot_us),
        holes=(*missing_evidence(cell, found.files, counts), *found.prediction.holes),
        contradictions=contradictions(cell, counts, frames.log_ends, frames.batches, frames.repeated),
        slots=slots_beyond(slots, clock_error_us),
        slot_us=found.slot_us,
    )


def _counts(frame: pd.DataFrame) -> Counts:
    if frame.empty:
        return Counts()
    return Counts(**{str(name): int(value) for name, value in frame.iloc[0].items() if name != "cell"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Speed:
    records_per_s: float
    interval: tuple[float, float] | None
    basis: Basis
    steady_ratio: float | None


def _speed(cell: Cell, counts: Counts, slots: pd.DataFrame, slot_us: int) -> _Speed:
    """Throughput in the measured window. With acks=0 it counts records in the log and at the readers."""
    start_us, end_us = cell.window_us()
    first_us = cell.span_us()[0]
    whole = slice(-(-(start_us - first_us) // slot_us), (end_us - first_us) // slot_us)
    by_acks = is_acknowledged(cell)
    per_slot = slots["acked" if by_acks else "received"].to_numpy(dtype=np.float64)[whole]
    is_changing = schedule_kind(cell) in CHANGING_KINDS
    due_per_slot = slots["intended"].to_numpy(dtype=np.float64)[whole] if is_changing else None
    done = counts.acks_in_window if by_acks else counts.log_in_window
    seconds = (end_us - start_us) / 1e6
    return _Speed(
        records_per_s=round(done / seconds, 1) if seconds else 0.0,
        interval=rate_interval(per_slot, slot_us / 1e6, cell.record.seed or 0),
        basis=Basis.ACKNOWLEDGED if by_acks else Basis.IN_LOG,
        steady_ratio=steady_ratio(per_slot, due_per_slot),
    )


def _latencies(cell: Cell, counts: Counts, frames: Frames, slots: pd.DataFrame) -> dict[str, Latency]:
    missing = {
        **dict.fromkeys(UNTIL_ACKNOWLEDGED, _never_acknowledged(cell, counts)),
        END_TO_END: sum(_never_arrived(cell, counts, frames.arrived, reader) for reader in whole_readers(cell)),
    }
    return {
        kind: summarise(
            _of_kind(frames.latencies, kind),
            _of_kind(frames.latency_blocks, kind),
            cell.record.seed or 0,
            unanswered=missing.get(kind, 0),
            unanswered_blocks=_missing_blocks(cell, slots, kind) if missing.get(kind) else None,
        )
        for kind in LATENCY_KINDS
    }


def _never_acknowledged(cell: Cell, counts: Counts) -> int:
    """Of the records due in the window. With acks=0 nobody is told anything, so that nothing is measured."""
    return counts.failed + counts.unknown + unsent(cell) if is_acknowledged(cell) else 0


def _never_arrived(cell: Cell, counts: Counts, arrived: pd.DataFrame, reader: int) -> int:
    """Of the records due in the window, those that this reader did not get."""
    got = int(_of_reader(arrived, reader)["n"].sum()) if len(arrived) else 0
    return max(0, counts.sent + unsent(cell) - got)


def _missing_blocks(cell: Cell, slots: pd.DataFrame, kind: str) -> npt.NDArray[np.int64]:
    """The missing records of the window in as many blocks of time as the bootstrap draws from."""
    start_us, end_us = cell.window_us()
    blocks = np.zeros(BOOTSTRAP_BLOCKS, dtype=np.int64)
    if end_us > start_us:
        block = (slots["t_us"].to_numpy() - start_us) * BOOTSTRAP_BLOCKS // (end_us - start_us)
        inside = (block >= 0) & (block < BOOTSTRAP_BLOCKS)
        np.add.at(blocks, block[inside], slots[f"missing_{kind}"].to_numpy()[inside])
    return blocks


def _reader_latencies(cell: Cell, counts: Counts, frames: Frames) -> dict[int, Latency]:
    """End to end, of each reader group by its number. Empty if the cell has only one."""
    groups = cell.record.workload.reader_groups
    if len(groups) < 2:
        return {}
    whole = frozenset(whole_readers(cell))
    return {
        reader: summarise(
            _of_reader(frames.reader_latencies, reader),
            _of_reader(frames.reader_blocks, reader),
            cell.record.seed or 0,
            unanswered=_never_arrived(cell, counts, frames.arrived, reader) if reader in whole else 0,
        )
        for reader in range(len(groups))
    }


def _of_reader(frame: pd.DataFrame, reader: int) -> pd.DataFrame:
    return frame[frame["reader"] == reader] if len(frame) else frame


def _of_kind(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    return frame[frame["kind"] == kind] if len(frame) else frame


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gap:
    start_us: int
    us: int


def _gap(cell: Cell, counts: Counts, frame: pd.DataFrame) -> _Gap | None:
    """The longest gap. None if nothing was acknowledged, or if there is no window."""
    start_us, end_us = cell.window_us()
    if frame.empty or not counts.acked_total or end_us == start_us:
        return None
    row = frame.iloc[0]
    return _Gap(start_us=int(row["gap_start_us"]), us=int(row["gap_us"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    batches: int
    records_per_batch: float | None
    compression_ratio: float | None
    size_bytes: int
    epochs: tuple[EpochRange, ...]


def _log(batches: pd.DataFrame) -> _Log:
    if batches.empty:
        return _Log(batches=0, records_per_batch=None, compression_ratio=None, size_bytes=0, epochs=())
    number, size = int(batches["batches"].sum()), int(batches["size_bytes"].sum())
    ordered = batches.sort_values(["partition", "first_offset"])
    columns = (ordered["partition"], ordered["leader_epoch"], ordered["first_offset"], ordered["end_offset"])
    return _Log(
        batches=number,
        records_per_batch=round(int(batches["records"].sum()) / number, 2) if number else None,
        compression_ratio=round(int(batches["uncompressed_bytes"].sum()) / size, 3) if size else None,
        size_bytes=size,
        epochs=tuple(
            EpochRange(partition=int(p), leader_epoch=int(e), first_offset=int(f), end_offset=int(end))
            for p, e, f, end in zip(*columns, strict=True)
        ),
    )


def _told_apart(cell: Cell, sets: Mapping[str, SetComparison]) -> tuple[Mapping[str, SetComparison], int]:
    """What is missing from a log that was not read to its end is not lost but unseen: the sets, and how many."""
    if "lost" not in sets or cell.is_read_to_end:
        return sets, 0
    lost = sets["lost"]
    return {**sets, "lost": SetComparison(only_predicted=lost.predicted)}, lost.observed.count


def _with_how(comparison: SetComparison | None, how: str) -> SetComparison:
    return replace(comparison or SetComparison(), how=how)


def _slots(cell: Cell, frames: Frames, slot_us: int) -> pd.DataFrame:
    """One row per time bucket from the cell's start to its end, empty buckets included. A p99 is infinite if it falls
    on a record that never came."""
    rates, latencies, missing = frames.rates, frames.latency_slots, frames.missing_slots
    first, last = cell.span_us()
    number = max(0, math.ceil((last - first) / slot_us))
    frame = pd.DataFrame({"slot": np.arange(number, dtype=np.int64)})
    for column in _SLOT_COUNTS:
        series = rates.set_index("slot")[column] if len(rates) else pd.Series(dtype="int64")
        frame[column] = frame["slot"].map(series).fillna(0).astype("int64")
    frame["t_us"] = first + frame["slot"] * slot_us
    for kind in _SLOT_LATENCIES:
        rows = latencies[latencies["kind"] == kind].set_index("slot") if len(latencies) else pd.DataFrame()
        for column in ("n", "min_us", "mean_us", "p99_us", "max_us"):
            values = rows[column] if len(rows) else pd.Series(dtype="float64")
            frame[f"{kind}_{column}"] = frame["slot"].map(values).astype("float64").round(0)
    for kind in _SLOT_LATENCIES:
        is_asked = kind == END_TO_END or is_acknowledged(cell)
        own = _of_kind(missing, kind) if is_asked else missing[:0]
        numbers = own.set_index("slot")["n"] if len(own) else pd.Series(dtype="float64")
        frame[f"missing_{kind}"] = frame["slot"].map(numbers).astype("float64").fillna(0).astype("int64")
        is_endless = frame[f"{kind}_p99_us"].isna() & (frame[f"missing_{kind}"] > 0)
        frame.loc[is_endless, f"{kind}_p99_us"] = math.inf
    return frame
