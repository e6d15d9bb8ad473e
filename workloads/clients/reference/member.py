"""Group member and transactional copier over the project's own client (`broker.client`).

Its auto-commit commits records of earlier polls. It happens within poll(), and before partitions are revoked. The
application has processed these records. An interceptor reports each commit. The client's own thread keeps the
heartbeats going."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from broker.door.clients import (
    CommitFailedError,
    Consumer,
    ConsumerInterceptor,
    FailedFuture,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TimedOutError,
    TopicPartition,
)
from workloads.clients.member_protocol import (
    CommitRefused,
    CopierSetup,
    CopyAborted,
    CopyUnknown,
    MemberListener,
    MemberSetup,
    Partition,
    Positions,
)
from workloads.clients.positions import beginnings, names_of, step_back
from workloads.clients.protocol import ClientError, Polled, PropertyError, ReceivedRecord
from workloads.clients.reference.load import NAME, checked, polled_from

TRANSACTION_TIMEOUT_S: Final = 30.0
CLOSE_TIMEOUT_MS: Final = 5_000
_RETRY_S: Final = 0.01
_PRODUCER_CLOSE_S: Final = 0.5
# The reader itself sets these. A property of the same name could only contradict it.
_OF_THE_READER: Final[Mapping[str, str]] = {
    "auto.offset.reset": "the reader's `start` decides that",
    "enable.auto.commit": "the reader's `commit` decides that",
    "group.id": "the harness names the group after the reader",
}
_OF_THE_COPIER: Final[Mapping[str, str]] = {"transactional.id": "the harness names it after the member"}


class ReferenceMember:
    def __init__(self, setup: MemberSetup, listener: MemberListener) -> None:
        _refuse(setup.properties, _OF_THE_READER)
        self._topics = setup.topics
        self._is_auto_commit = setup.is_auto_commit
        self._rebalances = _Rebalances(self, listener)
        interceptors = [_Commits(listener)] if setup.is_auto_commit else []
        settings = {
            **setup.properties,
            "bootstrap.servers": setup.bootstrap_servers,
            "group.id": setup.group_id,
            "auto.offset.reset": setup.start,
            "enable.auto.commit": "true" if setup.is_auto_commit else "false",
        }
        self.consumer = checked(lambda given: Consumer(given, interceptors=interceptors), settings)
        self._undone: dict[Partition, int] = {}  # where the application is in what was polled last

    def connect(self, timeout_s: float) -> None:
        """The coordinator is found by the first polls; a broker that cannot be reached shows there."""
        self.consumer.subscribe(self._topics, self._rebalances)

    def poll(self, timeout_s: float) -> Polled:
        try:
            polled = polled_from(self.consumer, timeout_s)
        except KafkaError as error:
            if not _is_passing(error):
                raise ClientError(f"client {NAME}: {error}") from error
            time.sleep(_RETRY_S)  # during a fault a poll may fail; the next one tries again
            polled = Polled((), time.monotonic_ns())
        self._undone = beginnings(polled.records)
        return polled

    def processed(self, positions: Positions) -> None:
        """The next poll() commits it when it is due."""
        self._undone.update(positions)

    def commit(self, positions: Positions) -> None:
        try:
            self.consumer.commit_sync(_offsets(positions))
        except KafkaError as error:
            if not isinstance(error, CommitFailedError) and not _is_passing(error):
                raise ClientError(f"client {NAME}: {error}") from error
            raise CommitRefused(str(error)) from error

    def close(self) -> None:
        """Commits (with auto-commit), but only what the application is done with."""
        if self._is_auto_commit:
            step_back(self.consumer, self._undone, TopicPartition)
        self.consumer.close(CLOSE_TIMEOUT_MS)


class ReferenceCopier:
    """The consumer commits nothing by itself."""

    def __init__(self, setup: CopierSetup, listener: MemberListener) -> None:
        _refuse(setup.producer_properties, _OF_THE_COPIER)
        settings = {
            **setup.producer_properties,
            "bootstrap.servers": setup.member.bootstrap_servers,
            "transactional.id": setup.transactional_id,
        }
        self._producer = checked(Producer, settings)
        try:
            self._reader = ReferenceMember(setup.member, listener)
        except PropertyError:
            self._producer.close(0)
            raise
        self._begun: dict[Partition, int] = {}  # where the polled records of the transaction begin

    def connect(self, timeout_s: float) -> None:
        try:
            self._producer.init_transactions(timeout_s)
        except KafkaError as error:
            raise ClientError(f"client {NAME}: init_transactions: {error}") from error
        self._reader.connect(timeout_s)

    def poll(self, timeout_s: float) -> Polled:
        polled = self._reader.poll(timeout_s)
        self._begun = beginnings(polled.records)
        return polled

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except KafkaError as error:
            self._give_up(error)

    def send(self, topic: str, record: ReceivedRecord, header: bytes) -> None:
        _, partition, _, value, _ = record
        future = self._producer.send(topic, value, partition=partition, headers=[("copy", header)])
        if isinstance(future, FailedFuture):
            error = future.exception()
            assert error is not None
            self._give_up(error)

    def commit(self, positions: Positions) -> None:
        try:
            metadata = self._reader.consumer.group_metadata()
            self._producer.send_offsets_to_transaction(_offsets(positions), metadata)
            self._producer.commit_transaction(TRANSACTION_TIMEOUT_S)
        except KafkaError as error:
            self._give_up(error)

    def abort(self) -> None:
        try:
            self._producer.abort_transaction(TRANSACTION_TIMEOUT_S)
        except KafkaError as error:
            raise CopyUnknown(str(error)) from error
        step_back(self._reader.consumer, self._begun, TopicPartition)

    def close(self) -> None:
        try:
            self._reader.close()
        finally:
            self._producer.close(_PRODUCER_CLOSE_S)

    def _give_up(self, error: KafkaError) -> None:
        """Abort what can be aborted; always raises. The producer itself refuses an abort if it was fenced, or if nobody
        knows whether its commit was carried out."""
        try:
            self.abort()
        except CopyUnknown:
            raise CopyUnknown(str(error)) from error
        raise CopyAborted(str(error)) from error


class _Rebalances(RebalanceListener):
    def __init__(self, member: ReferenceMember, listener: MemberListener) -> None:
        self._member, self._listener = member, listener

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        generation = self._member.consumer.group_metadata().generation_id
        self._listener.assigned(names_of(sorted(partitions)), generation)

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """Lost ones as well."""
        self._listener.revoked(names_of(sorted(partitions)))


class _Commits(ConsumerInterceptor):
    """Records auto-commits, which the application does not see otherwise."""

    def __init__(self, listener: MemberListener) -> None:
        self._listener = listener

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._listener.committed({(each.topic, each.partition): at.offset for each, at in offsets.items()})


def _refuse(properties: Mapping[str, str], reserved: Mapping[str, str]) -> None:
    for name, reason in {**reserved, "bootstrap.servers": "the cluster decides that"}.items():
        if name in properties:
            raise PropertyError(NAME, name, reason)


def _is_passing(error: KafkaError) -> bool:
    return error.retriable or isinstance(error, TimedOutError)


def _offsets(positions: Positions) -> dict[TopicPartition, Any]:
    return {TopicPartition(*partition): OffsetAndMetadata(offset) for partition, offset in positions.items()}
