"""Group member and transactional copier over confluent-kafka (librdkafka).

With auto-commit librdkafka's own thread commits what is *stored*. By default these are all records that were handed to
the application, processed or not. So offsets are stored here after processing (enable.auto.offset.store=false), as
librdkafka's documentation advises for at-least-once delivery."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import confluent_kafka

from workloads.clients.confluent.load import NAME, SILENT, consumer_settings, polled_from, producer_settings
from workloads.clients.keywords import without_assignor
from workloads.clients.member_protocol import (
    GENERATION_UNKNOWN,
    CommitRefused,
    CopierSetup,
    CopyAborted,
    CopyUnknown,
    MemberListener,
    MemberSetup,
    Partition,
    Positions,
)
from workloads.clients.positions import beginnings, names_of
from workloads.clients.protocol import ClientError, Polled, PropertyError, ReceivedRecord

RECORDS_PER_POLL: Final = 500
TRANSACTION_TIMEOUT_S: Final = 30.0
_SAME_NAME: Final = frozenset(
    {
        "auto.commit.interval.ms",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "session.timeout.ms",
    }
)
_ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
_METADATA_MAGIC: Final = b"CGMDv2:"
_NOT_OURS: Final = frozenset(
    {
        confluent_kafka.KafkaError._STATE,
        confluent_kafka.KafkaError._UNKNOWN_PARTITION,
        confluent_kafka.KafkaError._ASSIGNMENT_LOST,
        confluent_kafka.KafkaError._NO_OFFSET,
    }
)


def member_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Kafka's consumer properties as librdkafka's, with those of group members."""
    rest, assignor = without_assignor(NAME, properties, _ASSIGNORS)
    settings = {name: rest.pop(name) for name in _SAME_NAME & set(rest)}
    if assignor is not None:
        settings["partition.assignment.strategy"] = assignor
    return {**settings, **consumer_settings(rest)}


def copier_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Kafka's producer properties as librdkafka's, with that of transactional producers."""
    rest = dict(properties)
    transactional = {name: rest.pop(name) for name in ("transaction.timeout.ms",) if name in rest}
    return {**producer_settings(rest), **transactional}


class ConfluentMember:
    def __init__(self, setup: MemberSetup, listener: MemberListener) -> None:
        self._topics, self._listener = setup.topics, listener
        self._records_per_poll = int(setup.properties.get("max.poll.records", RECORDS_PER_POLL))
        self._is_auto_commit = setup.is_auto_commit
        configuration: dict[str, Any] = {
            **member_settings(setup.properties),
            "bootstrap.servers": setup.bootstrap_servers,
            "group.id": setup.group_id,
            "auto.offset.reset": setup.start,
            "enable.auto.commit": "true" if setup.is_auto_commit else "false",
            "enable.auto.offset.store": "false",
            "on_commit": self._on_commit,
            **SILENT,
        }
        try:
            self.consumer: Any = confluent_kafka.Consumer(configuration)  # a library without types
        except confluent_kafka.KafkaException as error:
            raise PropertyError(NAME, "a property", error.args[0].str()) from error

    def connect(self, timeout_s: float) -> None:
        self.consumer.subscribe(
            list(self._topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    def poll(self, timeout_s: float) -> Polled:
        return polled_from(self.consumer, timeout_s, self._records_per_poll)

    def processed(self, positions: Positions) -> None:
        for offset in _offsets(positions):
            try:
                self.consumer.store_offsets(offsets=[offset])
            except confluent_kafka.KafkaException as error:
                # The partition was revoked in the meantime, and its next owner reads the record again.
                if error.args[0].code() not in _NOT_OURS:
                    raise

    def commit(self, positions: Positions) -> None:
        try:
            self.consumer.commit(offsets=_offsets(positions), asynchronous=False)
        except confluent_kafka.KafkaException as error:
            raise CommitRefused(error.args[0].str()) from error

    def close(self) -> None:
        self.consumer.close()

    def _on_assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        try:
            generation = generation_of(bytes(consumer.consumer_group_metadata()))
        except RuntimeError:  # The consumer is being closed. If this were raised here, it would hide itself (found.md).
            generation = GENERATION_UNKNOWN
        self._listener.assigned(names_of(partitions), generation)

    def _on_revoke(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        self._listener.revoked(names_of(partitions))

    def _on_commit(self, error: Any, partitions: Sequence[Any]) -> None:
        """Only for auto-commits. A commit that was asked for is reported by its caller."""
        if error is None and self._is_auto_commit:
            done = {(item.topic, item.partition): item.offset for item in partitions if item.error is None}
            if done := {partition: offset for partition, offset in done.items() if offset >= 0}:
                self._listener.committed(done)


class ConfluentCopier:
    """The consumer reads committed records only, and commits nothing by itself."""

    def __init__(self, setup: CopierSetup, listener: MemberListener) -> None:
        self._reader = ConfluentMember(setup.member, listener)
        self._begun: dict[Partition, int] = {}  # where the polled records of the transaction begin
        configuration: dict[str, Any] = {
            **copier_settings(setup.producer_properties),
            "bootstrap.servers": setup.member.bootstrap_servers,
            "transactional.id": setup.transactional_id,
            **SILENT,
        }
        try:
            self._producer: Any = confluent_kafka.Producer(configuration)
        except confluent_kafka.KafkaException as error:
            raise PropertyError(NAME, "a property", error.args[0].str()) from error

    def connect(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._producer.init_transactions(max(1.0, deadline - time.monotonic()))
                break
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise ClientError(f"client {NAME}: init_transactions: {error.args[0].str()}") from error
        self._reader.connect(timeout_s)

    def poll(self, timeout_s: float) -> Polled:
        polled = self._reader.poll(timeout_s)
        self._begun = beginnings(polled.records)
        return polled

    def begin(self) -> None:
        self._carry_out(self._producer.begin_transaction)

    def send(self, topic: str, record: ReceivedRecord, header: bytes) -> None:
        _, partition, _, value, _ = record
        while True:
            try:
                with contextlib.suppress(BufferError):
                    self._producer.produce(topic, value, partition=partition, headers=[("copy", header)])
                    return
                self._producer.poll(0.05)
            except confluent_kafka.KafkaException as error:
                self._give_up(error)

    def commit(self, positions: Positions) -> None:
        metadata = self._reader.consumer.consumer_group_metadata()
        offsets = _offsets(positions)
        self._carry_out(
            lambda: self._producer.send_offsets_to_transaction(offsets, metadata, TRANSACTION_TIMEOUT_S),
            lambda: self._producer.commit_transaction(TRANSACTION_TIMEOUT_S),
        )

    def abort(self) -> None:
        try:
            self._producer.abort_transaction(TRANSACTION_TIMEOUT_S)
        except confluent_kafka.KafkaException as error:
            raise CopyUnknown(error.args[0].str()) from error
        for (topic, partition), offset in self._begun.items():
            try:
                self._reader.consumer.seek(confluent_kafka.TopicPartition(topic, partition, offset))
            except confluent_kafka.KafkaException:
                continue  # another member has it now, and begins at the group's offset

    def close(self) -> None:
        self._reader.close()
        # Of a fenced producer each of these raises what fenced it, once more.
        with contextlib.suppress(confluent_kafka.KafkaException):
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._producer.flush(0.5)

    def _carry_out(self, *steps: Callable[[], object]) -> None:
        """Each step may be tried again as long as the library says that this is safe."""
        for step in steps:
            deadline = time.monotonic() + TRANSACTION_TIMEOUT_S
            while True:
                try:
                    step()
                    break
                except confluent_kafka.KafkaException as error:
                    if not error.args[0].retriable() or time.monotonic() > deadline:
                        self._give_up(error)

    def _give_up(self, error: Any) -> None:
        """Abort what can be aborted; always raises."""
        problem = error.args[0]
        if not problem.txn_requires_abort():
            raise CopyUnknown(problem.str()) from error
        self.abort()
        raise CopyAborted(problem.str()) from error


def _offsets(positions: Positions) -> list[Any]:
    return [
        confluent_kafka.TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()
    ]


def generation_of(metadata: bytes) -> int:
    """The generation in librdkafka's serialised group metadata: after the magic, an int32 of this machine."""
    if not metadata.startswith(_METADATA_MAGIC) or len(metadata) < len(_METADATA_MAGIC) + 4:
        return GENERATION_UNKNOWN
    (generation,) = struct.unpack_from("=i", metadata, len(_METADATA_MAGIC))
    return int(generation)
