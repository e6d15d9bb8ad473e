"""A broker tells which replicas have lost their storage (KIP-858): others lead, they join no ISR, a restart heals."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import uuid4

import pytest

from broker.controller.snapshot import image_of, image_records
from broker.controller.types import BrokerHeartbeat, BrokerHeartbeatResponse, ElectLeaders, ElectLeadersResponse
from broker.wire.errors import ErrorCode

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import ControllerWorld, cluster

OFFLINE = (("t", 0),)


def with_topic(**config: object) -> ControllerWorld:
    world = cluster(1, 2, 3, **config)
    world.create(assignments={0: (2, 3, 1), 1: (2, 3, 1)})
    return world


def test_leadership_is_handed_on_from_the_replica_that_failed_and_from_no_other() -> None:
    world = with_topic()
    before, other = world.partition(), world.partition(partition=1)
    assert not world.beat(2, offline=OFFLINE).is_fenced
    after = world.partition()
    assert (after.leader, after.isr) == (3, (3, 1))
    assert after.leader_epoch == before.leader_epoch + 1
    assert world.partition(partition=1) == other
    assert 2 in world.controller.image.live_broker_ids()
    writes = len(world.log)
    world.beat(2, offline=OFFLINE)  # each heartbeat tells all of it again
    assert len(world.log) == writes


def test_a_follower_that_failed_leaves_the_isr_and_cannot_join_it() -> None:
    world = with_topic()
    world.beat(3, offline=OFFLINE)
    assert (world.partition().leader, world.partition().isr) == (2, (2, 1))
    assert world.alter_isr((2, 3, 1)).error_code == ErrorCode.ineligible_replica
    assert world.alter_isr((2,)).error_code == ErrorCode.none


@pytest.mark.parametrize("version", [0, 1])
def test_the_last_member_does_not_lead_until_it_is_a_new_process(version: int) -> None:
    world = with_topic(eligible_leader_replicas_version=version)
    assert world.alter_isr((2,)).error_code == ErrorCode.none
    world.beat(2, offline=OFFLINE)
    state = world.partition()
    assert (state.leader, state.isr, state.elr) == ((-1, (), (2,)) if version else (-1, (2,), ()))
    world.kill(2)
    world.beat(2)  # the same process again, after its session had ended: its disk is as it was
    assert 2 in world.controller.image.live_broker_ids()
    assert world.partition().leader == -1
    world.kill(2)
    world.restart(2)
    assert (world.partition().leader, world.partition().isr) == (2, (2,))


def test_unclean_and_preferred_elections_pass_a_failed_replica_by() -> None:
    world = with_topic(unclean_leader_election_enable=True)
    assert world.alter_isr((2,)).error_code == ErrorCode.none
    world.beat(3, offline=OFFLINE)
    world.beat(2, offline=OFFLINE)
    assert (world.partition().leader, world.partition().isr) == (1, (1,))
    request = ElectLeaders(token=world.token(), partitions=(("t", 0),), unclean=False)
    answer = world.ask(ElectLeadersResponse, request).partitions[0]
    assert answer.error_code == ErrorCode.preferred_leader_not_available


def test_the_next_controller_knows_it_too() -> None:
    world = with_topic()
    world.beat(2, offline=OFFLINE)
    later = ControllerWorld(log=world.log)
    later.commit()
    topic_id = later.controller.image.topics["t"].topic_id
    assert later.controller.image.has_offline(2, topic_id, 0)
    assert not later.controller.image.has_offline(2, topic_id, 1)
    image = later.controller.image
    again = image_of(image_records(image), end_offset=image.offset + 1, epoch=image.epoch)
    assert again == image


def test_what_is_no_replica_of_the_broker_is_not_written() -> None:
    world = with_topic()
    writes = len(world.log)
    request = BrokerHeartbeat(
        token=world.token(),
        broker_id=2,
        broker_epoch=world.broker_epochs[2],
        current_metadata_offset=world.controller.image.offset,
        want_fence=False,
        want_shut_down=False,
        offline_directories=frozenset(uuid4() for _ in range(100)),
    )
    assert world.ask(BrokerHeartbeatResponse, request).error_code == ErrorCode.none
    assert len(world.log) == writes
