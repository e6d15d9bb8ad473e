"""Ready-made bodies for the records of a load, so that a record costs no more than its header.

The header alone is in `payload`, because what only reads it (the proxy, members of a group) shall not import NumPy.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from runlog.streams.byte_cycle import ByteCycle
from runlog.streams.payload import BITS_32, CHECK, HEAD, HEADER_BYTES, MAGIC, ODD

# A codec finds repetitions within one batch. The pool holds more than the largest usual batch. So a body does not occur
# twice within a batch, and the achieved ratio is that of the bodies.
POOL_BYTES = 4 * 1024 * 1024
POOL_BYTES_MAX = 64 * 1024 * 1024
POOL_BODIES_MIN = 8
# What of the header differs from record to record: low bytes of seq and time, and the CRC.
_HEADER_ENTROPY_BYTES = 9
_FILLER = b"kafka-harness filler "
_NO_FLAGS = b"\0\0\0\0"
# HEAD and CHECK. What of it differs between records of one producer are 16 bytes of numbers before the check.
_HEADER = np.dtype([("begin", "V8"), ("seq", "<i8"), ("intended_ns", "<i8"), ("check", "<u4")])

_PAIR = 0xFFFF
_SEQ_BITS, _TIME_BITS = 16, 32


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

    @functools.cached_property
    def size_bytes_max(self) -> int:
        return int(self._sizes.max())

    def sizes_bytes(self, first_seq: int, count: int) -> NDArray[np.int32]:
        """The sizes of the values of consecutive records."""
        start = first_seq % self._count
        if start + count <= self._count:
            return self._sizes[start : start + count]
        found: NDArray[np.int32] = self._sizes[np.arange(start, start + count) % self._count]
        return found

    def value(self, producer: int, incarnation: int, seq: int, intended_ns: int) -> bytes:
        """The value of record `seq`; the same arguments always give the same bytes."""
        tail_crc, tail = self._tails[seq % self._count]
        head = HEAD.pack(MAGIC, producer, incarnation, seq, intended_ns)
        return head + CHECK.pack(crc32c(head, tail_crc) * ODD & BITS_32) + tail

    def values(
        self, producer: int, incarnation: int, first_seq: int, intended_ns: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """`value` of consecutive records, side by side."""
        count, begin_ns = len(intended_ns), int(intended_ns.min())
        if first_seq >> _SEQ_BITS != (first_seq + count - 1) >> _SEQ_BITS or (
            begin_ns >> _TIME_BITS != int(intended_ns.max()) >> _TIME_BITS
        ):  # The CRC is looked up for the bits below alone, so those above are the same for all.
            some = count // 2
            first, second = (first_seq, intended_ns[:some]), (first_seq + some, intended_ns[some:])
            return np.concatenate([self.values(producer, incarnation, *part) for part in (first, second)])
        headers = np.empty(count, dtype=_HEADER)
        seqs = headers["seq"] = np.arange(first_seq, first_seq + count)
        headers["intended_ns"] = intended_ns
        above = HEAD.pack(
            MAGIC, producer, incarnation, first_seq >> _SEQ_BITS << _SEQ_BITS, begin_ns >> _TIME_BITS << _TIME_BITS
        )
        headers["begin"] = np.void(above[: _HEADER["begin"].itemsize])
        of_seq, of_time, of_time_above = _tables()
        crcs = self._crcs_moved[seqs % self._count] ^ np.uint32(crc32c(above)) ^ of_seq[seqs & _PAIR]
        crcs ^= of_time[intended_ns & _PAIR] ^ of_time_above[intended_ns >> 16 & _PAIR]
        headers["check"] = crcs * np.uint32(ODD)
        rows = headers.view(np.uint8).reshape(count, -1)
        values = self._cycle.copy(first_seq, count)
        sizes = self.sizes_bytes(first_seq, count).astype(np.int64)
        if (sizes == sizes[0]).all():
            values.reshape(count, -1)[:, : _HEADER.itemsize] = rows
        else:
            values[(np.cumsum(sizes) - sizes)[:, None] + np.arange(_HEADER.itemsize)] = rows
        return values

    @functools.cached_property
    def _cycle(self) -> ByteCycle:
        """Whole values, with headers still to come. Twice the memory, which a load of single records does not need."""
        return ByteCycle([bytes(_HEADER.itemsize) + tail for _crc, tail in self._tails])

    @functools.cached_property
    def _crcs_moved(self) -> NDArray[np.uint32]:
        """What the CRC of each tail adds to that of a head."""
        zeros = bytes(HEAD.size)
        of_zeros = crc32c(zeros)
        return np.array([crc32c(zeros, crc) ^ of_zeros for crc, _tail in self._tails], dtype=np.uint32)

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


@functools.cache
def _tables() -> tuple[NDArray[np.uint32], ...]:
    """What the lowest two bytes of seq, the lowest two of the time and the next two add to the CRC of a head, by their
    number. A CRC is linear, so that of a head is put together of them."""
    zeros = bytes(HEAD.size)
    of_zeros = crc32c(zeros)
    numbers = np.arange(_PAIR + 1)

    def of_pair(place: int) -> NDArray[np.uint32]:
        low, high = (
            np.array([crc32c(zeros[:at] + bytes([byte]) + zeros[at + 1 :]) ^ of_zeros for byte in range(256)])
            for at in (place, place + 1)
        )
        pairs: NDArray[np.uint32] = (low[numbers & 0xFF] ^ high[numbers >> 8]).astype(np.uint32)
        return pairs

    seq_at = _HEADER["begin"].itemsize
    return of_pair(seq_at), of_pair(seq_at + 8), of_pair(seq_at + 10)


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
