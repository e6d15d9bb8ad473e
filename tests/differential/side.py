"""One of the two brokers: sends it requests in turn, knows what its symbols stand for, makes its answers comparable.

Values that always differ are masked here and nowhere else: ids that a broker makes up, its addresses, times, texts.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

from broker.wire.apis import ApiKey
from broker.wire.codec import decode_response, encode_request
from broker.wire.errors import ErrorCode
from broker.wire.messages import request
from broker.wire.records import decode_records, encode_batch, iter_batches
from tests.differential.generator import Asked, Chapter
from tests.differential.values import BASE_MS, METADATA_TOPIC, Symbol
from tests.patience import Patience, wait_until

ANSWER_TIMEOUT_S = 15.0
REQUEST_TIMEOUT_S = 180.0  # of one request while a cluster gets ready
OWN_ADDRESS = "127.0.0.1"
SESSION_ENDS_S = 1.0  # within it a broker has seen that a connection is gone, and with it its share sessions
CLOSED, SILENT = "closes the connection", "does not answer"
_LEFT_OUT = frozenset({
    "throttle_time", "error_message", "host", "port", "client_host", "cluster_id", "log_dir", "total_bytes",
    "usable_bytes", "transaction_start_time", "transaction_start_time_ms", "last_timestamp", "config_type",
    "documentation", "last_fetch_timestamp", "last_caught_up_timestamp",
})  # fmt: skip
_MADE_UP = frozenset({"producer_id", "session_id", "member_id", "leader", "leader_id", "rack", "subscription_id"})
_IDENTITIES = (
    "entity", "topic_name", "topic", "name", "topic_id", "resource_type", "resource_name", "group_id",
    "transactional_id", "user", "key", "partition_index", "partition", "index", "api_key", "producer_id",
)  # fmt: skip
# What a client asks again for. Kafka answers some of them while a coordinator is still writing the request before.
_PASSING = frozenset({
    "coordinator_load_in_progress", "coordinator_not_available", "not_coordinator", "concurrent_transactions",
    "rebalance_in_progress",
})  # fmt: skip
_ENDING = frozenset({"concurrent_transactions"})  # a transaction ends: it always does, on a slow machine later
PASSING_FOR_S, ENDING_FOR_S = 2.0, 8.0
LAST_TIMESTAMP_MS = BASE_MS + 1_000


class Side:
    """`ask` gives a comparable answer; `begin` makes what a chapter starts from.

    `source` is the address that `ask` comes from. `begin` always comes from 127.0.0.1."""

    def __init__(self, port: int, source: str = OWN_ADDRESS) -> None:
        self.port, self._source = port, source
        self._connection: socket.socket | None = None
        self._own: socket.socket | None = None  # from 127.0.0.1, if that is another
        self._known: dict[Symbol, Any] = {}
        self._chapter = ""
        self._may_have_session = False  # a share session, since the chapter began
        self.joined_at_s = -float("inf")  # by the monotonic clock, when a member last joined a group

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._own is not None:
            self._own.close()
            self._own = None

    def wait_until_ready(self) -> None:
        """Both kinds of coordinator answer for every partition of their topics."""
        patience = Patience("coordinators of groups and transactions")
        keys = [f"warm-{number}" for number in range(20)]
        while True:
            errors: set[ErrorCode] = set()
            for key_type in (0, 1):
                found = self._plain(ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=keys)
                errors |= {each.error_code for each in found.coordinators} if found else {ErrorCode.not_coordinator}
            if errors == {ErrorCode.none}:
                described = self._plain(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=keys)
                deleted = self._plain(ApiKey.DELETE_GROUPS, 2, groups_names=keys)
                if {each.error_code for each in described.transaction_states} == {
                    ErrorCode.transactional_id_not_found
                } and {each.error_code for each in deleted.results} == {ErrorCode.group_id_not_found}:
                    return
            patience.check(errors)
            time.sleep(0.1)

    def begin(self, chapter: Chapter) -> None:
        """Two topics, five records in the first."""
        self.close()
        if self._may_have_session:
            time.sleep(SESSION_ENDS_S)
            self._may_have_session = False
        self._chapter, self._known = chapter.names.chapter, {}
        first, second = chapter.names.topics
        settings = [{"name": "message.timestamp.before.max.ms", "value": str(2**63 - 1)},
                    {"name": "message.timestamp.after.max.ms", "value": str(2**63 - 1)}]  # fmt: skip
        topics = [
            {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": settings}
            for name, count in ((first, 2), (second, 1))
        ]
        made = self._plain(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=10_000, validate_only=False)
        assert {each.error_code for each in made.topics} == {ErrorCode.none}, made
        for topic in made.topics:
            self._known[Symbol("topic", topic.name)] = topic.topic_id
        values = [b"0", b"1", b"2", b"3", b"4"]
        batch = encode_batch(values, timestamps_ms=[BASE_MS + number for number in range(5)])
        data = [{"name": first, "partition_data": [{"index": 0, "records": batch}]}]
        patience = Patience(f"the beginning of {chapter.title}")
        while True:
            done = self._plain(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=data)
            (answer,) = done.responses[0].partition_responses
            if answer.error_code is ErrorCode.none:
                break
            patience.check(answer)
            time.sleep(0.05)
        wait_until(
            lambda: self._is_led(first, 2) and self._is_led(second, 1), f"leaders for {chapter.title}", poll_s=0.05
        )

    def allow(self, host: str, rules: Sequence[Mapping[str, Any]]) -> None:
        """These access control lists and no others for User:ANONYMOUS at `host`. Returns when they count."""
        every = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "operation": 1,
                 "principal_filter": None, "permission_type": 1, "host_filter": host}  # fmt: skip
        self._plain(ApiKey.DELETE_ACLS, 3, filters=[every])
        mine = {"principal": "User:ANONYMOUS", "host": host}
        created = self._plain(ApiKey.CREATE_ACLS, 3, creations=[{**rule, **mine} for rule in rules])
        assert {each.error_code for each in created.results} <= {ErrorCode.none}, created
        wanted = {(rule["resource_type"], rule["resource_name"], rule["resource_pattern_type"], rule["operation"],
                   rule["permission_type"]) for rule in rules}  # fmt: skip
        patience = Patience(f"access control lists that count: {sorted(wanted, key=str)}")
        while True:
            told = self._plain(ApiKey.DESCRIBE_ACLS, 3, **every)
            found = {
                (each.resource_type, each.resource_name, each.pattern_type, acl.operation, acl.permission_type)
                for each in told.resources
                for acl in each.acls
            }
            if found == wanted:
                return
            patience.check(found)
            time.sleep(0.02)

    def _is_led(self, topic: str, partitions: int) -> bool:
        asked = [{"partition_index": index, "current_leader_epoch": -1, "timestamp": -1} for index in range(partitions)]
        topics = [{"name": topic, "partitions": asked}]
        found = self._plain(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=topics)
        return found is not None and {each.error_code for each in found.topics[0].partitions} == {ErrorCode.none}

    def ask(self, asked: Asked) -> Any:
        """The comparable answer; a text when there is none."""
        values = {name: self._resolved(value) for name, value in asked.values.items()}
        deadline = time.monotonic() + PASSING_FOR_S
        while True:
            try:
                answer = self._send(asked.key, asked.version, values)
            except TimeoutError:
                self.close()
                return SILENT
            except OSError:
                self.close()
                return CLOSED
            masked = self._masked(answer)
            if asked.key is ApiKey.FETCH:
                masked["responses"] = _one_per_topic(masked["responses"])
            passing = _errors(masked) & _PASSING
            if not passing or time.monotonic() >= deadline + (ENDING_FOR_S if passing & _ENDING else 0):
                self._learn(asked, answer)
                return masked
            time.sleep(0.05)

    # -- requests

    def _plain(self, key: ApiKey, version: int, **values: Any) -> Any:
        try:
            if self._source == OWN_ADDRESS:
                return self._send(key, version, values, timeout_s=REQUEST_TIMEOUT_S)
            self._connection, self._own = self._own, self._connection
            try:
                return self._send(key, version, values, timeout_s=REQUEST_TIMEOUT_S, source=OWN_ADDRESS)
            finally:
                self._connection, self._own = self._own, self._connection
        except OSError:
            self.close()
            return None

    def _send(
        self,
        key: ApiKey,
        version: int,
        values: Mapping[str, Any],
        *,
        timeout_s: float = ANSWER_TIMEOUT_S,
        source: str | None = None,
    ) -> Any:
        message = request(key, version, **values)
        if self._connection is None:
            self._connection = socket.create_connection(
                (OWN_ADDRESS, self.port), timeout=timeout_s, source_address=(source or self._source, 0)
            )
        self._may_have_session |= key is ApiKey.SHARE_FETCH
        self._connection.settimeout(timeout_s)
        self._connection.sendall(b"".join(encode_request(key, version, 7, "differential", message)))
        (size,) = struct.unpack(">i", self._read(4))
        return decode_response(key, version, self._read(size))[1]

    def _read(self, size: int) -> bytes:
        assert self._connection is not None
        data = b""
        while len(data) < size:
            piece = self._connection.recv(size - len(data))
            if not piece:
                raise ConnectionResetError("closed")
            data += piece
        return data

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, Symbol):
            absent: dict[str, Any] = {"topic": None, "producer": -1, "epoch": 0, "member": "unknown-member"}
            return self._known.get(value, absent[value.kind])
        if isinstance(value, Mapping):
            return {name: self._resolved(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._resolved(each) for each in value]
        return value

    def _learn(self, asked: Asked, answer: Any) -> None:
        is_of_producer = asked.key in (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN)
        if is_of_producer and getattr(answer, "producer_id", -1) >= 0:
            self._know_producer(asked, answer)
        if asked.key is ApiKey.JOIN_GROUP and answer.error_code is ErrorCode.none:
            self.joined_at_s = time.monotonic()
        if asked.key in (ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT) and answer.member_id:
            self._known[Symbol("member", str(asked.values["group_id"]))] = answer.member_id

    def _know_producer(self, asked: Asked, answer: Any) -> None:
        transactional_id = str(asked.values["transactional_id"])
        self._known[Symbol("producer", transactional_id)] = answer.producer_id
        self._known[Symbol("epoch", transactional_id)] = answer.producer_epoch

    # -- answers

    def _masked(self, value: Any) -> Any:
        if isinstance(value, Enum):
            return value.name
        if is_dataclass(value):
            return {
                each.name: self._field(each.name, getattr(value, each.name))
                for each in fields(value)
                if each.name not in _LEFT_OUT
            }
        if isinstance(value, tuple):
            kept = [self._masked(each) for each in value if not self._is_of_another_chapter(each)]
            return sorted(kept, key=_identity)
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, UUID):
            return next((f"id of {symbol.of}" for symbol, known in self._known.items() if known == value), "#")
        return value

    def _field(self, name: str, value: Any) -> Any:
        if name == "records" and value is not None:
            return _batches(bytes(value))
        if name == "timestamp" and isinstance(value, int) and value > LAST_TIMESTAMP_MS:
            return "#"  # a control batch's, by the broker's clock
        if name in _MADE_UP and value not in (-1, "", None):
            return "#"
        return self._masked(value)

    def _is_of_another_chapter(self, value: Any) -> bool:
        """Internal topics, and what other chapters made: they are compared in theirs."""
        for name in ("name", "topic", "group_id", "transactional_id"):
            found = getattr(value, name, None)
            if isinstance(found, str) and found != METADATA_TOPIC and (found.startswith("__") or (
                found[:1] == "d" and found[1:3].isdigit() and not found.startswith(f"{self._chapter}-")
            )):  # fmt: skip
                return True
        return False


def _one_per_topic(topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Apache Kafka tells of one topic in several places, as its errors come first: for a client it is the same."""
    found: dict[str, dict[str, Any]] = {}
    for topic in topics:
        about = str({name: value for name, value in topic.items() if name != "partitions"})
        if about in found:
            found[about]["partitions"] = sorted(found[about]["partitions"] + topic["partitions"], key=_identity)
        else:
            found[about] = topic
    return list(found.values())


def _errors(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value[name] for name in ("error_code", "partition_error_code") if isinstance(value.get(name), str)}
        return own.union(*map(_errors, value.values()))
    return set().union(*map(_errors, value)) if isinstance(value, list) else set()


def _identity(value: Any) -> tuple[list[str], str]:
    """Elements of answers come in any order: what they are about pairs them, not what is said of it."""
    named = [str(value[name]) for name in _IDENTITIES if name in value] if isinstance(value, dict) else []
    return named, str(value)


def _batches(data: bytes) -> list[Any]:
    """What a batch holds, without the leader epoch's and the producer's numbers; a torn end is left out."""
    return [
        {
            "base_offset": batch.header.base_offset,
            "attributes": batch.header.attributes,
            "max_timestamp": "#" if batch.header.is_control else batch.header.max_timestamp,
            "has_producer": batch.header.producer_id >= 0,
            "sequence": batch.header.base_sequence,
            "records": [str(record[2:] if batch.header.is_control else record) for record in decode_records(batch)],
        }
        for batch in iter_batches(data)
    ]
