"""Groups under random members of both protocols, with fail-overs: the promises that must hold after every event.

After every event the invariants of the shard are checked, the log replays to the same durable state, no token is
answered twice, a stable classic group has one owner a partition, and no partition of a KIP-848 group two holders.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from group_world import GroupWorld
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordinator.groups.classic_group import ClassicGroup, State
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer_group import ConsumerGroup
from broker.coordinator.groups.events import (
    ConsumerHeartbeatResult,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    JoinResult,
    SyncResult,
    Topic,
    TopicsChanged,
)
from broker.coordinator.groups.reconcile import subtract
from broker.wire.errors import ErrorCode
from tests.amount import examples

CONFIG = GroupConfig(
    group_initial_rebalance_delay_ms=100,
    group_max_size=4,
    group_consumer_session_timeout_ms=10_000,
    group_consumer_assignment_interval_ms=300,
)


class ClassicActor:
    """A client of the classic protocol that follows its answers. Slow or silent when the test says so."""

    def __init__(self, world: GroupWorld, instance_id: str | None) -> None:
        self.world, self.instance_id = world, instance_id
        self.member_id, self.generation = "", -1
        self.join_token: int | None = None
        self.sync_token: int | None = None
        self.is_assigned = False

    def step(self, *, protocols: tuple[tuple[str, bytes], ...]) -> None:
        if self.join_token is not None:
            self._joined()
        elif self.sync_token is not None:
            self._synced()
        elif self.is_assigned:
            error = self.world.heartbeat(self.member_id, self.generation, self.instance_id)
            if error is not ErrorCode.none:
                self._begin_again(error)
        else:
            self.join_token = self.world.join(
                self.member_id, instance_id=self.instance_id, protocols=protocols, needs_known_member_id=True
            )

    def _begin_again(self, error: ErrorCode) -> None:
        self.is_assigned = False
        if error in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            self.member_id = ""

    def _joined(self) -> None:
        token = self.join_token
        assert token is not None
        if token not in self.world.asked:
            self.join_token = None  # lost with the old coordinator
        elif self.world.is_answered(token):
            self.join_token = None
            result = self.world.answer(token, JoinResult)
            if result.error_code is ErrorCode.member_id_required:
                self.member_id = result.member_id
            elif result.error_code is ErrorCode.none:
                self.member_id, self.generation = result.member_id, result.generation
                assignments: dict[str, bytes] = {}
                if result.leader == self.member_id:
                    assert self.member_id in [member_id for member_id, _, _ in result.members]
                    assignments = {
                        member_id: b"%d:%d" % (result.generation, place)
                        for place, (member_id, _, _) in enumerate(result.members)
                    }
                self.sync_token = self.world.sync(
                    self.member_id,
                    self.generation,
                    {} if result.skip_assignment else assignments,
                    instance_id=self.instance_id,
                    protocol=result.protocol,
                )
            else:
                self._begin_again(result.error_code)

    def _synced(self) -> None:
        token = self.sync_token
        assert token is not None
        if token not in self.world.asked:
            self.sync_token = None
        elif self.world.is_answered(token):
            self.sync_token = None
            result = self.world.answer(token, SyncResult)
            self.is_assigned = result.error_code is ErrorCode.none
            if not self.is_assigned:
                self._begin_again(result.error_code)

    def leave(self) -> None:
        if self.member_id:
            self.world.leave((self.member_id, self.instance_id))
        self.member_id, self.generation, self.is_assigned = "", -1, False
        self.join_token = self.sync_token = None


class ConsumerActor:
    """A client of KIP-848: takes what it is given at once, gives up what it loses at its next heartbeat."""

    def __init__(self, world: GroupWorld, name: str, instance_id: str | None) -> None:
        self.world, self.name, self.instance_id = world, name, instance_id
        self.epoch = 0
        self.owned: dict[UUID, frozenset[int]] = {}

    def step(self, *, names: tuple[str, ...], regex: str | None, assignor: str, is_lost: bool) -> None:
        is_join = self.epoch == 0
        result = self.world.beat(
            self.name,
            self.epoch,
            instance_id=self.instance_id,
            subscribed_topic_names=names,
            subscribed_topic_regex=regex if regex is not None else "",
            server_assignor=assignor,
            rebalance_timeout_ms=20_000,
            owned={} if is_join else self.owned,
        )
        assert isinstance(result, ConsumerHeartbeatResult)
        if is_lost and not is_join:
            return  # the answer never came: the next heartbeat is as this one
        if result.error_code is not ErrorCode.none:
            self.epoch, self.owned = 0, {}
            return
        self.epoch = result.member_epoch
        if result.assignment is not None:
            kept = {topic_id: partitions for topic_id, partitions in result.assignment.items() if partitions}
            self.owned = dict(kept)

    def leave(self, epoch: int) -> None:
        if self.epoch > 0 and (epoch == -1 or self.instance_id is not None):
            self.world.beat(self.name, epoch, instance_id=self.instance_id)
        self.epoch, self.owned = 0, {}


def check(world: GroupWorld, consumers: list[ConsumerActor]) -> None:
    assert world.replayed().durable() == world.shard.durable()
    group = world.shard.groups.get("g")
    if isinstance(group, ClassicGroup) and group.is_in(State.STABLE):
        assigned = [member.assignment for member in group.members.values() if member.assignment]
        assert len(assigned) == len(set(assigned)), "two owners of one share in a generation"
    if isinstance(group, ConsumerGroup):
        # What a live client holds, the coordinator knows it to hold: so nobody else can have it.
        for actor in consumers:
            member = group.members.get(actor.name)
            if member is not None and actor.epoch > 0 and member.current.member_epoch == actor.epoch:
                held = subtract(subtract(actor.owned, member.current.assigned), member.current.pending_revocation)
                assert not held, f"{actor.name} holds {held}"


ACTION = st.one_of(
    st.tuples(st.just("classic"), st.integers(0, 3), st.sampled_from([b"a", b"b"])),
    st.tuples(st.just("classic"), st.integers(0, 3), st.just(b"a")),
    st.tuples(st.just("consumer"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("pass"), st.sampled_from([10, 100, 3_000, 12_000]), st.none()),
    st.tuples(st.just("leave"), st.integers(0, 7), st.sampled_from([-1, -2])),
    st.tuples(st.just("commit"), st.integers(0, 3), st.integers(-1, 3)),
    st.tuples(st.just("fail over"), st.none(), st.none()),
    st.tuples(st.just("delete"), st.booleans(), st.none()),
    st.tuples(st.just("expire"), st.booleans(), st.none()),
    st.tuples(st.just("topics"), st.integers(1, 6), st.booleans()),
)


def run(actions: list[tuple[Any, ...]]) -> GroupWorld:
    world = GroupWorld(config=CONFIG)
    classics = [ClassicActor(world, None if number < 2 else f"static-{number}") for number in range(4)]
    consumers = [ConsumerActor(world, f"c{number}", None if number < 3 else "still") for number in range(4)]
    names = (("t",), ("t", "u"), ("u",), ("t",))
    for kind, first, second in actions:
        if kind == "classic":
            classics[first].step(protocols=(("range", second), ("sticky", second)))
        elif kind == "consumer":
            regex = "t|u" if first == 2 else None
            assignor = "range" if first == 3 else "uniform"
            consumers[first].step(names=names[first], regex=regex, assignor=assignor, is_lost=second)
        elif kind == "pass":
            world.pass_ms(first)
        elif kind == "leave":
            if first < 4:
                classics[first].leave()
            else:
                consumers[first - 4].leave(second)
        elif kind == "commit":
            actor = classics[first]
            world.commit(second + 10, actor.member_id, actor.generation if second >= 0 else -1)
        elif kind == "fail over":
            world.fail_over()
        elif kind == "delete":
            token = world.token()
            places = (("t", 0), ("u", 1))
            delete = DeleteOffsets(token=token, group_id="g", partitions=places)
            world.ask(delete if first else DeleteGroup(token=token, group_id="g"))
        elif kind == "expire":
            later_ms = CONFIG.offsets_retention_ms + 1 if first else 0
            world.handle(ExpireOffsets(wall_ms=world.now_ms + 1_000_000 + later_ms))
        elif kind == "topics":
            deleted = frozenset({"u"}) if second else frozenset()
            if second:
                world.topics.pop("u", None)
            world.topics["t"] = Topic(topic_id=UUID(int=1), partitions=first)
            world.handle(TopicsChanged(topics=dict(world.topics), deleted=deleted))
            world.pass_ms(0)
        check(world, consumers)
    return world


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(ACTION, max_size=70))
@pytest.mark.thorough
def test_promises_hold_for_any_clients_and_any_time(actions: list[tuple[Any, ...]]) -> None:
    run(actions)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(ACTION, max_size=40), st.sampled_from(["classic", "consumer"]))
def test_a_group_that_is_left_alone_settles(actions: list[tuple[Any, ...]], protocol: str) -> None:
    """Whatever came before: clients that keep to the protocol reach a stable group with all partitions assigned."""
    world = run(actions)
    world.pass_ms(1_000_000)  # everybody is forgotten
    world.topics.update(t=Topic(topic_id=UUID(int=1), partitions=4))
    world.handle(TopicsChanged(topics=dict(world.topics)))
    if protocol == "classic":
        members = [ClassicActor(world, None) for _ in range(3)]
        for _ in range(60):
            for member in members:
                member.step(protocols=(("range", b"a"),))
            world.pass_ms(50)
        group = world.shard.groups["g"]
        assert isinstance(group, ClassicGroup)
        assert group.state is State.STABLE
        assert len(group.members) == 3
        assert all(member.is_assigned for member in members)
    else:
        actors = [ConsumerActor(world, f"n{number}", None) for number in range(3)]
        for _ in range(8):
            for actor in actors:
                actor.step(names=("t",), regex=None, assignor="uniform", is_lost=False)
            world.pass_ms(50)
        held = [partition for actor in actors for partitions in actor.owned.values() for partition in partitions]
        assert sorted(held) == [0, 1, 2, 3]
        assert max(len(next(iter(actor.owned.values()))) for actor in actors) == 2
        shard_group = world.shard.groups["g"]
        assert isinstance(shard_group, ConsumerGroup)
        assert shard_group.state == "Stable"
