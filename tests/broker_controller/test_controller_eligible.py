"""Eligible leader replicas (KIP-966): the table of elections, then the rules through the whole controller."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from broker.controller.eligible import Elected, elect_eligible
from broker.controller.feature_types import FeatureUpdate, UpdateFeatures, UpdateFeaturesResponse
from broker.controller.image import PartitionState
from broker.controller.setting_types import AlterConfigs, AlterConfigsResponse, AlteredConfig, ConfigChange
from broker.controller.types import ElectLeaders, ElectLeadersResponse, UnregisterBroker, UnregisterBrokerResponse
from broker.wire.errors import ErrorCode

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import ControllerWorld, cluster

NOBODY = -1
SAFE_DOWNGRADE = 2
# isr, elr, last known and leader before; wanted isr, may lead, unclean, min isr, lost -> leader, isr, elr, last known
TABLE = [
    ("enough are left", (1, 2, 3), (), (), 1, (1, 2), {1, 2}, False, 2, None, (1, (1, 2), (), ())),
    ("too few: who leaves is eligible", (1, 2), (), (), 1, (1,), {1}, False, 2, None, (1, (1,), (2,), ())),
    ("two leave at once", (1, 2, 3), (), (), 1, (1,), {1}, False, 2, None, (1, (1,), (2, 3), ())),
    ("a third leaves", (1,), (2,), (), 1, (), {3}, False, 2, None, (NOBODY, (), (1, 2), (1,))),
    ("the last leaves, an eligible one is there", (1,), (2,), (), 1, (), {2}, False, 2, None, (2, (2,), (1,), ())),
    ("an eligible one comes", (), (1, 2), (1,), NOBODY, (), {2}, False, 2, None, (2, (2,), (1,), ())),
    ("in replica order", (), (1, 2), (1,), NOBODY, (), {2, 1}, False, 2, None, (1, (1,), (2,), ())),
    ("another one comes", (), (1, 2), (1,), NOBODY, (), {3}, False, 2, None, (NOBODY, (), (1, 2), (1,))),
    ("an eligible one may have lost", (), (1, 2), (1,), NOBODY, (), {3}, False, 2, 1, (NOBODY, (), (2,), (1,))),
    ("the leader may have lost", (1,), (2,), (), 1, (), {3}, False, 2, 1, (NOBODY, (), (2,), (1,))),
    ("the last eligible one may have lost", (), (1,), (1,), NOBODY, (), {3}, False, 2, 1, (NOBODY, (), (), (1,))),
    ("the last known leader comes", (), (), (1,), NOBODY, (), {1, 3}, False, 2, None, (1, (1,), (), ())),
    ("it comes while another is eligible", (), (2,), (1,), NOBODY, (), {1}, False, 2, None, (NOBODY, (), (2,), (1,))),
    ("the first leader stays the last known", (), (2,), (1,), NOBODY, (), {3}, False, 2, 2, (NOBODY, (), (), (1,))),
    ("enough are in sync again", (1,), (2, 3), (), 1, (1, 2), {1, 2}, False, 2, None, (1, (1, 2), (), ())),
    ("an eligible one is in sync again", (1,), (2, 3), (), 1, (1, 2), {1, 2}, False, 3, None, (1, (1, 2), (3,), ())),
    ("unclean, an eligible one first", (), (2,), (1,), NOBODY, (), {2, 3}, True, 2, None, (2, (2,), (), ())),
    ("unclean: any, and all is forgotten", (), (2,), (1,), NOBODY, (), {3}, True, 2, None, (3, (3,), (), ())),
    ("one is enough", (1, 2), (), (), 1, (1,), {1}, False, 1, None, (1, (1,), (), ())),
    ("one is enough, and it leaves", (1,), (), (), 1, (), {2}, False, 1, None, (NOBODY, (), (1,), (1,))),
]


@pytest.mark.parametrize("row", TABLE, ids=[str(row[0]) for row in TABLE])
def test_election_table(row: tuple[object, ...]) -> None:
    _, isr, elr, last_known, leader, wanted, may_lead, unclean, least, lost, expected = row
    state = PartitionState(
        replicas=(1, 2, 3),
        isr=isr,  # type: ignore[arg-type]
        leader=leader,  # type: ignore[arg-type]
        leader_epoch=4,
        partition_epoch=9,
        elr=elr,  # type: ignore[arg-type]
        last_known_elr=last_known,  # type: ignore[arg-type]
    )
    elected = elect_eligible(
        state,
        isr=wanted,  # type: ignore[arg-type]
        may_lead=may_lead,  # type: ignore[arg-type]
        unclean=unclean,  # type: ignore[arg-type]
        min_isr=least,  # type: ignore[arg-type]
        lost=lost,  # type: ignore[arg-type]
    )
    names = ("leader", "isr", "elr", "last_known_elr")
    assert elected == Elected(**dict(zip(names, expected, strict=True)))  # type: ignore[call-overload,arg-type]


def last_one_standing(**config: object) -> ControllerWorld:
    """Broker 3 leaves, then 2, then 1. Two are needed, so 2 and 1 are eligible."""
    world = cluster(1, 2, 3, **config)
    world.create(assignments={0: (1, 2, 3)}, configs={"min.insync.replicas": "2"})
    for broker_id in (3, 2, 1):
        world.kill(broker_id)
    return world


def test_the_isr_may_become_empty_and_those_who_hold_all_stay_eligible() -> None:
    state = last_one_standing().partition()
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (-1, (), (1, 2), (1,))


def test_the_last_one_that_may_have_lost_records_does_not_lead() -> None:
    world = last_one_standing()
    before = world.partition()
    world.restart(1)
    state = world.partition()
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (-1, (), (2,), (1,))
    assert (state.leader_epoch, state.partition_epoch) == (before.leader_epoch, before.partition_epoch + 1)
    world.restart(3)
    assert world.partition().leader == -1
    world.restart(2, is_clean=True)
    state = world.partition()
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (2, (2,), (), ())
    assert state.leader_epoch == before.leader_epoch + 1


def test_an_eligible_replica_that_shut_down_cleanly_leads() -> None:
    world = last_one_standing()
    world.restart(2, is_clean=True)
    state = world.partition()
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (2, (2,), (1,), ())


def test_if_all_may_have_lost_records_the_last_leader_leads() -> None:
    world = last_one_standing()
    world.restart(3)
    world.restart(2)
    assert world.partition().elr == (1,)
    world.restart(1)
    state = world.partition()
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (1, (1,), (), ())


def test_a_broker_that_was_fenced_and_lives_keeps_what_it_has() -> None:
    world = last_one_standing()
    assert not world.beat(1).is_fenced
    assert (world.partition().leader, world.partition().elr) == (1, (2,))


def test_a_stale_mark_of_a_clean_shutdown_is_none() -> None:
    world = last_one_standing()
    assert world.register(1, previous=world.broker_epochs[1] - 1).error_code == 0
    assert world.partition().elr == (2,)


def test_a_member_of_the_isr_that_may_have_lost_records_does_not_become_eligible() -> None:
    world = cluster(1, 2)
    world.create(assignments={0: (1, 2)}, configs={"min.insync.replicas": "2"})
    world.shut_down(2)
    assert (world.partition().isr, world.partition().elr) == ((1,), (2,))
    world.restart(2, is_clean=True)
    assert world.partition().elr == (2,)
    world.shut_down(2)
    world.restart(2)
    assert (world.partition().isr, world.partition().elr) == ((1,), ())


def test_an_unregistered_broker_stays_eligible_until_it_registers() -> None:
    world = last_one_standing()
    epoch = world.broker_epochs[2]
    request = UnregisterBroker(token=world.token(), broker_id=2)
    assert world.ask(UnregisterBrokerResponse, request).error_code == 0
    assert world.partition().elr == (1, 2)
    assert world.register(2, previous=epoch).error_code == 0
    assert world.partition().elr == (1,)


def test_unclean_election_by_an_operator_takes_an_eligible_one_first() -> None:
    world = last_one_standing()
    world.restart(3)
    request = ElectLeaders(token=world.token(), unclean=True, partitions=(("t", 0),))
    assert world.ask(ElectLeadersResponse, request).partitions[0].error_code == 0
    state = world.partition()
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (3, (3,), (), ())


def test_without_the_feature_the_last_member_stays_in_the_isr() -> None:
    world = last_one_standing(eligible_leader_replicas_version=0)
    assert (world.partition().leader, world.partition().isr, world.partition().elr) == (-1, (1,), ())
    assert world.controller.image.broker_configs == {}
    world.restart(1)
    assert world.partition().leader == 1


def switched_off(world: ControllerWorld) -> None:
    off = FeatureUpdate(name="eligible.leader.replicas.version", level=0, upgrade_type=SAFE_DOWNGRADE)
    answer = world.ask(UpdateFeaturesResponse, UpdateFeatures(token=world.token(), updates=(off,)))
    assert answer.error_code is ErrorCode.none


def test_replicas_that_were_eligible_when_the_feature_was_switched_off_may_still_lead() -> None:
    """Nobody else can: the ISR is empty. Before, the partition stayed without a leader for ever."""
    world = last_one_standing()
    switched_off(world)
    world.restart(3)
    state = world.partition()
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (-1, (), (1, 2), (1,)), "3 was not eligible"
    world.restart(2)  # it was killed: without the feature that is not asked for
    state = world.partition()
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (2, (2,), (), ())
    world.restart(1)
    assert world.partition().isr == (2,), "the others come back as followers"


def test_a_leader_that_is_chosen_without_the_feature_leaves_no_traces_of_it() -> None:
    world = last_one_standing(unclean_leader_election_enable=True)
    state = world.partition()
    assert (state.leader, state.elr, state.last_known_elr) == (-1, (1, 2), (1,))
    switched_off(world)
    world.restart(3)
    state = world.partition()
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (3, (3,), (), ())


def test_a_cluster_that_was_made_without_the_feature_goes_on_without_it() -> None:
    first = cluster(1, eligible_leader_replicas_version=0)
    second = ControllerWorld(log=first.log)
    second.epoch = first.epoch
    second.lead()
    assert "eligible.leader.replicas.version" not in second.controller.image.features


def alter(world: ControllerWorld, kind: int, name: str, value: str | None, *, replaces: bool = False) -> AlteredConfig:
    changes = {} if replaces else {"min.insync.replicas": value}
    change = ConfigChange(resource_type=kind, resource_name=name, changes=changes, replaces_all=replaces)
    answer = world.ask(AlterConfigsResponse, AlterConfigs(token=world.token(), resources=(change,)))
    return answer.resources[0]


def test_a_new_cluster_has_min_insync_replicas_for_all_its_brokers() -> None:
    world = cluster(1, min_insync_replicas=2)
    assert world.controller.image.features["eligible.leader.replicas.version"] == 1
    assert world.controller.image.broker_configs == {"": {"min.insync.replicas": "2"}}


def test_min_insync_replicas_cannot_be_removed_from_the_cluster_or_set_for_one_broker() -> None:
    world = cluster(1)
    for removed in (alter(world, 4, "", None), alter(world, 4, "", None, replaces=True)):
        assert removed.error_code == ErrorCode.invalid_config
        assert removed.error_message == "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    for value in ("2", None):
        refused = alter(world, 4, "1", value)
        assert refused.error_code == ErrorCode.invalid_config
        assert refused.error_message == "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    assert alter(world, 4, "", "2").error_code == 0
    assert world.controller.image.broker_configs[""] == {"min.insync.replicas": "2"}


@pytest.mark.parametrize(
    ("kind", "name", "value", "is_cleared"),
    [(2, "t", "3", True), (2, "t", None, True), (2, "t", "2", False), (2, "other", "2", False), (4, "", "1", True)],
)
def test_a_new_min_insync_replicas_clears_the_eligible_replicas(
    kind: int, name: str, value: str | None, is_cleared: bool
) -> None:
    world = cluster(1, 2, 3)
    world.create(assignments={0: (1, 2, 3)}, configs={"min.insync.replicas": "2"})
    world.create("other", assignments={0: (1, 2, 3)})
    for broker_id in (3, 2):
        world.kill(broker_id)
    before = world.partition()
    assert (before.leader, before.isr, before.elr) == (1, (1,), (2,))
    assert alter(world, kind, name, value).error_code == 0
    state = world.partition()
    assert state.elr == (() if is_cleared else (2,))
    assert state.partition_epoch == before.partition_epoch + is_cleared
    assert (state.leader, state.isr, state.leader_epoch) == (1, (1,), before.leader_epoch)


def test_fewer_replicas_than_min_insync_replicas_are_enough_if_there_are_no_more() -> None:
    world = cluster(1, 2)
    world.create(assignments={0: (1, 2)}, configs={"min.insync.replicas": "3"})
    assert world.alter_isr((1,)).error_code == 0
    assert (world.partition().isr, world.partition().elr) == ((1,), (2,))
    assert world.alter_isr((1, 2)).error_code == 0
    assert (world.partition().isr, world.partition().elr) == ((1, 2), ())
