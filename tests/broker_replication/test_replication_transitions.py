"""Roles of a replica, and the ISR of a leader, change as the tables say: each row happens, and nothing else does."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kio.schema.errors import ErrorCode

from broker.mutants import Patch
from broker.replication import (
    Action,
    BecomeFollower,
    BecomeLeader,
    Event,
    FollowerFetched,
    IsrProposalAnswered,
    PartitionReplica,
    ReplicationConfig,
    Role,
    StopReplica,
    Tick,
)
from broker.replication.isr import IsrProposal
from broker.replication.transitions import (
    ISR_TRANSITIONS,
    TRANSITIONS,
    IsrState,
    IsrTrigger,
    Trigger,
)

RETRY_MS = 200


@contextmanager
def recorded() -> Iterator[tuple[Counter[tuple[Role, Trigger, Role]], Counter[tuple[IsrState, IsrTrigger, IsrState]]]]:
    """The changes of roles and of ISRs while this lasts."""
    roles: Counter[tuple[Role, Trigger, Role]] = Counter()
    isrs: Counter[tuple[IsrState, IsrTrigger, IsrState]] = Counter()
    patch = Patch()

    def enter(self: PartitionReplica, trigger: Trigger) -> list[Action]:
        before = self.role
        actions: list[Action] = original_enter(self, trigger)
        roles[(before, trigger, self.role)] += 1
        return actions

    def move(self: IsrProposal, trigger: IsrTrigger) -> None:
        before = self.state
        original_move(self, trigger)
        isrs[(before, trigger, self.state)] += 1

    original_enter = patch.set(PartitionReplica, "_enter", enter)
    original_move = patch.set(IsrProposal, "_move", move)
    try:
        yield roles, isrs
    finally:
        patch.undo()


def stopped() -> PartitionReplica:
    config = ReplicationConfig(broker_id=1, proposal_retry_ms=RETRY_MS)
    return PartitionReplica(config=config, high_watermark=0, log_end_offset=0)


def lead(*, leader_epoch: int = 5, partition_epoch: int = 7) -> BecomeLeader:
    return BecomeLeader(
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        isr=(1, 2),
        replicas=(1, 2, 3),
        log_end_offset=0,
        min_insync_replicas=1,
    )


def follow(*, leader_id: int = 2, leader_epoch: int = 5) -> BecomeFollower:
    return BecomeFollower(
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        partition_epoch=7,
        isr=(2, 3),
        replicas=(1, 2, 3),
        log_end_offset=0,
    )


def after(*events: Event) -> PartitionReplica:
    replica = stopped()
    for event in events:
        replica.handle(event, 0)
        replica.check_invariants()
    return replica


def answer(error: ErrorCode, *, attempt: int = 1) -> IsrProposalAnswered:
    return IsrProposalAnswered(attempt=attempt, error_code=int(error))


JOINS = FollowerFetched(replica_id=3, fetch_offset=0)
BEGINNINGS: dict[str, tuple[Callable[[], PartitionReplica], Role]] = {
    "stopped": (stopped, Role.STOPPED),
    "follower": (lambda: after(follow()), Role.FOLLOWER),
    "leader": (lambda: after(lead()), Role.LEADER),
    "leader with a proposal": (lambda: after(lead(), JOINS), Role.LEADER),
    "leader without an answer": (
        lambda: after(lead(), JOINS, answer(ErrorCode.network_exception)),
        Role.LEADER,
    ),
    "leader whose proposal was agreed to": (lambda: after(lead(), JOINS, answer(ErrorCode.none)), Role.LEADER),
}
STIMULI: tuple[Event, ...] = (
    lead(),
    lead(partition_epoch=8),
    lead(leader_epoch=4),
    lead(leader_epoch=6),
    follow(),
    follow(leader_epoch=4),
    follow(leader_epoch=6),
    follow(leader_id=-1, leader_epoch=6),
    StopReplica(),
    JOINS,
    Tick(),
    answer(ErrorCode.none),
    answer(ErrorCode.none, attempt=2),
    answer(ErrorCode.network_exception),
    answer(ErrorCode.ineligible_replica),
)


@pytest.mark.parametrize("name", BEGINNINGS)
def test_each_beginning_is_in_its_role(name: str) -> None:
    begin, role = BEGINNINGS[name]
    assert begin().role is role


def test_whatever_comes_in_whatever_role_the_tables_have_it_and_have_nothing_else() -> None:
    with recorded() as (roles, isrs):
        for (begin, _), event in itertools.product(BEGINNINGS.values(), STIMULI):
            replica = begin()
            replica.handle(event, 2 * RETRY_MS)
            replica.check_invariants()
    assert set(roles) == {(role, trigger, new) for (role, trigger), new in TRANSITIONS.items()}
    assert set(isrs) == {(state, trigger, new) for (state, trigger), new in ISR_TRANSITIONS.items()}


def test_what_is_not_in_a_table_is_refused() -> None:
    with pytest.raises(AssertionError, match="no row for a replica that is stopped: elected again"):
        stopped()._enter(Trigger.LEADS_AGAIN)
    with pytest.raises(AssertionError, match="no row for an ISR that is settled: the controller agrees"):
        IsrProposal().answered(0, retry_at_ms=1)


def test_an_image_of_an_older_leader_epoch_changes_no_role() -> None:
    for role in (after(lead()), after(follow())):
        before = role.role, role.leader_epoch, role.isr
        for event in (lead(leader_epoch=4), follow(leader_epoch=4)):
            assert role.handle(event, 0) == []
        assert (role.role, role.leader_epoch, role.isr) == before
