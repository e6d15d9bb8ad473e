"""Ask one broker over its own connection: how it sees the cluster, and whatever else admin.py and the final read need.

A probe asks *this* broker, asks only once, and gives up within its timeout. The connection and the questions are those
of the reference client (broker/client/direct.py, questions.py). If a call returns None, the broker did not answer or
answered with an error. The caller then asks another one. Shown by tests/harness/test_harness_cluster_cli.py and
test_harness_hostile.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from broker.door.clients import AuthenticationError, KafkaError, TopicPartition, first_of
from broker.door.clients import PartitionState as ToldPartition
from broker.door.protocol import ErrorCode
from broker.door.questions import (
    GROUP,
    LATEST,
    TRANSACTION,
    DirectConnection,
    Question,
    Result,
    coordinator_of,
    end_of_epoch,
    log_directories,
    metadata_of,
    offset_at,
    quorum,
)
from harness.clusters.base import Address, ClusterState, PartitionState
from harness.errors import EnvironmentFault

_CLIENT_ID: Final = "harness-probe"
_COMMITTED: Final = 1  # isolation.level of ListOffsets
Found = TypeVar("Found")


class AuthenticationFailed(EnvironmentFault):
    """The broker does not accept our name, password or certificate, or we do not accept its certificate."""


class BrokerProbe:
    """One connection to one broker, opened when needed, dropped at the first error. For one thread at a time."""

    def __init__(self, address: Address, *, timeout_s: float = 1.0) -> None:
        self._address = address
        self._connection = DirectConnection(
            address.host, address.port, client_id=_CLIENT_ID, timeout_s=timeout_s, security=address.security
        )

    def __enter__(self) -> BrokerProbe:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def ask(self, question: Question[Result]) -> Result:
        """Raises KafkaError with what the broker says, or why it says nothing (`is_answer`). AuthenticationFailed if it
        does not let us in."""
        try:
            return self._connection.ask(question)
        except AuthenticationError as error:
            raise AuthenticationFailed(f"{self._address}: {error.reason}") from error

    def _answer(self, question: Question[Result]) -> Result | None:
        try:
            return self.ask(question)
        except KafkaError:
            return None

    def metadata(self, topic: str | None) -> ClusterState | None:
        """The cluster as this broker sees it, with the partitions of `topic`. None also when it knows no such topic."""
        answer = self._answer(metadata_of([] if topic is None else [topic]))
        if answer is None or any(each.error_code for each in answer.topics):
            return None
        partitions = {each.partition: _partition_state(each) for topic in answer.topics for each in topic.partitions}
        brokers = tuple(sorted(each.broker_id for each in answer.brokers))
        return ClusterState(brokers=brokers, controller=answer.controller_id, partitions=partitions)

    def topic_id(self, topic: str) -> str | None:
        """The topic's id, as this broker knows it. None if it knows no such topic. KafkaError if it does not answer, or
        has no topic ids."""
        found = first_of(self.ask(metadata_of([topic])).topics)
        if found.error_code == ErrorCode.unknown_topic_or_partition:
            return None
        if found.error_code or not found.topic_id:
            code = found.error_code or ErrorCode.unsupported_version
            raise KafkaError(code, f"topic {topic} has no id at {self._address}")
        return str(found.topic_id)

    def broker_addresses(self) -> dict[int, Address] | None:
        """The advertised address of each broker, for the listener that was asked."""
        answer = self._answer(metadata_of([]))
        if answer is None:
            return None
        return {each.broker_id: replace(self._address, host=each.host, port=each.port) for each in answer.brokers}

    def epoch_end_offset(self, topic: str, partition: int, leader_epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset) of the largest epoch <= `leader_epoch` that this leader has; (-1, -1) if it has none."""
        return self._answer(end_of_epoch(TopicPartition(topic, partition), leader_epoch))

    def quorum_leader(self) -> tuple[int, int] | None:
        """(epoch, active controller) as this broker knows them, the controller -1 if it knows of none.

        In KRaft the controller id of Metadata is just some broker.
        """
        found = self._answer(quorum())
        return None if found is None else (found.leader_epoch, found.leader_id)

    def failed_log_directories(self) -> frozenset[Path]:
        """Without symbolic links. Empty if there are none, or no answer."""
        told = self._answer(log_directories()) or {}
        return frozenset(Path(path).resolve() for path, directory in told.items() if directory.error is not None)

    def group_coordinator(self, group: str) -> int | None:
        """The broker that coordinates a consumer group; None while there is none."""
        return self._answer(coordinator_of(GROUP, group))

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        return self._answer(coordinator_of(TRANSACTION, transactional_id))

    def end_offset(self, topic: str, partition: int) -> int | None:
        """The high watermark, as ListOffsets gives it to consumers; None when this broker does not lead."""
        found = self._answer(offset_at(TopicPartition(topic, partition), LATEST))
        return None if found is None else found.offset

    def stable_offset(self, topic: str, partition: int) -> int | None:
        """The end offset for isolation.level=read_committed: where the first open transaction begins, if there is one.
        None when this broker does not lead."""
        found = self._answer(offset_at(TopicPartition(topic, partition), LATEST, isolation_level=_COMMITTED))
        return None if found is None else found.offset


def _partition_state(told: ToldPartition) -> PartitionState:
    return PartitionState(
        partition=told.partition,
        leader=told.leader,
        leader_epoch=told.leader_epoch,
        isr=tuple(sorted(told.isr)),
        replicas=told.replicas,
    )


def is_answer(error: KafkaError) -> bool:
    """Whether a broker said so. False if there was no answer, or none that could be read."""
    return error.code > 0 and error.code != ErrorCode.network_exception


def first_answer(
    addresses: Iterable[Address], ask: Callable[[BrokerProbe], Found | None], *, timeout_s: float
) -> Found | None:
    """Asks one broker after another, each over its own connection. None if nobody answers."""
    for address in addresses:
        with BrokerProbe(address, timeout_s=timeout_s) as probe:
            found = ask(probe)
        if found is not None:
            return found
    return None


def newest_controller(brokers: Iterable[int], probe_of: Callable[[int], BrokerProbe]) -> int | None:
    """The active controller of the newest epoch that any of these brokers knows."""
    newest: tuple[int, int] | None = None
    for broker in brokers:
        with probe_of(broker) as probe:
            answer = probe.quorum_leader()
        if answer is not None and answer[1] >= 0:
            newest = answer if newest is None else max(newest, answer)
    return None if newest is None else newest[1]


def ask_leader(
    leader: Callable[[], BrokerProbe | None],
    question: Question[Result],
    *,
    timeout_s: float,
    again: Container[int] | None = None,
) -> tuple[Result | None, str]:
    """(answer, "") from the partition's leader, or (None, the last problem). It gives up after `timeout_s`, or at an
    error code that is not in `again`. If `again` is None, every error may be temporary."""
    deadline = time.monotonic() + timeout_s
    problem = "no leader"
    while time.monotonic() < deadline:
        probe = leader()
        if probe is not None:
            with probe:
                try:
                    return probe.ask(question), ""
                except KafkaError as error:
                    if is_answer(error):
                        problem = error.name
                        if again is not None and error.code not in again:
                            break
        time.sleep(0.1)
    return None, problem
