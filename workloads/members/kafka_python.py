"""Group member over kafka-python. Its auto-commit happens within poll(), of what earlier polls returned: the
application is done with that, so nothing needs to be told."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import kafka
import kafka.errors
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.structs import OffsetAndMetadata

from workloads.clients.kafka_python import NAME, consumer_arguments
from workloads.clients.protocol import ClientError, Polled, PropertyError, polled_of
from workloads.members.positions import beginnings, names_of, step_back
from workloads.members.protocol import (
    GENERATION_UNKNOWN,
    CommitRefused,
    MemberListener,
    MemberSetup,
    Partition,
    Positions,
)

RECORDS_PER_POLL: Final = 500
_RETRY_S: Final = 0.05
_ASSIGNORS: Final[Mapping[str, Any]] = {  # classes of an untyped library
    "org.apache.kafka.clients.consumer.RangeAssignor": RangePartitionAssignor,
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": RoundRobinPartitionAssignor,
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": CooperativeStickyAssignor,
}


def make_member(setup: MemberSetup, listener: MemberListener) -> KafkaPythonMember:
    return KafkaPythonMember(setup, listener)


class KafkaPythonMember:
    def __init__(self, setup: MemberSetup, listener: MemberListener) -> None:
        self._topics, self._listener = setup.topics, listener
        self._is_auto_commit = setup.is_auto_commit
        properties = dict(setup.properties)
        strategy = properties.pop("partition.assignment.strategy", None)
        if strategy is not None and strategy not in _ASSIGNORS:
            raise PropertyError(
                NAME, "partition.assignment.strategy", f"got {strategy!r}, expected one of {', '.join(_ASSIGNORS)}"
            )
        self._arguments: dict[str, object] = consumer_arguments(properties)
        self._arguments.setdefault("max_poll_records", RECORDS_PER_POLL)
        if strategy is not None:
            self._arguments["partition_assignment_strategy"] = (_ASSIGNORS[strategy],)
        self._arguments |= {
            "bootstrap_servers": setup.bootstrap_servers.split(","),
            "auto_offset_reset": setup.start,
            "group_id": setup.group_id,
            "enable_auto_commit": setup.is_auto_commit,
            "default_offset_commit_callback": self._on_auto_commit,
        }
        self._undone: dict[Partition, int] = {}  # where the application is in what was polled last
        self._consumer: Any = None

    def connect(self, timeout_s: float) -> None:
        try:
            self._consumer = kafka.KafkaConsumer(**self._arguments, bootstrap_timeout_ms=int(timeout_s * 1_000))
        except (kafka.errors.KafkaError, ValueError, RuntimeError) as error:
            raise ClientError(f"client {NAME}: not connected within {timeout_s:g} s: {error!r}") from error
        self._consumer.subscribe(list(self._topics), listener=_Rebalances(self))

    def poll(self, timeout_s: float) -> Polled:
        try:
            found = self._consumer.poll(timeout_ms=int(timeout_s * 1_000))
        except kafka.errors.KafkaError:
            time.sleep(_RETRY_S)  # during a fault a poll may fail; the next one tries again
            found = {}
        polled = polled_of(found)
        self._undone = beginnings(polled.records)
        return polled

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
            if self._is_auto_commit:  # of the position, which is after all that was polled
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
