"""The assignors of classic groups: nothing given twice or left out, even, few moves, and nothing taken in flight."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.client.core.batch import TopicPartition
from broker.client.core.groups.assignors import (
    ASSIGNORS,
    ASSIGNORS_BY_NAME,
    Assignment,
    Member,
    RebalanceProtocol,
    assign_cooperative,
    assign_range,
    assign_round_robin,
    assign_sticky,
    owners_of,
    rebalance_protocol,
)
from broker.client.core.groups.encodings import Subscription, encode_sticky_user_data
from tests.amount import examples

TOPICS = ("a", "b", "c")
counts = st.fixed_dictionaries({topic: st.integers(0, 6) for topic in TOPICS})
subscriptions = st.frozensets(st.sampled_from(TOPICS), min_size=1)


def member(
    name: str,
    topics: frozenset[str] = frozenset("a"),
    owned: frozenset[TopicPartition] = frozenset(),
    generation: int = 1,
    instance_id: str | None = None,
) -> Member:
    subscription = Subscription(topics=topics, owned=owned, generation=generation)
    return Member(member_id=name, instance_id=instance_id, subscription=subscription)


@st.composite
def groups(draw: st.DrawFn, *, same_topics: bool = False) -> tuple[Member, ...]:
    """Members that claim anything, also what another one claims, or what does not exist."""
    common = draw(subscriptions)
    names = draw(st.lists(st.sampled_from("uvwxyz"), min_size=1, max_size=6, unique=True))
    partitions = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 6))
    return tuple(
        member(
            name,
            common if same_topics else draw(subscriptions),
            draw(st.frozensets(partitions, max_size=6)),
            draw(st.integers(-1, 3)),
            draw(st.none() | st.just(f"static-{name}")),
        )
        for name in names
    )


def settle(members: tuple[Member, ...], given_out: Assignment, generation: int) -> tuple[Member, ...]:
    """The same members, with what they were given."""
    return tuple(
        member(
            each.member_id,
            each.subscription.topics,
            frozenset(given_out[each.member_id]),
            generation,
            each.instance_id,
        )
        for each in members
    )


def wanted(members: tuple[Member, ...], partition_counts: dict[str, int]) -> set[TopicPartition]:
    topics = {topic for each in members for topic in each.subscription.topics}
    return {TopicPartition(topic, index) for topic in topics for index in range(partition_counts[topic])}


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@given(members=groups(), partition_counts=counts)
@settings(max_examples=examples(60))
@pytest.mark.thorough
def test_no_partition_has_two_readers_and_each_reader_subscribes(
    name: str, members: tuple[Member, ...], partition_counts: dict[str, int]
) -> None:
    result = ASSIGNORS_BY_NAME[name].assign(members, partition_counts)
    assert set(result) == {each.member_id for each in members}
    given_out = [partition for held in result.values() for partition in held]
    assert len(given_out) == len(set(given_out))
    if name != "cooperative-sticky":
        assert set(given_out) == wanted(members, partition_counts)
    for each in members:
        assert {partition.topic for partition in result[each.member_id]} <= each.subscription.topics


@given(members=groups(same_topics=True), partition_counts=counts)
@settings(max_examples=examples(60))
def test_with_equal_subscriptions_nobody_has_two_more_than_another(
    members: tuple[Member, ...], partition_counts: dict[str, int]
) -> None:
    for assign in (assign_sticky, assign_round_robin):
        loads = [len(held) for held in assign(members, partition_counts).values()]
        assert max(loads) - min(loads) <= 1


@given(members=groups(), partition_counts=counts)
@settings(max_examples=examples(60))
def test_no_single_move_makes_a_sticky_assignment_more_even(
    members: tuple[Member, ...], partition_counts: dict[str, int]
) -> None:
    result = assign_sticky(members, partition_counts)
    for giver, held in result.items():
        for partition in held:
            for taker in members:
                if partition.topic in taker.subscription.topics:
                    assert len(held) - len(result[taker.member_id]) <= 1 or taker.member_id == giver


@given(members=groups(), partition_counts=counts)
@settings(max_examples=examples(60))
def test_an_assignment_that_nothing_happened_to_stays(
    members: tuple[Member, ...], partition_counts: dict[str, int]
) -> None:
    result = assign_sticky(members, partition_counts)
    assert assign_sticky(settle(members, result, 5), partition_counts) == result


@given(members=groups(same_topics=True), partition_counts=counts)
@settings(max_examples=examples(60))
@pytest.mark.thorough
def test_when_a_member_leaves_the_others_keep_all_they_have(
    members: tuple[Member, ...], partition_counts: dict[str, int]
) -> None:
    result = assign_sticky(members, partition_counts)
    staying = settle(members, result, 5)[1:]
    if staying:
        after = assign_sticky(staying, partition_counts)
        assert all(result[each.member_id] <= after[each.member_id] for each in staying)


@given(members=groups(same_topics=True), partition_counts=counts)
@settings(max_examples=examples(60))
@pytest.mark.thorough
def test_a_new_member_costs_the_others_only_its_share(
    members: tuple[Member, ...], partition_counts: dict[str, int]
) -> None:
    result = assign_sticky(members, partition_counts)
    joined = (*settle(members, result, 5), member("newcomer", members[0].subscription.topics))
    after = assign_sticky(joined, partition_counts)
    moved = sum(len(result[each.member_id] - after[each.member_id]) for each in members)
    assert moved == len(after["newcomer"])


@given(members=groups(), partition_counts=counts)
@settings(max_examples=examples(60))
@pytest.mark.thorough
def test_what_moves_is_given_up_in_one_generation_and_taken_in_a_later_one(
    members: tuple[Member, ...], partition_counts: dict[str, int]
) -> None:
    """KIP-429: at no time two members have a partition. Joining again ends with nothing left over."""
    final = assign_sticky(members, partition_counts)
    for generation in range(5, 9):
        result = assign_cooperative(members, partition_counts)
        owners = owners_of(members)
        for each in members:
            for other in members:
                if other is not each:
                    added = result[each.member_id] - each.subscription.owned
                    assert not added & other.subscription.owned
                    kept = {p for p in result[each.member_id] if owners.get(p) != each.member_id}
                    assert not kept & other.subscription.owned
        members = settle(members, result, generation)
    assert set().union(*result.values()) == set().union(*final.values())
    loads = sorted(len(held) for held in result.values())
    assert sum(load * load for load in loads) <= sum(len(held) ** 2 for held in final.values())


def test_range_and_roundrobin_give_what_the_documentation_of_kafka_says() -> None:
    """The examples in the Javadoc of RangeAssignor and RoundRobinAssignor."""
    both = (member("C0", frozenset({"t0", "t1"})), member("C1", frozenset({"t0", "t1"})))
    t0, t1 = [[TopicPartition(topic, index) for index in range(3)] for topic in ("t0", "t1")]
    three = {"t0": 3, "t1": 3}
    assert assign_range(both, three) == {"C0": {*t0[:2], *t1[:2]}, "C1": {t0[2], t1[2]}}
    assert assign_round_robin(both, three) == {"C0": {t0[0], t0[2], t1[1]}, "C1": {t0[1], t1[0], t1[2]}}
    unequal = (
        member("C0", frozenset({"t0"})),
        member("C1", frozenset({"t0", "t1"})),
        member("C2", frozenset({"t0", "t1", "t2"})),
    )
    t2 = [TopicPartition("t2", index) for index in range(3)]
    result = assign_round_robin(unequal, {"t0": 1, "t1": 2, "t2": 3})
    assert result == {"C0": {t0[0]}, "C1": {t1[0]}, "C2": {t1[1], *t2}}
    # The same example of StickyAssignor, which is more even.
    assert assign_sticky(unequal, {"t0": 1, "t1": 2, "t2": 3}) == {"C0": {t0[0]}, "C1": {*t1[:2]}, "C2": {*t2}}


def test_static_members_keep_their_rank_under_a_new_member_id() -> None:
    before = (member("x-1", instance_id="one"), member("a-2", instance_id="two"))
    after = (member("z-9", instance_id="one"), member("a-2", instance_id="two"))
    assert assign_range(before, {"a": 3})["x-1"] == assign_range(after, {"a": 3})["z-9"]


def test_of_two_claims_the_later_generation_is_right_and_of_equal_ones_neither() -> None:
    partition = TopicPartition("a", 0)
    stale, fresh = member("u", owned=frozenset({partition})), member("v", owned=frozenset({partition}), generation=2)
    assert owners_of((stale, fresh)) == {partition: "v"}
    assert owners_of((stale, member("v", owned=frozenset({partition})))) == {}


def test_the_user_data_of_javas_sticky_assignor_counts_as_a_claim() -> None:
    owned = frozenset({TopicPartition("a", 1)})
    data = encode_sticky_user_data(owned, 7)
    theirs = Member(
        member_id="java", instance_id=None, subscription=Subscription(topics=frozenset("a"), user_data=data)
    )
    assert owners_of((theirs,)) == {TopicPartition("a", 1): "java"}
    assert assign_sticky((theirs, member("u")), {"a": 2})["java"] == owned


def test_one_eager_assignor_in_the_list_makes_a_member_eager() -> None:
    assert rebalance_protocol(("range", "cooperative-sticky")) is RebalanceProtocol.EAGER
    assert rebalance_protocol(("cooperative-sticky",)) is RebalanceProtocol.COOPERATIVE
    assert len(ASSIGNORS) == 4
