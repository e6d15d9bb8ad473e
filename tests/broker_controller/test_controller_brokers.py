"""Registration, heartbeats, fencing, controlled shutdown, sessions over a change of the active controller."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from uuid import UUID

from broker.controller.core import Controller, ControllerConfig
from broker.controller.topic_types import CreateTopics, CreateTopicsResponse, NewTopic
from broker.controller.types import (
    AllocateProducerIds,
    AllocateProducerIdsResponse,
    BrokerHeartbeat,
    ControllerActivated,
    ControllerDeactivated,
    RegisterBroker,
    RegisterBrokerResponse,
    Respond,
)

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import SESSION_MS, ControllerWorld, cluster

NOT_CONTROLLER, STALE_BROKER_EPOCH, DUPLICATE_REGISTRATION, NOT_REGISTERED = 41, 77, 101, 102


def test_a_new_broker_is_fenced_until_it_has_read_its_own_registration() -> None:
    world = cluster()
    epoch = world.register(1).broker_epoch
    behind = world.beat(1, offset=epoch - 1)
    assert (behind.is_fenced, behind.is_caught_up) == (True, False)
    assert world.controller.image.live_broker_ids() == ()
    caught_up = world.beat(1, offset=epoch)
    assert (caught_up.is_fenced, caught_up.is_caught_up) == (False, True)
    assert world.controller.image.live_broker_ids() == (1,)


def test_want_fence_keeps_a_broker_fenced_and_fences_a_live_one() -> None:
    world = cluster()
    world.register(1)
    assert world.beat(1, want_fence=True).is_fenced
    assert not world.beat(1).is_fenced
    assert world.beat(1, want_fence=True).is_fenced


def test_silence_for_a_session_timeout_fences() -> None:
    world = cluster(1, 2)
    world.pass_time(SESSION_MS - SESSION_MS // 4)
    assert world.controller.image.live_broker_ids() == (1, 2)
    world.beat(1)
    world.pass_time(SESSION_MS // 4)
    assert world.controller.image.live_broker_ids() == (1,)


def test_the_deadline_is_the_end_of_the_oldest_session() -> None:
    world = cluster(1, 2)
    start_ms = world.now_ms
    world.now_ms += 300
    world.beat(1)
    assert world.controller.next_deadline_ms() == start_ms + SESSION_MS


def test_a_fenced_broker_that_beats_again_is_unfenced() -> None:
    world = cluster(1, 2)
    world.kill(2)
    assert not world.beat(2).is_fenced
    assert world.controller.image.live_broker_ids() == (1, 2)


def test_a_new_incarnation_has_a_larger_epoch_and_the_old_one_is_stale() -> None:
    world = cluster(1, 2)
    old = world.broker_epochs[2]
    world.kill(2)
    new = world.register(2).broker_epoch
    assert new > old
    assert world.beat(2, broker_epoch=old).error_code == STALE_BROKER_EPOCH


def test_a_second_process_with_the_same_id_is_refused_while_the_session_lasts() -> None:
    world = cluster(1, 2)
    assert world.register(2).error_code == DUPLICATE_REGISTRATION
    world.kill(2)
    assert world.register(2).error_code == 0


def test_a_second_process_does_not_take_turns_with_a_fenced_one() -> None:
    world = cluster(1)
    assert world.register(2).error_code == 0  # and it was not unfenced yet
    assert world.controller.image.brokers[2].fenced
    assert world.register(2).error_code == DUPLICATE_REGISTRATION


def test_a_broker_that_left_in_good_order_may_come_back_at_once() -> None:
    world = cluster(1, 2)
    while not world.beat(2, want_shut_down=True).should_shut_down:
        world.beat(1)
    assert world.register(2).error_code == 0


def test_the_same_incarnation_may_register_twice() -> None:
    world = cluster()
    first = world.register(1, incarnation=77)
    writes = len(world.log)
    assert world.register(1, incarnation=77) == first
    assert len(world.log) == writes


def test_an_unknown_broker_must_register_first() -> None:
    world = cluster()
    assert world.beat(9, broker_epoch=0).error_code == NOT_REGISTERED


def test_a_controlled_shutdown_moves_leaders_then_waits_for_the_others_to_know() -> None:
    world = cluster(1, 2, 3)
    world.create(partitions=6, replication_factor=3)
    assert not world.beat(1, want_shut_down=True).should_shut_down
    topic = world.controller.image.topics["t"]
    assert all(1 not in state.isr and state.leader in (2, 3) for state in topic.partitions)
    assert not world.beat(1, want_shut_down=True).should_shut_down  # 2 and 3 have not read that yet
    world.beat(2)
    world.beat(3)
    assert world.beat(1, want_shut_down=True).should_shut_down
    assert world.controller.image.live_broker_ids() == (2, 3)
    assert world.beat(1, want_shut_down=True).should_shut_down  # the answer may be lost: ask again


def test_the_last_replica_stays_eligible_through_a_controlled_shutdown() -> None:
    world = cluster(1)
    world.create(replication_factor=1, partitions=1)
    world.beat(1, want_shut_down=True)
    assert (world.partition().leader, world.partition().isr, world.partition().elr) == (-1, (), (1,))
    assert world.beat(1, want_shut_down=True).should_shut_down
    world.join(1)
    assert world.partition().leader == 1


def test_a_broker_restarted_after_a_clean_stop_need_not_wait_for_its_old_session() -> None:
    world = cluster(1, 2)
    world.beat(1, want_shut_down=True)
    assert world.register(1).error_code == 0


def test_producer_id_blocks_never_overlap() -> None:
    world = cluster(1, 2)
    given: list[int] = []
    for broker_id in (1, 2, 1):
        request = AllocateProducerIds(
            token=world.token(), broker_id=broker_id, broker_epoch=world.broker_epochs[broker_id]
        )
        answer = world.ask(AllocateProducerIdsResponse, request)
        given += range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_count)
    assert len(given) == len(set(given)) == 3000
    stale = AllocateProducerIds(token=world.token(), broker_id=1, broker_epoch=10_000)
    assert world.ask(AllocateProducerIdsResponse, stale).error_code == STALE_BROKER_EPOCH


def test_a_node_that_does_not_lead_refuses_everything() -> None:
    controller = Controller(config=ControllerConfig(node_id=1), rng=random.Random(0))
    registration = RegisterBroker(token=1, broker_id=1, incarnation_id=UUID(int=1), endpoints=())
    (action,) = controller.handle(registration, 0)
    assert action == Respond(token=1, response=RegisterBrokerResponse(error_code=NOT_CONTROLLER, broker_epoch=-1))
    assert controller.next_deadline_ms() is None


def test_answers_wait_for_the_commit() -> None:
    world = cluster(1)
    world.auto_commit = False
    world.handle(CreateTopics(token=500, topics=(NewTopic(name="t", partitions=1, replication_factor=1),)))
    world.handle(
        BrokerHeartbeat(
            token=501,
            broker_id=1,
            broker_epoch=world.broker_epochs[1],
            current_metadata_offset=99,
            want_fence=False,
            want_shut_down=False,
        )
    )
    assert 500 not in world.answers
    assert 501 not in world.answers  # it was decided on the uncommitted image
    assert "t" not in world.controller.image.topics
    world.commit()
    assert {500, 501} <= set(world.answers)
    assert "t" in world.controller.image.topics


def test_uncommitted_writes_are_refused_and_forgotten_with_the_leadership() -> None:
    world = cluster(1)
    world.auto_commit = False
    world.handle(CreateTopics(token=500, topics=(NewTopic(name="t", partitions=1, replication_factor=1),)))
    world.lose()
    answer = world.answers[500]
    assert isinstance(answer, CreateTopicsResponse)
    assert answer.error_code == NOT_CONTROLLER
    assert isinstance(world.actions[-1], ControllerDeactivated)
    world.log.pop()  # the next leader did not have it
    world.auto_commit = True
    world.lead()
    assert world.controller.is_active
    assert "t" not in world.controller.image.topics
    assert world.create(partitions=1, replication_factor=1).error_code == 0


def test_a_new_active_controller_gives_every_broker_a_full_session() -> None:
    old = cluster(1, 2, 3)
    old.kill(3)
    successor = ControllerWorld(log=old.log)
    successor.now_ms = 1_000_000
    successor.epoch = old.epoch
    successor.commit()
    assert successor.controller.image == old.controller.image
    successor.lead()
    assert ControllerActivated(epoch=2) in successor.actions
    assert successor.controller.image.live_broker_ids() == (1, 2)
    successor.pass_time(SESSION_MS - SESSION_MS // 4)
    assert successor.controller.image.live_broker_ids() == (1, 2)
    successor.pass_time(SESSION_MS // 4)
    assert successor.controller.image.live_broker_ids() == ()


def test_it_is_not_active_before_its_leader_change_is_committed() -> None:
    world = ControllerWorld(auto_commit=False)
    world.lead()
    assert world.controller.is_active
    late = ControllerWorld(auto_commit=False)
    late.epoch = 4
    from broker.controller.types import LeadershipGained

    late.handle(LeadershipGained(epoch=4))
    assert not late.controller.is_active
