"""Streams groups in the group coordinator's shard: members, topics, delays, standbys, offsets, other kinds, replay."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from streams_world import (
    ALL,
    CHANGELOG,
    IN,
    OTHER,
    PLAIN,
    REVOKE_MS,
    SESSION_MS,
    STATEFUL,
    World,
    grown,
)

from broker.coordinator.groups.events import (
    UNKNOWN_MEMBER,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeClassicGroup,
    ExpireOffsets,
    FetchOffsets,
    JoinGroup,
    ListGroups,
    OffsetToCommit,
    Topic,
)
from broker.coordinator.groups.streams.events import StatusCode, StreamsHeartbeatResult, StreamsSettingsChanged
from broker.coordinator.groups.streams.tasks import Tasks
from broker.coordinator.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from broker.wire.errors import ErrorCode

ONE = (frozenset({0}), frozenset({1}))


def codes(answer: StreamsHeartbeatResult) -> list[StatusCode]:
    return [code for code, _ in answer.statuses]


def active(answer: StreamsHeartbeatResult) -> frozenset[int]:
    assert answer.assignment is not None
    return answer.assignment.active.get("0", frozenset())


# -- members


def test_the_first_member_has_all_tasks() -> None:
    world = World()
    answer = world.join("a")
    assert answer.assignment == ALL
    assert (answer.member_epoch, answer.statuses) == (2, ())
    assert world.beat("a", 2).assignment is None, "nothing is new"
    assert world.describe().state == "Stable"


def test_a_second_member_waits_for_the_first_to_give_up_a_task() -> None:
    world = World()
    first = world.join("a")
    second = world.join("b")
    assert active(second) == frozenset()
    told = world.beat("a", first.member_epoch, owned=ALL)
    assert active(told) in ONE
    assert told.member_epoch == first.member_epoch, "it has not given up the other one yet"
    assert world.beat("b", second.member_epoch).assignment is None
    given_up = world.beat("a", told.member_epoch, owned=told.assignment)
    assert given_up.member_epoch == second.member_epoch
    got = world.beat("b", second.member_epoch)
    assert active(got) | active(told) == {0, 1}
    assert world.describe().state == "Stable"


def test_a_member_that_does_not_give_up_its_task_in_time_is_removed() -> None:
    world = World()
    first = world.join("a")
    second = world.join("b")
    world.beat("a", first.member_epoch, owned=ALL)
    world.pass_time(REVOKE_MS - 1)
    assert len(world.describe().members) == 2
    world.pass_time(1)
    assert [member.member_id for member in world.describe().members] == ["b"]
    got = world.beat("b", second.member_epoch)
    assert active(got) == {0, 1}
    refused = world.beat("a", first.member_epoch, owned=ALL)
    assert refused.error_code is ErrorCode.unknown_member_id


def test_a_silent_member_is_removed_and_its_tasks_go_on() -> None:
    world = World()
    _, second = world.two_members()
    world.pass_time(SESSION_MS - 1)
    world.beat("b", second.member_epoch)
    world.pass_time(1)
    got = world.beat("b", second.member_epoch)
    assert active(got) == {0, 1}
    assert got.member_epoch > second.member_epoch


def test_members_that_go_silent_together_raise_the_epoch_once_each() -> None:
    world = World()
    world.two_members()
    epoch = world.describe().group_epoch
    world.pass_time(SESSION_MS)
    described = world.describe()
    assert (described.state, described.group_epoch, described.members) == ("Empty", epoch + 2, ())


def test_epochs_are_checked() -> None:
    world = World()
    first, _ = world.two_members()
    epoch = first.member_epoch
    for sent, owned, error in (
        (epoch + 1, None, ErrorCode.fenced_member_epoch),
        (epoch - 1, None, ErrorCode.fenced_member_epoch),
        (epoch - 1, ALL, ErrorCode.fenced_member_epoch),
        (epoch - 1, Tasks(), ErrorCode.none),
    ):
        assert world.beat("a", sent, owned=owned).error_code is error, (sent, owned)
    assert world.beat("x", epoch).error_code is ErrorCode.unknown_member_id
    assert world.beat("a", epoch, group_id="none").error_message == "Streams group none not found."


def test_tasks_that_do_not_exist_are_refused() -> None:
    world = World()
    epoch = world.join("a").member_epoch
    for owned, text in (
        (Tasks(active={"7": frozenset({0})}), "Subtopology 7 does not exist in the topology."),
        (
            Tasks(standby={"0": frozenset({2})}),
            "Task 2 for subtopology 0 is invalid. Number of tasks for this subtopology: 2",
        ),
    ):
        before = len(world.log)
        answer = world.beat("a", epoch, owned=owned)
        assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_request, text)
        assert len(world.log) == before


_PLAIN = PLAIN.subtopologies[0]
BROKEN = {
    "two subtopologies with one id": (_PLAIN, _PLAIN),
    "an index of no topic": (replace(_PLAIN, copartition_groups=(CopartitionGroup(source_topics=(7,)),)),),
    "a topic that is there twice": (
        replace(_PLAIN, state_changelog_topics=(TopicInfo(name="log"), TopicInfo(name="log"))),
    ),
}


@pytest.mark.parametrize("subtopologies", BROKEN.values(), ids=BROKEN)
def test_a_topology_that_contradicts_itself_leaves_nothing(subtopologies: tuple[Subtopology, ...]) -> None:
    world = World()
    broken = Topology(epoch=0, subtopologies=subtopologies)
    answer = world.beat("a", 0, topology=broken, rebalance_timeout_ms=1, owned=Tasks())
    assert answer.error_code is ErrorCode.unknown_server_error, "as Apache Kafka answers"
    assert not world.log
    world.join("a")


def test_a_refused_first_member_leaves_nothing() -> None:
    world = World()
    empty = Topology(epoch=0, subtopologies=(replace(PLAIN.subtopologies[0], source_topics=()),))
    answer = world.beat("a", 0, topology=empty, rebalance_timeout_ms=1, owned=Tasks())
    assert answer.error_code is ErrorCode.streams_invalid_topology
    assert world.log == []
    assert world.describe() is None


def test_a_full_group_takes_no_member_not_even_again() -> None:
    world = World(group_streams_max_size=1)
    epoch = world.join("a").member_epoch
    for member in ("b", "a"):
        answer = world.beat(member, 0, topology=PLAIN, rebalance_timeout_ms=1, owned=Tasks())
        assert answer.error_code is ErrorCode.group_max_size_reached
    assert world.beat("a", epoch).error_code is ErrorCode.none


def test_an_older_topology_is_told_and_another_is_refused() -> None:
    world = World()
    newer = replace(PLAIN, epoch=3)
    world.join("a", newer)
    assert codes(world.join("b", PLAIN)) == [StatusCode.STALE_TOPOLOGY]
    for topology in (replace(PLAIN, epoch=4), replace(STATEFUL, epoch=3)):
        answer = world.beat("c", 0, topology=topology, rebalance_timeout_ms=1, owned=Tasks())
        assert answer.error_message == "Topology updates are not supported yet."


def test_a_shutdown_is_told_to_all_until_the_group_is_empty() -> None:
    world = World()
    first, second = world.two_members()
    assert StatusCode.SHUTDOWN_APPLICATION in codes(world.beat("a", first.member_epoch, shutdown_application=True))
    assert StatusCode.SHUTDOWN_APPLICATION in codes(world.beat("b", second.member_epoch))
    for member in ("a", "b"):
        world.beat(member, -1)
    assert codes(world.join("a")) == []


# -- topics


def test_missing_source_topics_are_told_and_nobody_has_tasks() -> None:
    world = World()
    world.set_topics(other=OTHER)
    first = world.join("a")
    assert (codes(first), active(first)) == ([StatusCode.MISSING_SOURCE_TOPICS], frozenset())
    assert world.describe().state == "NotReady"
    world.set_topics(other=OTHER, **{"in": IN})
    got = world.beat("a", first.member_epoch)
    assert (codes(got), active(got)) == ([], {0, 1})


def test_missing_internal_topics_are_named_to_the_caller() -> None:
    world = World()
    first = world.join("a", STATEFUL)
    assert codes(first) == [StatusCode.MISSING_INTERNAL_TOPICS]
    (topic,) = first.topics_to_create.values()
    assert (topic.name, topic.partitions, topic.configs) == (CHANGELOG.name, 2, CHANGELOG.configs)
    world.set_topics(**{"in": IN, CHANGELOG.name: Topic(topic_id=UUID(int=9), partitions=2)})
    got = world.beat("a", first.member_epoch)
    assert (codes(got), active(got), got.topics_to_create) == ([], {0, 1}, {})


def test_a_topic_that_grows_has_more_tasks() -> None:
    world = World()
    first = world.join("a")
    world.set_topics(**{"in": grown(IN, 4)})
    assert active(world.beat("a", first.member_epoch)) == {0, 1, 2, 3}


def test_topics_of_others_change_nothing() -> None:
    world = World()
    first = world.join("a")
    before = len(world.log)
    world.set_topics(other=grown(OTHER, 9), **{"in": IN})
    assert world.beat("a", first.member_epoch).member_epoch == first.member_epoch
    assert len(world.log) == before


# -- settings and delays


def test_the_first_assignment_waits_for_the_initial_delay() -> None:
    world = World(group_streams_initial_rebalance_delay_ms=3_000)
    first = world.join("a")
    assert (codes(first), first.assignment) == ([StatusCode.ASSIGNMENT_DELAYED], Tasks())
    world.pass_time(2_999)
    assert codes(world.beat("a", first.member_epoch)) == [StatusCode.ASSIGNMENT_DELAYED]
    world.pass_time(1)
    got = world.beat("a", first.member_epoch)
    assert (codes(got), active(got)) == ([], {0, 1})


def test_the_delay_of_a_group_that_is_empty_again_ends_without_effect() -> None:
    world = World(group_streams_initial_rebalance_delay_ms=3_000)
    world.join("a")
    world.beat("a", -1)
    world.pass_time(3_000)
    assert world.describe().assignment_epoch == 1
    assert codes(world.join("a")) == [StatusCode.ASSIGNMENT_DELAYED]


def test_the_next_assignment_waits_for_the_interval() -> None:
    world = World(group_streams_assignment_interval_ms=1_000)
    first = world.join("a")
    assert codes(world.join("b")) == [StatusCode.ASSIGNMENT_DELAYED]
    world.pass_time(1_000)
    told = world.beat("a", first.member_epoch, owned=ALL)
    assert (codes(told), active(told) in ONE) == ([], True)


def test_a_group_has_settings_of_its_own() -> None:
    world = World()
    world.submit(
        StreamsSettingsChanged(
            session_timeouts_ms={"g": 1_000}, initial_delays_ms={"g": 500}, assignment_intervals_ms={"g": 9_000}
        )
    )
    assert codes(world.join("a")) == [StatusCode.ASSIGNMENT_DELAYED]
    world.pass_time(1_000)
    assert world.describe().members == ()


def test_standbys_are_given_to_other_processes_when_the_setting_comes() -> None:
    world = World()
    world.set_topics(**{"in": IN, CHANGELOG.name: Topic(topic_id=UUID(int=9), partitions=2)})
    first = world.join("a", STATEFUL)
    second = world.join("b", STATEFUL)
    told = world.beat("a", first.member_epoch, owned=ALL)
    first = world.beat("a", told.member_epoch, owned=told.assignment)
    second = world.beat("b", second.member_epoch)
    world.submit(StreamsSettingsChanged(standby_replicas={"g": 1}))
    got = world.beat("a", first.member_epoch, owned=told.assignment)
    assert got.assignment is not None
    assert got.assignment.standby["0"] | active(got) == {0, 1}
    assert got.member_epoch > second.member_epoch


def test_endpoints_are_told_when_they_change() -> None:
    world = World()
    world.join("a", user_endpoint=("h", 1))
    first = world.beat("a", 2, endpoint_epoch=5)
    assert first.endpoint_epoch == 0, "the group was made anew from its records"
    assert first.endpoints is not None
    assert [(each.endpoint, each.active) for each in first.endpoints] == [(("h", 1), (("in", (0, 1)),))]
    assert world.beat("a", 2, endpoint_epoch=0).endpoints is None
    second = world.join("b", user_endpoint=("k", 2))
    assert second.endpoint_epoch == 1
    assert second.endpoints is not None
    assert [each.endpoint for each in second.endpoints] == [("h", 1), ("k", 2)]


# -- fail-over


@pytest.mark.parametrize("is_compacted", [False, True])
def test_another_coordinator_goes_on(is_compacted: bool) -> None:
    world = World()
    first = world.join("a")
    second = world.join("b")
    told = world.beat("a", first.member_epoch, owned=ALL)
    world.beat("a", told.member_epoch, rack_id="r")
    world.fail_over(is_compacted=is_compacted)
    assert world.describe().state == "Reconciling"
    given_up = world.beat("a", told.member_epoch, owned=told.assignment)
    assert given_up.member_epoch > second.member_epoch, "its rack is new"
    assert active(world.beat("b", second.member_epoch)) in ONE
    world.fail_over(is_compacted=is_compacted)
    for member in ("a", "b"):
        world.beat(member, -1)
    assert world.ask(DeleteGroup) is ErrorCode.none
    world.fail_over(is_compacted=is_compacted)
    assert world.describe() is None


def test_a_member_that_had_to_give_up_tasks_still_has_to_after_a_fail_over() -> None:
    world = World()
    first = world.join("a")
    world.join("b")
    world.beat("a", first.member_epoch, owned=ALL)
    world.fail_over()
    world.pass_time(REVOKE_MS)
    assert [member.member_id for member in world.describe().members] == ["b"]


# -- offsets


def commit(
    world: World, member: str, epoch: int, *, topic: str = "in", partition: int = 0, producer: int = -1
) -> ErrorCode:
    offset = OffsetToCommit(topic=topic, partition=partition, offset=5, leader_epoch=0, metadata="")
    answer = world.ask(
        CommitOffsets, member_id=member, instance_id=None, generation=epoch, offsets=(offset,), wall_ms=world.now_ms,
        producer_id=producer, producer_epoch=0,
    )  # fmt: skip
    if answer.error_code is not ErrorCode.none:
        return ErrorCode(answer.error_code)
    return ErrorCode(answer.partitions[topic, partition])


def test_members_commit_in_their_epoch_or_since_they_have_the_task() -> None:
    world = World()
    first = world.join("a")
    world.join("b")
    told = world.beat("a", first.member_epoch, owned=ALL)
    after = world.beat("a", told.member_epoch, owned=told.assignment)
    (kept,) = active(told)
    old, epoch = first.member_epoch, after.member_epoch
    assert commit(world, "a", epoch) is ErrorCode.none
    assert commit(world, "a", epoch + 1) is ErrorCode.stale_member_epoch
    assert commit(world, "a", old, partition=kept) is ErrorCode.none
    assert commit(world, "a", old, partition=1 - kept) is ErrorCode.stale_member_epoch
    assert commit(world, "a", old, partition=1 - kept, producer=7) is ErrorCode.illegal_generation
    assert commit(world, "a", old, topic="other") is ErrorCode.stale_member_epoch
    assert commit(world, "x", epoch) is ErrorCode.unknown_member_id
    assert commit(world, "", -1) is ErrorCode.unknown_member_id
    assert commit(world, "", -1, producer=7) is ErrorCode.none, "a producer that does not name the member"


def test_members_fetch_in_their_epoch() -> None:
    world = World()
    epoch = world.join("a").member_epoch
    assert commit(world, "a", epoch) is ErrorCode.none
    for member, sent, error in (
        ("a", epoch, ErrorCode.none),
        ("a", epoch - 1, ErrorCode.stale_member_epoch),
        ("x", epoch, ErrorCode.unknown_member_id),
        (None, -1, ErrorCode.none),
    ):
        answer = world.ask(FetchOffsets, member_id=member, member_epoch=sent, topics={"in": (0,)}, require_stable=False)
        assert answer.error_code is error, (member, sent)
    assert answer.partitions["in", 0].offset == 5


def test_offsets_of_topics_that_the_group_reads_are_kept() -> None:
    world = World(offsets_retention_ms=1_000)
    epoch = world.join("a").member_epoch
    for topic in ("in", "other"):
        assert commit(world, "a", epoch, topic=topic) is ErrorCode.none
    deleted = world.ask(DeleteOffsets, partitions=(("in", 0), ("other", 0)))
    assert deleted.partitions == {
        ("in", 0): ErrorCode.group_subscribed_to_topic,
        ("other", 0): ErrorCode.none,
    }
    world.submit(ExpireOffsets(wall_ms=world.now_ms + 2_000))
    assert world.shard.offsets.has_any("g")
    world.beat("a", -1)
    world.submit(ExpireOffsets(wall_ms=world.now_ms + 2_000))
    assert not world.shard.offsets.has_any("g")
    assert world.describe() is None, "and the empty group with them"


def test_a_group_is_deleted_with_its_offsets_when_it_is_empty() -> None:
    world = World()
    epoch = world.join("a").member_epoch
    commit(world, "a", epoch)
    assert world.ask(DeleteGroup) is ErrorCode.non_empty_group
    world.beat("a", -1)
    assert world.ask(DeleteGroup) is ErrorCode.none
    assert (world.describe(), world.shard.offsets.has_any("g")) == (None, False)
    assert world.ask(DeleteGroup) is ErrorCode.group_id_not_found


# -- other kinds of groups


def classic_join(world: World, member: str = UNKNOWN_MEMBER) -> list[object]:
    world.token += 1
    event = JoinGroup(
        token=world.token, group_id="g", member_id=member, instance_id=None, client_id="c", client_host="/h",
        protocol_type="consumer", protocols=(("range", b""),), session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
        needs_known_member_id=False, can_skip_assignment=False,
    )  # fmt: skip
    return world.submit(event)


def test_a_classic_member_takes_an_empty_group_and_no_other() -> None:
    world = World()
    world.join("a")
    (refused,) = classic_join(world)
    assert getattr(refused, "error_code", None) is ErrorCode.inconsistent_group_protocol
    world.beat("a", -1)
    assert classic_join(world) == [], "it waits for the rebalance"
    assert world.describe() is not None
    answer = world.beat("a", 0, topology=PLAIN, rebalance_timeout_ms=1, owned=Tasks())
    assert answer.error_message == "Group g is not a streams group."
    world.fail_over()


def test_a_group_of_offsets_alone_becomes_a_streams_group_and_keeps_them() -> None:
    world = World()
    assert commit(world, "", -1) is ErrorCode.none
    assert world.beat("a", 3).error_message == "Group g is not a streams group."
    world.join("a")
    assert world.shard.offsets.has_any("g")
    world.token += 1
    (listed,) = world.submit(ListGroups(token=world.token))
    assert [(each.group_id, each.group_type, each.state) for each in listed] == [("g", "streams", "Stable")]
    assert world.ask(DescribeClassicGroup).is_other_kind
