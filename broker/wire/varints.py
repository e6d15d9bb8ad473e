"""Varints: signed (zigzag) ones of the record format, unsigned ones of the protocol's compact fields.

A table holds the common ones, and loops handle the rest. All code that reads or writes varints uses this module, except
where the call would cost more than the varint. Such code reads the short forms inline, and its docstring says what that
saves: batch_decoder.py, record_check.py and _record_check.c (records), hot_produce.py and extent.py (lengths of one
byte). tests/broker_wire/test_wire_varints.py shows that all of them read every form in the same way.
"""

from __future__ import annotations

from broker.wire.errors import RemoteProtocolError

TABLE_SIZE = 4096


def encode_varint(value: int) -> bytes:
    """The zigzag varint of any 64-bit signed number."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


# Nearly all lengths and offset deltas are small and not negative. For them a look-up in a tuple is 10 times as fast.
VARINTS: tuple[bytes, ...] = tuple(encode_varint(value) for value in range(TABLE_SIZE))


def varint(value: int) -> bytes:
    return VARINTS[value] if 0 <= value < TABLE_SIZE else encode_varint(value)


def decode_varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """(value, position after it). Raises IndexError at the end of the buffer, ValueError beyond 10 bytes."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    rest, shift = byte & 0x7F, 7
    while True:
        byte = buffer[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), position
        shift += 7
        if shift > 63:
            raise ValueError("a varint has more than 10 bytes")


def unsigned_varint(value: int) -> bytes:
    """An unsigned varint: 7 bits per byte, the least significant first. The high bit says that another byte follows."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_UNSIGNED = tuple(unsigned_varint(value) for value in range(1024))


def uvarint(value: int) -> bytes:
    return _UNSIGNED[value] if value < 1024 else unsigned_varint(value)


def read_uvarint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """(value, position after it). Raises IndexError at the end of the buffer, RemoteProtocolError beyond 5 bytes."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise RemoteProtocolError("an unsigned varint has more than 5 bytes")
