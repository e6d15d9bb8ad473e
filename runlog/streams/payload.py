"""The 32-byte header at the start of every record value, and ready-made bodies to follow it.

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
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

MAGIC = 0x4B48
HEADER_BYTES = 32
_HEAD = struct.Struct("<HHIQQ")
_CHECK = struct.Struct("<I")
_WHOLE = struct.Struct("<HHIQQII")
_HEAD_BYTES = _HEAD.size
_TAIL_START = _HEAD_BYTES + _CHECK.size

# A codec finds repetitions within one batch. The pool holds more than the largest usual batch. So a body does not occur
# twice within a batch, and the achieved ratio is that of the bodies.
POOL_BYTES = 4 * 1024 * 1024
POOL_BYTES_MAX = 64 * 1024 * 1024
POOL_BODIES_MIN = 8
# What of the header differs from record to record: low bytes of seq and time, and the CRC.
_HEADER_ENTROPY_BYTES = 9
_FILLER = b"kafka-harness filler "
_NO_FLAGS = b"\0\0\0\0"
_ODD, _32_BITS = 0x9E3779B1, 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadHeader:
    producer: int
    incarnation: int
    seq: int
    intended_ns: int
    flags: int
    crc_ok: bool


def make(*, producer: int, incarnation: int, seq: int, intended_ns: int, body: bytes = b"", flags: int = 0) -> bytes:
    """Build one value of `32 + len(body)` bytes. `PayloadPool.value` is the fast way."""
    tail = flags.to_bytes(4, "little") + body
    head = _HEAD.pack(MAGIC, producer, incarnation, seq, intended_ns)
    return head + _CHECK.pack(crc32c(head, crc32c(tail)) * _ODD & _32_BITS) + tail


def parse(value: bytes) -> PayloadHeader | None:
    """Reads the header. None if the harness did not make the value. `crc_ok` says whether the CRC is right."""
    if len(value) < HEADER_BYTES:
        return None
    magic, producer, incarnation, seq, intended_ns, check, flags = _WHOLE.unpack_from(value)
    if magic != MAGIC:
        return None
    crc_ok = _check_of(value) == check
    return PayloadHeader(
        producer=producer, incarnation=incarnation, seq=seq, intended_ns=intended_ns, flags=flags, crc_ok=crc_ok
    )


def parse_fast(value: bytes) -> tuple[int, int, int, int, bool] | None:
    """(producer, incarnation, seq, intended_ns, crc_ok), or None when the value is not ours."""
    if len(value) < HEADER_BYTES:
        return None
    magic, producer, incarnation, seq, intended_ns, check, _flags = _WHOLE.unpack_from(value)
    if magic != MAGIC:
        return None
    return producer, incarnation, seq, intended_ns, _check_of(value) == check


def _check_of(value: bytes) -> int:
    return crc32c(value[:_HEAD_BYTES], crc32c(value[_TAIL_START:])) * _ODD & _32_BITS


def identity_of(value: bytes) -> tuple[int, int, int] | None:
    """(producer, incarnation, seq) of one of our values, None for others. The CRC is not looked at."""
    if len(value) < HEADER_BYTES:
        return None
    magic, producer, incarnation, seq, _intended_ns = _HEAD.unpack_from(value)
    return (producer, incarnation, seq) if magic == MAGIC else None


class PayloadPool:
    """Bodies made before the clock starts; `value()` only adds a header.

    `compressibility` in 0..0.95 is the share of the value that a codec should take away: 0 is incompressible, 0.75
    means a quarter remains (a ratio of 4). `achieved_ratio` measures it on a batch.
    """

    def __init__(self, *, record_size_bytes: int, compressibility: float, seed: int) -> None:
        if record_size_bytes < HEADER_BYTES:
            raise ValueError(f"record_size_bytes is {record_size_bytes}, at least {HEADER_BYTES} are needed")
        if not 0.0 <= compressibility <= 0.95:
            raise ValueError(f"compressibility is {compressibility}, expected 0 to 0.95")
        count = _body_count(record_size_bytes - HEADER_BYTES)
        sizes = np.full(count, record_size_bytes)
        self._take(random_bodies(sizes, compressibility=compressibility, seed=seed))

    @classmethod
    def of_bodies(cls, bodies: Iterable[bytes]) -> PayloadPool:
        """Records take these bodies in turn. ValueError if there are none."""
        pool = cls.__new__(cls)
        pool._take(bodies)
        return pool

    def _take(self, bodies: Iterable[bytes]) -> None:
        tails = [_NO_FLAGS + body for body in bodies]
        if not tails:
            raise ValueError("no body to make records of")
        self._tails: list[tuple[int, bytes]] = [(crc32c(tail), tail) for tail in tails]
        self._count = len(tails)
        self._sizes = np.array([len(tail) + HEADER_BYTES - len(_NO_FLAGS) for tail in tails], dtype=np.int32)

    def __len__(self) -> int:
        return self._count

    @property
    def mean_size_bytes(self) -> float:
        return float(self._sizes.mean())

    def sizes_bytes(self, first_seq: int, count: int) -> NDArray[np.int32]:
        """The sizes of the values of consecutive records."""
        found: NDArray[np.int32] = self._sizes[np.arange(first_seq, first_seq + count) % self._count]
        return found

    def value(self, producer: int, incarnation: int, seq: int, intended_ns: int) -> bytes:
        """The value of record `seq`; the same arguments always give the same bytes."""
        tail_crc, tail = self._tails[seq % self._count]
        head = _HEAD.pack(MAGIC, producer, incarnation, seq, intended_ns)
        return head + _CHECK.pack(crc32c(head, tail_crc) * _ODD & _32_BITS) + tail

    def achieved_ratio(
        self, compress: Callable[[bytes], bytes] = zlib.compress, batch_bytes: int = 128 * 1024
    ) -> float:
        """Uncompressed over compressed size of one batch of consecutive values."""
        values: list[bytes] = []
        size = 0
        while not values or (len(values) < self._count and size + int(self._sizes[len(values)]) <= batch_bytes):
            seq = len(values)
            values.append(self.value(1, 0, seq, 1_000_000_000 + seq * 1_000_003))
            size += len(values[-1])
        batch = b"".join(values)
        return len(batch) / len(compress(batch))


def random_bodies(sizes_bytes: NDArray[np.int_], *, compressibility: float, seed: int) -> Iterator[bytes]:
    """Bodies for values of these sizes, header included. A codec takes away the given share of them."""
    generator = np.random.Generator(np.random.PCG64(seed))
    longest = int(sizes_bytes.max()) if len(sizes_bytes) else 0
    filler = _FILLER * (longest // len(_FILLER) + 1)
    for size in sizes_bytes.tolist():
        random_bytes = _random_bytes_per_body(size, compressibility)
        yield generator.bytes(random_bytes) + filler[: size - HEADER_BYTES - random_bytes]


def _random_bytes_per_body(record_size_bytes: int, compressibility: float) -> int:
    """Random bytes survive every codec, filler survives none. Their shares set the ratio."""
    wanted = round((1.0 - compressibility) * record_size_bytes) - _HEADER_ENTROPY_BYTES
    if compressibility == 0.0:
        wanted = record_size_bytes
    return max(0, min(record_size_bytes - HEADER_BYTES, wanted))


def _body_count(body_bytes: int) -> int:
    size = max(1, body_bytes)
    count = max(POOL_BODIES_MIN, POOL_BYTES // size)
    return max(2, min(count, POOL_BYTES_MAX // size))
