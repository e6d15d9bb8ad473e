"""Bad input: frames that are almost requests of the Kafka protocol, or not at all. Made from a seed. Knows no
broker."""

from __future__ import annotations

import random
import struct
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from broker.wire.apis import APIS, Api
from broker.wire.batch_encoder import encode_batch
from broker.wire.codec import encode_request
from broker.wire.errors import ErrorCode, LocalProtocolError
from broker.wire.messages import FieldShape, Message, field_shapes, request_type

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
_NAMES = ("t", "t", "t", "u", "", "__consumer_offsets", "__cluster_metadata", "..", "a" * 250, "naïve/..\x00", "1")
ARRAY_LENGTHS = (0, 1, 1, 1, 2, 2, 3, 40)
DEPTH_MAX = 6
CLAIMED_LENGTHS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def _integer(bits: int, *, signed: bool, rng: random.Random) -> int:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    choice = rng.random()
    if choice < 0.55:
        return rng.choice((0, 0, 1, 1, 2, 3, -1 if signed else 0))
    return rng.choice((low, high)) if choice < 0.75 else rng.randint(low, high)


def _records(rng: random.Random) -> bytes | None:
    """A batch, perhaps with something wrong in it."""
    if rng.random() < 0.1:
        return rng.choice((None, b"", rng.randbytes(rng.randrange(200))))
    data = bytearray(
        encode_batch(
            [rng.randbytes(rng.randrange(40)) for _ in range(rng.choice((1, 1, 3)))],
            timestamps_ms=rng.choice((0, 1_700_000_000_000, 2**60)),
            producer_id=rng.choice((-1, -1, 0, 5, 2**62)),
            producer_epoch=rng.choice((-1, 0, 3)),
            base_sequence=rng.choice((-1, 0, 1, 2**31 - 1)),
            transactional=rng.random() < 0.1,
            control=rng.random() < 0.1,
        )
    )
    return bytes(damage(data, rng) if rng.random() < 0.6 else data)


def _scalar(shape: FieldShape, rng: random.Random) -> Any:
    """A value for the field. Any: it has the type of the field."""
    kind = shape.kafka_type
    if kind in _BITS:
        return _integer(_BITS[kind], signed=kind.startswith("int"), rng=rng)
    if kind == "records":
        return _records(rng)
    if kind == "error_code":
        return rng.choice((ErrorCode.none, ErrorCode.unknown_server_error))
    if kind == "string":
        return rng.choice(_NAMES)
    if kind == "bytes":
        return rng.randbytes(rng.choice((0, 1, 20, 300)))
    if kind == "uuid":
        return UUID(int=rng.choice((0, 1, rng.getrandbits(128))))
    if kind.startswith("timedelta"):
        return timedelta(milliseconds=rng.choice((0, 1, 100, 30_000, 2**31 - 1, -1)))
    if kind == "datetime_i64":
        return datetime.fromtimestamp(rng.randrange(2**31), tz=UTC)
    return {"bool": rng.random() < 0.5, "float64": rng.choice((0.0, 1.5, -1e300))}[kind]


def random_message(message_type: Any, rng: random.Random, depth: int = 0) -> Message:
    """Values of the right types, most of them without meaning."""
    values: dict[str, Any] = {}
    for shape in field_shapes(message_type):
        if shape.nullable and rng.random() < 0.2:
            values[shape.name] = None
        elif shape.is_array:
            count = 0 if depth >= DEPTH_MAX else rng.choice(ARRAY_LENGTHS)
            values[shape.name] = tuple(_one(shape, rng, depth) for _ in range(count))
        else:
            values[shape.name] = _one(shape, rng, depth)
    return message_type(**values)


def _one(shape: FieldShape, rng: random.Random, depth: int) -> Any:
    if shape.nested is not None:
        return random_message(shape.nested, rng, depth + 1)
    return _scalar(shape, rng)


def valid_frame(api: Api, version: int, rng: random.Random) -> bytes | None:
    """A request that can be decoded, with its length prefix. None if the drawn values do not fit their fields."""
    message = random_message(request_type(api.key, version), rng)
    client_id = rng.choice((None, "fuzz", "f" * 300))
    try:
        return b"".join(encode_request(api.key, version, rng.randrange(2**31), client_id, message))
    except (LocalProtocolError, OverflowError, ValueError, struct.error, TypeError):
        return None


def damage(data: bytearray, rng: random.Random) -> bytearray:
    """Change, cut or insert some bytes, or write a wrong length."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        if not data:
            return data
        at = rng.randrange(len(data))
        match rng.randrange(6):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.randrange(256)
            case 2:
                del data[at:]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                del data[at : at + rng.randrange(1, 5)]
            case _:
                size = rng.choice((1, 2, 4))
                lie = rng.choice(CLAIMED_LENGTHS) & ((1 << (8 * size)) - 1)
                data[at : at + size] = lie.to_bytes(size, "big")
    return data


def random_frame(rng: random.Random) -> tuple[str, bytes]:
    """(its kind, the bytes to send). Most have a right length prefix, so that they reach the parsers behind it."""
    choice = rng.random()
    if choice < 0.03:
        return "length without a frame", rng.choice(CLAIMED_LENGTHS).to_bytes(4, "big") + rng.randbytes(
            rng.randrange(20)
        )
    if choice < 0.08:
        body = rng.randbytes(rng.randrange(200))
        return "random bytes", len(body).to_bytes(4, "big") + body
    api = rng.choice(list(APIS.values()))
    version = rng.randint(api.min_version, api.max_version)
    if choice < 0.18:
        body = struct.pack(">hhih", api.key, version, rng.randrange(2**31), -1) + rng.randbytes(rng.randrange(120))
        return f"random body of {api.key.name}", len(body).to_bytes(4, "big") + body
    frame = valid_frame(api, version, rng)
    if frame is None:
        return "random bytes", b"\x00\x00\x00\x01\x00"
    if choice < 0.55:
        return f"{api.key.name} v{version}", frame
    body = bytes(damage(bytearray(frame[4:]), rng))
    return f"damaged {api.key.name} v{version}", len(body).to_bytes(4, "big") + body
