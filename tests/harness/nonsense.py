"""Answers that are valid by the schema but make no sense: whole messages with values that nobody would send.

Owns the choice of values. Half of them are those of a good answer (no error, the topic that was asked for), so that the
reader gets far into it. The others are limits, negative ids, duplicates, empty lists, and bytes of no format.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.messages import FieldShape, MessageType, field_shapes

_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED: Final = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
_NAMES: Final = ("t", "t", "g", "", "range", "consumer", "Stable", "member-1", "\x00", "x" * 300, "ä" * 100)
ASSIGNMENT: Final = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"  # of t-0
_CODES: Final = tuple(ErrorCode)


def nonsense(message_type: MessageType, rng: random.Random) -> Any:  # Any: kio's generated types
    """One of `message_type`. The same for the same state of `rng`."""
    return message_type(**{shape.name: _value(shape, rng) for shape in field_shapes(message_type)})


def _value(shape: FieldShape, rng: random.Random) -> Any:
    if shape.tag is not None and rng.random() < 0.5:
        return shape.default
    if shape.nullable and shape.tag is None and rng.random() < 0.15:
        return None
    if shape.is_array:
        return tuple(_item(shape, rng) for _ in range(rng.choice((0, 1, 1, 1, 2, 3))))
    return _item(shape, rng)


def _item(shape: FieldShape, rng: random.Random) -> Any:
    kind = shape.kafka_type
    if shape.nested is not None:
        return nonsense(shape.nested, rng)
    if kind in _BITS:
        most = 2 ** (_BITS[kind] - 1)
        return rng.choice((0, 0, 0, 1, 1, 2, -1, -7, most - 1, -most))
    if kind in _UNSIGNED:
        return rng.choice((0, 1, 2 ** _UNSIGNED[kind] - 1))
    if kind == "string":
        return rng.choice(_NAMES)
    if kind in ("bytes", "records"):
        return rng.choice((b"", b"\x00", ASSIGNMENT, ASSIGNMENT[:7], rng.randbytes(rng.randrange(1, 60))))
    if kind in ("timedelta_i32", "timedelta_i64"):
        return timedelta(milliseconds=rng.choice((0, 0, 1, -1, 2**31 - 1, -(2**31))))
    if kind == "datetime_i64":
        return datetime.fromtimestamp(rng.choice((0, 1, 2**31)), UTC)
    return {
        "float64": rng.choice((0.0, -1.0, float("inf"), float("nan"))),
        "bool": rng.random() < 0.5,
        "uuid": UUID(int=rng.randrange(1, 2**128)),
        "error_code": ErrorCode.none if rng.random() < 0.8 else rng.choice(_CODES),
    }[kind]
