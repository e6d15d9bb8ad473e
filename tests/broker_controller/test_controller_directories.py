"""Brokers with several log directories (KIP-858): a directory that fails costs its own replicas only."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import UUID

import pytest

from broker.controller.broker_configs import CORDONED
from broker.controller.directory_types import AssignReplicas, AssignReplicasResponse, ReplicaPlace
from broker.controller.features import CANNOT_CORDON, CORDONED_LEVEL, METADATA_VERSION
from broker.controller.image import BROKER_RESOURCE, PartitionState
from broker.controller.reassignment_types import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    WantedReplicas,
)
from broker.controller.record_codec import encode_records
from broker.controller.records import FeatureLevelRecord
from broker.controller.setting_types import AlterConfigs, AlterConfigsResponse, ConfigChange
from broker.controller.snapshot import image_of, image_records
from broker.quorum.types import LogEntry
from broker.wire.errors import ErrorCode

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import SESSION_MS, ControllerWorld

LOST = UUID(int=1)  # Kafka's id of a directory that nobody knows


def directory(broker: int, number: int) -> UUID:
    return UUID(int=1_000 * broker + number)


def two_each(**config: object) -> ControllerWorld:
    """Brokers 1 to 3, each with two log directories, and a topic whose replicas have not been told yet."""
    world = ControllerWorld(**config)
    world.lead()
    for broker in (1, 2, 3):
        assert world.register(broker, directories=(directory(broker, 1), directory(broker, 0))).error_code == 0
        assert not world.beat(broker).is_fenced
    world.create(assignments={0: (2, 3, 1), 1: (2, 3, 1)})
    return world


def assign(
    world: ControllerWorld, broker: int, *places: tuple[int, UUID | None], topic_id: UUID | None = None
) -> list[int]:
    topic_id = topic_id or world.controller.image.topics["t"].topic_id
    request = AssignReplicas(
        token=world.token(),
        broker_id=broker,
        broker_epoch=world.broker_epochs[broker],
        places=tuple(
            ReplicaPlace(topic_id=topic_id, partition=partition, directory=where) for partition, where in places
        ),
    )
    answer = world.ask(AssignReplicasResponse, request)
    assert answer.error_code == 0
    return [each.error_code for each in answer.replicas]


def test_a_new_replica_lies_in_the_only_directory_of_its_broker() -> None:
    world = ControllerWorld()
    world.lead()
    assert world.register(1, directories=(directory(1, 0),)).error_code == 0
    assert world.register(2, directories=(directory(2, 0), directory(2, 1))).error_code == 0
    assert not world.beat(1).is_fenced
    assert not world.beat(2).is_fenced
    world.create(assignments={0: (2, 1)})
    assert world.partition().directories == (None, directory(1, 0))
    assert assign(world, 2, (0, directory(2, 1))) == [ErrorCode.none]
    assert world.partition().directories == (directory(2, 1), directory(1, 0))
    writes = len(world.log)
    assert assign(world, 2, (0, directory(2, 1))) == [ErrorCode.none]  # told again
    assert len(world.log) == writes


@pytest.mark.parametrize(
    "told",
    [
        (UUID(int=99),),  # reserved
        (LOST, directory(1, 0)),
        (None,),
        (directory(1, 0), directory(1, 0)),
        (directory(2, 0),),  # of another broker
    ],
)
def test_directories_that_cannot_be_those_of_the_broker_are_refused(told: tuple[UUID | None, ...]) -> None:
    world = ControllerWorld()
    world.lead()
    assert world.register(2, directories=(directory(2, 0),)).error_code == 0
    assert world.register(1, directories=told).error_code == ErrorCode.invalid_registration
    assert world.register(1, directories=(directory(1, 0),)).error_code == 0


def test_a_directory_that_fails_costs_its_own_replicas_only() -> None:
    world = two_each()
    assert assign(world, 2, (0, directory(2, 0)), (1, directory(2, 1))) == [ErrorCode.none] * 2
    before, other = world.partition(), world.partition(partition=1)
    assert not world.beat(2, failed=(directory(2, 0),)).is_fenced
    after = world.partition()
    assert (after.leader, after.isr, after.leader_epoch) == (3, (3, 1), before.leader_epoch + 1)
    assert world.partition(partition=1) == other
    assert world.controller.image.brokers[2].log_directories == {directory(2, 1)}
    writes = len(world.log)
    world.beat(2, failed=(directory(2, 0),))
    assert len(world.log) == writes
    assert world.alter_isr((3, 1, 2)).error_code == ErrorCode.ineligible_replica
    topic_id = world.controller.image.topics["t"].topic_id
    assert world.controller.image.has_offline(2, topic_id, 0)
    assert not world.controller.image.has_offline(2, topic_id, 1)


def test_the_next_controller_and_a_snapshot_know_the_directories() -> None:
    world = two_each()
    assign(world, 2, (0, directory(2, 0)))
    world.beat(2, failed=(directory(2, 0),))
    later = ControllerWorld(log=world.log)
    later.commit()
    image = later.controller.image
    assert image == world.controller.image
    assert image_of(image_records(image), end_offset=image.offset + 1, epoch=image.epoch) == image


def test_a_restart_with_the_directory_brings_the_replica_back() -> None:
    world = two_each()
    assign(world, 2, (0, directory(2, 0)))
    assert world.alter_isr((2,)).error_code == ErrorCode.none
    world.beat(2, failed=(directory(2, 0),))
    assert world.partition().leader == -1
    world.kill(2)
    assert world.register(2, directories=(directory(2, 1),)).error_code == 0  # still without it
    world.beat(2)
    assert world.partition().leader == -1
    world.kill(2)
    assert world.register(2, directories=(directory(2, 0), directory(2, 1))).error_code == 0
    world.beat(2)
    assert world.partition().leader == 2


def test_a_replica_that_is_told_to_lie_in_a_failed_directory_stops_to_lead() -> None:
    """The directory failed before the broker could tell that the replica lies in it."""
    world = two_each()
    world.beat(2, failed=(directory(2, 0),))
    assert world.partition().leader == 2
    assert assign(world, 2, (0, directory(2, 0))) == [ErrorCode.none]
    assert (world.partition().leader, world.partition().isr) == (3, (3, 1))
    assert assign(world, 2, (1, LOST)) == [ErrorCode.none]
    assert (world.partition(partition=1).leader, world.partition(partition=1).isr) == (3, (3, 1))


def test_a_replica_that_is_made_anew_in_another_directory_may_lead_again() -> None:
    world = two_each()
    assign(world, 2, (0, directory(2, 0)))
    assert world.alter_isr((2,)).error_code == ErrorCode.none
    world.beat(2, failed=(directory(2, 0),))
    assert world.partition().leader == -1
    assert assign(world, 2, (0, directory(2, 1))) == [ErrorCode.none]
    assert world.partition().leader == 2


def test_places_that_cannot_be_are_refused_one_by_one() -> None:
    world = two_each()
    world.create(name="u", assignments={0: (1, 3)})
    other = world.controller.image.topics["u"].topic_id
    assert assign(world, 2, (0, directory(2, 0)), topic_id=other) == [ErrorCode.not_leader_or_follower]
    assert assign(world, 2, (7, directory(2, 0))) == [ErrorCode.unknown_topic_or_partition]
    assert assign(world, 2, (0, directory(2, 0)), topic_id=UUID(int=5)) == [ErrorCode.unknown_topic_id]
    assert assign(world, 2, (0, directory(2, 0)), (0, directory(2, 1))) == [0, ErrorCode.invalid_request]
    stale = AssignReplicas(token=world.token(), broker_id=2, broker_epoch=0, places=())
    assert world.ask(AssignReplicasResponse, stale).error_code == ErrorCode.stale_broker_epoch


def test_directories_follow_the_replicas_through_a_reassignment() -> None:
    world = two_each()
    assert world.register(4, directories=(directory(4, 0),)).error_code == 0
    world.beat(4)
    for broker in (1, 2, 3):
        assign(world, broker, (0, directory(broker, 0)))
    wanted = (WantedReplicas(topic="t", partition=0, replicas=(4, 1)),)
    request = AlterPartitionReassignments(token=world.token(), partitions=wanted)
    world.ask(AlterPartitionReassignmentsResponse, request)
    state = world.partition()
    assert state.replicas == (4, 1, 2, 3)
    assert state.directories == tuple(directory(broker, 0) for broker in state.replicas)
    assert world.alter_isr((4, 1, 2, 3)).error_code in (ErrorCode.none, ErrorCode.new_leader_elected)
    state = world.partition()
    assert state.replicas == (4, 1)
    assert state.directories == (directory(4, 0), directory(1, 0))


def test_the_last_directory_is_not_written_as_failed() -> None:
    """Its broker ends, and its session with it. An empty list of directories would mean that nothing changed."""
    world = two_each()
    assign(world, 2, (0, directory(2, 0)))
    writes = len(world.log)
    world.beat(2, failed=(directory(2, 0), directory(2, 1)))
    assert len(world.log) == writes


def test_a_broker_whose_directories_are_all_cordoned_gets_no_new_replicas() -> None:
    """KIP-1066. Replicas that it has stay, and it may be named for new ones."""
    world = two_each()
    both = (directory(2, 0), directory(2, 1))
    assert not world.beat(2, cordoned=both[:1]).is_fenced
    assert 2 in {each for state in created(world, "one", partitions=3) for each in state.replicas}
    before = world.partition()
    assert not world.beat(2, cordoned=both).is_fenced
    assert not {each for state in created(world, "all", partitions=6) for each in state.replicas} & {2}
    assert world.partition() == before
    refused = world.create("three", partitions=1, replication_factor=3)
    assert refused.error_code == ErrorCode.invalid_replication_factor
    assert refused.error_message == (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
        "only 2 broker(s) are registered or some brokers have all their log directories cordoned."
    )
    assert world.create("named", assignments={0: (2,)}).error_code == ErrorCode.none
    writes = len(world.log)
    for told in (both, None, (*both, directory(9, 9))):  # nothing new, not told, and one that is not there
        world.beat(2, cordoned=told)
    assert len(world.log) == writes
    assert not world.beat(2, cordoned=()).is_fenced
    assert 2 in {each for state in created(world, "again", partitions=3) for each in state.replicas}


def created(world: ControllerWorld, name: str, **topic: object) -> tuple[PartitionState, ...]:
    assert world.create(name, replication_factor=2, **topic).error_code == ErrorCode.none
    return world.controller.image.topics[name].partitions


def test_without_a_broker_that_takes_replicas_no_topic_and_no_partition_is_made() -> None:
    world = two_each()
    for broker in (1, 2, 3):
        world.beat(broker, cordoned=(directory(broker, 0), directory(broker, 1)))
    cause = "All brokers are currently fenced, or have all their log directories cordoned."
    refused = world.create("new", partitions=1, replication_factor=1)
    assert refused.error_message == f"Unable to replicate the partition 1 time(s): {cause}"


def test_a_cordon_outlives_the_controller_and_is_told_again_by_a_new_process() -> None:
    world = two_each()
    world.beat(2, cordoned=(directory(2, 0),))
    later = ControllerWorld(log=world.log)
    later.commit()
    image = later.controller.image
    assert image.brokers[2].cordoned_directories == {directory(2, 0)}
    assert image_of(image_records(image), end_offset=image.offset + 1, epoch=image.epoch) == image
    world.beat(2, want_fence=True)
    assert world.controller.image.brokers[2].cordoned_directories == {directory(2, 0)}
    world.pass_time(2 * SESSION_MS, alive=(1, 3))
    assert world.register(2, directories=(directory(2, 0), directory(2, 1))).error_code == 0
    assert not world.controller.image.brokers[2].cordoned_directories
    assert world.beat(2, cordoned=(directory(2, 0),)).is_fenced, "first the controller learns where it may place"
    assert not world.beat(2, cordoned=(directory(2, 0),)).is_fenced
    assert world.controller.image.brokers[2].cordoned_directories == {directory(2, 0)}


def test_below_its_level_of_metadata_version_nothing_is_cordoned() -> None:
    """Of a cluster that an earlier version has made: a new one begins at the highest level."""
    level = FeatureLevelRecord(name=METADATA_VERSION, level=CORDONED_LEVEL - 1)
    world = ControllerWorld(log=[LogEntry(offset=0, epoch=1, is_control=False, values=encode_records((level,)))])
    world.epoch = 1
    world.commit()
    world.lead()
    assert world.register(2, directories=(directory(2, 0), directory(2, 1))).error_code == ErrorCode.none
    assert not world.beat(2, cordoned=(directory(2, 0),)).is_fenced
    assert not world.controller.image.brokers[2].cordoned_directories
    change = ConfigChange(resource_type=BROKER_RESOURCE, resource_name="2", changes={CORDONED: "*"})
    asked = AlterConfigs(token=world.token(), resources=(change,), validate_only=False)
    (answer,) = world.ask(AlterConfigsResponse, asked).resources
    assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_config, CANNOT_CORDON)
