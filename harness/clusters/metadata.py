"""Ask one broker over a plain socket: how it sees the cluster, and whatever else admin.py and the final read need.

Deliberately apart from broker.client: a probe asks *this* broker, never retries, and gives up within its timeout.
Every call returns None when the broker does not answer, or answers with an error; the caller asks another one.
Shown by tests/harness/test_harness_cluster_cli.py.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any, Final

from broker.wire.apis import ApiKey
from broker.wire.codec import decode_response, encode_request
from broker.wire.errors import ProtocolError, error_name
from broker.wire.messages import request
from harness.clusters.base import Address, ClusterState, PartitionState
from harness.clusters.sasl import SaslError, sasl_client
from harness.clusters.security import Security
from harness.errors import EnvironmentFault

_CLIENT_ID: Final = "harness-probe"
# A fetch is as long as was asked for, and one batch longer (max.message.bytes); what else is asked is about one topic.
_FETCHED_BYTES_MAX: Final = 64 << 20
_ANSWER_BYTES_MAX: Final = 16 << 20
_ELEMENTS_MAX: Final = 200_000  # of all arrays of an answer together: 28,000 partitions with three replicas
LATEST, EARLIEST = -1, -2  # timestamps of ListOffsets
UNKNOWN_TOPIC: Final = 3  # UNKNOWN_TOPIC_OR_PARTITION
GROUP, TRANSACTION = 0, 1  # FindCoordinator's key types
_VERSIONS: Final = {
    ApiKey.METADATA: 9,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.DESCRIBE_QUORUM: 0,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.API_VERSIONS: 0,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 6,  # by id
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.FETCH: 11,
}
_CREATE_TELLS_ID_VERSION: Final = 7  # of CreateTopics (KIP-516)
_TOPIC_ID_VERSION: Final = 12  # of Metadata: carries topic ids (KIP-516); clusters of others may know only older ones
# Not among the broker's own, so not in ApiKey.
_SASL_HANDSHAKE: Final = (17, 1)
_SASL_AUTHENTICATE: Final = (36, 2)


SECURE_TIMEOUT_S: Final = 10.0


class AuthenticationFailed(EnvironmentFault):
    """The broker does not take our name, password or certificate, or we not its."""


class BrokerProbe:
    """One connection to one broker, opened when needed, dropped at the first error. For one thread at a time."""

    def __init__(self, address: Address, *, timeout_s: float = 1.0) -> None:
        self._address = address
        self._timeout_s = self._limit_s = timeout_s
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def metadata(self, topic: str | None) -> ClusterState | None:
        """The cluster as this broker sees it, with the partitions of `topic`. None also when it knows no such topic."""
        topics = () if topic is None else ({"name": topic},)
        response = self.call(ApiKey.METADATA, topics=topics, allow_auto_topic_creation=False)
        if response is None or any(int(entry.error_code) != 0 for entry in response.topics):
            return None
        partitions = {
            int(partition.partition_index): _partition_state(partition)
            for entry in response.topics
            for partition in entry.partitions
        }
        brokers = tuple(sorted(int(broker.node_id) for broker in response.brokers))
        return ClusterState(brokers=brokers, controller=int(response.controller_id), partitions=partitions)

    def topic_id(self, topic: str) -> tuple[bool, str | None]:
        """(whether it answered, the topic's id as this broker knows it: None if it knows no such topic)."""
        values: dict[str, object] = {"topics": ({"name": topic},), "allow_auto_topic_creation": False}
        response = self._call(ApiKey.METADATA, _TOPIC_ID_VERSION, values)
        if response is None or not response.topics:
            return False, None
        entry = response.topics[0]
        code = int(entry.error_code)
        return code in (0, UNKNOWN_TOPIC), str(entry.topic_id) if code == 0 else None

    def create_topic(self, topic: Mapping[str, object], timeout_ms: int) -> Any:
        """CreateTopics' answer for one topic, with its id where the broker knows topic ids; None without an answer."""
        newest = self._newest_version(ApiKey.CREATE_TOPICS)
        if newest is None:
            return None
        version = _CREATE_TELLS_ID_VERSION if newest >= _CREATE_TELLS_ID_VERSION else _VERSIONS[ApiKey.CREATE_TOPICS]
        response = self._call(ApiKey.CREATE_TOPICS, version, {"topics": (topic,), "timeout": timeout_ms})
        return None if response is None or len(response.topics) != 1 else response.topics[0]

    def _newest_version(self, api_key: ApiKey) -> int | None:
        response = self.call(ApiKey.API_VERSIONS)
        offered = () if response is None else response.api_keys
        return next((int(entry.max_version) for entry in offered if int(entry.api_key) == int(api_key)), None)

    def leader_address(self, topic: str, partition: int) -> Address | None:
        """Where the partition's leader says that it can be reached, on the listener that was asked."""
        response = self.call(ApiKey.METADATA, topics=({"name": topic},), allow_auto_topic_creation=False)
        if response is None or not response.topics or int(response.topics[0].error_code) != 0:
            return None
        leaders = {int(entry.partition_index): int(entry.leader_id) for entry in response.topics[0].partitions}
        for broker in response.brokers:
            if int(broker.node_id) == leaders.get(partition, -1):
                return replace(self._address, host=str(broker.host), port=int(broker.port))
        return None

    def broker_addresses(self) -> dict[int, Address]:
        """Where each broker says that it can be reached, on the listener that was asked; empty: no answer."""
        response = self.call(ApiKey.METADATA, topics=(), allow_auto_topic_creation=False)
        brokers = () if response is None else response.brokers
        return {
            int(broker.node_id): replace(self._address, host=str(broker.host), port=int(broker.port))
            for broker in brokers
        }

    def epoch_end_offset(self, topic: str, partition: int, leader_epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset) of the largest epoch <= `leader_epoch` that this leader has; (-1, -1) if it has none."""
        partitions = ({"partition": partition, "current_leader_epoch": -1, "leader_epoch": leader_epoch},)
        response = self.call(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, replica_id=-1, topics=({"topic": topic, "partitions": partitions},)
        )
        if response is None:
            return None
        answer = first_partition(response.topics)
        if answer is None or int(answer.error_code) != 0:
            return None
        return int(answer.leader_epoch), int(answer.end_offset)

    def quorum_leader(self) -> tuple[int, int] | None:
        """(epoch, active controller) as this broker knows them, the controller -1 if it knows of none.

        In KRaft the controller id of Metadata is just some broker.
        """
        topics = ({"topic_name": "__cluster_metadata", "partitions": ({"partition_index": 0},)},)
        response = self.call(ApiKey.DESCRIBE_QUORUM, topics=topics)
        if response is None or int(response.error_code) != 0 or not response.topics:
            return None
        answer = first_partition(response.topics)
        if answer is None or int(answer.error_code) != 0:
            return None
        return int(answer.leader_epoch), int(answer.leader_id)

    def group_coordinator(self, group: str) -> int | None:
        """The broker that coordinates a consumer group; None while nobody does."""
        return self._coordinator(group, GROUP)

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        return self._coordinator(transactional_id, TRANSACTION)

    def _coordinator(self, key: str, key_type: int) -> int | None:
        response = self.call(ApiKey.FIND_COORDINATOR, key=key, key_type=key_type)
        return int(response.node_id) if response is not None and int(response.error_code) == 0 else None

    def end_offset(self, topic: str, partition: int) -> int | None:
        """The high watermark, as ListOffsets gives it to consumers; None when this broker does not lead."""
        response = self.call(ApiKey.LIST_OFFSETS, **offset_request(topic, partition, LATEST))
        if response is None:
            return None
        answer = first_partition(response.topics)
        return int(answer.offset) if answer is not None and int(answer.error_code) == 0 else None

    def call(self, api_key: ApiKey, **values: object) -> Any:  # kio's generated types
        """One request and its response, in the version of `_VERSIONS`; None when the broker does not answer."""
        return self._call(api_key, _VERSIONS[api_key], values)

    def _call(self, api_key: ApiKey, version: int, values: Mapping[str, object]) -> Any:
        try:
            return self._ask(self._connect(), api_key, version, values)
        except (OSError, ValueError, OverflowError, EOFError, ProtocolError):
            self.close()
            return None

    def _ask(self, connection: socket.socket, api_key: int, version: int, values: Mapping[str, object]) -> Any:
        """One deadline for the whole answer: a peer that drips bytes gets no more time than one that is silent."""
        deadline_s = time.monotonic() + self._limit_s
        connection.settimeout(self._limit_s)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        message = request(api_key, version, **values)
        connection.sendall(b"".join(encode_request(api_key, version, self._correlation_id, _CLIENT_ID, message)))
        (size,) = struct.unpack(">i", _read_exactly(connection, 4, deadline_s))
        if not 4 <= size <= (_FETCHED_BYTES_MAX if api_key == ApiKey.FETCH else _ANSWER_BYTES_MAX):
            raise ValueError(f"response of {size} bytes from {self._address}")
        frame = _read_exactly(connection, size, deadline_s)
        correlation_id, response = decode_response(api_key, version, frame, elements_max=_ELEMENTS_MAX)
        if correlation_id != self._correlation_id:
            raise ValueError(f"correlation id {correlation_id} from {self._address}, expected {self._correlation_id}")
        return response

    def _connect(self) -> socket.socket:
        if self._socket is None:
            address, security = self._address, self._address.security
            # One that has to greet and to prove itself first gets the time for it.
            self._limit_s = self._timeout_s if security is None else max(self._timeout_s, SECURE_TIMEOUT_S)
            opened = socket.create_connection((address.host, address.port), timeout=self._limit_s)
            try:
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if security is not None:
                    opened = self._secured(opened, security)
            except BaseException:
                opened.close()
                raise
            self._socket = opened
        return self._socket

    def _secured(self, connection: socket.socket, security: Security) -> socket.socket:
        """AuthenticationFailed when the broker refuses, with its words: asking again would not help."""
        try:
            if security.is_tls:
                connection = security.context().wrap_socket(connection, server_hostname=self._address.host)
            if security.mechanism:
                self._authenticate(connection, security)
        except (ssl.SSLError, SaslError) as error:
            raise AuthenticationFailed(f"{self._address}: {error}") from error
        return connection

    def _authenticate(self, connection: socket.socket, security: Security) -> None:
        """SaslHandshake version 1, then tokens inside SaslAuthenticate (KIP-152)."""
        mechanism = security.mechanism
        handshake = self._ask(connection, *_SASL_HANDSHAKE, {"mechanism": mechanism})
        if int(handshake.error_code) != 0:
            raise SaslError(f"the broker offers {', '.join(handshake.mechanisms)}, and not {mechanism}")
        client = sasl_client(mechanism, security.username, security.password, nonce=secrets.token_urlsafe(24))
        token: bytes | None = client.first()
        while token is not None:
            answer = self._ask(connection, *_SASL_AUTHENTICATE, {"auth_bytes": token})
            if int(answer.error_code) != 0:
                raise SaslError(f"{error_name(int(answer.error_code))}: {answer.error_message or 'no further word'}")
            token = client.answer(bytes(answer.auth_bytes))


def _partition_state(partition: Any) -> PartitionState:  # kio's generated type
    return PartitionState(
        partition=int(partition.partition_index),
        leader=int(partition.leader_id),
        leader_epoch=int(partition.leader_epoch),
        isr=tuple(sorted(int(node) for node in partition.isr_nodes)),
        replicas=tuple(int(node) for node in partition.replica_nodes),
    )


def _read_exactly(connection: socket.socket, size: int, deadline_s: float) -> bytes:
    parts: list[bytes] = []
    while size:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer did not come in time")
        connection.settimeout(left_s)
        part = connection.recv(size)
        if not part:
            raise EOFError("connection closed")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def ask_leader(
    leader: Callable[[], BrokerProbe | None],
    api_key: ApiKey,
    values: Mapping[str, object],
    *,
    timeout_s: float,
    again: Container[int] | None = None,
) -> tuple[Any, str]:
    """(the one partition's part of the answer, "") from whoever leads it, or (None, the last problem) after `timeout_s`
    or at an error code that is not in `again`; None there: every error may pass."""
    deadline = time.monotonic() + timeout_s
    problem = "no leader"
    while time.monotonic() < deadline:
        probe = leader()
        if probe is not None:
            try:
                response = probe.call(api_key, **values)
            finally:
                probe.close()
            answer = None if response is None else first_partition(response.topics)
            if answer is not None:
                code = int(answer.error_code)
                if code == 0:
                    return answer, ""
                problem = error_name(code)
                if again is not None and code not in again:
                    break
        time.sleep(0.1)
    return None, problem


def first_partition(topics: Any) -> Any:  # kio's generated types
    """The one partition that was asked about; None when the answer leaves it out."""
    return topics[0].partitions[0] if topics and topics[0].partitions else None


def offset_request(topic: str, partition: int, timestamp: int) -> dict[str, object]:
    """ListOffsets for one partition, as a consumer asks."""
    entry = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
    return {"replica_id": -1, "isolation_level": 0, "topics": ({"name": topic, "partitions": (entry,)},)}
