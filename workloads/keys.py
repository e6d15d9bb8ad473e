"""Record keys by distribution, made before the clock starts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workloads.model import Workload

_TURNS = 65_536  # keys are drawn once for this many records and then come round again
_HOT_SHARE = 0.5
_ZIPF_EXPONENT = 1.0


def key_sequence(workload: Workload, seed: int) -> Sequence[bytes] | None:
    """Keys of consecutive records (index by `seq % len`), or None for records without a key.

    uniform: each key alike; zipf: the k-th key in proportion to 1/k; hot: half of all records have the first key.
    """
    if workload.keys == "none":
        return None
    count = workload.key_count
    weights: NDArray[np.float64] = np.ones(count)
    if workload.keys == "zipf":
        weights = np.arange(1, count + 1, dtype=np.float64) ** -_ZIPF_EXPONENT
    weights = weights / weights.sum()
    if workload.keys == "hot":
        weights = weights * (1 - _HOT_SHARE)
        weights[0] += _HOT_SHARE
    names = [f"key-{number:06d}".encode() for number in range(count)]
    generator = np.random.Generator(np.random.PCG64(seed))
    return [names[number] for number in generator.choice(count, size=_TURNS, p=weights).tolist()]
