"""Share groups in the group coordinator's shard: members, epochs, states, offsets, other kinds of groups, replay."""

from __future__ import annotations

import random
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from group_world import compacted

from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.events import (
    UNKNOWN_MEMBER,
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetToCommit,
    StatesToDelete,
    SyncGroup,
    Topic,
    TopicsChanged,
)
from broker.coordinator.groups.shard import GroupShard
from broker.coordinator.runtime import Append, Loaded, LoadedRecord, Reply, Tick
from broker.node.features.share_groups.groups.config import ShareGroupConfig
from broker.node.features.share_groups.groups.events import (
    AlterShares,
    DeleteShares,
    DescribeShareGroup,
    ShareHeartbeat,
    ShareHeartbeatResult,
    SharesDeleted,
    ShareSettingsChanged,
    SharesInitialized,
    SharesOf,
)
from broker.node.features.share_groups.groups.records import decode, encode
from broker.node.features.share_groups.groups.requests import ShareGroups
from broker.wire.errors import ErrorCode
from tests.amount import seeds

T, U = UUID(int=1), UUID(int=2)
TOPICS = {"t": Topic(topic_id=T, partitions=2), "u": Topic(topic_id=U, partitions=1)}
BOTH = {T: frozenset({0, 1})}


class World:
    def __init__(self, **config: Any) -> None:
        self.config = ShareGroupConfig(**{"group_share_assignment_interval_ms": 0, **config})
        self.now_ms, self.token = 0, 0
        self.log: list[LoadedRecord] = []
        self.topics = TOPICS
        self.shard = self.new_shard()
        self.submit(Loaded(leader_epoch=0))
        self.submit(TopicsChanged(topics=TOPICS))

    def new_shard(self) -> GroupShard:
        kinds = [partial(ShareGroups, config=self.config)]
        return GroupShard(config=GroupConfig(), rng=random.Random(1), wall_offset_ms=0, kinds=kinds)

    def fail_over(self) -> None:
        for log in (self.log, compacted(self.log)):
            other = self.new_shard()
            for record in log:
                other.replay(record)
            assert other.durable() == self.shard.durable()
        self.shard = other
        self.submit(Loaded(leader_epoch=1))
        self.submit(TopicsChanged(topics=self.topics))

    def submit(self, event: object) -> list[Any]:
        answers = []
        for action in self.shard.handle(event, self.now_ms):
            if isinstance(action, Append):
                for record in action.records:
                    offset = len(self.log)
                    self.log.append(LoadedRecord(offset=offset, timestamp_ms=0, key=record.key, value=record.value))
            elif isinstance(action, Reply):
                answers.append(action.response)
        self.shard.check_invariants()
        return answers

    def ask(self, kind: type, group_id: str = "g", **values: Any) -> Any:
        self.token += 1
        (answer,) = self.submit(kind(token=self.token, group_id=group_id, **values))
        return answer

    def beat(self, member: str, epoch: int, *names: str, group_id: str = "g") -> ShareHeartbeatResult:
        return self.ask(
            ShareHeartbeat, group_id, member_id=member, member_epoch=epoch, rack_id=None,
            subscribed_topic_names=names or None, client_id="c", client_host="/h",
        )  # fmt: skip

    def made(self, answer: ShareHeartbeatResult, *, is_done: bool = True) -> None:
        partitions = {topic_id: frozenset(offsets) for topic_id, offsets in answer.to_initialize.items()}
        self.ask(SharesInitialized, partitions=partitions, is_done=is_done)

    def join(self, member: str, *names: str) -> ShareHeartbeatResult:
        """Until it has its partitions."""
        answer = self.beat(member, 0, *(names or ("t",)))
        if answer.to_initialize:
            self.made(answer)
            answer = self.beat(member, answer.member_epoch)
        return answer

    def epoch_of(self, member: str) -> int:
        return next(each.member_epoch for each in self.ask(DescribeShareGroup).members if each.member_id == member)

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        deadline_ms = self.shard.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            self.submit(Tick())


def test_partitions_are_assigned_once_their_states_are_made() -> None:
    world = World()
    first = world.beat("a", 0, "t", "unknown")
    assert first.assignment == {}
    assert first.to_initialize == {T: {0: -1, 1: -1}}
    assert first.state_epoch == 2
    assert world.beat("a", 2).to_initialize == {}, "it is under way"
    world.made(first)
    answer = world.beat("a", 2)
    assert (answer.member_epoch, answer.assignment) == (3, BOTH)
    assert world.beat("a", 3).assignment is None, "nothing has changed"
    assert world.ask(SharesOf).partitions == BOTH


def test_a_state_that_could_not_be_made_is_begun_again() -> None:
    world = World()
    answer = world.beat("a", 0, "t")
    world.made(answer, is_done=False)
    assert world.beat("a", 2).to_initialize == {T: {0: -1, 1: -1}}
    world.now_ms += world.config.group_share_initialize_retry_ms
    assert world.beat("a", 2).to_initialize == {T: {0: -1, 1: -1}}, "nobody has told what became of it"


def test_a_partition_has_several_members_and_a_lone_one_has_all() -> None:
    world = World()
    world.join("a")
    assert world.join("b").assignment == {T: frozenset({0})}
    assert world.beat("a", 3).assignment == {T: frozenset({1})}
    assert world.join("c").assignment == {T: frozenset({1})}
    # Each partition has two readers, so one of the three members reads both.
    assert world.beat("a", 4).assignment == BOTH
    assert world.beat("b", -1).member_epoch == -1
    assert world.beat("c", -1).member_epoch == -1
    answer = world.beat("a", world.epoch_of("a"))
    assert answer.assignment is None, "nothing has changed"
    assert world.ask(DescribeShareGroup).members[0].assignment == BOTH


def test_an_unknown_topic_of_one_member_makes_the_subscriptions_differ() -> None:
    """Then each topic is spread on its own, and both members read the one partition of `u`."""
    world = World()
    world.join("a", "t", "u")
    assert world.join("b", "t", "u").assignment == {T: frozenset({0})}
    answer = world.beat("b", world.epoch_of("b"), "t", "u", "unknown")
    assert answer.assignment == {T: frozenset({0}), U: frozenset({0})}
    world.beat("a", world.epoch_of("a"))
    assert world.ask(DescribeShareGroup).members[0].assignment == {T: frozenset({1}), U: frozenset({0})}


def test_a_member_loses_a_topic_that_it_gave_up_before_the_next_assignment_is_due() -> None:
    world = World(group_share_assignment_interval_ms=1_000)
    world.now_ms = 5_000
    epoch = world.join("a", "t", "u").member_epoch
    world.now_ms += 1_000
    epoch = world.beat("a", epoch).member_epoch
    assert world.ask(DescribeShareGroup).members[0].assignment == {**BOTH, U: frozenset({0})}
    answer = world.beat("a", epoch, "u")
    assert (answer.member_epoch, answer.assignment) == (epoch, {U: frozenset({0})})
    world.fail_over()


def test_a_member_does_not_keep_a_topic_that_only_the_target_has() -> None:
    """The members' topics differ, and nobody subscribes to `t` any more."""
    world = World()
    world.join("a", "t")
    world.join("b", "u")
    answer = world.beat("a", world.epoch_of("a"), "unknown")
    assert answer.assignment == {}
    world.fail_over()


def test_new_topics_and_partitions_are_assigned() -> None:
    world = World()
    world.join("a", "t", "v")
    world.topics = {**TOPICS, "t": Topic(topic_id=T, partitions=3), "v": Topic(topic_id=UUID(int=3), partitions=1)}
    world.submit(TopicsChanged(topics=world.topics))
    answer = world.beat("a", 3)
    assert answer.to_initialize == {T: {2: -1}, UUID(int=3): {0: -1}}
    world.made(answer)
    assert world.beat("a", answer.member_epoch).assignment == {T: frozenset({0, 1, 2}), UUID(int=3): frozenset({0})}


def test_a_member_that_falls_silent_is_removed() -> None:
    world = World(group_share_session_timeout_ms=1_000)
    world.join("a")
    world.join("b")
    world.pass_time(600)
    world.beat("b", 4)
    world.pass_time(600)
    found = world.ask(DescribeShareGroup)
    assert [member.member_id for member in found.members] == ["b"]
    assert world.beat("a", 4).error_code is ErrorCode.unknown_member_id
    world.pass_time(1_000)
    assert world.ask(DescribeShareGroup).state == "Empty"


def test_a_group_may_have_a_session_timeout_of_its_own() -> None:
    world = World(group_share_session_timeout_ms=1_000)
    world.submit(ShareSettingsChanged(session_timeouts_ms={"g": 5_000}))
    world.join("a")
    world.pass_time(4_999)
    assert world.ask(DescribeShareGroup).state == "Stable"
    world.pass_time(1)
    assert world.ask(DescribeShareGroup).state == "Empty"


def test_epochs_fence_members() -> None:
    world = World()
    world.join("a")
    assert world.beat("a", 4).error_code is ErrorCode.fenced_member_epoch
    assert world.beat("a", 2).error_code is ErrorCode.none, "the answer with the present epoch was lost"
    world.join("b")
    world.beat("a", 3)
    assert world.beat("a", 2).error_code is ErrorCode.fenced_member_epoch
    assert world.beat("x", 2).error_code is ErrorCode.unknown_member_id
    assert world.beat("x", -1).error_code is ErrorCode.unknown_member_id
    assert world.beat("a", 2, group_id="none").error_code is ErrorCode.group_id_not_found


def test_a_full_group_takes_no_more_members() -> None:
    world = World(group_share_max_size=1)
    world.join("a")
    assert world.beat("b", 0, "t").error_code is ErrorCode.group_max_size_reached
    assert world.beat("a", 0, "t").error_code is ErrorCode.none, "it is in the group already"


def test_everything_but_the_timers_survives_a_fail_over() -> None:
    world = World(group_share_session_timeout_ms=1_000)
    world.join("a")
    world.join("b")
    world.fail_over()
    assert world.beat("b", 4).error_code is ErrorCode.none
    world.pass_time(1_000)
    assert world.ask(DescribeShareGroup).state == "Empty"


def test_a_member_keeps_its_epoch_when_the_cleaner_left_its_record_behind_its_assignment() -> None:
    """What the member says of itself is written again later than what it has: it subscribes to another topic."""
    world = World()
    world.pass_time(1_000)
    epoch = world.join("a").member_epoch
    world.submit(ShareSettingsChanged(session_timeouts_ms={}, assignment_interval_ms=15_000))
    assert world.beat("a", epoch, "t", "u").error_code is ErrorCode.none
    world.fail_over()
    assert world.beat("a", epoch).error_code is ErrorCode.none


# -- offsets ---------------------------------------------------------------------------------------------------------


def test_offsets_are_altered_while_the_group_has_no_members() -> None:
    world = World()
    answer = world.ask(AlterShares, offsets={"t": {0: 5, 7: 1}, "none": {0: 0}})
    assert answer.to_initialize == {T: {0: 5}}
    assert (answer.error_code, answer.state_epoch) == (ErrorCode.none, 1)
    world.ask(SharesInitialized, partitions={T: frozenset({0})}, is_done=True)
    assert world.ask(SharesOf).partitions == {T: frozenset({0})}
    world.join("a")
    assert world.ask(AlterShares, offsets={"t": {0: 5}}).error_code is ErrorCode.non_empty_group
    world.fail_over()


def test_an_alteration_that_failed_leaves_what_was() -> None:
    world = World()
    world.join("a")
    world.beat("a", -1)
    world.ask(AlterShares, offsets={"t": {0: 5}})
    world.ask(SharesInitialized, partitions={T: frozenset({0})}, is_done=False)
    assert world.ask(SharesOf).partitions == BOTH


def test_topics_are_forgotten_while_the_group_has_no_members() -> None:
    world = World()
    world.join("a")
    assert world.ask(DeleteShares, topics=("t",)).error_code is ErrorCode.non_empty_group
    world.beat("a", -1)
    answer = world.ask(DeleteShares, topics=("t", "u", "none"))
    assert answer.to_delete == BOTH
    assert {name: error for name, (error, _) in answer.errors.items()} == {
        "u": ErrorCode.unknown_topic_or_partition,
        "none": ErrorCode.unknown_topic_or_partition,
    }
    assert world.ask(SharesOf).partitions == {}
    assert world.ask(DeleteShares, topics=("t",)).to_delete == BOTH, "the first attempt may have failed"
    world.ask(SharesDeleted, topic_ids=frozenset({T}))
    world.fail_over()
    assert world.ask(DeleteShares, topics=("t",)).to_delete == {}
    assert world.ask(DeleteShares, "none", topics=("t",)).error_code is ErrorCode.group_id_not_found


def test_a_group_is_deleted_once_its_states_are() -> None:
    world = World()
    world.join("a")
    assert world.ask(DeleteGroup) is ErrorCode.non_empty_group
    world.beat("a", -1)
    assert world.ask(DeleteGroup) == StatesToDelete(group_type="share", partitions=BOTH)
    assert world.ask(DeleteGroup) == StatesToDelete(group_type="share", partitions=BOTH), (
        "the first attempt may have failed"
    )
    assert world.ask(DeleteGroup, are_states_deleted=True) is ErrorCode.none
    assert world.ask(DeleteGroup) is ErrorCode.group_id_not_found
    world.fail_over()
    assert world.ask(DescribeShareGroup) is None


def test_a_topic_that_the_image_of_a_starting_broker_lacks_is_not_taken_for_deleted() -> None:
    world = World()
    world.join("a", "t", "u")
    known = world.ask(SharesOf).partitions
    assert set(known) == {T, U}
    world.submit(TopicsChanged(topics={}, is_complete=False))
    world.pass_time(0)
    assert world.ask(SharesOf).partitions == known
    world.submit(TopicsChanged(topics={"u": TOPICS["u"]}))
    world.pass_time(0)
    assert world.ask(SharesOf).partitions == {U: frozenset({0})}


def test_states_of_deleted_topics_are_forgotten() -> None:
    world = World()
    world.join("a", "t", "u")
    world.topics = {"u": TOPICS["u"]}
    world.submit(TopicsChanged(topics=world.topics, deleted=frozenset({"t"})))
    world.pass_time(0)
    assert world.ask(SharesOf).partitions == {U: frozenset({0})}
    assert world.beat("a", 3).assignment == {U: frozenset({0})}


# -- other kinds -------------------------------------------------------------------------------------------------------


def join_classic(group_id: str = "g", token: int = 1) -> JoinGroup:
    return JoinGroup(
        token=token, group_id=group_id, member_id="", instance_id=None, client_id="c", client_host="/h",
        protocol_type="consumer", protocols=(("range", b""),), session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
        needs_known_member_id=False, can_skip_assignment=False,
    )  # fmt: skip


def test_members_of_other_kinds_are_refused_by_a_share_group() -> None:
    world = World()
    world.join("a")
    (joined,) = world.submit(join_classic())
    assert (joined.error_code, joined.member_id) == (ErrorCode.inconsistent_group_protocol, UNKNOWN_MEMBER)
    member = {"member_id": "x", "instance_id": None, "generation": 1}
    synced = world.ask(SyncGroup, **member, protocol_type=None, protocol=None, assignments={})
    assert synced.error_code is ErrorCode.unknown_member_id
    assert world.ask(Heartbeat, **member) is ErrorCode.unknown_member_id
    left = world.ask(LeaveGroup, members=(("x", None),))
    assert (left.error_code, left.members) == (ErrorCode.none, (("x", None, ErrorCode.unknown_member_id),))
    offset = OffsetToCommit(topic="t", partition=0, offset=1, leader_epoch=-1, metadata="")
    committed = world.ask(CommitOffsets, **{**member, "generation": -1}, offsets=(offset,), wall_ms=0)
    assert committed.error_code is ErrorCode.group_id_not_found
    assert world.ask(DeleteOffsets, partitions=(("t", 0),)).error_code is ErrorCode.group_id_not_found
    beat = world.ask(
        ConsumerHeartbeat, member_id="x", member_epoch=0, instance_id=None, rack_id=None, rebalance_timeout_ms=1,
        subscribed_topic_names=("t",), subscribed_topic_regex=None, server_assignor=None, owned={}, client_id="c",
        client_host="/h",
    )  # fmt: skip
    assert beat.error_code is ErrorCode.group_id_not_found
    (listed,) = world.submit(ListGroups(token=99))
    assert [(each.group_id, each.group_type, each.protocol_type, each.state) for each in listed] == [
        ("g", "share", "share", "Stable")
    ]


def test_a_group_of_another_kind_is_no_share_group() -> None:
    world = World()
    world.submit(join_classic())
    answer = world.beat("a", 0, "t")
    assert (answer.error_code, answer.error_message) == (ErrorCode.group_id_not_found, "Group g is not a share group.")
    assert world.ask(AlterShares, offsets={"t": {0: 1}}).error_code is ErrorCode.group_id_not_found


# -- records and a random life ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(25, fast=8))
def test_a_random_life_is_kept_by_its_log_and_assigned_fairly(seed: int) -> None:
    rng = random.Random(seed)
    world = World(group_share_session_timeout_ms=500)
    epochs: dict[str, int] = {}
    for _ in range(80):
        member, step = rng.choice("abcd"), rng.random()
        world.pass_time(rng.randrange(120))
        if step < 0.7:
            answer = world.beat(member, epochs.get(member, 0), *(rng.sample(["t", "u"], rng.randrange(1, 3))))
            if answer.error_code is ErrorCode.none:
                epochs[member] = answer.member_epoch
                if answer.to_initialize:
                    world.made(answer, is_done=rng.random() < 0.7)
            else:
                epochs.pop(member, None)
        elif step < 0.8:
            world.beat(member, -1)
            epochs.pop(member, None)
        elif step < 0.85:
            world.fail_over()
        elif step < 0.9:
            answer = world.ask(DeleteGroup)
            if isinstance(answer, StatesToDelete):
                world.ask(DeleteGroup, are_states_deleted=rng.random() < 0.8)
    for record in world.log:
        decoded = decode(record.key, record.value)
        assert decoded is not None
        assert encode(decoded) == encode(decode(encode(decoded).key, encode(decoded).value))
    for _ in range(3):
        for member in sorted(epochs):
            answer = world.beat(member, epochs[member])
            if answer.error_code is ErrorCode.none:
                epochs[member] = answer.member_epoch
                if answer.to_initialize:
                    world.made(answer)
            else:
                del epochs[member]
                break
    found = world.ask(DescribeShareGroup)
    if found is not None and found.members:
        assigned = {
            (topic, index) for each in found.members for topic, indexes in each.assignment.items() for index in indexes
        }
        subscribed = {TOPICS[name].topic_id for each in found.members for name in each.subscribed_topic_names}
        wanted = {(topic, index) for topic, indexes in world.ask(SharesOf).partitions.items() for index in indexes}
        assert assigned == {(topic, index) for topic, index in wanted if topic in subscribed}
    world.fail_over()
