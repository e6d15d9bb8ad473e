"""Reads the entries of decoded messages of any API: which topic, partition, group or transaction an entry is about.

kio's types differ by API and version, and so do the names of their fields. This module knows these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from chaos.toxiproxy.kafka.messages import wire

_TOPIC_FIELDS: Final = ("name", "topic", "topic_name")
_PARTITION_FIELDS: Final = ("partition", "partition_index", "index", "partition_id")
_ERROR_FIELDS: Final = ("error_code", "partition_error_code")
TOPIC_RESOURCE: Final = 2  # org.apache.kafka.common.config.ConfigResource.Type.TOPIC
# kio's types are chosen at run time by (API key, version), so `Any` is all that can be said about them.


def topic_of(entry: Any, names: Mapping[bytes, str]) -> str | None:
    """The topic of an entry, by `names` if it has only an id. None if it has none. Empty: it has a resource
    that is no topic."""
    for field in _TOPIC_FIELDS:
        value = getattr(entry, field, None)
        if isinstance(value, str):
            return value
    if hasattr(entry, "resource_name"):
        return str(entry.resource_name) if entry.resource_type == TOPIC_RESOURCE else ""
    topic_id = getattr(entry, "topic_id", None)
    return None if topic_id is None else names.get(topic_id.bytes, topic_id.hex)


def partition_of(entry: Any) -> int | None:
    for field in _PARTITION_FIELDS:
        value = getattr(entry, field, None)
        if isinstance(value, int):
            return int(value)
    return None


def error_field(entry: Any) -> str | None:
    """The name of the field with the entry's error code. None if it has none."""
    return next((field for field in _ERROR_FIELDS if hasattr(entry, field)), None)


def arrays_of(message: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """The arrays of structures in a message, by field."""
    messages = wire()
    return [
        (shape.name, tuple(getattr(message, shape.name) or ()))
        for shape in messages.field_shapes(type(message))
        if shape.nested is not None and shape.is_array
    ]
