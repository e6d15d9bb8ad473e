"""Which key each record of a load has: a number that only its sequence number decides, for every producer of the cell.

The load makes its keys from it (`workloads.keys`), and the analysis learns from it which records a compaction could
supersede: nobody writes down the key of a record that is gone. The final read compares what it finds with it, and notes
its `fingerprint`. Shown by tests/runlog/test_runlog_record_keys.py.
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

TURNS: Final = 65_536  # keys are drawn once for this many records and then come round again
NO_KEYS: Final = "none"


def key_numbers(
    distribution: str, *, count: int, zipf_exponent: float, hot_share: float, seed: int
) -> NDArray[np.int64] | None:
    """The key of record `seq` is that at `seq % TURNS`, a number below `count`. None for records without a key.

    uniform: each key alike; zipf: the k-th key in proportion to 1/k**exponent; hot: a share of all records has
    the first key, the others are spread evenly.
    """
    if distribution == NO_KEYS:
        return None
    weights: NDArray[np.float64] = np.ones(count)
    if distribution == "zipf":
        weights = np.arange(1, count + 1, dtype=np.float64) ** -zipf_exponent
    weights = weights / weights.sum()
    if distribution == "hot":
        weights = weights * (1 - hot_share)
        weights[0] += hot_share
    generator = np.random.Generator(np.random.PCG64(seed))
    return generator.choice(count, size=TURNS, p=weights).astype(np.int64)


def key_name(number: int) -> bytes:
    """The key on the wire."""
    return f"key-{number:06d}".encode()


def fingerprint(numbers: NDArray[np.int64]) -> int:
    """A CRC-32. Another release of NumPy may draw others from the same seed."""
    return zlib.crc32(numbers.astype("<i8").tobytes())
