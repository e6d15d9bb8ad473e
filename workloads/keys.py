"""Record keys by distribution, made before the clock starts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runlog.streams.record_keys import key_name, key_numbers
from workloads.model import Workload


def key_sequence(workload: Workload, seed: int) -> Sequence[bytes] | None:
    """Keys of consecutive records (index by `seq % len`), or None for records without a key."""
    numbers = numbers_of(workload, seed)
    if numbers is None:
        return None
    names = [key_name(number) for number in range(workload.key_count)]
    return [names[number] for number in numbers.tolist()]


def numbers_of(workload: Workload, seed: int) -> NDArray[np.int64] | None:
    """The same as numbers."""
    return key_numbers(
        workload.keys,
        count=workload.key_count,
        zipf_exponent=workload.key_zipf_exponent,
        hot_share=workload.key_hot_share,
        seed=seed,
    )
