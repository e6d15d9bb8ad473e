"""The holes in the evidence of a cell: those that the harness wrote down, and those that its record shows. Pure.

Holes in files are found by `completeness.py`. Notes of runs older than the record of holes are told apart here. A note
that is not known is a hole that may be anywhere. Shown by tests/reports/test_reports_holes.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from reports.read.cell import Cell
from runlog.records.cell import CellStatus
from runlog.records.holes import Hole, HoleKind
from runlog.records.hosts import HostState, LoadHostRecord

# What older versions wrote as a note. None: nothing is missing for it.
_OLD_NOTES: Final[tuple[tuple[re.Pattern[str], HoleKind | None], ...]] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"attempt \d+ was put aside: ", None),
        (r"fault host \S+ recorded [\d,]+ batches on ", None),
        (r"(group|topic) .+ (stays: |could not be deleted: )", None),
        (r"log of broker \d+, .+ (could not be read|was not read): ", HoleKind.DEAD_LOGS),
        (r"\S+: no leader told where the epochs end$", HoleKind.DEAD_LOGS),
        (r"\S+: no leader told where epoch \d+ ends$", HoleKind.DEPOSED_LEADERS),
        (r"the replicas could not be compared: ", HoleKind.REPLICAS),
        (r"the cell's files could not be listed: ", HoleKind.CELL_FILE),
    )
)


def told_holes(cell: Cell) -> tuple[Hole, ...]:
    """Holes that the cell's own record tells of."""
    outcome = cell.record.outcome
    noted = outcome.holes if outcome.holes is not None else tuple(_of_old_notes(outcome.notes))
    return (*noted, *_of_load_hosts(outcome.load_hosts), *_of_final_read(cell))


def _of_old_notes(notes: tuple[str, ...]) -> Iterator[Hole]:
    for note in notes:
        kind = next((kind for pattern, kind in _OLD_NOTES if pattern.match(note)), HoleKind.UNKNOWN)
        if kind is not None:
            yield Hole(kind=kind, what=note)


def _of_load_hosts(hosts: tuple[LoadHostRecord, ...]) -> Iterator[Hole]:
    """A host that died has not written down what it did last. This stays so if the rest is gathered later."""
    for host in hosts:
        if host.state is not HostState.DEAD and (host.is_gathered or not (host.producers or host.consumers)):
            continue
        missing = "the end of its run log may be missing" if host.is_gathered else "its run log was not gathered"
        yield Hole(
            kind=HoleKind.LOAD_HOST,
            what=f"{missing}: {host.reason}" if host.reason else missing,
            where=f"load host {host.name}",
            producers=host.producers,
        )


def _of_final_read(cell: Cell) -> Iterator[Hole]:
    if cell.record.outcome.status is CellStatus.ABSENT:
        yield Hole(kind=HoleKind.CELL_FILE, what=cell.record.outcome.reason)
    elif not cell.is_read_to_end:
        why = cell.record.outcome.final_read.reason or "it is not recorded as complete"
        yield Hole(kind=HoleKind.FINAL_READ, what=f"the log was not read to its end: {why}")
