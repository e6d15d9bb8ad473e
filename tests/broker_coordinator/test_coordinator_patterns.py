"""Subscriptions by pattern (KIP-848): when a pattern is resolved, with whose rights, and what the log keeps of it.

test_node_group_patterns.py asks Apache Kafka the same.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from group_world import TOPICS, GroupWorld
from group_world import consumer_group as group_of

from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer_group import ConsumerGroup
from broker.coordinator.groups.events import Topic
from broker.coordinator.groups.record_codec import decode
from broker.coordinator.groups.records import PatternKey
from broker.coordinator.groups.subscriptions import REFRESH_MIN_INTERVAL_MS
from broker.wire.errors import ErrorCode

T, U = TOPICS["t"].topic_id, TOPICS["u"].topic_id
REFRESH_MS = 60_000


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld(
        config=GroupConfig(
            group_consumer_assignment_interval_ms=0,
            group_consumer_regex_refresh_interval_ms=REFRESH_MS,
            group_consumer_session_timeout_ms=10 * REFRESH_MS,
        )
    )


def beat(world: GroupWorld, member: str, *allowed: str, **changes: Any) -> Any:
    """A heartbeat in the member's own epoch. `allowed` are the topics that it may describe; none given: all."""
    group = world.shard.groups.get("g")
    known = group.members.get(member) if isinstance(group, ConsumerGroup) else None
    rights = {"may_describe": frozenset(allowed).__contains__} if allowed else {}
    return world.beat(member, 0 if known is None else known.current.member_epoch, **{**rights, **changes})


def join(world: GroupWorld, member: str, pattern: str, *allowed: str, names: tuple[str, ...] | None = None) -> Any:
    return beat(world, member, *allowed, subscribed_topic_names=names, subscribed_topic_regex=pattern)


def resolve(world: GroupWorld) -> None:
    """What was planned is done."""
    world.pass_ms(0)
    assert group_of(world).refresh is None


def add_topic(world: GroupWorld, name: str, number: int) -> UUID:
    world.topics[name] = Topic(topic_id=UUID(int=number), partitions=2)
    world.topics_changed()
    return UUID(int=number)


def patterns_in_log(world: GroupWorld) -> list[tuple[str, set[str] | None]]:
    found = []
    for entry in world.log:
        record = decode(entry.key, entry.value)
        if record is not None and isinstance(record[0], PatternKey):
            value: Any = record[1]
            found.append((record[0].pattern, None if value is None else set(value.topics)))
    return found


# -- when --------------------------------------------------------------------------------------------------------------


def test_the_topics_of_a_new_pattern_come_with_a_later_heartbeat(world: GroupWorld) -> None:
    joined = join(world, "m", "[tu]")
    assert (joined.member_epoch, joined.assignment) == (1, {})
    resolve(world)
    told = beat(world, "m")
    assert (told.member_epoch, set(told.assignment)) == (2, {T, U})
    assert patterns_in_log(world) == [("[tu]", {"t", "u"})]


def test_topics_that_are_named_come_at_once_and_those_of_the_pattern_later(world: GroupWorld) -> None:
    assert set(join(world, "m", "u", names=("t",)).assignment) == {T}
    resolve(world)
    assert set(beat(world, "m").assignment) == {T, U}


def test_a_pattern_that_others_have_resolved_already_counts_at_once(world: GroupWorld) -> None:
    join(world, "a", "[tu]")
    resolve(world)
    beat(world, "a")
    join(world, "b", "[tu]")
    assert group_of(world).targets["b"]
    assert patterns_in_log(world) == [("[tu]", {"t", "u"})]


def test_who_changes_the_pattern_loses_its_topics_at_once_and_gets_the_new_ones_later(world: GroupWorld) -> None:
    join(world, "m", "t")
    resolve(world)
    assert set(beat(world, "m").assignment) == {T}
    told = beat(world, "m", subscribed_topic_regex="u")
    assert (told.member_epoch, told.assignment) == (2, {})
    resolve(world)
    world.pass_ms(REFRESH_MIN_INTERVAL_MS)
    beat(world, "m", owned={})
    resolve(world)
    assert set(beat(world, "m", owned={}).assignment) == {U}
    assert patterns_in_log(world) == [("t", {"t"}), ("t", None), ("u", {"u"})]


def test_who_gives_the_pattern_up_has_a_new_assignment_at_once(world: GroupWorld) -> None:
    join(world, "m", "u", names=("t",))
    resolve(world)
    beat(world, "m")
    told = beat(world, "m", subscribed_topic_regex="")
    assert set(told.assignment) == {T}
    assert group_of(world).resolved == {}


def test_a_new_topic_is_found_when_the_last_refresh_is_ten_seconds_ago(world: GroupWorld) -> None:
    join(world, "m", "t.*")
    resolve(world)
    beat(world, "m")
    later = add_topic(world, "t-later", 9)
    world.pass_ms(REFRESH_MIN_INTERVAL_MS)
    beat(world, "m")
    assert group_of(world).refresh is None
    world.pass_ms(1)
    assert beat(world, "m").assignment is None
    resolve(world)
    assert set(beat(world, "m").assignment) == {T, later}


def test_without_new_topics_nothing_is_resolved_again_before_the_refresh_interval(world: GroupWorld) -> None:
    join(world, "m", "t")
    resolve(world)
    beat(world, "m")
    world.topics["t"] = Topic(topic_id=T, partitions=6)
    world.topics_changed()
    world.pass_ms(REFRESH_MS)
    assert len(beat(world, "m").assignment[T]) == 6, "it grew: no pattern is needed to see that"
    assert group_of(world).refresh is None
    world.pass_ms(1)
    beat(world, "m")
    assert group_of(world).refresh is not None


def test_the_whole_name_must_match(world: GroupWorld) -> None:
    add_topic(world, "tt", 9)
    join(world, "m", "t")
    resolve(world)
    assert set(beat(world, "m").assignment) == {T}


def test_a_wrong_pattern_is_refused(world: GroupWorld) -> None:
    refused = join(world, "n", "(")
    assert refused.error_code is ErrorCode.invalid_regular_expression
    assert "missing ): (" in refused.error_message


def test_the_answer_of_a_pattern_that_nobody_has_any_more_is_dropped(world: GroupWorld) -> None:
    join(world, "a", "t")
    join(world, "b", "u")
    resolve(world)
    assert patterns_in_log(world) == [("t", {"t"})], "the refresh was planned before b came"
    world.pass_ms(REFRESH_MIN_INTERVAL_MS + 1)
    beat(world, "a")
    resolve(world)
    world.beat("b", -1)
    assert set(group_of(world).resolved) == {"t"}
    beat(world, "a", subscribed_topic_regex="t|u")
    world.beat("a", -1)
    assert group_of(world).refresh is None, "within ten seconds of the last"
    assert patterns_in_log(world)[-2:] == [("u", None), ("t", None)]


def test_who_leaves_before_the_pattern_is_resolved_leaves_no_answer(world: GroupWorld) -> None:
    join(world, "a", "t")
    world.beat("a", -1)
    resolve(world)
    assert patterns_in_log(world) == []
    assert world.replayed().durable() == world.shard.durable()


def test_a_static_member_that_comes_back_keeps_what_its_pattern_found(world: GroupWorld) -> None:
    world.beat("a", 0, instance_id="i", subscribed_topic_names=None, subscribed_topic_regex="t")
    resolve(world)
    beat(world, "a", instance_id="i")
    world.beat("a", -2, instance_id="i")
    told = world.beat("b", 0, instance_id="i", subscribed_topic_names=None, subscribed_topic_regex="t")
    assert set(told.assignment) == {T}
    assert patterns_in_log(world) == [("t", {"t"})]


def test_answers_survive_a_fail_over(world: GroupWorld) -> None:
    join(world, "m", "[tu]")
    resolve(world)
    epoch = beat(world, "m").member_epoch
    world.fail_over()
    assert set(group_of(world).resolved) == {"[tu]"}
    assert beat(world, "m").assignment is None
    assert group_of(world).epoch == epoch


def test_what_was_not_resolved_before_a_fail_over_is_resolved_after_it(world: GroupWorld) -> None:
    join(world, "m", "t")
    world.fail_over()
    beat(world, "m")
    resolve(world)
    assert set(beat(world, "m").assignment) == {T}


def test_a_new_coordinator_looks_again_for_topics_that_came_meanwhile(world: GroupWorld) -> None:
    join(world, "m", "t.*")
    resolve(world)
    beat(world, "m")
    world.topics["t-later"] = Topic(topic_id=UUID(int=9), partitions=1)
    world.fail_over()
    world.pass_ms(REFRESH_MIN_INTERVAL_MS + 1)
    beat(world, "m")
    resolve(world)
    assert UUID(int=9) in beat(world, "m").assignment


# -- rights ------------------------------------------------------------------------------------------------------------


def test_a_pattern_has_one_answer_with_the_rights_of_the_member_that_asked_last(world: GroupWorld) -> None:
    join(world, "a", ".*", "t")
    resolve(world)
    beat(world, "a", "t")
    join(world, "b", ".*", "t", "u")
    assert set(group_of(world).targets["b"]) == {T}, "it is resolved already"
    world.pass_ms(REFRESH_MS + 1)
    beat(world, "b", "t", "u")
    resolve(world)
    beat(world, "a", "t")
    assert set(group_of(world).targets["a"]) == {T, U}
    assert group_of(world).resolved[".*"].topics == {"t", "u"}


def test_a_right_that_was_taken_away_counts_after_the_refresh_interval(world: GroupWorld) -> None:
    join(world, "a", ".*", "t", "u")
    resolve(world)
    beat(world, "a", "t", "u")
    world.pass_ms(REFRESH_MS)
    beat(world, "a", "t")
    assert group_of(world).refresh is None
    world.pass_ms(1)
    beat(world, "a", "t")
    resolve(world)
    assert set(beat(world, "a", "t").assignment) == {T}


def test_an_answer_of_a_coordinator_whose_clock_was_ahead_is_resolved_again(world: GroupWorld) -> None:
    world.now_ms = 10 * REFRESH_MS
    join(world, "a", "t")
    resolve(world)
    world.now_ms = 0
    world.fail_over()
    beat(world, "a")
    assert group_of(world).refresh is not None
