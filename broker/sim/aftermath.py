"""What happens after the faults, when the cluster is healthy again: things that take days, and rot on a disk.

Some seeds run these steps, called stories, one after another:

- An idle day passes. Every broker forgets its producers. One producer continues after a restart of the leader.
- Days pass in a topic with retention (retention_days.py).
- A topic is deleted while one of its replicas is down.
- A topic of many partitions is created, and a request with very many elements comes. The broker must still answer
  others.
- A byte of a broker's metadata log changes while the broker is down. The broker must report the damage, and must not
  cut committed entries.
- A compaction is interrupted (swaps.py).
"""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Any

from broker.controller.topic_types import DeleteTopics
from broker.log.errors import LogError
from broker.node.cluster.metadata_store import FIRST_OF_APPEND, METADATA_DIRECTORY
from broker.sim.clients import create_topic
from broker.sim.invariants.healed import (
    BrokerStopsWhenAskedTo,
    ClusterRecoversAfterARestart,
    ClusterRecoversOnceTheFaultsAreOver,
    DamageIsNamed,
    EverythingSentGetsAnOutcome,
    IdleProducerIsForgotten,
    LogGoesWithItsTopicWhoeverWasDown,
    ProducerThatWasForgottenGoesOn,
    RequestOfTooManyElementsIsRefused,
    TopicIsDeleted,
    TopicIsMade,
)
from broker.sim.invariants.invariant import Invariant
from broker.sim.plan import TOPIC
from broker.sim.retention_days import DAY_US, Days
from broker.sim.swaps import FailedSwap
from broker.wire.apis import ApiKey
from broker.wire.messages import request
from broker.wire.records import iter_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from broker.sim.cluster import Life
    from broker.sim.stage import Stage
    from broker.wire.shapes.metadata import MetadataRequest

STRAY_TOPIC = "stray"
STEP_LIMIT_US = 12_000_000  # many times as long as an election and catching up take
RECORDS_AFTERWARDS = 5
IDLE_US = 1_000_000  # twice log.retention.check.interval.ms
CROWD_TOPIC = "crowd"
CROWD_PARTITIONS = 100
ELEMENTS_ASKED = 35_000  # more than three times as many as one request may have
METADATA_VERSION = 9
ROT_AT = 30  # position in a batch of a byte that the CRC covers


class Aftermath:
    def __init__(self, world: Stage) -> None:
        self._world = world
        # A random generator of its own, so that the run before the aftermath does not depend on it.
        self._rng = random.Random(f"aftermath {world.settings.seed}")

    def run(self) -> None:
        """Run all stories, up to the first violation. If the state that a story needs is not reached, it is left
        out."""
        days = Days(self._world, self._rng, self._until)
        swap = FailedSwap(self._world, self._rng, self._until)
        for story in (self._forgotten_producer, days.tell, self._stray_log, self._crowd, self._rot, swap.tell):
            if self._until(self._world.is_healthy, ClusterRecoversOnceTheFaultsAreOver):
                story()
            if self._world.violation is not None:
                return

    def _until(self, condition: Callable[[], bool], claim: type[Invariant]) -> bool:
        world = self._world
        if not world.run_until(world.scheduler.now_us + STEP_LIMIT_US, condition):
            return False
        if not condition():
            claim(world.fail).violated(f"not within {STEP_LIMIT_US // 1_000_000} s, in the aftermath")
        return world.violation is None

    def _do(self, work: Coroutine[Any, Any, None], claim: type[Invariant]) -> bool:
        """Do the work and wait for its end. A request that was repeated later would create the topic again."""
        done: list[bool] = []

        async def run() -> None:
            await work
            done.append(True)

        loop = self._world.admin.loop
        loop.run_callback(lambda: loop.create_task(run()))
        return self._until(lambda: bool(done), claim)

    # -- an idle day -------------------------------------------------------------------------------------------------

    def _forgotten_producer(self) -> None:
        world, producer = self._world, self._world.producers[0]
        leader = self._leader()
        if leader is None or not producer.acked or not producer.is_idempotent:
            return
        world.run_until(world.scheduler.now_us + IDLE_US, lambda: False)  # idle time counts from a sweep
        world.scheduler.wall_ahead_us += 2 * DAY_US  # producer.id.expiration.ms is one day
        if not self._until(lambda: not self._producers_known(), IdleProducerIsForgotten):
            return
        world.cluster.stop(leader.node_id)
        if not self._until(lambda: leader.is_dead, BrokerStopsWhenAskedTo):
            return
        world.cluster.start(leader.node_id)
        if not self._until(world.is_healthy, ClusterRecoversAfterARestart):
            return
        bumps, wanted = producer.epoch_bumps, len(producer.acked) + RECORDS_AFTERWARDS
        producer.may_produce = True
        if not self._until(lambda: len(producer.acked) >= wanted, ProducerThatWasForgottenGoesOn):
            return
        producer.may_produce = False
        if not self._until(lambda: producer.is_drained, EverythingSentGetsAnOutcome):
            return
        if producer.epoch_bumps > bumps:
            ProducerThatWasForgottenGoesOn(world.fail).violated(f"{producer.name} had to begin a new epoch")
        else:
            world.coverage.reached("expired producer back")

    def _producers_known(self) -> int:
        """How many producers the logs of all replicas know, added up."""
        brokers = [life.broker for life in self._world.cluster.up() if life.broker is not None]
        return sum(
            len(each.log.producers) for broker in brokers for each in broker.partitions.all() if each.topic == TOPIC
        )

    def _leader(self) -> Life | None:
        state = self._world.quorum.image.partition(TOPIC, 0)
        return None if state is None else self._world.cluster.lives.get(state.leader)

    # -- a topic that is deleted while a replica is down ---------------------------------------------------------------

    def _stray_log(self) -> None:
        world = self._world
        key = (STRAY_TOPIC, 0)
        if not self._make(STRAY_TOPIC, partitions=1):
            return
        state = world.quorum.image.partition(*key)
        down = None if state is None else self._follower_of_the_quorum(state.replicas)
        if down is None:
            return
        path = f"/data/{STRAY_TOPIC}-0"
        if not self._until(lambda: down.hosts(key), TopicIsMade):
            return
        world.cluster.kill(down.node_id)
        if not self._until(lambda: self._delete(STRAY_TOPIC), TopicIsDeleted):
            return
        world.cluster.start(down.node_id)
        disk = world.cluster.disks[down.node_id]
        if not self._until(world.is_healthy, ClusterRecoversAfterARestart):
            return
        if self._until(lambda: not disk.has_directory(path), LogGoesWithItsTopicWhoeverWasDown):
            world.coverage.reached("stray log removed")

    def _make(self, topic: str, *, partitions: int) -> bool:
        factor = self._world.settings.replication_factor
        making = create_topic(
            self._world.admin, topic=topic, partitions=partitions, replication_factor=factor, configs={}
        )
        return self._do(making, TopicIsMade) and self._until(self._world.is_healthy, TopicIsMade)

    def _delete(self, topic: str) -> bool:
        """Whether it is gone. Asks the broker that is the active controller at that time."""
        image = self._world.quorum.image
        if topic not in image.topics:
            return True
        for life in self._world.cluster.up():
            metadata = None if life.broker is None else life.broker.metadata
            if metadata is not None and metadata.controller.is_active and topic in metadata.image.topics:
                life.loop.run_callback(
                    lambda metadata=metadata: metadata.controller_request(  # type: ignore[misc]
                        lambda token: DeleteTopics(token=token, names=(topic,)), lambda response: None
                    )
                )
        return False

    def _follower_of_the_quorum(self, choice: tuple[int, ...]) -> Life | None:
        lives = [life for life in self._world.cluster.up() if life.node_id in choice and life.broker is not None]
        free = [life for life in lives if life.broker is not None and not life.broker.metadata.quorum.is_leader]
        return self._rng.choice(free) if free else None

    # -- much at once --------------------------------------------------------------------------------------------------

    def _crowd(self) -> None:
        if not self._make(CROWD_TOPIC, partitions=CROWD_PARTITIONS):
            return
        if self._until(lambda: self._delete(CROWD_TOPIC), TopicIsDeleted):
            self._do(self._ask_too_much(), RequestOfTooManyElementsIsRefused)

    async def _ask_too_much(self) -> None:
        client = self._world.admin
        node_id = self._rng.choice(client.node_ids)
        answer = await client.ask(node_id, ApiKey.METADATA, METADATA_VERSION, _question_of_many(), timeout_ms=3_000)
        if answer is None:
            self._world.coverage.reached("request of too many elements refused")

    # -- rot ---------------------------------------------------------------------------------------------------------

    def _rot(self) -> None:
        world = self._world
        life = self._follower_of_the_quorum(world.cluster.node_ids)
        if life is None:
            return
        node_id, disk = life.node_id, world.cluster.disks[life.node_id]
        path = max(each for each in disk.files if f"/{METADATA_DIRECTORY}/" in each and each.endswith(".log"))
        world.cluster.kill(node_id)
        content = disk.content(path)
        batches = [(batch.position, batch.header.base_sequence) for batch in iter_batches(content)]
        later = [number for number, (_, sequence) in enumerate(batches) if sequence == FIRST_OF_APPEND]
        candidates = [position for position, _ in batches[: later[-1]]] if later else []
        if not candidates:
            world.cluster.start(node_id)
            return
        damaged = bytearray(content)
        damaged[self._rng.choice(candidates) + ROT_AT] ^= 0x10
        disk.overwrite(path, bytes(damaged))
        world.rotten.add(node_id)
        world.cluster.start(node_id)
        if not self._until(lambda: node_id not in world.rotten, DamageIsNamed):
            return
        disk.overwrite(path, content)  # restored from a copy, as an operator would do
        world.cluster.start(node_id)
        self._until(world.is_healthy, ClusterRecoversAfterARestart)


@cache
def _question_of_many() -> MetadataRequest:
    return request(
        ApiKey.METADATA,
        METADATA_VERSION,
        topics=[{"name": TOPIC}] * ELEMENTS_ASKED,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def names_damage(error: BaseException | None) -> bool:
    return isinstance(error, (ValueError, LogError)) and "damaged at byte" in str(error)
