"""Plants on groups whose members are processes, and on copiers: rows of further readers, copies and their audit.

A case gets copies of all its records as soon as one of these plants wants copies; each plant then changes its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.reports.planted_case import Case, Record

START_US = 1_000_000
COPIED_AT_US = 500_000_000  # the audit comes after all else
RECORDS_PER_TRANSACTION = 4
COPIER = 9
UNKNOWN_PRODUCERS = 900  # from here on: whose records nobody sent
OWN_TRANSACTIONS = 10_000  # numbers of transactions that a plant makes
FIRST_SPARE_PARTITION = 100
GROUP_READER = 1
SECOND_READER = 2
AUDITOR = 4
READERS = [
    {"name": "tail", "consumers": 1},
    {"name": "app", "consumers": 2, "own_processes": True, "properties": {"auto.commit.interval.ms": "1000"},
     "start": "latest"},
    {"name": "second", "consumers": 2},
    {"name": "copier", "consumers": 1, "own_processes": True, "copies": True},
    {"name": "audit", "consumers": 1, "own_processes": True, "reads": "copies"},
]  # fmt: skip
OFFSETS_PER_COPY = 2  # markers take offsets too: nothing is to be found in between
COPIES_PER_POLL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A copy beside the regular ones. `outcome`: 1 committed, 0 aborted."""

    record: Record
    txn: int
    outcome: int

    @property
    def is_audited(self) -> bool:
        """read_committed readers get what is committed; what a plant has them get beside that, it says."""
        return self.outcome == 1


# --- groups -----------------------------------------------------------------------------------------------------------


def _two_records(case: Case) -> list[Record]:
    """Of a partition of their own, which no other reader has."""
    partition = FIRST_SPARE_PARTITION + len(case.records)
    model = case.records[0][0]
    row = [
        replace(
            model,
            producer=partition,
            incarnation=0,
            partition=partition,
            seq=offset,
            offset=offset,
            delivered=True,
            in_log=True,
            acked_offset=None,
        )
        for offset in range(2)
    ]
    case.records[partition] = row
    return row


def _to_a_group(case: Case, second_at_us: int) -> Record:
    """Two records, given to consumer 1 at once and after `second_at_us`; then the first one again to consumer 2."""
    first, second = _two_records(case)
    case.group_polls += [(first, 1, START_US), (second, 1, START_US + second_at_us)]
    case.group_polls.append((first, 2, START_US + second_at_us + 100_000))
    case.note("redelivered", first)
    return first


def redelivered(case: Case) -> None:
    """Within the commit interval: lawful."""
    _to_a_group(case, 900_000)


def redelivered_overdue(case: Case) -> None:
    case.note("redelivered_overdue", _to_a_group(case, 3_100_000))


def reread_after_a_pause(case: Case) -> None:
    """A member that was frozen before it could commit gets the same again, in two polls: nothing was due."""
    first, second = _two_records(case)
    for since_us in (0, 4_000_000):
        case.group_polls += [(first, 1, START_US + since_us), (second, 1, START_US + since_us + 100_000)]
    case.note("redelivered", first, second)
    case.note("dup_delivered", first, second)
    case.note("nonmonotonic_poll", first)


# --- copies -----------------------------------------------------------------------------------------------------------


def _own(record: Record) -> int:
    """The number of a transaction that this record's plant has for itself."""
    return OWN_TRANSACTIONS + record.partition * 1_000 + record.seq


def copy_missing(case: Case) -> None:
    record = case.take()
    case.wants_copies = True
    case.uncopied.add(record.identity)
    case.note("copy_missing", record)


def copied_twice(case: Case) -> None:
    record = case.take()
    case.wants_copies = True
    case.more_copies.append(Copy(record=record, txn=_own(record), outcome=1))
    case.note("copied_twice", record)


def copy_reordered(case: Case) -> None:
    """Copied after all the others."""
    record = case.take()
    case.wants_copies = True
    case.uncopied.add(record.identity)
    case.more_copies.append(Copy(record=record, txn=_own(record), outcome=1))
    case.note("copy_reordered", record)


def aborted_read(case: Case) -> None:
    record = case.take()
    case.wants_copies = True
    case.more_copies.append(Copy(record=record, txn=_own(record), outcome=0))
    case.read_aborted.add(record.identity)
    case.note("aborted_read", record)


def aborted(case: Case) -> None:
    """Nothing is wrong with an aborted attempt that nobody was given."""
    record = case.take()
    case.wants_copies = True
    txn = _own(record)
    case.more_copies.append(Copy(record=record, txn=txn, outcome=0))
    case.history.append(_transaction(txn, "aborted", 1))


def precommitted_read(case: Case) -> None:
    """Its copier says that it asked for the commit after the audit had the copy."""
    record = case.take()
    case.wants_copies = True
    case.own_transaction[record.identity] = txn = _own(record)
    case.history.append(_transaction(txn, "committed", COPIED_AT_US * 3))
    case.note("precommitted_read", record)


def copy_passed_over(case: Case) -> None:
    """The reader of copies gets a part of a transaction: what comes before and after it, and not this one."""
    record = case.take()
    case.wants_copies = True
    case.unaudited.add(record.identity)
    case.note("copy_passed_over", record)


def copy_delivered_twice(case: Case) -> None:
    record = case.take()
    case.wants_copies = True
    case.audited_again.add(record.identity)
    case.note("copy_delivered_twice", record)


def copy_gone(case: Case) -> None:
    """The reader gets it once more, at an offset that holds nothing."""
    record = case.take()
    case.wants_copies = True
    case.audited_beside.add(record.identity)
    case.note("copy_gone", record)


def copy_corrupt(case: Case) -> None:
    record = case.take()
    case.wants_copies = True
    case.corrupt_copies.add(record.identity)
    case.note("copy_corrupt", record)


def copy_unexpected(case: Case) -> None:
    record = replace(case.take(), producer=UNKNOWN_PRODUCERS + len(case.plants))
    case.wants_copies = True
    case.more_copies.append(Copy(record=record, txn=_own(record), outcome=1))
    case.note("copy_unexpected", record)


def torn_txn(case: Case) -> None:
    """One transaction with a committed copy of one record and an aborted one of the next, which is copied again."""
    record = case.take()
    case.wants_copies = True
    case.own_transaction[record.identity] = txn = _own(record)
    after = case.neighbour(record)
    case.more_copies.append(Copy(record=after, txn=txn, outcome=0))
    case.note("torn_txn", after)


def committed(case: Case) -> None:
    """Nothing is wrong with a transaction that its copier knows to be committed, and that is."""
    record = case.take()
    case.wants_copies = True
    case.own_transaction[record.identity] = txn = _own(record)
    case.history.append(_transaction(txn, "committed", 1))


def _transaction(txn: int, outcome: str, asked_us: int) -> dict[str, Any]:
    return {"t_us": asked_us, "kind": "transaction", "copier": COPIER, "incarnation": 0, "number": txn,
            "outcome": outcome, "asked_us": asked_us}  # fmt: skip


PLANTS: tuple[Callable[[Case], None], ...] = (
    redelivered, redelivered_overdue, reread_after_a_pause, copy_missing, copied_twice, copy_reordered, aborted_read,
    aborted, precommitted_read, torn_txn, committed, copy_passed_over, copy_delivered_twice, copy_gone, copy_corrupt,
    copy_unexpected,
)  # fmt: skip


# --- rows -------------------------------------------------------------------------------------------------------------


# It begins at the end of the log, so it is judged by what it was given alone.
SHARE_READER: dict[str, Any] = {"name": "queue", "mode": "share", "own_processes": True, "start": "latest"}


def readers_of(case: Case) -> list[dict[str, Any]]:
    """Of cell.json's workload; the copiers only where there are copies."""
    readers = READERS if case.wants_copies else READERS[:-2]
    return [*readers, SHARE_READER] if case.has_share_group else readers


def group_rows(case: Case) -> list[dict[str, int]]:
    return [
        _identity(record) | {
            "consumer": consumer, "generation": 1, "partition": record.partition, "offset": record.offset,
            "intended_us": record.sent_us, "polled_us": polled_us, "crc_ok": 1, "reader": GROUP_READER}
        for record, consumer, polled_us in case.group_polls
    ]  # fmt: skip


def copy_rows(case: Case) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """Rows of `copies` and of `audit`."""
    copies: list[dict[str, int]] = []
    audit: list[dict[str, int]] = []
    if not case.wants_copies:
        return copies, audit
    ends: dict[int, int] = {}

    def add(record: Record, txn: int, outcome: int) -> int:
        offset = ends.get(record.partition, 0)
        ends[record.partition] = offset + OFFSETS_PER_COPY
        crc_ok = int(record.identity not in case.corrupt_copies)
        where = _identity(record) | {"partition": record.partition, "offset": offset, "crc_ok": crc_ok}
        copies.append(where | {"copier": COPIER, "copier_incarnation": 0, "txn": txn, "outcome": outcome})
        return offset

    def deliver(record: Record, offset: int) -> None:
        polled_us = COPIED_AT_US + len(audit) // COPIES_PER_POLL * 1_000
        audit.append(_identity(record) | {"partition": record.partition, "offset": offset, "crc_ok": 1, "consumer": 0,
                                          "intended_us": record.sent_us, "polled_us": polled_us, "generation": 1,
                                          "reader": AUDITOR})  # fmt: skip

    for partition, row in case.records.items():
        for number, record in enumerate(sorted(row, key=lambda record: (record.producer, record.seq))):
            if record.in_log and record.identity not in case.uncopied:
                regular = partition * 1_000 + number // RECORDS_PER_TRANSACTION
                offset = add(record, case.own_transaction.get(record.identity, regular), 1)
                if record.identity not in case.unaudited:
                    deliver(record, offset)
                if record.identity in case.audited_again:
                    deliver(record, offset)
                if record.identity in case.audited_beside:
                    deliver(record, offset + 1)
    for copy in case.more_copies:
        offset = add(copy.record, copy.txn, copy.outcome)
        if copy.is_audited or copy.record.identity in case.read_aborted:
            deliver(copy.record, offset)
    return copies, audit


def _identity(record: Record) -> dict[str, int]:
    return {"producer": record.producer, "incarnation": record.incarnation, "seq": record.seq}
