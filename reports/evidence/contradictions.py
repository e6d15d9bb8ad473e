"""Finds contradictions in the run log of a cell. With a contradiction there is no verdict, and the cell is
inconclusive.

Pure: takes the counts of the analysis. `RULES` has each rule in words, and docs/reference/lawful.md prints them.
tests/reports/planted_cases.py plants a case of each. Not compared: the intended time of a record in `log` or `recv`
with that in `send`, because the payload carries it under its own checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pandas as pd

from reports.read.cell import Cell
from reports.read.model import Counts
from runlog.records.cell import FinalReadRecord

RULES: Final = (
    "`send` has a row twice, or `log` has two records at one offset.",
    "A send was due before the cell began or after it ended, so it is in no bucket of time and in no rate.",
    "`log` has a record at or after the end offset that the final read was given, or in a partition without one.",
    "The batches of a partition do not end at its end offset, or the partition has records and no batch.",
    "The batches, or the final read's own count, have more or fewer records than `log` and the foreign ones together.",
)


def contradictions(
    cell: Cell, counts: Counts, log_ends: pd.DataFrame, batches: pd.DataFrame, repeated: pd.DataFrame
) -> tuple[str, ...]:
    """`log_ends`: partition, end_offset, records of the log. `batches`: by partition and epoch. `repeated`: one row."""
    found = [*_repeated(repeated), *_times(cell, counts)]
    if cell.is_read_to_end:
        final_read = cell.record.outcome.final_read
        if final_read.end_offsets:
            found += _ends(final_read.end_offsets, log_ends, batches)
        found += _amounts(final_read, log_ends, batches)
    return tuple(found)


def _repeated(repeated: pd.DataFrame) -> Iterator[str]:
    if repeated.empty:
        return
    row = repeated.iloc[0]
    if row["send_rows"]:
        yield f"{int(row['send_rows'])} row(s) of send are there twice"
    if row["log_rows"]:
        yield f"{int(row['log_rows'])} record(s) of log share their offset with another"


def _times(cell: Cell, counts: Counts) -> Iterator[str]:
    outcome = cell.record.outcome
    if outcome.started_us is not None and outcome.ended_us is not None and counts.intended_outside:
        yield f"{counts.intended_outside} send(s) were due before the cell began or after it ended"


def _ends(ends: Mapping[int, int], log_ends: pd.DataFrame, batches: pd.DataFrame) -> Iterator[str]:
    in_log, by_batches = _end_by_partition(log_ends), _end_by_partition(batches)
    for partition in sorted({*in_log, *by_batches}):
        if partition not in ends:
            yield f"partition {partition} holds records and the final read has no end offset of it"
            continue
        end, last = ends[partition], in_log.get(partition, 0)
        if last > end:
            yield f"partition {partition}: a record at offset {last - 1}, its end offset is {end}"
        if by_batches and by_batches.get(partition) != end:
            told = by_batches.get(partition, "nowhere")
            yield f"partition {partition}: its batches end at {told}, its end offset is {end}"


def _end_by_partition(frame: pd.DataFrame) -> dict[int, int]:
    """One past the highest offset of each partition; a frame without rows has no columns either."""
    ends: dict[int, int] = {}
    if len(frame):
        for partition, end in zip(frame["partition"], frame["end_offset"], strict=True):
            ends[int(partition)] = max(int(end), ends.get(int(partition), 0))
    return ends


def _amounts(final_read: FinalReadRecord, log_ends: pd.DataFrame, batches: pd.DataFrame) -> Iterator[str]:
    foreign, read = final_read.foreign, final_read.records
    in_log = int(log_ends["records"].sum()) if len(log_ends) else 0
    expected = in_log + (foreign or 0) + (final_read.uncommitted or 0)
    if read is not None and read != expected:
        yield f"the final read found {read} records, log and foreign ones are {expected}"
    in_batches = int(batches["records"].sum()) if len(batches) else expected
    if foreign is not None and in_batches != expected:
        yield f"the batches have {in_batches} records, log and foreign ones are {expected}"
