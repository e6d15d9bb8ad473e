"""Bytes to messages without copying payloads: for Produce requests and Fetch responses only.

Owns: a generated decoder whose `records` are memoryviews of the frame (writable when the frame is), so a leader
rewrites base offsets in the receive buffer and a client parses batches in place. Every other message
goes through kio's native decoder, which is faster for small messages but copies records (19 us per MiB) and
refuses writable buffers.
Shown by tests/broker_wire/test_wire_codec.py: the same values as kio's decoder.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeAlias
from uuid import UUID

from broker.wire.encoder import _FIXED_CODE
from broker.wire.errors import RemoteProtocolError, error_code
from broker.wire.messages import ZERO_UUID, FieldShape, Message, MessageType, field_shapes

Decode: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]


def read_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise RemoteProtocolError("an unsigned varint has more than 5 bytes")


def _read_bytes(view: memoryview, position: int, flexible: bool) -> tuple[memoryview | None, int]:
    if flexible:
        size, position = read_uvarint(view, position)
        size -= 1
    else:
        (size,) = struct.unpack_from(">i", view, position)
        position += 4
    if size < 0:
        return None, position
    end = position + size
    if end > len(view):
        raise RemoteProtocolError(f"a field of {size} bytes ends after its frame of {len(view)} bytes")
    return view[position:end], end


def _read_string(view: memoryview, position: int, flexible: bool) -> tuple[str | None, int]:
    if flexible:
        size, position = read_uvarint(view, position)
        size -= 1
    else:
        (size,) = struct.unpack_from(">h", view, position)
        position += 2
    if size < 0:
        return None, position
    end = position + size
    if end > len(view):
        raise RemoteProtocolError(f"a string of {size} bytes ends after its frame of {len(view)} bytes")
    return str(view[position:end], "utf-8"), end


def _read_count(view: memoryview, position: int, flexible: bool) -> tuple[int, int]:
    if flexible:
        count, position = read_uvarint(view, position)
        count -= 1
    else:
        (count,) = struct.unpack_from(">i", view, position)
        position += 4
    if count > len(view) - position:  # each element takes at least one byte
        raise RemoteProtocolError(f"an array of {count} elements cannot fit in {len(view) - position} bytes")
    return count, position


def _fixed_value(kafka_type: str, value: Any) -> Any:
    if kafka_type == "error_code":
        return error_code(value)
    if kafka_type.startswith("timedelta"):
        return timedelta(milliseconds=value)
    if kafka_type == "uuid":
        return None if value == ZERO_UUID.bytes else UUID(bytes=value)
    if kafka_type == "datetime_i64":
        return None if value == -1 else datetime.fromtimestamp(value / 1000, UTC)
    return value


def _fixed_decoder(kafka_type: str) -> Decode:
    unpack_from, size = (
        struct.Struct(">" + _FIXED_CODE[kafka_type]).unpack_from,
        struct.calcsize(">" + _FIXED_CODE[kafka_type]),
    )
    if kafka_type.startswith(("int", "uint", "bool", "float")):
        return lambda view, position: (unpack_from(view, position)[0], position + size)
    return lambda view, position: (_fixed_value(kafka_type, unpack_from(view, position)[0]), position + size)


def _scalar_decoder(shape: FieldShape, flexible: bool) -> Decode:
    if shape.nested is not None:
        return decoder_for(shape.nested, flexible)
    if shape.kafka_type in _FIXED_CODE:
        return _fixed_decoder(shape.kafka_type)
    if shape.kafka_type == "string":
        return lambda view, position: _read_string(view, position, flexible)
    return lambda view, position: _read_bytes(view, position, flexible)


def _nullable_struct_decoder(item: Decode) -> Decode:
    """A marker byte goes before such a structure: -1 null, 1 present (KIP-893)."""

    def decode(view: memoryview, position: int) -> tuple[Any, int]:
        return item(view, position + 1) if view[position] == 1 else (None, position + 1)

    return decode


def _value_decoder(shape: FieldShape, flexible: bool) -> Decode:
    item = _scalar_decoder(shape, flexible)
    if not shape.is_array:
        nullable_struct = shape.nested is not None and shape.nullable and shape.tag is None
        return _nullable_struct_decoder(item) if nullable_struct else item

    def decode_array(view: memoryview, position: int) -> tuple[Any, int]:
        count, position = _read_count(view, position, flexible)
        if count < 0:
            return None, position
        values = []
        for _ in range(count):
            value, position = item(view, position)
            values.append(value)
        return tuple(values), position

    return decode_array


@cache
def decoder_for(message_type: MessageType, flexible: bool) -> Decode:
    shapes = field_shapes(message_type)
    plain = [(shape.name, _value_decoder(shape, flexible)) for shape in shapes if shape.tag is None]
    tagged = {shape.tag: (shape.name, _value_decoder(shape, flexible)) for shape in shapes if shape.tag is not None}
    defaults = {shape.name: shape.default for shape in shapes if shape.tag is not None}

    def decode(view: memoryview, position: int) -> tuple[Any, int]:
        values = dict(defaults)
        for name, read in plain:
            values[name], position = read(view, position)
        if flexible:
            count, position = read_uvarint(view, position)
            for _ in range(count):
                tag, position = read_uvarint(view, position)
                size, position = read_uvarint(view, position)
                if position + size > len(view):
                    raise RemoteProtocolError(f"tagged field {tag} of {size} bytes ends after its frame")
                if tag in tagged:
                    name, read = tagged[tag]
                    values[name], _ = read(view, position)
                position += size
        return message_type(**values), position

    return decode


def decode_in_place(message_type: MessageType, view: memoryview, position: int) -> Message:
    """Decode one message at `position`; its `records` are slices of `view`."""
    try:
        message, _ = decoder_for(message_type, bool(message_type.__flexible__))(view, position)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError, OverflowError) as error:
        raise RemoteProtocolError(f"cannot decode {message_type.__module__}: {error}") from error
    return message
