"""The metadata cache: learnt by use, refreshed by error and age, epochs that only grow."""

from __future__ import annotations

import random

import pytest

from broker.client.core.batch import TopicPartition
from broker.client.core.metadata import BrokerAddress, MetadataAnswer, MetadataCache, PartitionState, TopicState

TP = TopicPartition("t", 0)


def make_cache() -> MetadataCache:
    return MetadataCache(max_age_ms=1000, backoff_first_ms=100, backoff_max_ms=400, rng=random.Random(1), idle_ms=5000)


def answer(leader: int, epoch: int, *, topic_id: str = "a", name: str = "t", error_code: int = 0) -> MetadataAnswer:
    partitions = () if error_code else (PartitionState(partition=0, leader=leader, leader_epoch=epoch),)
    return MetadataAnswer(
        brokers=(BrokerAddress(broker_id=1, host="h", port=1),),
        topics=(TopicState(name=name, partitions=partitions, topic_id=topic_id, error_code=error_code),),
    )


def test_nothing_is_asked_before_a_topic_is_used() -> None:
    cache = make_cache()
    assert cache.next_request_ms() is None
    cache.use_topic("t", 50)
    assert cache.next_request_ms() == 0
    assert cache.on_request(50) == ["t"]
    assert cache.next_request_ms() is None  # one is under way


def test_a_refresh_is_due_by_age_and_sooner_by_request_but_after_the_backoff() -> None:
    cache = make_cache()
    cache.use_topic("t", 0)
    cache.on_request(0)
    cache.on_answer(answer(1, 5), 10)
    assert cache.next_request_ms() == 1010
    cache.request_update()
    wanted = cache.next_request_ms()
    assert wanted is not None
    assert 10 + 80 <= wanted <= 10 + 120


def test_a_leader_of_an_older_epoch_is_not_taken_in() -> None:
    cache = make_cache()
    cache.use_topic("t", 0)
    cache.on_answer(answer(1, 5), 0)
    cache.on_answer(answer(2, 4), 1)
    assert (cache.leader(TP), cache.leader_epoch(TP)) == (1, 5)
    cache.on_answer(answer(2, 6), 2)
    assert (cache.leader(TP), cache.leader_epoch(TP)) == (2, 6)
    cache.check_invariants()


def test_a_topic_made_anew_starts_its_epochs_again() -> None:
    cache = make_cache()
    cache.on_answer(answer(1, 5, topic_id="a"), 0)
    cache.on_answer(answer(2, 0, topic_id="b"), 1)
    assert (cache.leader(TP), cache.leader_epoch(TP)) == (2, 0)


@pytest.mark.parametrize("bad", [answer(-1, 7), answer(0, 0, error_code=3)])
def test_missing_leaders_and_topics_keep_the_refresh_wanted_with_a_growing_backoff(bad: MetadataAnswer) -> None:
    cache = make_cache()
    cache.use_topic("t", 0)
    waits = []
    for time_ms in range(0, 5000, 1000):
        cache.on_request(time_ms)
        cache.on_answer(bad, time_ms)
        due = cache.next_request_ms()
        assert due is not None
        waits.append(due - time_ms)
    assert waits[0] <= 120
    assert waits[-1] == 400
    assert cache.available_partitions("t") == ()


def test_a_topic_first_used_while_a_request_is_under_way_is_asked_for_at_once() -> None:
    cache = make_cache()
    cache.use_topic("t", 0)
    cache.on_request(0)
    cache.use_topic("u", 1)
    cache.on_answer(answer(1, 1), 2)
    assert cache.next_request_ms() == 2


def test_a_topic_nobody_used_for_the_idle_time_is_left_out() -> None:
    cache = make_cache()
    cache.use_topic("old", 0)
    cache.use_topic("t", 4000)
    assert cache.on_request(5000) == ["t"]


def test_a_failed_request_is_tried_again_later() -> None:
    cache = make_cache()
    cache.use_topic("t", 0)
    cache.on_request(0)
    cache.on_failure(10)
    due = cache.next_request_ms()
    assert due is not None
    assert due > 10
