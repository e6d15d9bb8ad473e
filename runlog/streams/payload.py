"""The 32-byte header at the start of every record value. `payload_pool` has ready-made bodies to follow it.

Layout, little endian: magic u16, producer u16, incarnation u32, seq u64, intended_ns u64, check u32, flags u32.
`intended_ns` is absolute CLOCK_MONOTONIC of the host. The CRC covers the whole value except its own four bytes, first
`value[28:]` and then `value[:24]`. So the CRC of a prepared body is computed once, and each record continues it over 24
bytes only. `tests/runlog/test_runlog_payload.py` flips every byte and sees each flip.

The check is the CRC multiplied by an odd number (modulo 2^32), and not the CRC itself. A CRC is linear. Right behind
the bytes that it covers, it takes their whole difference out of any CRC-32C over both. The batches of two producers
with equal bodies then had one CRC, whatever their headers held, and predictions know a batch by its CRC.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

MAGIC = 0x4B48
HEADER_BYTES = 32
HEAD = struct.Struct("<HHIQQ")
CHECK = struct.Struct("<I")
_WHOLE = struct.Struct("<HHIQQII")
_HEAD_BYTES = HEAD.size
_TAIL_START = _HEAD_BYTES + CHECK.size

ODD, BITS_32 = 0x9E3779B1, 0xFFFFFFFF


def make(*, producer: int, incarnation: int, seq: int, intended_ns: int, body: bytes = b"", flags: int = 0) -> bytes:
    """Build one value of `32 + len(body)` bytes. `PayloadPool.value` is the fast way."""
    tail = flags.to_bytes(4, "little") + body
    head = HEAD.pack(MAGIC, producer, incarnation, seq, intended_ns)
    return head + CHECK.pack(crc32c(head, crc32c(tail)) * ODD & BITS_32) + tail


def parse_fast(value: bytes) -> tuple[int, int, int, int, bool] | None:
    """(producer, incarnation, seq, intended_ns, crc_ok), or None when the value is not ours."""
    if len(value) < HEADER_BYTES:
        return None
    magic, producer, incarnation, seq, intended_ns, check, _flags = _WHOLE.unpack_from(value)
    if magic != MAGIC:
        return None
    return producer, incarnation, seq, intended_ns, _check_of(value) == check


def _check_of(value: bytes) -> int:
    return crc32c(value[:_HEAD_BYTES], crc32c(value[_TAIL_START:])) * ODD & BITS_32


def identity_of(value: bytes) -> tuple[int, int, int] | None:
    """(producer, incarnation, seq) of one of our values, None for others. The CRC is not looked at."""
    if len(value) < HEADER_BYTES:
        return None
    magic, producer, incarnation, seq, _intended_ns = HEAD.unpack_from(value)
    return (producer, incarnation, seq) if magic == MAGIC else None
