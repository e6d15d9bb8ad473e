"""A share partition: deliveries, acknowledgements, locks; and a long random life against a model of single records."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from broker.node.features.share_groups.delivery.deliveries import Fetched, Limits
from broker.node.features.share_groups.delivery.partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Change,
    Refusal,
    SharePartition,
)
from broker.node.features.share_groups.delivery.state_batches import StateBatch
from broker.wire.errors import ErrorCode
from tests.amount import seeds

LIMITS = Limits(delivery_count_limit=2, record_locks_max=100, lock_duration_ms=1_000)


def fetched(first: int, last: int, size: int = 10, **more: object) -> Fetched:
    batches = [(begin, min(begin + size - 1, last)) for begin in range(first, last + 1, size)]
    return Fetched(fetch_offset=first, batches=batches, **more)


def acquire(
    partition: SharePartition, member: str, what: Fetched, *, records_max: int = 500, batch_size: int = 500,
    is_strict: bool = False, now_ms: int = 0,
) -> list[tuple[int, int, int]]:  # fmt: skip
    found = partition.acquire(
        member, what, records_max=records_max, batch_size=batch_size, is_strict=is_strict, now_ms=now_ms
    )
    partition.check_invariants()
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in found]


def acknowledge(partition: SharePartition, member: str, first: int, last: int, *types: int, now_ms: int = 0) -> object:
    ack = Acknowledgement(first_offset=first, last_offset=last, types=types)
    result = partition.acknowledge(member, [ack], now_ms)
    if isinstance(result, Change):
        partition.persisted(result.token, is_written=True)
    partition.check_invariants()
    return result


def test_records_are_given_once_and_the_start_moves_over_what_is_accepted() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    assert acquire(partition, "a", fetched(0, 9)) == [(0, 9, 1)]
    assert acquire(partition, "b", fetched(0, 9)) == []
    assert partition.next_fetch_offset() == 10
    acknowledge(partition, "a", 5, 9, ACCEPT)
    assert (partition.start_offset, partition.delivery_complete_count()) == (0, 5)
    acknowledge(partition, "a", 0, 4, ACCEPT)
    assert (partition.start_offset, partition.end_offset, partition.delivery_complete_count()) == (10, 10, 0)


def test_a_released_record_comes_again_until_the_limit_of_deliveries() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    acquire(partition, "a", fetched(0, 9))
    acknowledge(partition, "a", 0, 9, RELEASE)
    assert partition.next_fetch_offset() == 0
    assert acquire(partition, "b", fetched(0, 9)) == [(0, 9, 2)]
    acknowledge(partition, "b", 0, 9, RELEASE)
    assert partition.start_offset == 10, "it was delivered twice, which is the limit"


def test_a_rejected_record_never_comes_again() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    acquire(partition, "a", fetched(0, 2, size=1))
    acknowledge(partition, "a", 0, 2, ACCEPT, REJECT, RELEASE)
    assert partition.start_offset == 2
    assert acquire(partition, "a", fetched(2, 4)) == [(2, 2, 2), (3, 4, 1)]


def test_a_lock_that_ends_gives_the_records_to_others() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    acquire(partition, "a", fetched(0, 9))
    assert partition.next_deadline_ms() == 1_000
    assert partition.tick(999) == ()
    assert partition.tick(1_000) == (StateBatch(first_offset=0, last_offset=9, state=0, delivery_count=1),)
    assert acquire(partition, "b", fetched(0, 9), now_ms=1_000) == [(0, 9, 2)]
    result = acknowledge(partition, "a", 0, 9, ACCEPT)
    assert isinstance(result, Refusal)
    assert result.error_code is ErrorCode.invalid_record_state
    assert partition.tick(2_000) == (StateBatch(first_offset=0, last_offset=9, state=4, delivery_count=2),)
    assert partition.start_offset == 10


def test_a_renewed_lock_holds_longer() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    acquire(partition, "a", fetched(0, 9))
    result = acknowledge(partition, "a", 0, 9, RENEW, now_ms=900)
    assert isinstance(result, Change)
    assert result.batches == ()
    assert partition.tick(1_000) == ()
    assert partition.tick(1_900) != ()


def test_a_write_that_failed_gives_the_records_back_to_their_member() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    acquire(partition, "a", fetched(0, 9))
    acks = [Acknowledgement(first_offset=0, last_offset=4, types=(RELEASE,))]
    change = partition.acknowledge("a", acks, 0)
    assert isinstance(change, Change)
    assert partition.next_fetch_offset() == 10, "it is not offered before it is written"
    assert isinstance(partition.acknowledge("a", acks, 0), Refusal)
    partition.persisted(change.token, is_written=False)
    partition.check_invariants()
    assert partition.tick(1_000) == (StateBatch(first_offset=0, last_offset=9, state=0, delivery_count=1),)


def test_an_acknowledgement_counts_as_a_whole_or_not_at_all() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    acquire(partition, "a", fetched(0, 4))
    acquire(partition, "b", fetched(5, 9))
    acks = [Acknowledgement(first_offset=low, last_offset=low + 4, types=(ACCEPT,)) for low in (0, 5)]
    assert isinstance(partition.acknowledge("a", acks, 0), Refusal)
    assert isinstance(acknowledge(partition, "a", 0, 4, ACCEPT), Change)


@pytest.mark.parametrize(("first", "last"), [(10, 12), (5, 12)])
def test_what_was_never_delivered_cannot_be_acknowledged(first: int, last: int) -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    acquire(partition, "a", fetched(0, 9))
    result = acknowledge(partition, "a", first, last, ACCEPT)
    assert isinstance(result, Refusal)
    assert result.error_code is ErrorCode.invalid_request


def test_what_is_done_already_counts_as_acknowledged() -> None:
    partition = SharePartition(start_offset=10, limits=LIMITS)
    assert acknowledge(partition, "a", 0, 9, ACCEPT) == Change(token=1, batches=())


def test_the_last_record_batch_is_given_whole_unless_the_limit_is_strict() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    assert acquire(partition, "a", fetched(0, 29), records_max=12) == [(0, 19, 1)]
    assert acquire(partition, "a", fetched(20, 29), records_max=3, is_strict=True) == [(20, 22, 1)]


def test_new_records_come_in_pieces_of_about_the_batch_size() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    assert acquire(partition, "a", fetched(0, 49), batch_size=15) == [(0, 19, 1), (20, 39, 1), (40, 49, 1)]


def test_no_more_than_the_limit_of_locks_is_in_flight() -> None:
    partition = SharePartition(start_offset=0, limits=replace(LIMITS, record_locks_max=20))
    assert acquire(partition, "a", fetched(0, 49)) == [(0, 19, 1)]
    assert not partition.can_acquire()
    acknowledge(partition, "a", 0, 9, ACCEPT)
    assert partition.can_acquire()


def test_offsets_without_a_record_are_passed_over() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    assert acquire(partition, "a", Fetched(fetch_offset=0, batches=[(5, 9)])) == [(5, 9, 1)]
    assert partition.start_offset == 5


def test_records_of_aborted_transactions_are_passed_over() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    what = fetched(0, 29, hidden=[(0, 9), (20, 29)])
    assert acquire(partition, "a", what) == [(10, 19, 1)]
    assert partition.start_offset == 10
    acknowledge(partition, "a", 10, 19, ACCEPT)
    assert partition.start_offset == 30


def test_what_was_out_when_the_last_leader_ended_is_offered_again() -> None:
    kept = [StateBatch(first_offset=5, last_offset=9, state=2, delivery_count=1)]
    partition = SharePartition(start_offset=0, batches=kept, limits=LIMITS)
    assert (partition.start_offset, partition.end_offset, partition.next_fetch_offset()) == (0, 10, 0)
    assert acquire(partition, "a", fetched(0, 14)) == [(0, 4, 1), (10, 14, 1)]


def test_a_log_start_that_moved_takes_the_records_with_it() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    acquire(partition, "a", fetched(0, 9))
    partition.log_start_moved(5)
    assert partition.start_offset == 5
    acknowledge(partition, "a", 0, 9, ACCEPT)
    assert partition.start_offset == 10
    partition.log_start_moved(20)
    assert (partition.start_offset, partition.end_offset) == (20, 20)


def test_a_session_that_ends_gives_back_what_its_member_holds() -> None:
    partition = SharePartition(start_offset=0, limits=LIMITS)
    acquire(partition, "a", fetched(0, 4))
    acquire(partition, "b", fetched(5, 9))
    change = partition.release("a")
    assert change.batches == (StateBatch(first_offset=0, last_offset=4, state=0, delivery_count=1),)
    partition.persisted(change.token, is_written=True)
    assert acquire(partition, "c", fetched(0, 9)) == [(0, 4, 2)]


# -- a long life -----------------------------------------------------------------------------------------------------


@dataclass
class Record:
    state: str = "new"  # new, offered, out, pending, done
    count: int = 0
    member: str = ""
    deadline_ms: int = 0
    after: str = ""  # while pending


class Model:
    """Single records, and nothing clever."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.records: dict[int, Record] = {}

    def at(self, offset: int) -> Record:
        return self.records.setdefault(offset, Record())

    def start(self) -> int:
        offset = 0
        while self.at(offset).state == "done":
            offset += 1
        return offset

    def given(self, acquired: list[tuple[int, int, int]], member: str, now_ms: int) -> None:
        for first, last, count in acquired:
            for offset in range(first, last + 1):
                record = self.at(offset)
                assert record.state in ("new", "offered"), f"{offset} is {record}"
                record.count += 1
                assert record.count == count
                record.state, record.member = "out", member
                record.deadline_ms = now_ms + self.limits.lock_duration_ms

    def released(self, record: Record) -> str:
        return "done" if record.count >= self.limits.delivery_count_limit else "offered"

    def time_passed(self, now_ms: int) -> None:
        for record in self.records.values():
            if record.state == "out" and record.deadline_ms <= now_ms:
                record.state, record.member = self.released(record), ""


@pytest.mark.parametrize("seed", seeds(80, fast=20))
def test_a_random_life_is_as_of_single_records(seed: int) -> None:
    rng = random.Random(seed)
    limits = Limits(delivery_count_limit=3, record_locks_max=60, lock_duration_ms=50)
    partition, model = SharePartition(start_offset=0, limits=limits), Model(limits)
    now_ms, log_end = 0, 0
    open_changes: list[tuple[int, list[int]]] = []
    for _ in range(150):
        now_ms += rng.randrange(8)
        log_end += rng.randrange(4)
        member = rng.choice("abc")
        step = rng.random()
        if step < 0.4:
            first = partition.next_fetch_offset()
            if first < log_end and partition.can_acquire():
                what = fetched(first, log_end - 1, size=rng.randrange(1, 8))
                records_max, is_strict = rng.randrange(1, 20), rng.random() < 0.5
                got = acquire(
                    partition, member, what, records_max=records_max, batch_size=rng.randrange(1, 9),
                    is_strict=is_strict, now_ms=now_ms,
                )  # fmt: skip
                assert not is_strict or sum(last - low + 1 for low, last, _ in got) <= records_max
                model.given(got, member, now_ms)
        elif step < 0.8:
            held = [
                offset for offset, record in model.records.items() if (record.state, record.member) == ("out", member)
            ]
            if held:
                first = rng.choice(sorted(held))
                last = first
                while last + 1 in held and rng.random() < 0.8:
                    last += 1
                types = [rng.choice([ACCEPT, RELEASE, REJECT, GAP]) for _ in range(first, last + 1)]
                types = types if rng.random() < 0.5 else types[:1]
                ack = Acknowledgement(first_offset=first, last_offset=last, types=types)
                change = partition.acknowledge(member, [ack], now_ms)
                assert isinstance(change, Change)
                for offset in range(first, last + 1):
                    record = model.at(offset)
                    kind = types[0] if len(types) == 1 else types[offset - first]
                    record.after = model.released(record) if kind == RELEASE else "done"
                    record.state = "pending"
                open_changes.append((change.token, list(range(first, last + 1))))
        elif step < 0.9 and open_changes:
            token, offsets = open_changes.pop(rng.randrange(len(open_changes)))
            is_written = rng.random() < 0.8
            partition.persisted(token, is_written=is_written)
            for offset in offsets:
                record = model.at(offset)
                record.state = record.after if is_written else "out"
                record.member = "" if is_written else record.member
        else:
            partition.tick(now_ms)
            model.time_passed(now_ms)
        partition.check_invariants()
        assert partition.start_offset == model.start()
        # With a strict limit, the rest of a record batch is in flight although no member has had it.
        flying = range(partition.start_offset, partition.end_offset)
        offered = [offset for offset in flying if model.at(offset).state in ("offered", "new")]
        assert partition.next_fetch_offset() == min(offered, default=partition.end_offset)
