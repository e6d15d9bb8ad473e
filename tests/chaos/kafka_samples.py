"""Requests and responses of any API and version with known content, as frames."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from kio.schema.index import api_key_map, schema_name_map

from broker.wire import codec, messages
from broker.wire.errors import ErrorCode
from chaos.toxiproxy.kafka.apis import API_KEYS

CLIENT_ID = "me"
CORRELATION_ID = 5
VERSIONS = [
    (api, key, version)
    for api, key in API_KEYS.items()
    for version in sorted(schema_name_map[api_key_map[key]])
    if version >= 0
]
VERSIONS_OF = {name: [(key, version) for api, key, version in VERSIONS if api == name] for name in API_KEYS}


def sample(kind: Any, entries: int = 2, number: int = 0) -> Any:
    """A message in which every array has as many entries, and no two values of an array are equal. Tagged fields have
    their defaults."""
    values: dict[str, object] = {}
    for shape in messages.field_shapes(kind):
        if shape.tag is not None:
            values[shape.name] = shape.default
        elif shape.is_array:
            values[shape.name] = tuple(_value(shape, each, entries) for each in range(entries))
        else:
            values[shape.name] = _value(shape, number, entries)
    return kind(**values)


def _value(shape: Any, number: int, entries: int) -> Any:
    kind = shape.kafka_type
    if shape.nested is not None:
        return sample(shape.nested, entries, number)
    if "int" in kind and not kind.startswith("time"):
        return 0 if shape.name.endswith("error_code") else number + 1
    return {
        "string": f"{shape.name}-{number}",
        "bytes": b"b",
        "records": b"",
        "timedelta_i32": timedelta(milliseconds=5),
        "timedelta_i64": timedelta(milliseconds=5),
        "datetime_i64": datetime.fromtimestamp(1, UTC),
        "float64": 1.0,
        "bool": False,
        "uuid": UUID(int=7 + number),
        "error_code": ErrorCode.none,
    }[kind]


def request_frame(api_key: int, version: int, message: Any) -> bytes:
    return b"".join(map(bytes, codec.encode_request(api_key, version, CORRELATION_ID, CLIENT_ID, message)))


def response_frame(api_key: int, version: int, message: Any) -> bytes:
    return b"".join(map(bytes, codec.encode_response(api_key, version, CORRELATION_ID, message)))


def sample_request(api_key: int, version: int, entries: int = 2) -> Any:
    return sample(messages.request_type(api_key, version), entries)


def sample_response(api_key: int, version: int, entries: int = 2) -> Any:
    return sample(messages.response_type(api_key, version), entries)
