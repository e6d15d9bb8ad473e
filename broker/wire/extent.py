"""Finds the end of a message in its frame. Every length and count is checked before anything is built.

Owns: one generated walk for each message type. It adds up lengths and creates nothing. So a frame that claims two
billion elements costs only a look at its count. After this check a decoder may believe the length of an array. kio's
native decoder needs this: it first allocates memory for the claimed length, and the process aborts if there is not
enough. Decoders check the values, such as UTF-8 and times out of range. A null where the protocol does not allow it is
refused here. Shown by tests/broker_wire/test_wire_extent.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from broker.wire.encoder import FIXED_CODES
from broker.wire.errors import RemoteProtocolError
from broker.wire.messages import FieldShape, MessageType, field_shapes
from broker.wire.varints import read_uvarint

# The limit for all arrays of one answer together. Metadata of 140,000 partitions with three replicas has a million
# elements. To decode them takes 1.5 s and 200 MB. A caller that asks for one topic sets a lower limit.
ANSWER_ELEMENTS_MAX: Final = 1_000_000
_UVARINT_MAX: Final = 2**31 - 1  # lengths and counts are Java's ints

# (view, position, [elements that may still come]) -> position after it
Walk: TypeAlias = Callable[[Any, int, list[int]], int]  # Any: bytes or memoryview, indexed alike


def extent_of(message_type: MessageType, view: bytes | memoryview, position: int, *, elements_max: int) -> int:
    """The position after the message that begins at `position`. RemoteProtocolError if a length or count in it does
    not fit into the frame, or if its arrays have more than `elements_max` elements together."""
    try:
        end = _walk_for(message_type, bool(message_type.__flexible__))(view, position, [elements_max])
    except (struct.error, IndexError) as error:
        raise RemoteProtocolError(f"{_name(message_type)} ends after its frame of {len(view)} bytes") from error
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{_name(message_type)}: {error}") from error
    if end > len(view):
        raise RemoteProtocolError(f"{_name(message_type)} of {end} bytes ends after its frame of {len(view)} bytes")
    return end


def _name(message_type: MessageType) -> str:
    return f"{message_type.__name__} version {message_type.__version__}"


def least_bytes(shape: FieldShape, flexible: bool) -> int:
    """The smallest size in bytes of a field that is not tagged."""
    if shape.is_array:
        return 1 if flexible else 4
    if shape.nested is not None and shape.nullable:
        return 1
    return _least_item_bytes(shape, flexible)


def _least_item_bytes(shape: FieldShape, flexible: bool) -> int:
    if shape.nested is not None:
        fields = (each for each in field_shapes(shape.nested) if each.tag is None)
        return sum(least_bytes(each, flexible) for each in fields) + int(flexible)
    if shape.kafka_type in FIXED_CODES:
        return _FIXED_BYTES[shape.kafka_type]
    if flexible:
        return 1
    return 2 if shape.kafka_type == "string" else 4


_FIXED_BYTES = {name: struct.calcsize(">" + code) for name, code in FIXED_CODES.items()}


@cache
def _walk_for(message_type: MessageType, flexible: bool) -> Walk:
    """Generate the walk of one type. A position past the end of the frame is noticed at the next byte that is read, or
    at the very end. Lengths are never negative, so the position only grows."""
    shapes = field_shapes(message_type)
    names: dict[str, Any] = {}
    lines: list[str] = []
    fixed_bytes = 0
    for index, shape in enumerate(each for each in shapes if each.tag is None):
        if not shape.is_array and shape.kafka_type in FIXED_CODES:
            fixed_bytes += _FIXED_BYTES[shape.kafka_type]
            continue
        if fixed_bytes:
            lines.append(f"    position += {fixed_bytes}")
            fixed_bytes = 0
        lines += _field_lines(shape, flexible, names, f"_item{index}")
    lines.append(f"    position += {fixed_bytes}")
    if flexible:
        names["_tags"] = _tags_walk([shape for shape in shapes if shape.tag is not None])
        lines += ["    if view[position]: position = _tags(view, position, left)", "    else: position += 1"]
    return _compiled(lines, names, f"{message_type.__module__}.{message_type.__name__}")


def _field_lines(shape: FieldShape, flexible: bool, names: dict[str, Any], item: str) -> list[str]:
    """The code for one field that is not of fixed size. Functions that its elements need are added to `names`."""
    is_fixed = shape.nested is None and shape.kafka_type in FIXED_CODES
    if not is_fixed and (shape.is_array or shape.nested is not None):
        names[item] = _item_walk(shape, flexible)
    if shape.is_array:
        least = _least_item_bytes(shape, flexible)
        return [
            *_count_lines(flexible, is_long=True),
            *_null_lines(shape),
            "    if n > 0:",
            f"        if n * {least} > len(view) - position or n > left[0]: _refuse(n, {least}, view, position, left)",
            "        left[0] -= n",
            f"        position += n * {least}"
            if is_fixed
            else f"        for _ in range(n): position = {item}(view, position, left)",
        ]
    if shape.nested is not None and shape.nullable:  # a marker byte goes before it: -1 null, 1 present (KIP-893)
        return [
            "    n = view[position]",
            "    position += 1",
            f"    if n == 1: position = {item}(view, position, left)",
            "    elif n != 255: _refuse(n, 0, view, position, left)",
        ]
    if shape.nested is not None:
        return [f"    position = {item}(view, position, left)"]
    return _sized_lines(shape, flexible)


def _sized_lines(shape: FieldShape, flexible: bool) -> list[str]:
    counted = _count_lines(flexible, is_long=shape.kafka_type != "string")
    return [*counted, *_null_lines(shape), "    if n > 0: position += n"]


def _null_lines(shape: FieldShape) -> list[str]:
    """kio's decoder accepts null where the protocol does not allow it. A caller would then get None instead of a
    list."""
    return [] if shape.nullable else [f"    if n < 0: _no_null({shape.name!r})"]


def _no_null(name: str) -> None:
    raise RemoteProtocolError(f"{name} is null")


def _count_lines(flexible: bool, *, is_long: bool) -> list[str]:
    """Code that reads a length into `n`: `n` elements or bytes follow. -1 means null, and nothing follows."""
    if flexible:
        return [
            "    n = view[position]",
            "    if n < 128: position += 1",
            "    else: n, position = _uvarint(view, position)",
            "    n -= 1",
        ]
    kind, size = ("_int32", 4) if is_long else ("_int16", 2)
    return [
        f"    n, = {kind}(view, position)",
        f"    position += {size}",
        "    if n < -1: _refuse(n, 0, view, position, left)",
    ]


_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from


def _uvarint(view: Any, position: int) -> tuple[int, int]:
    value, position = read_uvarint(view, position)
    if value > _UVARINT_MAX:
        raise RemoteProtocolError(f"a length or count of {value} is more than Java's largest int")
    return value, position


def _refuse_count(count: int, least: int, view: Any, position: int, left: list[int]) -> None:
    if not least:
        raise RemoteProtocolError(f"a length, count or marker of {count} at byte {position} means nothing")
    if count * least > len(view) - position:
        raise RemoteProtocolError(f"an array of {count} elements cannot fit in {len(view) - position} bytes")
    raise RemoteProtocolError(f"an array of {count} elements at byte {position}, where {left[0]} more are allowed")


def _item_walk(shape: FieldShape, flexible: bool) -> Walk:
    """The walk of one element of an array, or of a tagged field that is not an array."""
    if shape.nested is not None:
        return _walk_for(shape.nested, flexible)
    if shape.kafka_type in FIXED_CODES:
        return _compiled([f"    position += {_FIXED_BYTES[shape.kafka_type]}"], {}, shape.name)
    return _compiled(_sized_lines(shape, flexible), {}, shape.name)


def _tags_walk(shapes: list[FieldShape]) -> Walk:
    """The walk of tagged fields (KIP-482). A known field must have the length that it claims. Others are skipped."""
    known: dict[int | None, Walk] = {}
    for shape in shapes:
        names: dict[str, Any] = {}
        lines = _field_lines(shape, True, names, "_item") if shape.is_array else []
        known[shape.tag] = _compiled(lines, names, shape.name) if shape.is_array else _item_walk(shape, True)

    def walk(view: Any, position: int, left: list[int]) -> int:
        count, position = _uvarint(view, position)
        if 2 * count > len(view) - position or count > left[0]:
            _refuse_count(count, 2, view, position, left)
        left[0] -= count
        for _ in range(count):
            tag, position = _uvarint(view, position)
            size, position = _uvarint(view, position)
            end = position + size
            if end > len(view):
                raise RemoteProtocolError(f"tagged field {tag} of {size} bytes ends after its frame")
            if tag in known and known[tag](view, position, left) != end:
                raise RemoteProtocolError(f"tagged field {tag} says that it has {size} bytes, and it has not")
            position = end
        return position

    return walk


def _compiled(lines: list[str], names: dict[str, Any], title: str) -> Walk:
    scope = {**names, "_uvarint": _uvarint, "_int16": _INT16, "_int32": _INT32, "_refuse": _refuse_count}
    scope["_no_null"] = _no_null
    source = "\n".join(["def walk(view, position, left):", *lines, "    return position"])
    exec(compile(source, f"<extent of {title}>", "exec"), scope)
    walk: Walk = scope["walk"]
    return walk
