"""AlterPartition: every reason to refuse, and what a change does."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import UUID

from broker.controller.types import AlterPartition, AlterPartitionResponse, IsrChange

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import ControllerWorld, cluster


def three() -> ControllerWorld:
    world = cluster(1, 2, 3)
    world.create(assignments={0: (1, 2, 3)})
    return world


def test_the_leader_shrinks_and_expands_the_isr() -> None:
    world = three()
    before = world.partition()
    shrunk = world.alter_isr((1, 2))
    assert shrunk.error_code == 0
    assert shrunk.state == world.partition()
    assert world.partition().isr == (1, 2)
    assert world.partition().partition_epoch == before.partition_epoch + 1
    assert world.partition().leader_epoch == before.leader_epoch
    assert world.alter_isr((2, 1, 3)).error_code == 0
    assert world.partition().isr == (1, 2, 3)


def test_asking_for_what_is_so_already_writes_nothing() -> None:
    world = three()
    writes = len(world.log)
    answer = world.alter_isr((3, 2, 1))
    assert (answer.error_code, answer.state) == (0, world.partition())
    assert len(world.log) == writes


def test_only_the_leader_may_ask() -> None:
    assert three().alter_isr((1, 2), sender=2).error_code == 42  # INVALID_REQUEST


def test_an_old_leader_epoch_is_fenced() -> None:
    world = three()
    world.kill(1)
    assert world.alter_isr((2,), leader_epoch=0).error_code == 74  # FENCED_LEADER_EPOCH


def test_an_old_partition_epoch_is_refused() -> None:
    world = three()
    old = world.partition().partition_epoch
    world.alter_isr((1, 2))
    assert world.alter_isr((1, 2, 3), partition_epoch=old).error_code == 95  # INVALID_UPDATE_VERSION


def test_epochs_from_the_future_mean_another_controller() -> None:
    world = three()
    assert world.alter_isr((1, 2), leader_epoch=9).error_code == 41  # NOT_CONTROLLER
    assert world.alter_isr((1, 2), partition_epoch=9).error_code == 41


def test_the_isr_holds_the_leader_and_only_replicas() -> None:
    world = three()
    assert world.alter_isr((2, 3)).error_code == 42
    assert world.alter_isr((1, 7)).error_code == 42
    assert world.alter_isr(()).error_code == 42


def test_a_fenced_or_restarted_replica_is_not_eligible() -> None:
    world = three()
    old_epoch = world.broker_epochs[3]
    world.kill(3)
    assert world.alter_isr((1, 2, 3)).error_code == 107  # INELIGIBLE_REPLICA
    world.restart(3)
    assert world.alter_isr((1, 2, 3), broker_epochs={3: old_epoch}).error_code == 107
    assert world.alter_isr((1, 2, 3)).error_code == 0


def test_a_broker_that_is_stopping_is_not_eligible() -> None:
    world = three()
    world.beat(2, want_shut_down=True)
    assert world.partition().isr == (1, 3)
    assert world.alter_isr((1, 2, 3)).error_code == 107


def test_unknown_partitions_and_stale_brokers() -> None:
    world = three()

    def ask(topic_id: UUID, partition: int, broker_epoch: int) -> AlterPartitionResponse:
        change = IsrChange(topic_id=topic_id, partition=partition, leader_epoch=0, partition_epoch=0, new_isr={1: -1})
        request = AlterPartition(token=world.token(), broker_id=1, broker_epoch=broker_epoch, changes=(change, change))
        return world.ask(AlterPartitionResponse, request)

    topic_id, epoch = world.controller.image.topics["t"].topic_id, world.broker_epochs[1]
    assert ask(UUID(int=5), 0, epoch).partitions[0].error_code == 100  # UNKNOWN_TOPIC_ID
    assert ask(topic_id, 8, epoch).partitions[0].error_code == 3  # UNKNOWN_TOPIC_OR_PARTITION
    assert ask(topic_id, 0, epoch + 1).error_code == 77  # STALE_BROKER_EPOCH
    twice = ask(topic_id, 0, epoch).partitions
    assert [partition.error_code for partition in twice] == [0, 42]
