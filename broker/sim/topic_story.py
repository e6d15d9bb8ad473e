"""What stories of the aftermath with a topic of one partition share: create it, ask its leader, read its replicas."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from broker.sim.clients import create_topic
from broker.sim.invariants.healed import TopicIsMade
from broker.sim.invariants.invariant import Invariant
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.node.replicas.hosted import HostedPartition
    from broker.sim.stage import Stage
    from broker.wire.shapes.kinds import Asks

Reply = TypeVar("Reply")

PAUSE_S = 0.05
PRODUCE_VERSION = 11

Until = Callable[[Callable[[], bool], type[Invariant]], bool]


class TopicStory:
    topic: ClassVar[str]

    def __init__(self, world: Stage, rng: random.Random, until: Until) -> None:
        self._world, self._rng, self._until = world, rng, until
        self._client = world.admin

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, 0

    def _make(self, configs: Mapping[str, str]) -> bool:
        make = create_topic(
            self._client,
            topic=self.topic,
            partitions=1,
            replication_factor=self._world.settings.replication_factor,
            configs=dict(configs),
        )
        return self._do(make, TopicIsMade) and self._until(self._world.is_healthy, TopicIsMade)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _leader(self) -> HostedPartition | None:
        found = [each for each in self._replicas() if each.replica.is_leader]
        return found[0] if found else None

    def _replicas(self) -> list[HostedPartition]:
        brokers = [life.broker for life in self._world.cluster.up() if life.broker is not None]
        hosted = [broker.partitions.get(*self.key) for broker in brokers]
        return [each for each in hosted if each is not None]

    def _log_end(self) -> int:
        leader = self._leader()
        return -1 if leader is None else leader.log.log_end_offset

    # -- asking ------------------------------------------------------------------------------------------------------

    def _do(self, work: Coroutine[Any, Any, object], claim: type[Invariant]) -> bool:
        """Run the work to its end, as a task of the client."""
        done: list[object] = []

        async def run() -> None:
            done.append(await work)

        loop = self._client.loop
        loop.run_callback(lambda: loop.create_task(run()))
        return self._until(lambda: bool(done), claim)

    async def _ask_leader(
        self, api_key: ApiKey, version: int, message: Callable[[], Asks[Reply]], error_of: Callable[[Reply], ErrorCode]
    ) -> Reply:
        """Ask until the leader gives an answer that does not ask for a retry."""
        while True:
            state = self._world.quorum.image.partition(*self.key)
            answer: Reply | None = None
            if state is not None:
                answer = await self._client.ask(state.leader, api_key, version, message())
            if answer is not None and not error_of(answer).retriable:
                return answer
            await asyncio.sleep(PAUSE_S)

    async def _send_once(self, batch: bytes, end: int) -> None:
        """Send the batch until the log ends after `end`. If it got no answer but is in the log, it is not sent
        again."""
        while self._log_end() == end:
            message = request(
                ApiKey.PRODUCE,
                PRODUCE_VERSION,
                transactional_id=None,
                acks=-1,
                timeout=2_000,
                topic_data=[{"name": self.topic, "partition_data": [{"index": 0, "records": batch}]}],
            )
            state = self._world.quorum.image.partition(*self.key)
            if state is not None and state.leader >= 0:
                await self._client.ask(state.leader, ApiKey.PRODUCE, PRODUCE_VERSION, message, timeout_ms=2_500)
