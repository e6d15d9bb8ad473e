"""The rules of `reports/judge/anomalies.py` in plain Python, one obvious loop each: it shares nothing with any SQL.

For small histories: every rule looks at all rows for each row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

Identity = tuple[int, int, int]
ACKED, FAILED, UNKNOWN, ABORTED = 0, 1, 2, 3
BIN_US = 10_000


@dataclass(frozen=True, slots=True)
class Send:
    identity: Identity
    partition: int
    status: int
    offset: int
    sent_us: int
    acked_us: int
    error: int = 0

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset

    @property
    def has_offset(self) -> bool:
        return self.status == ACKED and self.offset >= 0


@dataclass(frozen=True, slots=True)
class Stored:
    identity: Identity
    partition: int
    offset: int
    crc_ok: int = 1

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


@dataclass(frozen=True, slots=True)
class Received:
    identity: Identity
    partition: int
    offset: int
    consumer: int
    reader: int | None
    polled_us: int
    crc_ok: int = 1

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


@dataclass(frozen=True, slots=True)
class Copy:
    identity: Identity
    partition: int
    offset: int
    transaction: tuple[int, int, int]  # copier, incarnation, number; -1: none
    outcome: int  # 1 committed, 0 aborted, -1 open
    crc_ok: int = 1

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


@dataclass(frozen=True, slots=True)
class Told:
    """What a copier was told of a transaction of its own."""

    transaction: tuple[int, int, int]
    is_committed: bool
    asked_us: int


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets [first, end) of a partition whose acknowledgement in [after_us, before_us) is of this kind."""

    kind: str
    partition: int
    first: int
    end: int
    after_us: int
    before_us: int


@dataclass(frozen=True, slots=True)
class Gone:
    """What was sent before `sent_before_us` may have been removed from offsets [first, end) of a partition.
    `needs_newer`: only if the log has a newer record of the same key there."""

    partition: int
    first: int
    end: int
    sent_before_us: int
    is_known: bool
    needs_newer: bool = False


@dataclass(slots=True)
class History:
    send: list[Send] = field(default_factory=list)
    log: list[Stored] = field(default_factory=list)
    recv: list[Received] = field(default_factory=list)
    uncommitted: list[Stored] = field(default_factory=list)  # in transactions that no marker commits
    committed_readers: set[int] = field(default_factory=set)  # with isolation.level=read_committed
    is_transactional: bool = False  # then the sends of one producer with one acked_us are a transaction
    copies: list[Copy] = field(default_factory=list)
    audit: list[Received] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    has_copiers: bool = False
    early: dict[int, int] = field(default_factory=dict)  # readers from the log's start -> end of their partitions
    ranges: list[Range] = field(default_factory=list)
    removals: list[Gone] = field(default_factory=list)
    keys: dict[int, int] = field(default_factory=dict)  # key by seq % 65536, as far as it is known
    limits: dict[int, int] = field(default_factory=dict)  # reader -> after how long its commits are due, us
    clocks: dict[int, tuple[int, int | None]] = field(default_factory=dict)  # producer -> its load host, its error
    topics: tuple[int, int] | None = None  # several ones: their number, and the partitions of each


def sets_of(history: History) -> dict[str, set[Identity]]:
    """Anomaly -> identities, of all rules on sends, log and deliveries."""
    return {
        **_fates(history),
        **_answers(history),
        **_of_transactions(_copies(history), _audits(history), _loads(history)),
        "misrouted": _misrouted(history),
        "unread": _unread(history),
        "offset_reused": _offset_reused(history),
        "send_realtime_violation": _realtime(history),
        "reordered": _reordered(history),
        **_deliveries(history),
        **_repetitions(history),
        **_polls(history),
        **_ranges(history),
    }


def _fates(history: History) -> dict[str, set[Identity]]:
    by_status: dict[int, set[Identity]] = {status: set() for status in (ACKED, FAILED, UNKNOWN, ABORTED)}
    for send in history.send:
        by_status[send.status].add(send.identity)
    places: dict[Identity, set[tuple[int, int]]] = defaultdict(set)
    for stored in history.log:
        places[stored.identity].add(stored.place)
    there = set(places)
    acked, failed, unknown = by_status[ACKED], by_status[FAILED] | by_status[ABORTED], by_status[UNKNOWN]
    let_go = {send.identity for send in history.send if send.status == UNKNOWN and not send.error}
    removed, in_doubt = _removed(history, (acked | let_go) - there)
    return {
        "lost": acked - there - removed - in_doubt,
        "removed": removed,
        "removed_in_doubt": in_doubt,
        "lost_unacked": let_go - there - removed - in_doubt,
        "recovered": (unknown & there) - acked - failed - _misrouted(history),
        "phantom": (failed & there) - acked,
        "unexpected": there - acked - failed - unknown,
        "corrupt": {stored.identity for stored in history.log if not stored.crc_ok},
        "duplicated": {
            identity for identity, found in places.items() if len(found) > len({partition for partition, _ in found})
        },
    }


def _misrouted(history: History) -> set[Identity]:
    partitions: dict[Identity, set[int]] = defaultdict(set)
    for stored in history.log:
        partitions[stored.identity].add(stored.partition)
    wrong = {identity for identity, found in partitions.items() if len(found) > 1}
    for send in history.send:
        found = partitions[send.identity]
        if found and send.partition >= 0 and send.partition not in found:
            wrong.add(send.identity)
    if history.topics:
        topics, each = history.topics
        for (producer, incarnation, seq), found in partitions.items():
            if found - {(producer + seq) % topics * each + partition for partition in range(each)}:
                wrong.add((producer, incarnation, seq))
    return wrong


def _placed(history: History) -> list[Send]:
    """Acknowledgements at places that are those of their records."""
    wrong = _misrouted(history)
    return [send for send in history.send if send.has_offset and send.identity not in wrong]


def _removed(history: History, missing: set[Identity]) -> tuple[set[Identity], set[Identity]]:
    """Missing records at offsets from which something may have been removed: for certain, and in doubt."""
    missing = missing - _ranges(history)["predicted lost"]
    places = [(send.identity, send.place, send.sent_us) for send in history.send if send.has_offset]
    places += [(row.identity, row.place, 0) for row in history.recv if row.crc_ok]
    found: dict[bool, set[Identity]] = {True: set(), False: set()}
    for item in history.removals:
        found[item.is_known] |= {
            identity
            for identity, (partition, offset), sent_us in places
            if partition == item.partition and item.first <= offset < item.end and sent_us < item.sent_before_us
            if not item.needs_newer or _has_newer(history, identity, (partition, offset))
        }
        found[False] |= {
            send.identity
            for send in history.send
            if send.offset < 0 and (send.status == ACKED or (send.status == UNKNOWN and not send.error))
        }
    return found[True] & missing, (found[False] - found[True]) & missing


def _has_newer(history: History, identity: Identity, place: tuple[int, int]) -> bool:
    key = history.keys.get(identity[2] % 65536)
    return key is not None and any(
        history.keys.get(row.identity[2] % 65536) == key and row.partition == place[0] and row.place[1] > place[1]
        for row in history.log
        if row.crc_ok
    )


def _may_be_removed(history: History, place: tuple[int, int], identity: Identity) -> bool:
    return any(
        item.partition == place[0]
        and item.first <= place[1] < item.end
        and (not item.needs_newer or _has_newer(history, identity, place))
        for item in history.removals
    )


def _offset_reused(history: History) -> set[Identity]:
    return {
        send.identity
        for send in _placed(history)
        for stored in history.log
        if send.place == stored.place and send.identity != stored.identity
    }


def _answers(history: History) -> dict[str, set[Identity]]:
    outcomes: dict[Identity, set[tuple[int, int, int, int]]] = defaultdict(set)
    for send in history.send:
        outcomes[send.identity].add((send.status, send.partition, send.offset, send.acked_us))
    there = {stored.identity for stored in history.log}
    places = {stored.place for stored in history.log}
    return {
        "answered_twice": {identity for identity, found in outcomes.items() if len(found) > 1},
        "ack_misplaced": {
            send.identity
            for send in _placed(history)
            if send.place not in places and send.identity in there
            if not _may_be_removed(history, send.place, send.identity)
        },
    }


def _unread(history: History) -> set[Identity]:
    found: set[Identity] = set()
    for reader, end in history.early.items():
        got = {row.partition for row in history.recv if (row.reader or 0) == reader}
        found |= {
            stored.identity for stored in history.log if got and stored.partition not in got and stored.partition < end
        }
    return found


def _copies(history: History) -> dict[str, set[Identity]]:
    committed = [copy for copy in history.copies if copy.outcome == 1]
    firsts: dict[tuple[int, int, int], dict[int, int]] = defaultdict(dict)
    times: dict[Identity, int] = defaultdict(int)
    for copy in committed:
        times[copy.identity] += 1
        producer, incarnation, seq = copy.identity
        of_producer = firsts[copy.partition, producer, incarnation]
        of_producer[seq] = min(copy.offset, of_producer.get(seq, copy.offset))
    told = {item.transaction: item.is_committed for item in history.told}
    best: dict[tuple[int, int, int], int] = defaultdict(lambda: -1)
    for copy in history.copies:
        best[copy.transaction] = max(copy.outcome, best[copy.transaction])
    torn: set[Identity] = set()
    for copy in history.copies:
        known = told.get(copy.transaction)
        is_bad = copy.outcome != 1 and (best[copy.transaction] == 1 or known is True)
        if copy.transaction[2] >= 0 and (is_bad or (copy.outcome == 1 and known is False)):
            torn.add(copy.identity)
    there = {stored.identity for stored in history.log} if history.has_copiers else set()
    sent = {send.identity for send in history.send}
    return {
        "copy_missing": there - set(times),
        "copied_twice": {identity for identity, number in times.items() if number > 1},
        "copy_reordered": {
            (producer, incarnation, seq)
            for (_, producer, incarnation), offsets in firsts.items()
            for seq, offset in offsets.items()
            if any(other > seq and its <= offset for other, its in offsets.items())
        },
        "torn_txn": torn,
        "copy_unexpected": {copy.identity for copy in committed if copy.crc_ok} - sent,
        "copy_corrupt": {copy.identity for copy in history.copies if not copy.crc_ok}
        | {item.identity for item in history.audit if not item.crc_ok},
    }


def _audits(history: History) -> dict[str, set[Identity]]:
    found: dict[str, set[Identity]] = {
        name: set() for name in ("aborted_read", "precommitted_read", "copy_passed_over", "copy_gone")
    }
    asked = {item.transaction: item.asked_us for item in history.told}
    places = {(copy.place, copy.identity) for copy in history.copies}
    for row in history.audit:
        for copy in history.copies:
            if copy.place == row.place and copy.outcome != 1:
                found["aborted_read"].add(row.identity)
            elif copy.place == row.place and row.polled_us < asked.get(copy.transaction, -1):
                found["precommitted_read"].add(row.identity)
        if row.crc_ok and (row.place, row.identity) not in places:
            found["copy_gone"].add(row.identity)
    for reader in {row.reader or 0 for row in history.audit}:
        mine = [row for row in history.audit if (row.reader or 0) == reader]
        got = {(row.place, row.identity) for row in mine}
        for copy in history.copies:
            offsets = [row.offset for row in mine if row.partition == copy.partition]
            if offsets and copy.outcome == 1 and copy.offset <= max(offsets):
                is_its = reader in history.early or copy.offset >= min(offsets)
                if is_its and (copy.place, copy.identity) not in got:
                    found["copy_passed_over"].add(copy.identity)
    return {**found, "copy_delivered_twice": _again(history.audit, "reader")}


def _loads(history: History) -> dict[str, set[Identity]]:
    """What is wrong with a load that is sent in transactions."""
    there = {stored.identity for stored in history.log}
    undone = {(stored.place, stored.identity) for stored in history.uncommitted}
    transactions: dict[tuple[int, int, int], list[Send]] = defaultdict(list)
    for send in history.send:
        if history.is_transactional and send.acked_us >= 0:
            transactions[(*send.identity[:2], send.acked_us)].append(send)
    torn: set[Identity] = set()
    handed_over: dict[Identity, list[int]] = defaultdict(list)
    for sends in transactions.values():
        doubtful = {send.identity for send in sends if send.status == UNKNOWN}
        if not history.removals:  # what is gone may have been committed
            torn |= doubtful - there if doubtful & there else set()
        acked = [send for send in sends if send.status == ACKED]
        for send in acked:
            if send.identity[0] not in history.clocks:  # the clock of a load host is not that of a reader
                handed_over[send.identity].append(max(other.sent_us for other in acked))
    mine = [row for row in history.recv if (row.reader or 0) in history.committed_readers]
    return {
        "aborted_read": {row.identity for row in mine if (row.place, row.identity) in undone},
        "precommitted_read": {
            row.identity for row in mine if any(row.polled_us < last_us for last_us in handed_over[row.identity])
        },
        "torn_txn": torn,
    }


def _of_transactions(*parts: dict[str, set[Identity]]) -> dict[str, set[Identity]]:
    found: dict[str, set[Identity]] = defaultdict(set)
    for part in parts:
        for name, identities in part.items():
            found[name] |= identities
    return dict(found)


def _realtime(history: History) -> set[Identity]:
    known = [send for send in _placed(history) if send.sent_us >= 0]
    return {
        later.identity
        for later in known
        for earlier in known
        if earlier.partition == later.partition
        and _is_surely_before(history, earlier, later)
        and earlier.offset >= later.offset
    }


def _is_surely_before(history: History, earlier: Send, later: Send) -> bool:
    """Acknowledged before the other was sent, whatever the clocks of two load hosts may be off."""
    one, other = (history.clocks.get(send.identity[0], (-1, None)) for send in (earlier, later))
    if one[0] == other[0]:
        return earlier.acked_us // BIN_US < later.sent_us // BIN_US
    if one[1] is None or other[1] is None:
        return False
    return (earlier.acked_us + one[1]) // BIN_US < (later.sent_us - other[1]) // BIN_US


def _reordered(history: History) -> set[Identity]:
    firsts: dict[tuple[int, int, int], dict[int, int]] = defaultdict(dict)
    for stored in history.log:
        producer, incarnation, seq = stored.identity
        of_producer = firsts[stored.partition, producer, incarnation]
        of_producer[seq] = min(stored.offset, of_producer.get(seq, stored.offset))
    return {
        (producer, incarnation, seq)
        for (_, producer, incarnation), offsets in firsts.items()
        for seq, offset in offsets.items()
        if any(other > seq and its <= offset for other, its in offsets.items())
    }


def _deliveries(history: History) -> dict[str, set[Identity]]:
    passed_over: set[Identity] = set()
    pending: set[Identity] = set()
    for reader in {row.reader or 0 for row in history.recv}:
        mine = [row for row in history.recv if (row.reader or 0) == reader]
        got = {(row.place, row.identity) for row in mine}
        for stored in history.log:
            offsets = [row.offset for row in mine if row.partition == stored.partition]
            if not offsets:
                continue
            if stored.offset > max(offsets):
                pending.add(stored.identity)
            elif (
                stored.offset >= (0 if reader in history.early else min(offsets))
                and (stored.place, stored.identity) not in got
            ):
                passed_over.add(stored.identity)
    there = {(stored.place, stored.identity) for stored in (*history.log, *history.uncommitted)}
    gone = {
        row.identity
        for row in history.recv
        if row.crc_ok and (row.place, row.identity) not in there
        if not _may_be_removed(history, row.place, row.identity)
    }
    return {"lost_in_delivery": passed_over, "unseen_pending": pending, "read_above_hw": gone}


def _again(rows: Iterable[Received], key: str) -> set[Identity]:
    groups: dict[tuple[int, tuple[int, int]], list[Received]] = defaultdict(list)
    for row in rows:
        groups[getattr(row, key) or 0, row.place].append(row)
    return {row.identity for group in groups.values() if len(group) > 1 for row in group}


def _repetitions(history: History) -> dict[str, set[Identity]]:
    overdue: set[Identity] = set()
    for row in history.recv:
        reader = row.reader or 0
        same = [other for other in history.recv if (other.reader or 0) == reader and other.place == row.place]
        next_us = min((other.polled_us for other in same if other.polled_us > row.polled_us), default=None)
        if next_us is None or reader not in history.limits:
            continue
        if any(
            other.consumer == row.consumer
            and other.partition == row.partition
            and other.offset > row.offset
            and other.polled_us < next_us
            and other.polled_us - row.polled_us > history.limits[reader]
            for other in history.recv
        ):
            overdue.add(row.identity)
    return {
        "dup_delivered": _again(history.recv, "consumer"),
        "redelivered": _again(history.recv, "reader"),
        "redelivered_overdue": overdue,
    }


def _polls(history: History) -> dict[str, set[Identity]]:
    back: set[Identity] = set()
    skipped: set[Identity] = set()
    polls: dict[tuple[int, int], dict[int, list[Received]]] = defaultdict(lambda: defaultdict(list))
    for row in history.recv:
        polls[row.consumer, row.partition][row.polled_us].append(row)
    for (_, partition), by_time in polls.items():
        for before_us, now_us in pairwise(sorted(by_time)):
            before = max(row.offset for row in by_time[before_us])
            low = min(row.offset for row in by_time[now_us])
            back |= {row.identity for row in by_time[now_us] if row.offset <= before}
            skipped |= {
                stored.identity
                for stored in history.log
                if stored.partition == partition and before < stored.offset < low
            }
    return {"nonmonotonic_poll": back, "poll_skip": skipped}


def _ranges(history: History) -> dict[str, set[Identity]]:
    """Sends that a range names; for `lost` these are predicted."""
    found: dict[str, set[Identity]] = {"acked_below_min_isr": set(), "two_leaders_ack": set(), "predicted lost": set()}
    for item in history.ranges:
        name = "predicted lost" if item.kind == "lost" else item.kind
        found[name] |= {
            send.identity
            for send in _placed(history)
            if send.partition == item.partition
            and item.first <= send.offset < item.end
            and _is_within(history, send, item)
        }
    return found


def _is_within(history: History, send: Send, item: Range) -> bool:
    """Was it acknowledged in that time? Predictions take the latest possible time. What is observed must have been."""
    error_us = history.clocks.get(send.identity[0], (-1, 0))[1]
    if item.kind == "lost":
        return item.after_us <= send.acked_us + (error_us or 0) < item.before_us
    if error_us is None:
        return False
    return item.after_us <= send.acked_us - error_us and send.acked_us + error_us < item.before_us
