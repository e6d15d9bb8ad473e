"""Metadata records to bytes and back: one payload is a JSON list of [type, fields], applied as a whole or not at all.

Format 1. A reader refuses types and fields that it does not know, because all brokers of a cluster run one version.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import get_args
from uuid import UUID

from broker.controller.records import Endpoint, MetadataRecord

# What `json.loads` can return for a field.
JsonValue = str | int | float | bool | None | list["JsonValue"]

_TYPES: dict[str, Callable[..., MetadataRecord]] = {kind.__name__: kind for kind in get_args(MetadataRecord)}


def encode_records(records: tuple[MetadataRecord, ...]) -> bytes:
    document = [
        [type(record).__name__, {each.name: _to_json(getattr(record, each.name)) for each in fields(record)}]
        for record in records
    ]
    return json.dumps(document, separators=(",", ":")).encode()


def _to_json(value: object) -> object:
    match value:
        case UUID() | bytes():
            return value.hex if isinstance(value, UUID) else value.hex()
        case Endpoint():
            return [value.listener, value.host, value.port]
        case tuple():
            return [_to_json(item) for item in value]
        case _:
            return value


def decode_records(payload: bytes) -> tuple[MetadataRecord, ...]:
    """Raises ValueError for anything that `encode_records` cannot have made."""
    try:
        document = json.loads(payload)
        return tuple(
            _TYPES[kind](**{name: _from_json(name, value) for name, value in values.items()})
            for kind, values in document
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"metadata records are damaged: {error!r}; payload: {payload[:200]!r}") from error


def _from_json(name: str, value: JsonValue) -> object:
    match name, value:
        case (("topic_id" | "incarnation_id" | "acl_id"), str()):
            return UUID(hex=value)
        case (("salt" | "stored_key" | "server_key"), str()):
            return bytes.fromhex(value)
        case "entity", list():
            return tuple(_entity_part(item) for item in value)
        case "endpoints", list():
            return tuple(_endpoint(item) for item in value)
        case "offline_directories", list():
            return tuple(UUID(hex=str(item)) for item in value)
        case (("replicas" | "isr" | "adding" | "removing" | "elr" | "last_known_elr" | "renewers"), list()):
            return tuple(value)
        case _:
            return value


def _endpoint(item: JsonValue) -> Endpoint:
    match item:
        case [str(listener), str(host), int(port)]:
            return Endpoint(listener=listener, host=host, port=port)
    raise ValueError(f"not an endpoint: {item!r}")


def _entity_part(item: JsonValue) -> tuple[str, str | None]:
    match item:
        case [str(kind), (str() | None) as name]:
            return kind, name
    raise ValueError(f"not a part of a quota entity: {item!r}")
