"""Group member over kafka-python. Its auto-commit happens within poll() and commits records of earlier polls. The
application has processed these, so it need not tell the library anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import kafka
import kafka.errors
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.structs import OffsetAndMetadata

from workloads.clients.kafka_python.load import LIBRARY, open_consumer, polled_from
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

_ASSIGNORS: Final[Mapping[str, Any]] = {  # classes of an untyped library
    "org.apache.kafka.clients.consumer.RangeAssignor": RangePartitionAssignor,
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": RoundRobinPartitionAssignor,
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": CooperativeStickyAssignor,
}


class KafkaPythonMember:
    def __init__(self, setup: MemberSetup, listener: MemberListener) -> None:
        self._topics, self._listener = setup.topics, listener
        self._is_auto_commit = setup.is_auto_commit
        self._arguments: Mapping[str, object] = {
            **LIBRARY.member_arguments(setup, _ASSIGNORS),
            "default_offset_commit_callback": self._on_auto_commit,
        }
        self._undone: dict[Partition, int] = {}  # where the application is in what was polled last
        self._consumer: Any = None

    def connect(self, timeout_s: float) -> None:
        self._consumer = open_consumer(self._arguments, timeout_s)
        self._consumer.subscribe(list(self._topics), listener=_Rebalances(self))

    def poll(self, timeout_s: float) -> Polled:
        self._finish_a_join_that_was_left()
        polled = polled_from(self._consumer, timeout_s)
        self._undone = beginnings(polled.records)
        return polled

    def _finish_a_join_that_was_left(self) -> None:
        """When the topic's metadata have changed, kafka-python 3.0 joins again, and thinks it has finished once it has
        sent the assignment. If a poll ends before the answer comes, no later poll looks at it. The member then sends no
        more heartbeats and is never assigned anything. In that case this asks for another join."""
        coordinator = self._consumer._coordinator
        if coordinator.rejoining and not coordinator.need_rejoin():
            coordinator.request_rejoin()

    def processed(self, positions: Positions) -> None:
        """The next poll() commits it when it is due."""
        self._undone.update(positions)

    def commit(self, positions: Positions) -> None:
        offsets = {
            kafka.TopicPartition(*partition): OffsetAndMetadata(at, "", -1) for partition, at in positions.items()
        }
        try:
            self._consumer.commit(offsets)
        except kafka.errors.KafkaError as error:
            raise CommitRefused(repr(error)) from error

    def close(self) -> None:
        if self._consumer is not None:
            if self._is_auto_commit:  # It commits the position, which is after all that was polled.
                step_back(self._consumer, self._undone, kafka.TopicPartition)
            self._consumer.close()

    def on_assigned(self, partitions: Sequence[Any]) -> None:
        generation = getattr(self._consumer._coordinator.generation(), "generation_id", GENERATION_UNKNOWN)
        self._listener.assigned(names_of(partitions), int(generation))

    def on_revoked(self, partitions: Sequence[Any]) -> None:
        self._listener.revoked(names_of(partitions))

    def _on_auto_commit(self, offsets: Mapping[Any, Any], outcome: object) -> None:
        if not isinstance(outcome, Exception):
            self._listener.committed({(tp.topic, tp.partition): value.offset for tp, value in offsets.items()})


class _Rebalances(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    def __init__(self, member: KafkaPythonMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Sequence[Any]) -> None:
        self._member.on_assigned(assigned)

    def on_partitions_revoked(self, revoked: Sequence[Any]) -> None:
        self._member.on_revoked(revoked)
