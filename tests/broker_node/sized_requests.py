"""Draws requests of a given size for any API and version, from their schemas: one array is long, the others have one
element. What they name exists in a SizedBroker, so that handlers get to their work."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from sized_broker import SizedBroker, topic_of

from broker.controller.topic_configs import TOPIC_SETTINGS
from broker.wire.apis import ApiKey
from broker.wire.batch_encoder import encode_batch
from broker.wire.messages import FieldShape, field_shapes, request_type
from tests.work import Name


def array_paths(message_type: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where the message has an array: the names of the fields on the way to it."""
    for shape in field_shapes(message_type):
        path = (*before, shape.name)
        if shape.is_array:
            yield path
        if shape.nested is not None:
            yield from array_paths(shape.nested, path)


class Drawing:
    """Makes a request in which one array has `size` different elements and every other array has one. `long` is the
    path of that array; (): no array is long, and those that may be absent are, which often means everything."""

    def __init__(self, broker: SizedBroker, key: ApiKey, version: int, long: tuple[str, ...]) -> None:
        self._broker, self._key, self._version, self._long = broker, key, version, long

    def message(self) -> Any:
        return self._message(request_type(self._key, self._version), (), 0)

    def _message(self, message_type: Any, path: tuple[str, ...], index: int) -> Any:
        return message_type(
            **{each.name: self._field(each, (*path, each.name), index) for each in field_shapes(message_type)}
        )

    def _field(self, shape: FieldShape, path: tuple[str, ...], index: int) -> Any:
        if not shape.is_array:
            if shape.nested is not None:
                is_on_the_way = path == self._long[: len(path)]
                return self._message(shape.nested, path, index) if is_on_the_way or not shape.nullable else None
            return self._one(shape, index)
        if path != self._long and not self._long:
            return None if shape.nullable else ()
        count = self._broker.size if path == self._long else 1
        if shape.nested is not None:
            return tuple(self._message(shape.nested, path, each) for each in range(count))
        return tuple(self._one(shape, each) for each in range(count))

    def _one(self, shape: FieldShape, index: int) -> Any:
        kind, name = shape.kafka_type, shape.name
        if kind == "string":
            text = self._text(name, index)
            return None if text is None and shape.nullable else Name(text or "")
        if kind == "uuid":
            return self._broker.topic_ids[index % self._broker.topics]
        if kind == "records":
            return memoryview(encode_batch([b"v"], timestamps_ms=1))
        if kind == "bytes":
            return b""
        if kind.startswith("timedelta"):
            return timedelta(milliseconds=100)
        if kind.startswith(("int", "uint")):
            return self._integer(name, index)
        return shape.default

    def _integer(self, name: str, index: int) -> int:
        fixed = _INTEGERS.get(name)
        return index if fixed is None else fixed

    def _text(self, name: str, index: int) -> str | None:
        key = self._key.name
        if name in ("group_id", "groups_names", "group_ids", "groups") or (name == "key" and "COORDINATOR" in key):
            return _GROUP_OF.get(self._key, f"group-{index}") if index == 0 else f"group-{index}"
        if name == "transactional_id" or name == "transactional_ids":
            return f"transaction-{index}" if key in ("DESCRIBE_TRANSACTIONS", "ADD_PARTITIONS_TO_TXN") else None
        if name == "member_id":
            return f"member-{index}"
        if name in ("group_instance_id", "instance_id", "rack_id", "rack", "subscribed_topic_regex", "server_assignor"):
            return None
        if name in ("configuration_keys",) or (name == "name" and "CONFIGS" in key):
            return sorted(TOPIC_SETTINGS)[index % len(TOPIC_SETTINGS)]
        if name in ("name", "topic", "topic_name", "topic_names", "topics", "subscribed_topic_names", "resource_name"):
            return f"new-{index}" if self._key is ApiKey.CREATE_TOPICS and name == "name" else topic_of(index)
        return _TEXTS.get(name, f"{name}-{index}")


# Each is a value with which a handler goes on.
_INTEGERS: Final = {
    "acks": -1,
    "replica_id": -1,
    "broker_id": 90,
    "current_leader_epoch": -1,
    "committed_leader_epoch": -1,
    "leader_epoch": 0,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "member_epoch": 0,
    "session_id": 0,
    "session_epoch": -1,
    "share_session_epoch": 0,
    "max_bytes": 1 << 20,
    "min_bytes": 0,
    "partition_max_bytes": 1 << 20,
    "timestamp": -2,
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "config_operation": 0,
    "num_partitions": 1,
    "replication_factor": 1,
    "response_partition_limit": 2_000,
    "key_type": 0,
    "match_type": 2,
    "count": 2,
    "max_records": 500,
    "batch_size": 500,
    "acknowledge_types": 1,
    "mechanism": 1,
    "iterations": 4_096,
}
_TEXTS: Final = {"host": "*", "principal": "User:x", "entity_type": "user", "value": "1", "protocol_type": "consumer"}
_GROUP_OF: Final = {
    **dict.fromkeys(
        (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT), "classic"
    ),
    **dict.fromkeys((ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.ADD_OFFSETS_TO_TXN), "classic"),
    **dict.fromkeys((ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE), "consumer"),
    **dict.fromkeys((key for key in ApiKey if key.name.startswith("SHARE_")), "share"),
    **dict.fromkeys((key for key in ApiKey if key.name.endswith(("GROUP_STATE", "STATE_SUMMARY"))), "share"),
}
