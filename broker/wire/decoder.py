"""Bytes to messages without copying payloads: for every request, and for Fetch responses.

Owns: generated decoders. Their `records` are memoryviews of the frame (writable if the frame is), so a leader rewrites
base offsets in the receive buffer, and a client parses batches in place. They do not trust their input. Lengths and
counts are checked against the frame before memory is allocated. A null is refused where the protocol does not allow it.

Other responses go through kio's native decoder, after extent.py has checked their lengths and counts. For a Produce
answer of ten partitions both together take 6 us, this decoder takes 44 us. But kio copies records (19 us per MiB) and
refuses writable buffers. tests/broker_wire/test_wire_codec.py shows that this decoder gives the same values as kio's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeAlias
from uuid import UUID

from broker.wire.encoder import FIXED_CODES, STRING_BYTES_MAX
from broker.wire.errors import RemoteProtocolError, error_code
from broker.wire.messages import ZERO_UUID, FieldShape, Message, MessageType, field_shapes, to_long_duration
from broker.wire.varints import read_uvarint


class Budget:
    """How many more elements of arrays, and tagged fields, one message may have. They are counted before they are
    built."""

    __slots__ = ("_limit", "left")

    def __init__(self, limit: int) -> None:
        self._limit = self.left = limit

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise RemoteProtocolError(f"more than {self._limit} elements in the arrays of one message")


# (view, position, budget) -> (value, position after it)
Decode: TypeAlias = Callable[[memoryview, int, Budget], tuple[Any, int]]
ELEMENTS_MAX = 1 << 20  # Messages of trusted senders have this limit. node/net/limits.py limits requests.


def decode_in_place(
    message_type: MessageType, view: memoryview, position: int, *, elements_max: int = ELEMENTS_MAX
) -> Message:
    """Decode one message at `position`; its `records` are slices of `view`."""
    try:
        decode = decoder_for(message_type, bool(message_type.__flexible__))
        message, _ = decode(view, position, Budget(elements_max))
    except (struct.error, IndexError, UnicodeDecodeError, ValueError, OverflowError, OSError) as error:
        raise RemoteProtocolError(f"cannot decode {message_type.__module__}: {error}") from error
    return message


_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def _slice(view: memoryview, position: int, size: int) -> tuple[memoryview | None, int]:
    if size < 0:
        return None, position
    end = position + size
    if end > len(view):
        raise RemoteProtocolError(f"a field of {size} bytes ends after its frame of {len(view)} bytes")
    return view[position:end], end


def _read_compact_bytes(view: memoryview, position: int, budget: Budget) -> tuple[memoryview | None, int]:
    size, position = read_uvarint(view, position)
    return _slice(view, position, size - 1)


def _read_legacy_bytes(view: memoryview, position: int, budget: Budget) -> tuple[memoryview | None, int]:
    return _slice(view, position + 4, _INT32.unpack_from(view, position)[0])


def _read_compact_string(view: memoryview, position: int, budget: Budget) -> tuple[str | None, int]:
    size, position = read_uvarint(view, position)
    if size > STRING_BYTES_MAX + 1:  # as in Kafka, so that a received string fits into any version of a message
        raise RemoteProtocolError(f"a string of {size - 1} bytes: at most {STRING_BYTES_MAX} are allowed")
    encoded, position = _slice(view, position, size - 1)
    return (None if encoded is None else str(encoded, "utf-8")), position


def _read_legacy_string(view: memoryview, position: int, budget: Budget) -> tuple[str | None, int]:
    encoded, position = _slice(view, position + 2, _INT16.unpack_from(view, position)[0])
    return (None if encoded is None else str(encoded, "utf-8")), position


def _read_compact_count(view: memoryview, position: int, budget: Budget) -> tuple[int, int]:
    count, position = read_uvarint(view, position)
    return _check_count(count - 1, view, position, budget), position


def _read_legacy_count(view: memoryview, position: int, budget: Budget) -> tuple[int, int]:
    return _check_count(_INT32.unpack_from(view, position)[0], view, position + 4, budget), position + 4


def _check_count(count: int, view: memoryview, position: int, budget: Budget) -> int:
    if count > len(view) - position:  # each element takes at least one byte
        raise RemoteProtocolError(f"an array of {count} elements cannot fit in {len(view) - position} bytes")
    if count > 0:
        budget.take(count)
    return count


def _read_tags(
    view: memoryview, position: int, readers: dict[int, tuple[str, Decode]], budget: Budget
) -> tuple[dict[str, Any], int]:
    """The tagged fields that are present and known; others are skipped, as the protocol demands."""
    count, position = read_uvarint(view, position)
    budget.take(count)
    values: dict[str, Any] = {}
    for _ in range(count):
        tag, position = read_uvarint(view, position)
        size, position = read_uvarint(view, position)
        if position + size > len(view):
            raise RemoteProtocolError(f"tagged field {tag} of {size} bytes ends after its frame")
        if tag in readers:
            name, read = readers[tag]
            values[name], _ = read(view, position, budget)
        position += size
    return values, position


def _to_duration(value: int) -> timedelta:
    return timedelta(milliseconds=value)


def _to_uuid(value: bytes) -> UUID | None:
    return None if value == ZERO_UUID.bytes else UUID(bytes=value)


def _to_time(value: int) -> datetime | None:
    return None if value == -1 else datetime.fromtimestamp(value / 1000, UTC)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "error_code": error_code,
    "timedelta_i32": _to_duration,
    "timedelta_i64": to_long_duration,
    "uuid": _to_uuid,
    "datetime_i64": _to_time,
}


@cache
def decoder_for(message_type: MessageType, flexible: bool) -> Decode:
    """Generate the decoder of one type: neighbouring fields of fixed size are unpacked together."""
    shapes = field_shapes(message_type)
    names: dict[str, Any] = {"_type": message_type, "_read_tags": _read_tags}
    lines = ["def decode(view, position, budget):"]
    run: list[FieldShape] = []
    for shape in (each for each in shapes if each.tag is None):
        if not shape.is_array and shape.kafka_type in FIXED_CODES:
            run.append(shape)
            continue
        lines += _fixed_lines(run, names)
        run = []
        names[f"_read_{shape.name}"] = _field_reader(shape, flexible)
        lines.append(f"    v_{shape.name}, position = _read_{shape.name}(view, position, budget)")
    lines += _fixed_lines(run, names)
    arguments = ", ".join(f"{shape.name}=v_{shape.name}" for shape in shapes if shape.tag is None)
    if flexible:
        tagged = [shape for shape in shapes if shape.tag is not None]
        names["_defaults"] = {shape.name: shape.default for shape in tagged}
        names["_readers"] = {shape.tag: (shape.name, _field_reader(shape, flexible)) for shape in tagged}
        lines += [
            "    if view[position] == 0: tags, position = _defaults, position + 1",
            "    else:",
            "        found, position = _read_tags(view, position, _readers, budget)",
            "        tags = {**_defaults, **found}",
        ]
        arguments += ", **tags" if tagged else ""
    lines.append(f"    return _type({arguments.removeprefix(', ')}), position")
    exec(compile("\n".join(lines), f"<decoder {message_type.__module__}.{message_type.__name__}>", "exec"), names)
    generated: Decode = names["decode"]
    return generated


def _fixed_lines(run: list[FieldShape], names: dict[str, Any]) -> list[str]:
    if not run:
        return []
    layout = struct.Struct(">" + "".join(FIXED_CODES[shape.kafka_type] for shape in run))
    unpack = f"_unpack_{len(names)}"
    names[unpack] = layout.unpack_from
    targets = "".join(f"v_{shape.name}, " for shape in run)
    lines = [f"    {targets}= {unpack}(view, position)", f"    position += {layout.size}"]
    for shape in run:
        if shape.kafka_type in _CONVERTERS:
            names[f"_to_{shape.kafka_type}"] = _CONVERTERS[shape.kafka_type]
            lines.append(f"    v_{shape.name} = _to_{shape.kafka_type}(v_{shape.name})")
    return lines


def _field_reader(shape: FieldShape, flexible: bool) -> Decode:
    item = _item_reader(shape, flexible)
    if shape.is_array:
        has_length = shape.kafka_type in _WITH_LENGTH
        read = _array_reader(_required(item, shape.name) if has_length else item, flexible)
        return read if shape.nullable else _required(read, shape.name)
    if shape.nested is not None and shape.nullable and shape.tag is None:
        return _nullable_struct_reader(item)
    return _required(item, shape.name) if shape.kafka_type in _WITH_LENGTH and not shape.nullable else item


_WITH_LENGTH = frozenset({"string", "bytes", "records"})


def _required(read: Decode, name: str) -> Decode:
    """Check a field for which the protocol does not allow null."""

    def read_required(view: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        value, position = read(view, position, budget)
        if value is None:
            raise RemoteProtocolError(f"{name} is null")
        return value, position

    return read_required


def _copied(read: Decode) -> Decode:
    """A copy as bytes, so that a handler may keep it."""

    def read_copied(view: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        value, position = read(view, position, budget)
        return (None if value is None else bytes(value)), position

    return read_copied


def _item_reader(shape: FieldShape, flexible: bool) -> Decode:
    if shape.nested is not None:
        return decoder_for(shape.nested, flexible)
    if shape.kafka_type in FIXED_CODES:
        return _fixed_reader(shape.kafka_type)
    if shape.kafka_type == "string":
        return _read_compact_string if flexible else _read_legacy_string
    read = _read_compact_bytes if flexible else _read_legacy_bytes
    return read if shape.kafka_type == "records" else _copied(read)


def _fixed_reader(kafka_type: str) -> Decode:
    layout, convert = struct.Struct(">" + FIXED_CODES[kafka_type]), _CONVERTERS.get(kafka_type)
    unpack_from, size = layout.unpack_from, layout.size
    if convert is None:
        return lambda view, position, budget: (unpack_from(view, position)[0], position + size)
    return lambda view, position, budget: (convert(unpack_from(view, position)[0]), position + size)


def _array_reader(item: Decode, flexible: bool) -> Decode:
    read_count = _read_compact_count if flexible else _read_legacy_count

    def read_array(view: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        count, position = read_count(view, position, budget)
        if count < 0:
            return None, position
        values = []
        for _ in range(count):
            value, position = item(view, position, budget)
            values.append(value)
        return tuple(values), position

    return read_array


def _nullable_struct_reader(item: Decode) -> Decode:
    """A marker byte precedes such a structure: -1 null, 1 present (KIP-893)."""

    def read_nullable(view: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        return item(view, position + 1, budget) if view[position] == 1 else (None, position + 1)

    return read_nullable
