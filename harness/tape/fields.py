"""Kafka's messages as JSON, and back. Fields that have the protocol's default are left out: a reader sees what is said.

Bytes are base64, durations and times are ms, error codes are numbers. Pure. Shown by
tests/harness/test_harness_tape_script.py.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any  # kio's types, chosen by API and version
from uuid import UUID

from broker.door.messages import build, field_shapes

Plain = dict[str, Any]


def to_plain(message: Any) -> Plain:
    found: Plain = {}
    kind: Any = type(message)
    for shape in field_shapes(kind):
        value = getattr(message, shape.name)
        if value != shape.default:
            found[shape.name] = _plain_values(value) if shape.is_array else _plain(value)
    return found


def _plain_values(values: Any) -> Any:
    return None if values is None else [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    match value:
        case None | str() | bool():
            return value
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case UUID():
            return str(value)
        case timedelta():
            return round(value.total_seconds() * 1_000)
        case datetime():
            return round(value.timestamp() * 1_000)
        case int():
            return int(value)
        case float():
            return value
        case _:
            return to_plain(value)


def from_plain(kind: Any, plain: Mapping[str, Any]) -> Any:
    """A message of this type. Fields that only another version has are left out. ValueError or ProtocolError for what
    cannot be a message of this API."""
    values: Plain = dict(plain)
    for shape in field_shapes(kind):
        value = values.get(shape.name)
        if value is None:
            continue
        if shape.nested is not None:
            nested = shape.nested
            values[shape.name] = (
                [from_plain(nested, each) for each in value] if shape.is_array else from_plain(nested, value)
            )
        elif shape.kafka_type == "uuid":
            values[shape.name] = [_uuid(each) for each in value] if shape.is_array else _uuid(value)
        elif shape.kafka_type == "bytes" and isinstance(value, str):
            values[shape.name] = base64.b64decode(value, validate=True)
    return build(kind, values)


def _uuid(value: UUID | str) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def error_codes(plain: Any) -> Iterator[int]:
    """All that are not 0, wherever they stand."""
    if isinstance(plain, Mapping):
        for name, value in plain.items():
            if name.endswith("error_code") and isinstance(value, int) and value:
                yield value
            yield from error_codes(value)
    elif isinstance(plain, list):
        for each in plain:
            yield from error_codes(each)


def renamed(plain: Any, names: Mapping[str, str]) -> Any:
    """Each text with the keys of `names` replaced by their values."""
    if isinstance(plain, Mapping):
        return {name: renamed(value, names) for name, value in plain.items()}
    if isinstance(plain, list):
        return [renamed(each, names) for each in plain]
    if isinstance(plain, str):
        for before, after in names.items():
            plain = plain.replace(before, after)
    return plain
