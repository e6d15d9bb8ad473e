"""The checkers of share groups: what they take for a violation, and what is lawful. Mutants show the rest."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker.node.features.share_groups.delivery.deliveries import Acquired, Limits
from broker.node.features.share_groups.delivery.partition import ACCEPT, RELEASE, RENEW, Acknowledgement
from broker.node.features.share_groups.delivery.state_batches import StateBatch
from broker.node.features.share_groups.persister import StateToWrite
from broker.node.features.share_groups.states.shard import StateResult
from broker.sim.coverage import Coverage
from broker.sim.partition_checker import PartitionChecker
from broker.sim.share_checker import ShareChecker
from broker.sim.transaction_checker import TransactionChecker
from broker.wire.errors import ErrorCode

PLACE = (UUID(int=7), 0)
KEY = ("g", PLACE)
LIMITS = Limits(delivery_count_limit=2, lock_duration_ms=100)


class Leader:
    """A load of a share partition, as far as the checker looks at it."""

    def __init__(self, leader_epoch: int, start_offset: int = 0) -> None:
        self.group_id, self.place, self.leader_epoch = "g", PLACE, leader_epoch
        log = SimpleNamespace(log_start_offset=0)
        self.hosted = SimpleNamespace(key=("t", 0), log=log)
        self.core = SimpleNamespace(start_offset=start_offset, check_invariants=lambda: None)


class World:
    def __init__(self) -> None:
        self.violations: list[str] = []
        coverage = Coverage()
        transactions = TransactionChecker(fail=self._fail, coverage=coverage)
        self.partitions = PartitionChecker(
            fail=self._fail, coverage=coverage, transactions=transactions, can_lose_power_unsynced=False
        )
        self.checker = ShareChecker(fail=self._fail, coverage=coverage, partitions=self.partitions)
        self.loop = asyncio.new_event_loop()
        self.loop.close()

    def _fail(self, invariant: str, message: str) -> None:
        self.violations.append(invariant)

    def loads(self, leader_epoch: int, state_epoch: int = 1, **state: Any) -> Any:
        leader = Leader(leader_epoch)
        result = StateResult(error_code=ErrorCode.none, state_epoch=state_epoch, **state)
        self.checker.loaded(leader, result, LIMITS, self.loop)  # type: ignore[arg-type]
        return leader

    def delivers(self, leader: Any, member: str, offset: int, *, count: int = 1, now_ms: int = 0) -> None:
        ranges = (Acquired(first_offset=offset, last_offset=offset, delivery_count=count),)
        self.checker.acquired(leader, member, ranges, now_ms)

    def answers(self, leader: Any, member: str, offset: int, kind: int = ACCEPT, *, now_ms: int = 0) -> None:
        ack = Acknowledgement(first_offset=offset, last_offset=offset, types=[kind])
        asked = self.checker.asked(leader, member, [ack], now_ms)
        self.checker.answered(leader, asked, ErrorCode.none)
        self.checker.confirmed(KEY, member, offset, kind)

    def start_moves(self, leader: Any, start_offset: int) -> None:
        leader.core.start_offset = start_offset
        self.checker.look(SimpleNamespace(loop=self.loop))  # type: ignore[arg-type]


def test_an_accepted_record_may_come_again_only_from_a_replaced_leader_or_after_new_offsets() -> None:
    world = World()
    first = world.loads(leader_epoch=3)
    world.delivers(first, "a", 5)
    world.answers(first, "a", 5)
    world.delivers(world.loads(leader_epoch=2), "b", 5)
    world.delivers(world.loads(leader_epoch=4, state_epoch=2), "b", 5)
    assert world.violations == []
    world.delivers(world.loads(leader_epoch=4), "b", 5)
    assert world.violations == ["an accepted record is not delivered again"]


def test_a_record_that_was_released_or_whose_answer_never_came_is_delivered_again() -> None:
    world = World()
    leader = world.loads(leader_epoch=3)
    world.delivers(leader, "a", 5)
    world.answers(leader, "a", 5, RELEASE)
    world.delivers(leader, "b", 5, count=2)
    assert world.violations == []


def test_a_lock_keeps_others_away_until_its_end_and_a_renewed_one_for_longer() -> None:
    world = World()
    leader = world.loads(leader_epoch=3)
    world.delivers(leader, "a", 5)
    world.delivers(leader, "b", 5, count=2, now_ms=100)
    world.delivers(leader, "a", 6)
    world.answers(leader, "a", 6, RENEW, now_ms=50)
    assert world.violations == []
    world.delivers(leader, "b", 6, count=2, now_ms=149)
    assert world.violations == ["one holder of a record at a time"]


def test_a_session_that_ends_twice_promises_nothing_before_the_first_release_is_written() -> None:
    # Seed 145: the write of the first release was under way when the member's next session ended too.
    world = World()
    leader = world.loads(leader_epoch=3)
    world.delivers(leader, "a", 5)
    first, second = world.checker.held(leader, "a"), world.checker.held(leader, "a")
    world.checker.answered(leader, second, ErrorCode.none)
    nothing = StateResult(error_code=ErrorCode.none, state_epoch=1, start_offset=-1)
    world.checker.states.read(KEY, 4, nothing, since=world.checker.states.number)
    assert world.violations == []
    world.checker.answered(leader, first, ErrorCode.none)
    world.checker.states.read(KEY, 4, nothing, since=world.checker.states.number)
    assert world.violations == ["a share state is read back as confirmed"]


def test_the_delivery_count_goes_on_from_the_state_and_ends_at_the_limit() -> None:
    world = World()
    known = StateBatch(first_offset=5, last_offset=6, state=0, delivery_count=1)
    leader = world.loads(leader_epoch=3, start_offset=5, batches=(known,))
    world.delivers(leader, "a", 5, count=2)
    assert world.violations == []
    world.delivers(leader, "a", 6, count=1)
    world.delivers(leader, "a", 5, count=3, now_ms=200)
    assert world.violations == ["the delivery count only grows"] * 2


def test_the_start_offset_passes_what_is_final_or_used_up_and_nothing_else() -> None:
    world = World()
    leader = world.loads(leader_epoch=3)
    for offset in range(3):
        world.delivers(leader, "a", offset)
    world.answers(leader, "a", 0)
    world.start_moves(leader, 1)
    world.delivers(leader, "a", 1, count=2, now_ms=100)
    world.checker.locks_ended(leader, 200)  # its second delivery was the last one
    world.start_moves(leader, 2)
    assert world.violations == []
    world.start_moves(leader, 3)
    world.start_moves(leader, 1)
    assert world.violations == ["the start offset passes final records only"] * 2


def test_what_is_read_back_lies_between_what_was_confirmed_and_what_was_asked() -> None:
    world = World()
    states = world.checker.states
    accepted = StateBatch(first_offset=5, last_offset=6, state=2, delivery_count=1)
    write = StateToWrite(state_epoch=1, leader_epoch=3, start_offset=5, delivery_complete_count=2, batches=(accepted,))
    states.writing(KEY, write)
    whole = StateResult(error_code=ErrorCode.none, state_epoch=1, start_offset=5, batches=(accepted,))
    nothing = StateResult(error_code=ErrorCode.none, state_epoch=1, start_offset=-1)
    states.read(KEY, 4, whole, since=states.number)
    states.read(KEY, 4, nothing, since=states.number)
    assert world.violations == []  # the outcome of the write is open: both are lawful
    states.written(KEY, write)
    states.read(KEY, 4, whole, since=states.number)
    states.read(KEY, 2, nothing, since=states.number)  # a leader of an older epoch
    states.read(KEY, 4, nothing, since=0)  # it began to read before the confirmation
    assert world.violations == []
    states.read(KEY, 4, nothing, since=states.number)
    invented = StateBatch(first_offset=5, last_offset=7, state=2, delivery_count=1)
    states.read(
        KEY,
        4,
        StateResult(error_code=ErrorCode.none, state_epoch=1, start_offset=5, batches=(invented,)),
        since=states.number,
    )
    assert world.violations == ["a share state is read back as confirmed"] * 2


@pytest.mark.parametrize("log", [("t", 0), ("__share_group_state", 0), ("__share_group_state", 1)])
def test_an_unclean_election_ends_the_promises_of_the_partitions_whose_log_it_concerns(log: tuple[str, int]) -> None:
    world = World()
    leader = world.loads(leader_epoch=3)
    world.delivers(leader, "a", 5)
    world.answers(leader, "a", 5)
    world.partitions._truth(log).unclean_epoch = 4
    world.delivers(world.loads(leader_epoch=4), "b", 5)
    is_its_log = log in (("t", 0), ("__share_group_state", 0))
    assert bool(world.violations) is not is_its_log
