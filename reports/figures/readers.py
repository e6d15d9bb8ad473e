"""The end-to-end latencies of a cell's reader groups beside each other, if it has several. Pure.

Shown by tests/reports/test_reports_readers.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from reports.read.model import CellFacts, Latency
from runlog.records.workload import TOPIC


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRow:
    name: str
    consumers: int
    settings: str  # what the group sets for itself; all of the cell's clients have the rest
    latency: Latency  # end to end


def reader_rows(facts: CellFacts) -> tuple[ReaderRow, ...]:
    """Groups that read the load's topic, in the workload's order. None if there is only one: its figures are those of
    the cell."""
    rows = tuple(
        ReaderRow(
            name=reader.name or str(number),
            consumers=reader.consumers,
            settings=" ".join(f"{name}={value}" for name, value in reader.properties.items()),
            latency=facts.reader_latency[number],
        )
        for number, reader in enumerate(facts.cell.record.workload.reader_groups)
        if number in facts.reader_latency and reader.reads == TOPIC
    )
    return rows if len(rows) > 1 else ()
