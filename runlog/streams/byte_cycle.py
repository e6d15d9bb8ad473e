"""Byte strings that consecutive records take in turn, laid side by side, so that those of a batch are one copy. Pure.

Shown by tests/runlog/test_runlog_payload.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class ByteCycle:
    def __init__(self, items: Sequence[bytes]) -> None:
        self._bytes = np.frombuffer(b"".join(items), dtype=np.uint8)
        self._sizes = np.array([len(item) for item in items], dtype=np.int32)
        self._ends = np.concatenate([[0], np.cumsum(self._sizes, dtype=np.int64)])

    def sizes(self, first_seq: int, count: int) -> NDArray[np.int32]:
        found: NDArray[np.int32] = self._sizes[np.arange(first_seq, first_seq + count) % len(self._sizes)]
        return found

    def copy(self, first_seq: int, count: int) -> NDArray[np.uint8]:
        """The strings of consecutive records."""
        pieces = []
        while count:
            start = first_seq % len(self._sizes)
            taken = min(count, len(self._sizes) - start)
            pieces.append(self._bytes[self._ends[start] : self._ends[start + taken]])
            first_seq, count = first_seq + taken, count - taken
        return np.concatenate(pieces)
