"""Varints: signed (zigzag) ones of the record format, unsigned ones of the protocol's compact fields.

A table serves the common ones, loops the rest. Whatever meets a varint comes here, except where a call for each would
cost more than the varint. There the short forms are read in place, and each docstring says what that saves:
batch_decoder.py and record_check.py (records; and _record_check.c), hot_produce.py and extent.py (lengths of one byte).
tests/broker_wire/test_wire_varints.py shows that all of them read every form alike.
"""

from __future__ import annotations

from broker.wire.errors import RemoteProtocolError

TABLE_SIZE = 4096


def encode_varint(value: int) -> bytes:
    """Zigzag varint of any 64-bit signed number."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


# Lengths and offset deltas of nearly every record are small and not negative: a tuple look-up is 10 times as fast.
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
    """7 bits a byte, least significant first, high bit = more follow."""
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
