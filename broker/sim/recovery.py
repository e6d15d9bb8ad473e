"""What a run waits for once its faults are over, and what it reports if this does not happen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.sim.cluster import host_of
from broker.sim.invariants.healed import (
    ClusterRecoversAfterARestart,
    ClusterRecoversOnceTheFaultsAreOver,
    EveryRecordOfAShareGroupIsFinallyDone,
    FollowerThatDoesNotFetchLeavesTheIsr,
)
from broker.sim.plan import TOPIC

if TYPE_CHECKING:
    from broker.node.replicas.hosted import HostedPartition
    from broker.sim.cluster import Life
    from broker.sim.stage import Stage

RECOVERY_LIMIT_US = 12_000_000  # after healing; many times as long as elections and catching up take
KNOWN_LIMIT_US = 1_500_000  # replica.fetch.wait.max.ms is 200
LONELY_LIMIT_US = 1_500_000  # replica.lag.time.max.ms is 400; the rest is for AlterPartition, with one retry


def lonely_follower_leaves(world: Stage) -> bool:
    """Liveness: if only its leader cannot reach a follower, it leaves the ISR in time, and records are committed again.

    The follower keeps its session with the controller, so only the leader can notice. False if something is violated.
    """
    key = (TOPIC, world.rng.randrange(world.settings.partitions))
    state = world.quorum.image.partition(*key)
    assert state is not None
    controller = [life.node_id for life in world.cluster.up() if _is_controller(life)]
    followers = [each for each in state.isr if each != state.leader]
    if state.leader in controller or not followers:
        return True  # if the leader were the controller, the follower would be fenced
    lonely = world.rng.choice(followers)
    world.network.cut(host_of(state.leader), host_of(lonely))
    world.network.cut(host_of(lonely), host_of(state.leader))
    until_us = world.scheduler.now_us + LONELY_LIMIT_US
    if not world.run_until(until_us, lambda: _has_left(world, key, lonely)):
        return False
    now = world.quorum.image.partition(*key)
    if now is not None and now.leader == state.leader and now.leader_epoch == state.leader_epoch:
        if lonely in now.isr and world.partitions.has_uncommitted(state.leader, key):
            FollowerThatDoesNotFetchLeavesTheIsr(world.fail).violated(
                f"{key[0]}-{key[1]}: broker {lonely} is still in {now.isr}, {LONELY_LIMIT_US // 1000} ms after it "
                f"was cut off from its leader {state.leader}",
            )
            return False
        if lonely not in now.isr:
            world.coverage.reached("cut off member left the isr")
    world.network.heal_all()
    if not world.run_until(world.scheduler.now_us + RECOVERY_LIMIT_US, world.is_healthy):
        return False
    if not world.is_healthy():
        ClusterRecoversOnceTheFaultsAreOver(world.fail).violated(condition(world))
    return world.violation is None


def _has_left(world: Stage, key: tuple[str, int], node_id: int) -> bool:
    state = world.quorum.image.partition(*key)
    return state is None or node_id not in state.isr


def shares_finish(world: Stage) -> bool:
    """Wait until every record of the share group is done. Then a leader restarts, and the next one must go on where it
    ended. At last the members leave. False if something is violated."""
    if not world.settings.share_members:
        return True
    if not _shares_settle(world):
        return False
    state = world.quorum.image.partition(TOPIC, world.rng.randrange(world.settings.partitions))
    if state is not None and world.cluster.is_up(state.leader):
        world.cluster.kill(state.leader)
        world.cluster.start(state.leader)
        if not world.run_until(world.scheduler.now_us + RECOVERY_LIMIT_US, world.is_healthy):
            return False
        if not world.is_healthy():
            ClusterRecoversAfterARestart(world.fail).violated(condition(world))
            return False
        if not _shares_settle(world):
            return False
    shares = world.load.shares
    shares.end()
    return world.run_until(world.scheduler.now_us + RECOVERY_LIMIT_US, lambda: shares.is_done)


def _shares_settle(world: Stage) -> bool:
    shares = world.load.shares
    if not world.run_until(world.scheduler.now_us + RECOVERY_LIMIT_US, shares.is_settled):
        return False
    if not shares.is_settled():
        EveryRecordOfAShareGroupIsFinallyDone(world.fail).violated(shares.waiting_text())
    return world.violation is None


def is_drained(world: Stage) -> bool:
    if not all(producer.is_drained for producer in world.producers) or not world.load.is_done:
        return False
    ends = {_end_offsets(world, index) for index in range(world.settings.partitions)}
    return all(len(each) == 1 for each in ends)


def _end_offsets(world: Stage, index: int) -> frozenset[int]:
    """Log ends of all replicas, and the high watermark of the leader. When everything is replicated, they are all
    equal."""
    found = set()
    for life in world.cluster.up():
        hosted = None if life.broker is None else life.broker.partitions.get(TOPIC, index)
        if hosted is not None:
            found.add(hosted.log.log_end_offset)
            if hosted.replica.is_leader:
                found.add(hosted.replica.high_watermark)
    return frozenset(found)


def _replicas(world: Stage) -> Iterator[HostedPartition]:
    for life in world.cluster.up():
        for index in range(world.settings.partitions):
            hosted = None if life.broker is None else life.broker.partitions.get(TOPIC, index)
            if hosted is not None:
                yield hosted


def is_known(world: Stage) -> bool:
    """Whether every follower knows the leader's high watermark. Nothing is written any more, so its next fetches tell
    it."""
    return all(each.replica.high_watermark == each.replica.log_end_offset for each in _replicas(world))


def high_watermarks(world: Stage) -> str:
    told = (
        f"{each.topic}-{each.index}, {each.replica.role.value}: {each.replica.high_watermark} of "
        f"{each.replica.log_end_offset}"
        for each in _replicas(world)
    )
    return f"high watermarks {KNOWN_LIMIT_US // 1000} ms after the last record: {', '.join(told)}"


def condition(world: Stage) -> str:
    image = world.quorum.image
    topic = image.topics.get(TOPIC)
    states = [] if topic is None else [str(state) for state in topic.partitions]
    fenced = [each for each, broker in image.brokers.items() if broker.fenced]
    up = [life.node_id for life in world.cluster.up()]
    return f"up {up}, fenced {fenced}, partitions {states}"


def _is_controller(life: Life) -> bool:
    return life.broker is not None and life.broker.metadata.controller.is_active
