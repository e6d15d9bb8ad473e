"""Who leads after brokers die and return: the table of elections, then the rules through the whole controller."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from broker.controller.elections import elect
from broker.controller.image import PartitionState
from broker.controller.setting_types import AlterConfigs, AlterConfigsResponse, ConfigChange

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import cluster

# replicas, isr before, leader before, wanted isr, may lead, unclean -> leader, isr
TABLE = [
    ("the leader stays", (1, 2, 3), (1, 2, 3), 2, (1, 2, 3), {1, 2, 3}, False, 2, (1, 2, 3)),
    ("the leader stays when a follower leaves", (1, 2, 3), (1, 2, 3), 1, (1, 3), {1, 3}, False, 1, (1, 3)),
    ("the next of the isr in replica order", (3, 1, 2), (3, 1, 2), 3, (1, 2), {1, 2}, False, 1, (1, 2)),
    ("replica order, not isr order", (1, 2, 3), (3, 2, 1), 1, (3, 2), {2, 3}, False, 2, (3, 2)),
    ("not one that is not in sync", (1, 2, 3), (1, 3), 1, (3,), {2, 3}, False, 3, (3,)),
    ("the last member stays in the isr", (1, 2, 3), (1,), 1, (), {2, 3}, False, -1, (1,)),
    ("unclean: any live replica, alone", (1, 2, 3), (1,), 1, (), {2, 3}, True, 2, (2,)),
    ("unclean changes nothing while the isr has a leader", (1, 2, 3), (1, 2), 1, (2,), {2, 3}, True, 2, (2,)),
    ("unclean without any live replica", (1, 2, 3), (1,), 1, (), set(), True, -1, (1,)),
    ("an isr member returns", (1, 2, 3), (1,), -1, (1,), {1, 2, 3}, False, 1, (1,)),
    ("another replica returns", (1, 2, 3), (1,), -1, (1,), {2, 3}, False, -1, (1,)),
]


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_election_table(
    row: tuple[str, tuple[int, ...], tuple[int, ...], int, tuple[int, ...], set[int], bool, int, tuple[int, ...]],
) -> None:
    _, replicas, isr, leader, wanted, may_lead, unclean, expected_leader, expected_isr = row
    state = PartitionState(replicas=replicas, isr=isr, leader=leader, leader_epoch=4, partition_epoch=9)
    assert elect(state, isr=wanted, may_lead=may_lead, unclean=unclean) == (expected_leader, expected_isr)


def test_a_dead_leader_is_followed_by_the_next_in_the_isr_with_one_epoch_more() -> None:
    world = cluster(1, 2, 3)
    world.create(assignments={0: (2, 3, 1)})
    before = world.partition()
    assert (before.leader, before.isr) == (2, (2, 3, 1))
    world.kill(2)
    after = world.partition()
    assert (after.leader, after.isr) == (3, (3, 1))
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch == before.partition_epoch + 1


def test_a_dead_follower_leaves_the_isr_without_a_new_leader_epoch() -> None:
    world = cluster(1, 2, 3)
    world.create(assignments={0: (1, 2, 3)})
    before = world.partition()
    world.kill(3)
    after = world.partition()
    assert (after.leader, after.isr) == (1, (1, 2))
    assert after.leader_epoch == before.leader_epoch
    assert after.partition_epoch == before.partition_epoch + 1


@pytest.mark.parametrize("version", [0, 1])
def test_nobody_out_of_sync_is_elected_and_the_last_isr_member_leads_again(version: int) -> None:
    world = cluster(1, 2, 3, eligible_leader_replicas_version=version)
    world.create(assignments={0: (1, 2, 3)})
    assert world.alter_isr((1,)).error_code == 0
    world.kill(1)
    offline = world.partition()
    assert (offline.leader, offline.isr, offline.elr) == ((-1, (), (1,)) if version else (-1, (1,), ()))
    world.restart(1)
    back = world.partition()
    assert (back.leader, back.isr) == (1, (1,))
    assert back.leader_epoch == offline.leader_epoch + 1


@pytest.mark.parametrize("version", [0, 1])
def test_all_die_one_after_the_other_and_only_the_last_one_may_lead(version: int) -> None:
    world = cluster(1, 2, 3, eligible_leader_replicas_version=version)
    world.create(assignments={0: (1, 2, 3)})
    for broker_id in (1, 2, 3):
        world.kill(broker_id)
    assert (world.partition().leader, world.partition().isr) == (-1, () if version else (3,))
    world.restart(1)
    assert world.partition().leader == -1
    world.restart(3)
    assert (world.partition().leader, world.partition().isr) == (3, (3,))


@pytest.mark.parametrize("by_topic", [True, False])
def test_unclean_election_takes_any_live_replica_alone(by_topic: bool) -> None:
    world = cluster(1, 2, 3, unclean_leader_election_enable=not by_topic)
    configs = {"unclean.leader.election.enable": "true"} if by_topic else {}
    world.create(assignments={0: (1, 2, 3)}, configs=configs)
    world.alter_isr((1,))
    before = world.partition()
    world.kill(1)
    after = world.partition()
    assert (after.leader, after.isr) == (2, (2,))
    assert after.leader_epoch == before.leader_epoch + 1


def test_a_topic_may_forbid_what_the_cluster_allows() -> None:
    world = cluster(1, 2, unclean_leader_election_enable=True)
    world.create(assignments={0: (1, 2)}, configs={"unclean.leader.election.enable": "false"})
    world.alter_isr((1,))
    world.kill(1)
    assert world.partition().leader == -1


def test_allowing_unclean_election_later_elects_at_once() -> None:
    world = cluster(1, 2)
    world.create(assignments={0: (1, 2)})
    world.alter_isr((1,))
    world.kill(1)
    assert world.partition().leader == -1
    change = ConfigChange(resource_type=2, resource_name="t", changes={"unclean.leader.election.enable": "true"})
    world.ask(AlterConfigsResponse, AlterConfigs(token=world.token(), resources=(change,)))
    assert (world.partition().leader, world.partition().isr) == (2, (2,))
