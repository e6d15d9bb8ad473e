"""Plants on single records: what became of each on its way to the log and to its readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runlog.streams.schema import SendStatus
from tests.reports.planted_case import (
    ACK_AFTER_US,
    FAR_OFFSET,
    LATE_US,
    PARTITIONS_OF_TOPIC,
    STEP_US,
    Case,
    Record,
)

LATE_PRODUCERS = 500  # from here on; 100 and on are those of partitions that groups have for themselves


def lost(case: Case) -> None:
    record = case.take()
    record.in_log = record.delivered = False
    record.acked_offset = record.offset
    case.note("lost", record)


def removed(case: Case) -> None:
    """Retention deletes segments at the front of a partition, sometimes one more than it may: that one is lost."""
    partitions = sorted(case.whole - set(case.starts))
    if not partitions:
        return
    partition = case.rng.choice(partitions)
    row = case.records[partition]
    lawful, beyond = case.rng.choice(((1, 0), (2, 0), (3, 0), (1, 1), (1, 2), (2, 1)))  # plants begin at the fifth
    start = row[lawful + beyond].offset
    expired = [[row[lawful].offset, 5]] + ([[start, 0]] if beyond else [])
    case.config |= {"retention.bytes": "1", "retention.ms": "-1"}
    case.event("log_start_advance", LATE_US, broker=1, partition=partition, cause="retention", from_offset=0,
               log_start_offset=start, expired=expired)  # fmt: skip
    case.starts[partition] = start
    for record in row[: lawful + beyond]:
        record.in_log, record.acked_offset = False, record.offset
        record.delivered = case.rng.random() < 0.5
    case.note("removed", *row[:lawful])
    case.note("lost", *row[lawful : lawful + beyond])
    for record in row[lawful : lawful + beyond]:
        if record.delivered:
            case.note("read_above_hw", record)


def removed_in_doubt(case: Case) -> None:
    """Nobody was told an offset of the second record, so it may have been there, and deleted with the first ones."""
    removed(case)
    if case.starts and case.free:
        lost_unacked(case)


def lost_unacked(case: Case) -> None:
    """As with acks=0: the client let go of it, and nobody said that it arrived."""
    record = case.take()
    record.status, record.acked_offset, record.is_let_go = SendStatus.UNKNOWN, -1, True
    record.in_log = record.delivered = False
    case.note("lost_unacked", record)


def recovered(case: Case) -> None:
    record = case.take()
    record.status, record.acked_offset = SendStatus.UNKNOWN, -1
    case.note("recovered", record)


def phantom(case: Case) -> None:
    record = case.take()
    record.status, record.acked_offset = SendStatus.FAILED, -1
    case.note("phantom", record)


def in_wrong_partition(case: Case) -> None:
    """The client names another partition than the one where the record is, with or without an acknowledgement. The
    offset that it names there is another record's, of long after."""
    record = case.take()
    other = case.rng.choice(sorted(case.records))
    record.acked_partition = other if other != record.partition else other + 1
    record.acked_offset = record.offset if case.rng.random() < 0.5 else case.tail_offset(record.partition)
    if case.rng.random() < 0.5:
        record.status = case.rng.choice((SendStatus.FAILED, SendStatus.UNKNOWN))
    if record.status == SendStatus.FAILED:
        case.note("phantom", record)
    case.note("misrouted", record)


def in_two_partitions(case: Case) -> None:
    """Nobody named a partition, and the record is in two: that is no repetition. The other one is not that of
    `unseen_pending`: who reads the copy at its end has passed over the records before it."""
    read_to_the_end = {partition for partition in case.whole if case.records[partition][-1].delivered}
    others = sorted(read_to_the_end - {case.free[-1].partition})
    if not others:
        return
    record = case.take()
    record.acked_partition, record.acked_offset, record.status = -1, -1, SendStatus.UNKNOWN
    copy = replace(record, partition=case.rng.choice(others), offset=-1)
    offset = case.tail_offset(copy.partition)
    case.copies.append((copy, offset))
    case.late_polls.append((copy, offset))
    case.note("misrouted", record)


def in_wrong_topic(case: Case) -> None:
    """All partitions are those of the first of two topics, and so are all records but a few. Their client said that
    they were in the other one, or nothing. The only plant of its case, because it numbers all records anew."""
    case.topics = 2
    for row in case.records.values():
        for record in row:
            record.seq = 2 * record.seq + record.producer % 2
    for _ in range(case.rng.randint(1, 5)):
        record = case.take()
        record.seq += 1
        if case.rng.random() < 0.5:
            record.acked_partition = PARTITIONS_OF_TOPIC + record.partition
        else:
            record.status, record.acked_partition, record.acked_offset = SendStatus.UNKNOWN, -1, -1
        case.note("misrouted", record)


def failed_and_absent(case: Case) -> None:
    """Nothing is wrong with a failure that is none."""
    record = case.take()
    record.status, record.acked_offset = case.rng.choice((SendStatus.FAILED, SendStatus.UNKNOWN)), -1
    record.in_log = record.delivered = False


def unexpected(case: Case) -> None:
    record = case.take()
    record.is_sent = False
    case.note("unexpected", record)


def corrupt(case: Case) -> None:
    record = case.take()
    record.log_crc_ok = 0
    case.note("corrupt", record)


def duplicated(case: Case) -> None:
    record = case.take()
    for _ in range(case.rng.randint(1, 2)):
        offset = case.tail_offset(record.partition)
        case.copies.append((record, offset))
        case.late_polls.append((record, offset))
    case.note("duplicated", record)


def reordered(case: Case) -> None:
    """Neighbours of one producer and partition change places in the log; the earlier one is late."""
    record = case.take()
    after = case.neighbour(record)
    record.offset, after.offset = after.offset, record.offset
    row = case.records[record.partition]
    place = row.index(record)
    row[place], row[place + 1] = after, record
    record.acked_us = after.acked_us = max(record.acked_us, after.acked_us) + STEP_US
    case.note("reordered", record)


def offset_reused(case: Case) -> None:
    """Two acknowledgements tell each other's offset."""
    record = case.take()
    after = case.neighbour(record)
    record.acked_offset, after.acked_offset = after.offset, record.offset
    record.acked_us = after.acked_us = max(record.acked_us, after.acked_us) + STEP_US
    case.note("offset_reused", record, after)


def send_realtime_violation(case: Case) -> None:
    """A producer of its own, whose one record is sent last and found where the place of another one had been."""
    record = case.take()
    row = case.records[record.partition]
    late = Record(
        producer=LATE_PRODUCERS + len(case.plants),
        seq=0,
        partition=record.partition,
        offset=record.offset,
        sent_us=LATE_US,
        acked_us=LATE_US + ACK_AFTER_US,
    )
    row[row.index(record)] = late  # the record itself was never sent: a hole in the sequence is no damage
    case.note("send_realtime_violation", late)


def dup_delivered(case: Case) -> None:
    record = case.take()
    case.late_polls.append((record, record.offset))
    case.note("dup_delivered", record)
    case.note("redelivered", record)
    case.note("nonmonotonic_poll", record)


def lost_in_delivery(case: Case) -> None:
    record = case.take()
    record.delivered = False
    case.note("lost_in_delivery", record)
    case.note("poll_skip", record)


def poll_skip(case: Case) -> None:
    """It comes after all, but late."""
    record = case.take()
    record.delivered = False
    case.late_polls.append((record, record.offset))
    case.note("poll_skip", record)
    case.note("nonmonotonic_poll", record)


def read_above_hw(case: Case) -> None:
    """The consumer got a record that is gone from the log; nobody was told that it was safe."""
    record = case.take()
    record.status, record.acked_offset = SendStatus.UNKNOWN, -1
    record.in_log = False
    case.note("read_above_hw", record)


def acked_below_min_isr(case: Case) -> None:
    record = case.take_with_epochs("acked_below_min_isr")
    if record is None:
        return
    where = {"partition": record.partition, "leader_epoch": 1}
    case.event("isr_changed", record.sent_us + 100, broker=1, isr=[1], **where)
    case.event("appended", record.sent_us + 200, broker=1, base_offset=record.offset, last_offset=record.offset,
               producer_id=-1, producer_epoch=-1, crc=record.offset, client_id="p", **where)  # fmt: skip
    case.event("isr_changed", record.acked_us + 500, broker=1, isr=[1, 2, 3], **where)
    case.note("acked_below_min_isr", record)


def two_leaders_ack(case: Case) -> None:
    """In a partition of its own kind of epochs: the newer leader appended far behind, then the older one here."""
    record = case.take_with_epochs("two_leaders_ack")
    if record is None:
        return
    far = FAR_OFFSET + record.offset
    common = {"partition": record.partition, "producer_id": -1, "producer_epoch": -1, "client_id": "p"}
    case.event("appended", record.sent_us + 50, broker=2, leader_epoch=1000 + record.offset, base_offset=far,
               last_offset=far, crc=far, **common)  # fmt: skip
    case.event("appended", record.sent_us + 60, broker=1, leader_epoch=0, base_offset=record.offset,
               last_offset=record.offset, crc=record.offset, **common)  # fmt: skip
    case.note("two_leaders_ack", record)


def unseen_pending(case: Case) -> None:
    """The tail of one partition is not delivered; only once a case, and before copies and late polls are planted."""
    if case.plants or case.truth["unseen_pending"]:
        return
    partition = case.rng.choice(sorted(case.whole))
    for record in case.records[partition][-case.rng.randint(1, 4) :]:
        record.delivered = False
        case.note("unseen_pending", record)
    case.free = [record for record in case.free if record.partition != partition]


PLANTS: tuple[Callable[[Case], None], ...] = (
    lost, lost_unacked, removed, removed_in_doubt, recovered, phantom, in_wrong_partition, in_two_partitions,
    in_wrong_topic, failed_and_absent, unexpected, corrupt,
    duplicated, reordered, offset_reused, send_realtime_violation, dup_delivered, lost_in_delivery, poll_skip,
    read_above_hw, acked_below_min_isr, two_leaders_ack, unseen_pending,
)  # fmt: skip
