"""After the faults, on a cluster that is well again: what takes days, or a disk that rots.

Owns three short stories, told one after another in some of the seeds. An idle day passes, every broker forgets its
producers, and one of them goes on, after a restart of the leader. A topic is deleted while one of its replicas is down.
A byte of a broker's metadata log changes while it is down: it must name that, not cut what was committed.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from broker.controller.types import DeleteTopics
from broker.log.errors import LogError
from broker.node.metadata_store import FIRST_OF_APPEND, METADATA_DIRECTORY
from broker.sim.clients import create_topic
from broker.sim.plan import TOPIC
from broker.wire.records import iter_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.sim.cluster import Life
    from broker.sim.world import World

STRAY_TOPIC = "stray"
STEP_LIMIT_US = 12_000_000  # many times what an election and catching up take
RECORDS_AFTERWARDS = 5
LONG_AFTERWARDS_MS = 10**14  # later than any time of the simulation
ROT_AT = 30  # a byte of a batch that its CRC covers


class Aftermath:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"aftermath {world.settings.seed}")  # of its own: the run before stays as it was

    def run(self) -> None:
        """To the end, or to the first violation; a story whose state does not come about is left out."""
        for story in (self._forgotten_producer, self._stray_log, self._rot):
            if self._until(self._world.is_healthy, "the cluster recovers once the faults are over"):
                story()
            if self._world.violation is not None:
                return

    def _until(self, condition: Callable[[], bool], claim: str) -> bool:
        world = self._world
        if not world.run_until(world.scheduler.now_us + STEP_LIMIT_US, condition):
            return False
        if not condition():
            world.fail(claim, f"not within {STEP_LIMIT_US // 1_000_000} s, in the aftermath")
        return world.violation is None

    # -- an idle day -------------------------------------------------------------------------------------------------

    def _forgotten_producer(self) -> None:
        world, producer = self._world, self._world.producers[0]
        leader = self._leader()
        if leader is None or not producer.acked or not producer.is_idempotent:
            return
        forgotten = sum(
            hosted.log.producers.forget_idle(LONG_AFTERWARDS_MS, 0)
            for life in world.cluster.up()
            if life.broker is not None
            for hosted in life.broker.partitions.all()
            if hosted.topic == TOPIC
        )
        world.cluster.stop(leader.node_id)
        if not self._until(lambda: leader.is_dead, "a broker stops when asked to"):
            return
        world.cluster.start(leader.node_id)
        if not self._until(world.is_healthy, "the cluster recovers after a restart"):
            return
        bumps, wanted = producer.epoch_bumps, len(producer.acked) + RECORDS_AFTERWARDS
        producer.may_produce = True
        if not self._until(lambda: len(producer.acked) >= wanted, "a producer that was forgotten goes on"):
            return
        producer.may_produce = False
        if not self._until(lambda: producer.is_drained, "everything sent gets an outcome"):
            return
        if producer.epoch_bumps > bumps:
            world.fail("a producer that was forgotten goes on", f"{producer.name} had to begin a new epoch")
        elif forgotten:
            world.coverage.reached("expired producer back")

    def _leader(self) -> Life | None:
        state = self._world.quorum.image.partition(TOPIC, 0)
        return None if state is None else self._world.cluster.lives.get(state.leader)

    # -- a topic that is deleted while a replica is down ---------------------------------------------------------------

    def _stray_log(self) -> None:
        world, client = self._world, self._world.admin
        creating = create_topic(
            client,
            topic=STRAY_TOPIC,
            partitions=1,
            replication_factor=world.settings.replication_factor,
            configs={},
        )
        made: list[bool] = []

        async def make() -> None:  # to its end: a request that is asked again would make the topic anew
            await creating
            made.append(True)

        client.loop.run_callback(lambda: client.loop.create_task(make()))
        key = (STRAY_TOPIC, 0)
        if not self._until(lambda: bool(made) and world.is_healthy(), "a topic is made"):
            return
        state = world.quorum.image.partition(*key)
        down = None if state is None else self._follower_of_the_quorum(state.replicas)
        if down is None:
            return
        path = f"/data/{STRAY_TOPIC}-0"
        if not self._until(lambda: down.hosts(key), "a topic is made"):
            return
        world.cluster.kill(down.node_id)
        if not self._until(lambda: self._delete(STRAY_TOPIC), "a topic is deleted"):
            return
        world.cluster.start(down.node_id)
        disk = world.cluster.disks[down.node_id]
        if not self._until(world.is_healthy, "the cluster recovers after a restart"):
            return
        if self._until(lambda: not disk.has_directory(path), "a log goes with its topic, whoever was down"):
            world.coverage.reached("stray log removed")

    def _delete(self, topic: str) -> bool:
        """Whether it is gone; asks the active controller for it, whoever that is now."""
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
        if not self._until(lambda: node_id not in world.rotten, "damage is named"):
            return
        disk.overwrite(path, content)  # from a copy: the operator's work
        world.cluster.start(node_id)
        self._until(world.is_healthy, "the cluster recovers after a restart")


def names_damage(error: BaseException | None) -> bool:
    return isinstance(error, (ValueError, LogError)) and "damaged at byte" in str(error)
