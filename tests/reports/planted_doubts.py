"""Plants on what streams say about one another: answers, ends, counts, partitions that nobody read, unknown records.

Some are anomalies; others make the run log contradict itself, and the cell inconclusive (`Case.doubts`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from runlog.streams.schema import SendStatus

if TYPE_CHECKING:
    from tests.reports.planted_case import Case

CONTRADICTS, UNREAD = "run log agrees with itself", "all partitions delivered"
FAR_AWAY = 90_000  # offsets
VERY_LATE_US = 460_000_000  # after all sends
NO_PARTITION = 40
UNREAD_PARTITION = 30


# --- anomalies --------------------------------------------------------------------------------------------------------


def ack_behind_the_end(case: Case) -> None:
    """The last answer of all, so that no later record is at an offset from the past."""
    record = case.take()
    record.acked_offset, record.acked_us = record.offset + FAR_AWAY + len(case.plants), VERY_LATE_US
    case.note("ack_misplaced", record)


def ack_of_no_partition(case: Case) -> None:
    record = case.take()
    record.acked_partition = NO_PARTITION + len(case.plants)
    case.note("misrouted", record)


def answered_twice(case: Case) -> None:
    """Acknowledged again, or failed or unknown after all."""
    record = case.take()
    status = case.rng.choice((SendStatus.ACKED, SendStatus.FAILED, SendStatus.UNKNOWN))
    case.more_answers.append((record, int(status), record.acked_us + 300))
    case.note("answered_twice", record)


def head_passed_over(case: Case) -> None:
    """The first records of a partition never come; once a case."""
    if case.truth["lost_in_delivery"]:
        return
    for record in case.records[case.rng.choice(sorted(case.whole))][: case.rng.randint(1, 3)]:
        record.delivered = False
        case.note("lost_in_delivery", record)


def unread(case: Case) -> None:
    """A partition of which one reader gets nothing, another one all."""
    partition = UNREAD_PARTITION + len(case.plants)
    model = case.free[0]  # no other plant has changed it
    case.records[partition] = [
        replace(model, producer=partition, incarnation=0, partition=partition, seq=offset, offset=offset,
                delivered=False)
        for offset in range(case.rng.randint(1, 5))
    ]  # fmt: skip
    case.note("unread", *case.records[partition])
    case.doubts.add(UNREAD)


def foreign(case: Case) -> None:
    if case.batches or case.foreign or case.wrong_end:
        return  # a wrong count of records is another plant's, and two checks would tell of it
    case.foreign = case.rng.randint(1, 9)
    case.counts["foreign"] = case.foreign


def unreadable_batch(case: Case) -> None:
    """A batch with a wrong CRC of which the log has no row."""
    if case.counts["corrupt"]:
        return
    case.corrupt_batches.append("partition 0: offsets 500 to 509")
    case.counts["corrupt"] += 1


# --- contradictions ---------------------------------------------------------------------------------------------------


def row_twice(case: Case) -> None:
    """The same answer, written down twice."""
    record = case.take()
    case.more_answers.append((record, int(record.status), record.acked_us))
    case.doubts.add(CONTRADICTS)


def two_at_one_offset(case: Case) -> None:
    """The final read has one record twice at its offset: no duplicate, but no log either."""
    record = case.take()
    case.copies.append((record, record.offset))
    case.doubts.add(CONTRADICTS)


def due_outside(case: Case) -> None:
    record = case.take()
    record.intended_us = case.rng.choice((-5_000_000, 2**50))
    case.doubts.add(CONTRADICTS)


def _wrong_end(case: Case, how: str) -> None:
    if not case.batches and not case.wrong_end and not case.foreign:
        case.wrong_end = how
        case.doubts.add(CONTRADICTS)


def end_too_low(case: Case) -> None:
    _wrong_end(case, "low")


def no_end(case: Case) -> None:
    _wrong_end(case, "absent")


def records_miscounted(case: Case) -> None:
    _wrong_end(case, "count")


PLANTS: tuple[Callable[[Case], None], ...] = (
    ack_behind_the_end, ack_of_no_partition, answered_twice, head_passed_over, unread, foreign, unreadable_batch,
    row_twice, two_at_one_offset, due_outside, end_too_low, no_end, records_miscounted,
)  # fmt: skip
