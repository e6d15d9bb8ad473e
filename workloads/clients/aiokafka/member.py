"""Group member over aiokafka. Its event loop, and with it heartbeats and auto-commit, runs only within poll(). So
auto-commit only commits records of earlier polls, which the application has processed. The library does not report
its auto-commits, so they are in no journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import aiokafka
import aiokafka.errors
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from workloads.clients.aiokafka.load import LIBRARY, Loop, polled_from
from workloads.clients.member_protocol import (
    GENERATION_UNKNOWN,
    CommitRefused,
    MemberListener,
    MemberSetup,
    Partition,
    Positions,
)
from workloads.clients.positions import beginnings, names_of, step_back
from workloads.clients.protocol import Polled

CLOSE_TIMEOUT_S: Final = 5.0
_ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": RangePartitionAssignor,
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": RoundRobinPartitionAssignor,
}


class AiokafkaMember:
    def __init__(self, setup: MemberSetup, listener: MemberListener) -> None:
        self._topics, self._listener = setup.topics, listener
        self._is_auto_commit = setup.is_auto_commit
        self._arguments = LIBRARY.member_arguments(setup, _ASSIGNORS)
        self._loop = Loop()
        self._undone: dict[Partition, int] = {}  # where the application is in what was polled last
        self._consumer: Any = None  # the library has no usable types

    def connect(self, timeout_s: float) -> None:
        self._loop.run_within(timeout_s, self._begin())

    async def _begin(self) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(**self._arguments)
        await self._consumer.start()
        self._consumer.subscribe(list(self._topics), listener=_Rebalances(self))

    def poll(self, timeout_s: float) -> Polled:
        polled = self._loop.run(polled_from(self._consumer, timeout_s))
        self._undone = beginnings(polled.records)
        return polled

    def processed(self, positions: Positions) -> None:
        """The next poll() lets it commit when it is due."""
        self._undone.update(positions)

    def commit(self, positions: Positions) -> None:
        offsets = {aiokafka.TopicPartition(*partition): offset for partition, offset in positions.items()}
        try:
            self._loop.run(self._consumer.commit(offsets))
        except aiokafka.errors.KafkaError as error:
            raise CommitRefused(repr(error)) from error

    def close(self) -> None:
        if self._consumer is not None:
            if self._is_auto_commit:  # It commits the position, which is after all that was polled.
                step_back(self._consumer, self._undone, aiokafka.TopicPartition)
            self._loop.stop(self._consumer, CLOSE_TIMEOUT_S)
        self._loop.close()

    def on_assigned(self, partitions: Sequence[Any]) -> None:
        generation = getattr(self._consumer._coordinator, "generation", GENERATION_UNKNOWN)
        self._listener.assigned(names_of(partitions), int(generation))

    def on_revoked(self, partitions: Sequence[Any]) -> None:
        self._listener.revoked(names_of(partitions))


class _Rebalances(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    def __init__(self, member: AiokafkaMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Sequence[Any]) -> None:
        self._member.on_assigned(sorted(assigned))

    def on_partitions_revoked(self, revoked: Sequence[Any]) -> None:
        self._member.on_revoked(sorted(revoked))
