"""Decodes any request or response: finds the partitions that a request names, and changes error codes in a response.

This is only for the few exchanges that a toxic acts on. All others pass as bytes. It uses the wire types of
`broker.wire`. They are imported at the first use, because most servers never need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

from chaos.toxiproxy.kafka.fields import MalformedFrame

Partitions = frozenset[tuple[str, int]]
_TOPIC_FIELDS = ("name", "topic", "topic_name")
_PARTITION_FIELDS = ("partition", "partition_index", "index")
UNKNOWN_TOPIC_OR_PARTITION = 3
FETCH = 1
EDITED_BYTES_MAX = 8 << 20  # a response's entries become objects, but the records of a Fetch stay bytes


@cache
def wire() -> tuple[ModuleType, ModuleType]:
    """broker.wire's codec and messages."""
    from broker.wire import codec, messages

    return codec, messages


def partitions_of_request(frame: bytes, names: Mapping[bytes, str]) -> Partitions:
    """Each (topic, partition) that a request frame (with its length) names. Partition -1: it names only a topic.

    Raises MalformedFrame if the request cannot be read.
    """
    try:
        return frozenset(_named(_decode_request(frame), names))
    except Exception as error:  # the errors of kio are many, and whatever it is: the request passes
        raise MalformedFrame(f"request of api key {frame[4:6].hex()} version {frame[6:8].hex()}: {error}") from error


def edited_response(
    frame: bytes,
    *,
    api_key: int,
    version: int,
    names: Mapping[bytes, str],
    error_code: int = -1,
    throttle_ms: int = -1,
    topic: str = "",
    partition: int = -1,
    is_hiding: bool = False,
) -> bytes:
    """The response with `error_code` for the entries of `topic` and `partition` (empty and -1: all), with a throttle
    time, or with both.

    If a response has error codes per topic or partition, those are set, otherwise the one of the response. With
    `is_hiding` a Metadata response no longer has the topic. Raises MalformedFrame if the response cannot be read.
    """
    codec, _ = wire()
    if api_key != FETCH and len(frame) > EDITED_BYTES_MAX:
        raise MalformedFrame(f"response of api key {api_key}: {len(frame)} bytes, at most {EDITED_BYTES_MAX} are read")
    try:
        correlation_id, message = codec.decode_response(api_key, version, frame[4:])
        if throttle_ms >= 0 and hasattr(message, "throttle_time"):
            message = replace(message, throttle_time=type(message.throttle_time)(milliseconds=throttle_ms))
        if is_hiding:
            message = _without_topic(message, topic, names)
        elif error_code >= 0:
            message = _with_error(message, error_code, topic, partition, names)
        return b"".join(bytes(part) for part in codec.encode_response(api_key, version, correlation_id, message))
    except Exception as error:  # the errors of kio are many, and whatever it is: the response passes unedited
        raise MalformedFrame(f"response of api key {api_key} version {version}: {error}") from error


def _decode_request(frame: bytes) -> Any:  # kio's type is chosen by (API key, version)
    codec, messages = wire()
    api_key, version = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
    id_size = int.from_bytes(frame[12:14], "big", signed=True)
    position = 14 - 4 + max(0, id_size)
    kind = messages.request_type(api_key, version)
    body = frame[4:]
    if kind.__flexible__:
        position = codec._skip_tags(memoryview(body), position)
    return codec.decode_message(kind, body, position)


def _topic_of(message: Any, names: Mapping[bytes, str]) -> str | None:
    """The topic of an entry. None if it has none."""
    for field in _TOPIC_FIELDS:
        value = getattr(message, field, None)
        if isinstance(value, str):
            return value
    topic_id = getattr(message, "topic_id", None)
    return None if topic_id is None else names.get(topic_id.bytes, topic_id.hex)


def _partition_of(message: Any) -> int | None:
    for field in _PARTITION_FIELDS:
        value = getattr(message, field, None)
        if isinstance(value, int):
            return int(value)
    return None


def _children(message: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """The arrays of structures in a message, by field."""
    _, messages = wire()
    return [
        (shape.name, tuple(getattr(message, shape.name) or ()))
        for shape in messages.field_shapes(type(message))
        if shape.nested is not None and shape.is_array
    ]


def _named(message: Any, names: Mapping[bytes, str], topic: str | None = None) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for _, entries in _children(message):
        for entry in entries:
            own = _topic_of(entry, names) or topic
            partition = _partition_of(entry)
            inner = _named(entry, names, own)
            if inner:
                found += inner
            elif own is not None:
                found += _bare_partitions(entry, own) if partition is None else [(own, partition)]
    return found


def _bare_partitions(entry: Any, topic: str) -> list[tuple[str, int]]:
    """The partitions of an entry that lists them as plain numbers. If it lists none, only the topic."""
    numbers = getattr(entry, "partitions", None) or getattr(entry, "partition_indexes", None) or ()
    return [(topic, int(number)) for number in numbers if isinstance(number, int)] or [(topic, -1)]


def _with_error(message: Any, error_code: int, topic: str, partition: int, names: Mapping[bytes, str]) -> Any:
    changed, count = _edit_entries(message, error_code, topic, partition, names, None)
    if count == 0 and not topic and hasattr(changed, "error_code"):
        return replace(changed, error_code=_code(changed, error_code))
    return changed


def _edit_entries(
    message: Any, error_code: int, topic: str, partition: int, names: Mapping[bytes, str], of_topic: str | None
) -> tuple[Any, int]:
    """Give the innermost entries that match the error. Returns how many there were."""
    values: dict[str, object] = {}
    total = 0
    for field, entries in _children(message):
        edited = []
        for entry in entries:
            own = _topic_of(entry, names) or of_topic
            if topic and own is not None and own != topic:
                edited.append(entry)
                continue
            number = _partition_of(entry)
            inner, count = _edit_entries(entry, error_code, topic, partition, names, own)
            is_wanted = number is None or partition in (-1, number)
            if count == 0 and hasattr(entry, "error_code") and is_wanted:
                inner, count = replace(inner, error_code=_code(entry, error_code)), 1
            edited.append(inner)
            total += count
        values[field] = tuple(edited)
    return (replace(message, **values) if values else message), total


def _code(message: Any, error_code: int) -> Any:
    make: Callable[[int], Any] = type(message.error_code)
    return make(error_code)


def _without_topic(message: Any, topic: str, names: Mapping[bytes, str]) -> Any:
    """The Metadata response in which the entry of the topic (empty: every entry) has UNKNOWN_TOPIC_OR_PARTITION and no
    partitions."""
    topics = tuple(
        replace(entry, error_code=_code(entry, UNKNOWN_TOPIC_OR_PARTITION), partitions=())
        if topic in ("", _topic_of(entry, names))
        else entry
        for entry in message.topics or ()
    )
    return replace(message, topics=topics)
