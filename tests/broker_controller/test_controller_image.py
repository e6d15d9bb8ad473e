"""Images: replay, the record encoding, and diff, over random lives of a whole cluster."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.controller.delta import diff
from broker.controller.image import MetadataImage, PartitionState
from broker.controller.record_codec import decode_records
from broker.controller.records import (
    FENCE,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    Endpoint,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from broker.controller.replay import replay
from broker.controller.topic_types import DeleteTopics, DeleteTopicsResponse

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import SESSION_MS, ControllerWorld, cluster

from tests.amount import examples, seeds

TOPIC_ID = UUID(int=12)
RECORDS: tuple[MetadataRecord, ...] = (
    FeatureLevelRecord(name="metadata.version", level=1),
    RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=UUID(int=4),
        broker_epoch=3,
        endpoints=(Endpoint(listener="EXTERNAL", host="127.0.0.1", port=9092),),
        rack=None,
        fenced=True,
        in_controlled_shutdown=False,
    ),
    BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, fenced=UNFENCE),
    TopicRecord(name="t", topic_id=TOPIC_ID),
    PartitionRecord(
        topic_id=TOPIC_ID, partition=0, replicas=(1, 2), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
    ),
    PartitionChangeRecord(topic_id=TOPIC_ID, partition=0, isr=(1, 2), leader=2),
    ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
    ConfigRecord(resource_type=4, resource_name="", name="x", value=None),
    ProducerIdsRecord(broker_id=1, broker_epoch=3, next_producer_id=1000),
    RemoveTopicRecord(topic_id=TOPIC_ID),
)


def test_replay_of_one_record_after_another() -> None:
    image = replay(MetadataImage(), RECORDS[:-1], offset=3, epoch=1)
    assert (image.offset, image.epoch) == (3, 1)
    assert image.live_broker_ids() == (1,)
    assert image.brokers[1].endpoints["EXTERNAL"].port == 9092
    assert image.partition("t", 0) == PartitionState(
        replicas=(1, 2), isr=(1, 2), leader=2, leader_epoch=1, partition_epoch=1
    )
    assert image.partition("t", 1) is None
    assert image.partition("u", 0) is None
    assert image.topic_configs == {"t": {"retention.ms": "5"}}
    assert image.next_producer_id == 1000
    gone = replay(image, RECORDS[-1:], offset=4, epoch=1)
    assert (gone.topics, gone.topic_names, gone.topic_configs) == ({}, {}, {})
    assert "t" in image.topics  # the older image is untouched


@pytest.mark.parametrize(
    "record",
    [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=UNFENCE),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, fenced=FENCE, in_controlled_shutdown=-1),
        TopicRecord(name="t", topic_id=UUID(int=99)),
        RemoveTopicRecord(topic_id=UUID(int=99)),
        PartitionRecord(
            topic_id=TOPIC_ID, partition=5, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
        ),
        PartitionChangeRecord(topic_id=TOPIC_ID, partition=3, isr=(1,)),
        ConfigRecord(resource_type=8, resource_name="1", name="x", value="y"),
    ],
)
def test_records_that_cannot_follow_are_refused(record: MetadataRecord) -> None:
    image = replay(MetadataImage(), RECORDS[:-1], offset=3, epoch=1)
    with pytest.raises(ValueError, match=r"broker|topic|partition|registration|resource"):
        replay(image, (record,), offset=4, epoch=1)
    with pytest.raises(ValueError, match="replayed on"):
        replay(image, (), offset=3, epoch=1)


def live(seed: int, steps: int) -> ControllerWorld:
    """A random life of a cluster of three, its invariants checked after every event."""
    chaos = random.Random(seed)
    world = cluster(1, 2, 3, unclean_leader_election_enable=chaos.random() < 0.3)
    alive = {1, 2, 3}
    for step in range(steps):
        match chaos.randrange(10):
            case 0 if alive:
                alive.discard(chaos.choice(sorted(alive)))
            case 1 | 2 | 3 if len(alive) < 3:
                broker_id = chaos.choice(sorted({1, 2, 3} - alive))
                if world.register(broker_id).error_code == 0:
                    alive.add(broker_id)
            case 4:
                world.create(f"topic-{step}", partitions=chaos.randint(1, 4), replication_factor=chaos.randint(1, 3))
            case 5 if world.controller.image.topics:
                name = chaos.choice(sorted(world.controller.image.topics))
                world.ask(DeleteTopicsResponse, DeleteTopics(token=world.token(), names=(name,)))
            case 6 if alive:
                world.beat(chaos.choice(sorted(alive)), want_shut_down=True)
            case 7:
                world.catch_up_all()
            case 8:
                world.lose()
                world.lead()
            case _:
                world.pass_time(chaos.choice([SESSION_MS // 4, SESSION_MS * 2]), alive=tuple(alive))
    return world


@pytest.mark.parametrize("seed", seeds(60, fast=15))
def test_replay_and_diff_over_random_lives(seed: int) -> None:
    world = live(seed, 40)
    images = [MetadataImage()]
    mirror: dict[int, dict[tuple[UUID, int], PartitionState]] = {1: {}, 2: {}, 3: {}}
    for entry in world.log:
        records = () if entry.is_control else decode_records(entry.values)
        images.append(replay(images[-1], records, offset=entry.end_offset - 1, epoch=entry.epoch))
        images[-1].check_invariants()
        check_epochs_grow(images[-2], images[-1])
        for broker_id, hosted in mirror.items():
            follow_delta(images[-2], images[-1], broker_id, hosted)
    assert images[-1] == world.controller.image
    for broker_id, hosted in mirror.items():
        wanted = {
            (topic.topic_id, index): state
            for topic in images[-1].topics.values()
            for index, state in enumerate(topic.partitions)
            if broker_id in state.replicas
        }
        assert hosted == wanted


def follow_delta(
    old: MetadataImage, new: MetadataImage, broker_id: int, hosted: dict[tuple[UUID, int], PartitionState]
) -> None:
    """What a broker would host if it knew deltas only."""
    delta = diff(old, new, broker_id=broker_id)
    for removal in delta.removed:
        del hosted[removal.topic_id, removal.partition]
    for change in delta.leads:
        assert change.state.leader == broker_id
        hosted[change.topic_id, change.partition] = change.state
    for change in delta.follows:
        assert change.state.leader != broker_id
        hosted[change.topic_id, change.partition] = change.state
    assert set(delta.leads) | set(delta.follows) <= set(delta.changed)
    assert set(old.live_broker_ids()) - set(delta.fenced) | set(delta.unfenced) == set(new.live_broker_ids())


def check_epochs_grow(old: MetadataImage, new: MetadataImage) -> None:
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        if before is None or before.topic_id != topic.topic_id:
            continue
        for was, now in zip(before.partitions, topic.partitions, strict=True):
            if was == now:
                continue
            assert now.partition_epoch > was.partition_epoch
            assert (now.leader_epoch > was.leader_epoch) == (now.leader != was.leader)


def test_random_lives_are_eventful() -> None:
    worlds = [live(seed, 40) for seed in range(20)]
    states = [s for world in worlds for topic in world.controller.image.topics.values() for s in topic.partitions]
    assert any(state.leader == -1 for state in states)
    assert any(state.leader_epoch > 2 for state in states)
    assert any(len(state.isr) == 3 for state in states)


def test_the_same_image_has_an_empty_diff() -> None:
    image = live(3, 30).controller.image
    delta = diff(image, image, broker_id=1)
    assert delta.leads == delta.follows == delta.removed == delta.changed == delta.brokers == delta.topic_configs == ()
    assert delta.fenced == delta.unfenced == ()


@settings(max_examples=examples(50))
@given(st.lists(st.sampled_from(["retention.ms", "segment.bytes"]), max_size=10), st.integers(0, 9))
def test_the_last_config_record_of_a_name_counts(names: list[str], removed_at: int) -> None:
    image = replay(MetadataImage(), (TopicRecord(name="t", topic_id=TOPIC_ID),), offset=0, epoch=1)
    expected: dict[str, str] = {}
    for index, name in enumerate(names):
        value = None if index == removed_at else str(index)
        record = ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)
        image = replay(image, (record,), offset=index + 1, epoch=1)
        if value is None:
            expected.pop(name, None)
        else:
            expected[name] = value
    assert dict(image.topic_configs.get("t", {})) == expected
