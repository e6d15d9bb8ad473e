"""Record keys by distribution, made before the clock starts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workloads.model import Workload

_TURNS = 65_536  # keys are drawn once for this many records and then come round again


def key_sequence(workload: Workload, seed: int) -> Sequence[bytes] | None:
    """Keys of consecutive records (index by `seq % len`), or None for records without a key.

    uniform: each key alike; zipf: the k-th key in proportion to 1/k**exponent; hot: a share of all records has
    the first key, the others are spread evenly.
    """
    if workload.keys == "none":
        return None
    count = workload.key_count
    weights: NDArray[np.float64] = np.ones(count)
    if workload.keys == "zipf":
        weights = np.arange(1, count + 1, dtype=np.float64) ** -workload.key_zipf_exponent
    weights = weights / weights.sum()
    if workload.keys == "hot":
        weights = weights * (1 - workload.key_hot_share)
        weights[0] += workload.key_hot_share
    names = [f"key-{number:06d}".encode() for number in range(count)]
    generator = np.random.Generator(np.random.PCG64(seed))
    return [names[number] for number in generator.choice(count, size=_TURNS, p=weights).tolist()]
