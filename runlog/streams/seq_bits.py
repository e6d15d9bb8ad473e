"""Sets of sequence numbers as bits, and windows of numbers that keep their memory the same for a run log of any length.

Who needs to know which records of a cell are where reads its streams once for each window, and keeps a bit for each
record of the window alone. Nearly every cell fits into one. Shown by tests/runlog/test_runlog_seq_bits.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

Seqs = npt.NDArray[np.int64]
Start = tuple[int, int]  # producer and incarnation: sequence numbers begin anew with each

BITS_MAX: Final = 1 << 26  # of all starts in a window: 8 MiB
# How many bits of each byte are set.
_ONES: Final = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)
_CHUNK: Final = 1 << 20  # bits that are opened at once


def windows(highest: Mapping[Start, int], bits_max: int = BITS_MAX) -> Iterator[tuple[int, int]]:
    """(first, end) of sequence numbers, in turn, that together hold those of all starts. `highest` is the highest
    number of each start."""
    first = 0
    while left := sum(high >= first for high in highest.values()):  # starts that ended before take no room any more
        end = first + max(64, bits_max // left)
        yield first, end
        first = end


class SeqBits:
    """Sequence numbers from `first` up to, and without, `end`. Others are no part of it and change nothing."""

    def __init__(self, first: int, end: int) -> None:
        self.first, self.end = first, max(first, end)
        self._bytes = np.zeros((self.end - first + 7) // 8, dtype=np.uint8)

    @property
    def size_bytes(self) -> int:
        return self._bytes.nbytes

    def mark(self, seqs: Seqs) -> int:
        """How many of those inside were marked already, or come again among them."""
        inside = seqs[(seqs >= self.first) & (seqs < self.end)] - self.first
        numbers = np.unique(inside)
        place, bit = numbers >> 3, (1 << (numbers & 7)).astype(np.uint8)
        again = len(inside) - len(numbers) + int(np.count_nonzero(self._bytes[place] & bit))
        np.bitwise_or.at(self._bytes, place, bit)
        return again

    def count_without(self, other: SeqBits) -> int:
        """How many are here and not there. Both are of the same window."""
        assert self.first == other.first
        both = min(len(self._bytes), len(other._bytes))
        return _count(self._bytes) - _count(self._bytes[:both] & other._bytes[:both])

    def missing(self) -> Iterator[Seqs]:
        """The numbers that are not marked, in order, some at a time."""
        for at in range(0, self.end - self.first, _CHUNK):
            length = min(_CHUNK, self.end - self.first - at)
            flags = np.unpackbits(self._bytes[at // 8 : (at + length + 7) // 8], bitorder="little", count=length)
            found = np.flatnonzero(flags == 0)
            if len(found):
                yield found + (self.first + at)


def _count(packed: npt.NDArray[np.uint8]) -> int:
    return int(_ONES[packed].sum())
