"""Subscriptions and assignments of classic groups: as the protocol has them, in every version, and whatever comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment.v3.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription
from kio.serial import entity_reader

from broker.client.core.batch import TopicPartition
from broker.client.core.groups.encodings import (
    Subscription,
    decode_assignment,
    decode_cooperative_user_data,
    decode_sticky_user_data,
    decode_subscription,
    encode_assignment,
    encode_cooperative_user_data,
    encode_sticky_user_data,
    encode_subscription,
)
from broker.wire.errors import RemoteProtocolError

names = st.text(st.characters(min_codepoint=48, max_codepoint=122), min_size=1, max_size=8)
partitions = st.frozensets(st.builds(TopicPartition, names, st.integers(0, 99)), max_size=5)
subscriptions = st.builds(
    Subscription,
    topics=st.frozensets(names, max_size=4),
    owned=partitions,
    generation=st.integers(-1, 2**31 - 1),
    user_data=st.none() | st.binary(max_size=9),
    rack=st.none() | names,
)


@given(subscription=subscriptions)
def test_a_subscription_comes_back_and_is_read_so_by_another_implementation(subscription: Subscription) -> None:
    data = encode_subscription(subscription)
    assert decode_subscription(data) == subscription
    assert data[:2] == b"\x00\x03"
    theirs, size_bytes = entity_reader(ConsumerProtocolSubscription)(memoryview(data), 2)
    assert size_bytes == len(data) - 2
    assert set(theirs.topics) == subscription.topics
    assert theirs.generation_id == subscription.generation
    assert theirs.rack_id == subscription.rack
    owned = {TopicPartition(each.topic, index) for each in theirs.owned_partitions for index in each.partitions}
    assert owned == subscription.owned


@given(assigned=partitions)
def test_an_assignment_comes_back_and_is_read_so_by_another_implementation(
    assigned: frozenset[TopicPartition],
) -> None:
    data = encode_assignment(assigned)
    assert decode_assignment(data) == assigned
    theirs, _ = entity_reader(ConsumerProtocolAssignment)(memoryview(data), 2)
    found = {TopicPartition(each.topic, index) for each in theirs.assigned_partitions for index in each.partitions}
    assert found == assigned


@given(owned=partitions, generation=st.integers(-1, 2**31 - 1))
def test_the_user_data_of_the_sticky_assignors_comes_back(owned: frozenset[TopicPartition], generation: int) -> None:
    assert decode_sticky_user_data(encode_sticky_user_data(owned, generation)) == (owned, generation)
    assert decode_sticky_user_data(encode_sticky_user_data(owned, generation)[:-4]) == (owned, -1)
    assert decode_cooperative_user_data(encode_cooperative_user_data(generation)) == generation


def test_older_versions_tell_less_and_empty_bytes_assign_nothing() -> None:
    oldest = bytes.fromhex("0000 00000001 000161 ffffffff")
    assert decode_subscription(oldest) == Subscription(topics=frozenset({"a"}))
    owned = bytes.fromhex("0001 00000001 000161 ffffffff 00000001 000161 00000001 00000005")
    assert decode_subscription(owned).owned == {TopicPartition("a", 5)}
    assert decode_assignment(b"") == frozenset()


@given(data=st.binary(max_size=40))
def test_bytes_that_are_none_are_refused_and_never_more(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment, decode_sticky_user_data):
        try:
            decode(data)
        except RemoteProtocolError:
            continue


@given(subscription=subscriptions, cut=st.integers(1, 10))
def test_a_torn_subscription_is_refused(subscription: Subscription, cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_subscription(encode_subscription(subscription)[:-cut])
