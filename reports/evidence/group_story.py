"""The part of a record's story that groups and copiers wrote: commits past it, who owned its partition, its copies.

It is read from `history.jsonl`, the faults on clients and the stream `copies`. Pure. Shown by
tests/reports/test_reports_group_story.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from reports.read.cell import Cell
from reports.read.model import Story
from runlog.records.fault import FaultPhase
from runlog.records.history import OffsetCommitted, Position, TransactionEnded

DELIVERY_STORIES: Final = ("lost_in_delivery", "redelivered_overdue", "copy_missing", "copied_twice", "torn_txn")
_OUTCOMES: Final = {1: "committed", 0: "aborted", -1: "open to the end"}
_ENDED: Final = {
    "client_kill": "killed (SIGKILL)",
    "client_leave": "told to leave",
    "client_pause": "frozen (SIGSTOP)",
    "client_twin": "given a rival with its transactional.id",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStep:
    t_us: int | None
    what: str
    detail: str
    bad: bool = False


def group_steps(cell: Cell, story: Story) -> list[GroupStep]:
    """Empty for cells without member processes."""
    steps: list[GroupStep] = []
    for row in story.log:
        steps += _of_offset(cell, story, row.partition, row.offset)
    return [*steps, *_copies(cell, story)]


def _of_offset(cell: Cell, story: Story, partition: int, offset: int) -> list[GroupStep]:
    of_partition = [
        line
        for line in cell.history_lines
        if isinstance(line, OffsetCommitted | Position) and line.partition == partition
    ]
    past = next((line for line in of_partition if isinstance(line, OffsetCommitted) and line.offset > offset), None)
    if past is None:
        return []
    steps = [
        GroupStep(
            t_us=past.t_us,
            what="committed",
            detail=f"{past.member} told the group that partition {partition} is done up to offset {past.offset - 1}",
            bad=story.kind == "lost_in_delivery",
        )
    ]
    begun = next(
        (
            line
            for line in of_partition
            if isinstance(line, Position) and line.t_us > past.t_us and line.member != past.member
        ),
        None,
    )
    until_us = past.t_us
    if begun is not None and (story.kind in DELIVERY_STORIES or begun.offset <= offset):
        detail = f"{begun.member} goes on in partition {partition} at offset {begun.offset}"
        steps.append(GroupStep(t_us=begun.t_us, what="next owner", detail=detail))
        until_us = begun.t_us
    return [*steps, *_faults(cell, story, until_us)]


def _faults(cell: Cell, story: Story, until_us: int) -> list[GroupStep]:
    """Faults on clients, from when the record was due to when a reader went on behind it."""
    since_us = min((row.intended_us for row in story.send), default=0)
    return [
        GroupStep(
            t_us=line.t_us,
            what="fault",
            detail=f"{', '.join(line.resolved)} is {_ENDED[line.kind]}",
            bad=True,
        )
        for line in cell.fault_lines
        if line.phase is FaultPhase.APPLIED and line.kind in _ENDED and since_us <= line.t_us <= until_us
    ]


def _copies(cell: Cell, story: Story) -> list[GroupStep]:
    known = {
        (line.copier, line.incarnation, line.number): line
        for line in cell.history_lines
        if isinstance(line, TransactionEnded)
    }
    steps: list[GroupStep] = []
    for row in story.copies:
        told = known.get((row.copier, row.copier_incarnation, row.txn))
        outcome = _OUTCOMES.get(row.outcome, "?")
        detail = f"at partition {row.partition} offset {row.offset} of the copiers' topic by consumer {row.copier}, "
        detail += f"start {row.copier_incarnation}, transaction {row.txn}: {outcome} in the log"
        if told is not None:
            detail += f", {told.outcome} as the copier was told"
            detail += f" ({told.reason})" if told.reason else ""
        steps.append(
            GroupStep(
                t_us=None if told is None else told.asked_us,
                what="copied" if row.outcome == 1 else "not copied",
                detail=detail,
                bad=row.outcome != 1,
            )
        )
    return steps


def final_step(story: Story) -> GroupStep | None:
    """The end of the story for damage in delivery; None for all other damage."""
    texts = {
        "lost_in_delivery": ("passed over", "it is in the log, and no member of the group was ever given it"),
        "redelivered_overdue": ("given again", "its offset should have been committed by then"),
        "copy_missing": ("not copied", "it is in the log, and no committed copy of it is in the copiers' topic"),
        "copied_twice": ("copied twice", "the copiers' topic holds two committed copies of it"),
        "torn_txn": ("torn", "one transaction is committed in part"),
    }
    if story.kind not in texts:
        return None
    what, detail = texts[story.kind]
    return GroupStep(t_us=None, what=what, detail=detail, bad=True)
