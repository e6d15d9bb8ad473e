"""CreateTopics, DeleteTopics, AlterConfigs: what is accepted, where replicas go, every refusal."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.controller.placement import place_replicas
from broker.controller.setting_types import AlterConfigs, AlterConfigsResponse, ConfigChange
from broker.controller.topic_types import (
    CreateTopics,
    CreateTopicsResponse,
    DeleteTopics,
    DeleteTopicsResponse,
    NewTopic,
)

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import cluster


def test_a_topic_spreads_over_the_brokers() -> None:
    world = cluster(1, 2, 3)
    created = world.create(partitions=6, replication_factor=2, configs={"min.insync.replicas": "2"})
    assert (created.error_code, created.partitions, created.replication_factor) == (0, 6, 2)
    image = world.controller.image
    assert image.topics["t"].topic_id == created.topic_id
    assert image.topic_configs == {"t": {"min.insync.replicas": "2"}}
    partitions = image.topics["t"].partitions
    assert Counter(state.leader for state in partitions) == {1: 2, 2: 2, 3: 2}
    assert Counter(replica for state in partitions for replica in state.replicas) == {1: 4, 2: 4, 3: 4}
    assert all(state.isr == state.replicas and state.leader == state.replicas[0] for state in partitions)
    assert all((state.leader_epoch, state.partition_epoch) == (0, 0) for state in partitions)


def test_defaults_come_from_the_broker_settings() -> None:
    world = cluster(1, 2, 3, num_partitions=4, default_replication_factor=3)
    created = world.create()
    assert (created.partitions, created.replication_factor) == (4, 3)


def test_a_fenced_broker_gets_replicas_only_where_it_must_and_is_not_in_sync() -> None:
    world = cluster(1, 2, 3)
    world.kill(3)
    world.create("two", partitions=4, replication_factor=2)
    assert all(3 not in state.replicas for state in world.controller.image.topics["two"].partitions)
    assert world.create("three", partitions=4, replication_factor=3).error_code == 0
    for state in world.controller.image.topics["three"].partitions:
        assert state.replicas[-1] == 3
        assert set(state.isr) == {1, 2}


@pytest.mark.parametrize(
    ("topic", "error_code"),
    [
        ({"name": ""}, 17),
        ({"name": "."}, 17),
        ({"name": ".."}, 17),
        ({"name": "a b"}, 17),
        ({"name": "ä"}, 17),
        ({"name": "x\n"}, 17),
        ({"name": "x" * 250}, 17),
        ({"name": "a.b"}, 17),  # collides with a_b
        ({"name": "taken"}, 36),
        ({"name": "t", "partitions": 0}, 37),
        ({"name": "t", "partitions": -2}, 37),
        ({"name": "t", "partitions": 10_001}, 44),
        ({"name": "t", "replication_factor": 0}, 38),
        ({"name": "t", "replication_factor": 3}, 38),
        ({"name": "t", "configs": {"no.such.config": "1"}}, 40),
        ({"name": "t", "configs": {"retention.ms": "soon"}}, 40),
        ({"name": "t", "configs": {"min.insync.replicas": "0"}}, 40),
        ({"name": "t", "configs": {"cleanup.policy": "shred"}}, 40),
        ({"name": "t", "configs": {"min.cleanable.dirty.ratio": "2"}}, 40),
        ({"name": "t", "configs": {"retention.ms": None}}, 40),
        ({"name": "t", "assignments": {0: (1, 9)}}, 39),
        ({"name": "t", "assignments": {0: (1, 1)}}, 39),
        ({"name": "t", "assignments": {0: (1,), 1: (1, 2)}}, 39),
        ({"name": "t", "assignments": {1: (1,)}}, 39),
        ({"name": "t", "assignments": {0: (1,)}, "partitions": 1}, 42),
    ],
)
def test_refusals(topic: dict[str, object], error_code: int) -> None:
    world = cluster(1, 2)
    world.create("taken")
    world.create("a_b")
    topics = dict(world.controller.image.topics)
    created = world.create(**topic)  # type: ignore[arg-type]
    assert created.error_code == error_code
    assert created.error_message
    assert world.controller.image.topics == topics


def test_no_live_broker_no_topic() -> None:
    world = cluster(1, 2)
    world.kill(1)
    world.kill(2)
    assert world.create().error_code == 38
    assert world.create(assignments={0: (1, 2)}).error_code == 39


def test_a_request_may_succeed_in_part_and_names_must_be_unique() -> None:
    world = cluster(1)
    topics = tuple(NewTopic(name=name) for name in ("a", "twice", "twice", "b.c", "b_c"))
    answer = world.ask(CreateTopicsResponse, CreateTopics(token=world.token(), topics=topics))
    assert [topic.error_code for topic in answer.topics] == [0, 42, 0, 17]  # one answer a name, as Apache Kafka
    assert set(world.controller.image.topics) == {"a", "b.c"}


def test_validate_only_writes_nothing() -> None:
    world = cluster(1)
    request = CreateTopics(token=world.token(), topics=(NewTopic(name="t"),), validate_only=True)
    assert world.ask(CreateTopicsResponse, request).topics[0].error_code == 0
    assert world.controller.image.topics == {}


def test_topics_are_deleted_by_name_and_by_id_with_their_configs() -> None:
    world = cluster(1)
    world.create("a", configs={"retention.ms": "5"})
    topic_id = world.create("b").topic_id
    assert topic_id is not None
    request = DeleteTopics(token=world.token(), names=("a", "nope", "a"), topic_ids=(topic_id, UUID(int=3)))
    answer = world.ask(DeleteTopicsResponse, request)
    assert [topic.error_code for topic in answer.topics] == [0, 3, 3, 0, 100]
    assert world.controller.image.topics == {}
    assert world.controller.image.topic_configs == {}
    again = world.create("a")
    assert again.error_code == 0
    assert world.partition("a").leader_epoch == 0


def test_configs_are_set_and_removed() -> None:
    world = cluster(1)
    world.create("t")

    def alter(resource_type: int, name: str, **changes: str | None) -> int:
        named = {key.replace("_", "."): value for key, value in changes.items()}
        change = ConfigChange(resource_type=resource_type, resource_name=name, changes=named)
        answer = world.ask(AlterConfigsResponse, AlterConfigs(token=world.token(), resources=(change,)))
        return answer.resources[0].error_code

    assert alter(2, "t", retention_ms="7") == 0
    assert world.controller.image.topic_configs == {"t": {"retention.ms": "7"}}
    assert alter(2, "t", retention_ms="-9") == 40
    assert alter(2, "t", nonsense=None) == 0  # nothing is there to delete
    assert alter(2, "t", retention_ms=None) == 0
    assert world.controller.image.topic_configs == {}
    assert alter(2, "nope", retention_ms="7") == 3
    assert alter(4, "1", log_retention_ms="7") == 0
    assert world.controller.image.broker_configs["1"] == {"log.retention.ms": "7"}
    assert alter(4, "8", log_retention_ms="7") == 42
    assert alter(9, "x", a="b") == 42


@given(
    live_count=st.integers(1, 7),
    fenced_count=st.integers(0, 3),
    partitions=st.integers(1, 40),
    data=st.data(),
    seed=st.integers(0, 100),
)
def test_placement_is_even(live_count: int, fenced_count: int, partitions: int, data: st.DataObject, seed: int) -> None:
    live, fenced = list(range(live_count)), list(range(100, 100 + fenced_count))
    factor = data.draw(st.integers(1, live_count + fenced_count))
    placement = place_replicas(
        live=live, fenced=fenced, partitions=partitions, replication_factor=factor, rng=random.Random(seed)
    )
    assert len(placement) == partitions
    for replicas in placement:
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] in live
        assert sum(replica in fenced for replica in replicas) == max(0, factor - live_count)
    leaders = Counter({broker: 0 for broker in live}) + Counter()
    leaders.update(replicas[0] for replicas in placement)
    counts = [leaders[broker] for broker in live]
    assert max(counts) - min(counts) <= 1


def test_no_more_partitions_in_all_than_brokers_have_descriptors_for() -> None:
    world = cluster(1, partitions_max=5)
    assert world.create("a", partitions=3).error_code == 0
    assert world.create("b", partitions=3).error_code == 44
    assert world.create("b", partitions=2).error_code == 0
    assert world.create("c", partitions=1).error_code == 44
