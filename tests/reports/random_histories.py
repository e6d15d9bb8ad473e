"""Small histories in which anything may be wrong, drawn from a seed.

They have batches and polls of many records, several producers, incarnations, readers and consumers in a partition,
holes, offsets up to 2^40, copies, and two records at one offset.

Sequences, offsets and consumers are drawn from few values, so that rows often have the same ones. So some hundred
histories are enough to meet errors that cancel out in pairs, or rows that are folded together by mistake.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.reports.naive_rules import (
    ABORTED,
    ACKED,
    FAILED,
    UNKNOWN,
    Copy,
    Gone,
    History,
    Identity,
    Range,
    Received,
    Send,
    Stored,
    Told,
)

OFFSET_MAX = 1 << 40
BASES = (0, 1, 60, 1 << 20, OFFSET_MAX - 500)
JUMPS = (1, 2, 3, 64, 70, 1 << 30)
STEP_US = 4_000


def random_history(seed: int) -> History:
    rng = random.Random(seed)
    history = History(limits={1: rng.choice((0, STEP_US * 3))} if rng.random() < 0.5 else {})
    for partition in range(rng.choice((1, 1, 2, 3))):
        _write(rng, history, partition)
    _answer(rng, history)
    for reader in range(rng.choice((1, 1, 2))):
        _read(rng, history, reader)
    history.early = {reader: rng.choice((1, 2, 9)) for reader in range(5) if rng.random() < 0.5}
    _damage(rng, history)
    if rng.random() < 0.15:
        history.topics = rng.choice(((2, 1), (2, 2), (3, 1)))
    if rng.random() < 0.4:
        _transact(rng, history)
    if rng.random() < 0.4:
        _copy(rng, history)
    for _ in range(rng.choice((0, 0, 1, 3))):
        history.ranges.append(_range(rng, history))
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        history.removals.append(_removal(rng, history))
    if any(item.needs_newer for item in history.removals):
        _give_keys(rng, history)
    if rng.random() < 0.4:
        _spread(rng, history)
    for rows in (history.send, history.log, history.uncommitted, history.recv, history.copies, history.audit):
        rng.shuffle(rows)  # files hold rows in any order
    return history


def _spread(rng: random.Random, history: History) -> None:
    """Producers on three load hosts, whose clocks are off by what their bounds allow, or by more."""
    skews_us = [rng.choice((0, 0, 5 * STEP_US, 10 * STEP_US)) for _ in range(3)]
    errors_us = [rng.choice((0, 5 * STEP_US, 10 * STEP_US, None)) for _ in range(3)]
    for producer in sorted({send.identity[0] for send in history.send}):
        host = rng.randrange(3)
        history.clocks[producer] = (host, errors_us[host])
    for number, send in enumerate(history.send):
        skew_us = skews_us[history.clocks[send.identity[0]][0]]
        if send.sent_us >= 0:
            history.send[number] = replace(send, sent_us=send.sent_us + skew_us, acked_us=send.acked_us + skew_us)


def _write(rng: random.Random, history: History, partition: int) -> None:
    """Batches of several producers; a producer's sequences grow over all partitions."""
    next_seq: dict[tuple[int, int], int] = {}
    for stored in history.log:
        producer, incarnation, seq = stored.identity
        next_seq[producer, incarnation] = max(seq + 1, next_seq.get((producer, incarnation), 0))
    offset = rng.choice(BASES)
    for _ in range(rng.randint(1, 8)):
        who = rng.choice(((0, 0), (0, 0), (0, 1), (1, 0), (2, 0)))
        seq = next_seq.get(who, rng.choice((0, 60)))
        for _ in range(rng.choice((1, 1, 3, 10))):
            history.log.append(Stored((*who, seq), partition, offset))
            seq += 1
            offset += 1
        next_seq[who] = seq
        if rng.random() < 0.2:
            offset += rng.choice(JUMPS)


def _answer(rng: random.Random, history: History) -> None:
    for number, stored in enumerate(history.log):
        sent_us = number * STEP_US
        acked_us = sent_us + rng.choice((1_000, 5_000, 40_000))
        status = rng.choices((ACKED, FAILED, UNKNOWN), weights=(30, 1, 1))[0]
        offset = stored.offset if status == ACKED else -1
        error = 0 if status == ACKED else rng.choice((0, 7))
        history.send.append(Send(stored.identity, stored.partition, status, offset, sent_us, acked_us, error))


def _read(rng: random.Random, history: History, reader: int) -> None:
    """Polls of many records by one or two consumers, in order; some begin late, end early or have a number again."""
    polled_us = 1_000
    for partition in sorted({stored.partition for stored in history.log}):
        row = sorted((stored for stored in history.log if stored.partition == partition), key=lambda item: item.offset)
        row = row[rng.choice((0, 0, 0, 2)) : len(row) - rng.choice((0, 0, 0, 3))]
        consumer = reader * 2
        while row:
            size = rng.choice((1, 4, 30))
            if rng.random() < 0.2:
                consumer = rng.choice((reader * 2, reader * 2 + 1, 0))
            number = None if reader == 0 and rng.random() < 0.3 else reader
            polled_us += rng.choice((0, STEP_US, STEP_US, STEP_US * 2))
            for stored in row[:size]:
                history.recv.append(
                    Received(stored.identity, partition, stored.offset, consumer, number, polled_us, stored.crc_ok)
                )
            row = row[size:] if rng.random() > 0.1 else row[max(0, size - 2) :] if size > 2 else row[size:]


def _transact(rng: random.Random, history: History) -> None:
    """Sends of a producer in a row have one outcome and one time, or nearly so. Some records are not committed, as they
    were to be or not, and some read_committed readers got them all the same, or too early."""
    history.is_transactional = rng.random() < 0.9
    history.committed_readers = {reader for reader in range(2) if rng.random() < 0.6}
    numbers: dict[tuple[int, int], int] = {}
    ends: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    for at, send in enumerate(history.send):
        who = send.identity[:2]
        numbers[who] = numbers.get(who, 0) + (rng.random() < 0.3)
        first = (rng.choice((ACKED, ACKED, ACKED, UNKNOWN, ABORTED)), send.acked_us + 1_000, rng.choice((0, -1, 7)))
        status, acked_us, error = ends.setdefault((*who, numbers[who]), first)
        if rng.random() < 0.05:
            status = rng.choice((ACKED, FAILED, UNKNOWN, ABORTED))
            acked_us = rng.choice((acked_us, -1)) if status == UNKNOWN else acked_us  # -1: of a load that was killed
        error = error if status != ACKED else 0
        history.send[at] = replace(send, status=status, acked_us=acked_us, error=error)
    statuses = {send.identity: send.status for send in history.send}
    kept: list[Stored] = []
    for stored in history.log:
        is_odd = rng.random() < 0.03
        is_undone = statuses.get(stored.identity) == ABORTED or (
            statuses.get(stored.identity) == UNKNOWN and rng.random() < 0.5
        )
        (history.uncommitted if is_undone != is_odd else kept).append(stored)
    history.log = kept or [Stored((0, 0, 0), 0, 0)]


def _copy(rng: random.Random, history: History) -> None:
    """Copies in transactions of a few records by two copiers, each as it came or not; then somebody reads them."""
    history.has_copiers = rng.random() < 0.8
    offset, number = 0, 0
    for stored in sorted(history.log, key=lambda item: item.place):
        number += rng.random() < 0.3
        transaction = (rng.choice((4, 4, 5)), rng.choice((0, 0, 1)), number)
        if rng.random() < 0.03:
            transaction = (-1, -1, -1)
        for _ in range(rng.choice((1, 1, 1, 1, 1, 0, 2))):
            identity = stored.identity if rng.random() > 0.02 else _any_identity(rng, history)
            outcome = rng.choices((1, 0, -1), weights=(20, 2, 1))[0]
            crc_ok = int(rng.random() > 0.02)
            history.copies.append(Copy(identity, stored.partition, offset, transaction, outcome, crc_ok))
            offset += rng.choice((1, 1, 1, 2))
        if rng.random() < 0.2 and all(item.transaction != transaction for item in history.told):
            history.told.append(Told(transaction, rng.random() < 0.8, rng.randrange(offset * STEP_US + 1)))
    polled_us = 0
    for copy in history.copies:
        polled_us += rng.choice((0, STEP_US))
        for _ in range(rng.choices((1, 0, 2), weights=(20, 2, 1))[0] if copy.outcome == 1 else rng.random() < 0.1):
            identity = copy.identity if rng.random() > 0.02 else _any_identity(rng, history)
            where = copy.offset + rng.choices((0, 1), weights=(30, 1))[0]
            reader = rng.choices((3, None), weights=(20, 1))[0]
            crc_ok = int(rng.random() > 0.02)
            history.audit.append(Received(identity, copy.partition, where, 6, reader, polled_us, crc_ok))


def _damage(rng: random.Random, history: History) -> None:
    for _ in range(rng.choice((0, 1, 2, 4))):
        rng.choice(DAMAGES)(rng, history)


def _any_identity(rng: random.Random, history: History) -> Identity:
    if history.log and rng.random() < 0.6:
        return rng.choice(history.log).identity
    return rng.randrange(3), rng.randrange(2), rng.choice((0, 1, 61, 5_000))


def _log_row_gone(rng: random.Random, history: History) -> None:
    first = rng.randrange(len(history.log))
    del history.log[first : first + rng.choice((1, 1, 5))]
    if not history.log:
        history.log.append(Stored((0, 0, 0), 0, 0))


def _log_row_twice(rng: random.Random, history: History) -> None:
    history.log += [rng.choice(history.log)] * rng.choice((1, 2))


def _log_copy(rng: random.Random, history: History) -> None:
    """Some records stand at a later, or an earlier, offset too."""
    first = rng.randrange(len(history.log))
    shift = rng.choice((1, 7, 64, 1 << 20, -3))
    for stored in history.log[first : first + rng.choice((1, 3))]:
        history.log.append(replace(stored, offset=max(0, stored.offset + shift)))


def _log_swap(rng: random.Random, history: History) -> None:
    a, b = rng.randrange(len(history.log)), rng.randrange(len(history.log))
    one, other = history.log[a], history.log[b]
    history.log[a] = replace(one, identity=other.identity)
    history.log[b] = replace(other, identity=one.identity)


def _log_other_record(rng: random.Random, history: History) -> None:
    """Instead of what is there, or beside it: two records at one offset."""
    at = rng.randrange(len(history.log))
    other = replace(history.log[at], identity=_any_identity(rng, history), crc_ok=rng.choice((1, 1, 0)))
    if rng.random() < 0.5:
        history.log[at] = other
    else:
        history.log.append(other)


def _log_elsewhere(rng: random.Random, history: History) -> None:
    """Some neighbours are in another partition, instead of theirs or as well."""
    first = rng.randrange(len(history.log))
    partition, is_moved = rng.choice((0, 1, 5)), rng.random() < 0.6
    for at in range(first, min(first + rng.choice((1, 3)), len(history.log))):
        other = replace(history.log[at], partition=partition)
        if is_moved:
            history.log[at] = other
        else:
            history.log.append(other)


def _recv_again(rng: random.Random, history: History) -> None:
    """A, A: by the same or another consumer, in the same poll or later."""
    if not history.recv:
        return
    row = rng.choice(history.recv)
    for _ in range(rng.choice((1, 2))):
        consumer = rng.choice((row.consumer, row.consumer, 0, 1))
        history.recv.append(
            replace(row, consumer=consumer, polled_us=row.polled_us + rng.choice((0, STEP_US, STEP_US * 9)))
        )


def _recv_other_record(rng: random.Random, history: History) -> None:
    """B at the offset of A; perhaps twice, so that two of them cancel out wherever pairs do."""
    if not history.recv:
        return
    at = rng.randrange(len(history.recv))
    other = replace(history.recv[at], identity=_any_identity(rng, history), crc_ok=rng.choice((1, 1, 0)))
    if rng.random() < 0.5:
        history.recv[at] = other
    else:
        history.recv += [other] * rng.choice((1, 2))


def _recv_gone(rng: random.Random, history: History) -> None:
    if history.recv:
        first = rng.randrange(len(history.recv))
        del history.recv[first : first + rng.choice((1, 4))]


def _recv_above(rng: random.Random, history: History) -> None:
    """Beyond the log's end, perhaps twice by one reader."""
    if not history.recv:
        return
    row = rng.choice(history.recv)
    offset = max(stored.offset for stored in history.log) + rng.choice((1, 3, 64))
    above = replace(row, identity=_any_identity(rng, history), offset=offset, polled_us=row.polled_us + STEP_US)
    history.recv += [above] * rng.choice((1, 2))


def _send_elsewhere(rng: random.Random, history: History) -> None:
    """Acknowledged at another place: one that another record has, one that nothing has, one of another partition."""
    at = rng.randrange(len(history.send))
    where = rng.choice((rng.choice(history.log).offset, OFFSET_MAX + 5, 3))
    partition = rng.choice((history.send[at].partition, history.send[at].partition, 0, 7, -1))
    history.send[at] = replace(history.send[at], status=ACKED, offset=where, partition=partition)


def _send_twice(rng: random.Random, history: History) -> None:
    send = rng.choice(history.send)
    status = rng.choice((ACKED, FAILED, UNKNOWN))
    history.send.append(replace(send, status=status, offset=send.offset if status == ACKED else -1))


def _send_gone(rng: random.Random, history: History) -> None:
    del history.send[rng.randrange(len(history.send))]
    if not history.send:
        history.send.append(Send((0, 0, 0), 0, UNKNOWN, -1, 0, 0))


def _send_late(rng: random.Random, history: History) -> None:
    at = rng.randrange(len(history.send))
    send = history.send[at]
    history.send[at] = replace(send, sent_us=rng.choice((send.sent_us + 100_000, -1)), acked_us=send.acked_us + 100_000)


def _range(rng: random.Random, history: History) -> Range:
    kind = rng.choice(("lost", "acked_below_min_isr", "two_leaders_ack"))
    send = rng.choice(history.send)
    first = rng.choice((0, max(0, send.offset), max(0, send.offset - 100)))
    end = rng.choice((first, first + 1, first + 90, first + 40_000, 1 << 41))
    return Range(kind, max(0, send.partition), first, end, 0, rng.choice((send.acked_us, 1 << 62)))


def _removal(rng: random.Random, history: History) -> Gone:
    """A log start somewhere in the log, below it or above it; what lay below it may still be there."""
    send = rng.choice(history.send)
    first = rng.choice((0, 0, max(0, send.offset - 20)))
    end = rng.choice((first, first + 1, max(0, send.offset), send.offset + 30, 1 << 41))
    before_us = rng.choice((1 << 62, 1 << 62, send.sent_us))
    return Gone(max(0, send.partition), first, max(first, end), before_us, rng.random() < 0.7, rng.random() < 0.4)


def _give_keys(rng: random.Random, history: History) -> None:
    """Few keys or many, and some that are not known."""
    count = rng.choice((1, 2, 5, 200))
    seqs = {row.identity[2] for row in history.send}
    seqs |= {row.identity[2] for row in history.log} | {row.identity[2] for row in history.recv}
    turns = sorted({seq % 65536 for seq in seqs})
    history.keys = {turn: rng.randrange(count) for turn in turns if rng.random() < 0.95}


DAMAGES = (
    _log_row_gone, _log_row_twice, _log_copy, _log_swap, _log_other_record, _log_elsewhere, _recv_again, _recv_again,
    _recv_other_record, _recv_other_record, _recv_gone, _recv_above, _send_elsewhere, _send_twice, _send_gone,
    _send_late,
)  # fmt: skip
