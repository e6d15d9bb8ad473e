"""A mergeable histogram of microseconds with logarithmic buckets: any quantile within 1.6 %, the mean exactly. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BUCKETS_PER_E_FOLD = 64
_BUCKETS = 2_048  # up to e**32 us: no value is clamped

_FEW = 256


class LogHistogram:
    """Negative values count as 0."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, dtype=np.int64)
        self.max_us = 0
        self._sum_us = 0

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def add(self, values_us: NDArray[np.int64]) -> None:
        if not len(values_us):
            return
        values = np.maximum(values_us, 0)
        buckets = (np.log1p(values) * BUCKETS_PER_E_FOLD).astype(np.int64)
        if len(buckets) < _FEW:
            np.add.at(self._counts, buckets, 1)  # does not touch all buckets for a few values
        else:
            self._counts += np.bincount(buckets, minlength=_BUCKETS)
        self.max_us = max(self.max_us, int(values.max()))
        self._sum_us += int(values.sum())

    def mean_us(self) -> float:
        """0 when nothing was added."""
        return self._sum_us / max(1, self.count)

    def quantile_us(self, share: float) -> int:
        """The upper end of the bucket that holds the quantile, 0 when nothing was added."""
        total = self.count
        if not total:
            return 0
        bucket = int(np.searchsorted(np.cumsum(self._counts), max(1, int(np.ceil(share * total)))))
        return min(self.max_us, int(np.expm1((bucket + 1) / BUCKETS_PER_E_FOLD)))

    def since(self, earlier: LogHistogram) -> LogHistogram:
        """What was added after `earlier`, a copy of this one at that time. The largest value is that of all."""
        later = LogHistogram()
        later._counts = self._counts - earlier._counts
        later.max_us = self.max_us
        later._sum_us = self._sum_us - earlier._sum_us
        return later

    def copy(self) -> LogHistogram:
        return self.since(LogHistogram())

    def to_json(self) -> dict[str, object]:
        counts = self._counts.copy()  # the thread of a producer may be adding: numpy lists only what stands still
        used = np.flatnonzero(counts)
        return {
            "buckets": used.tolist(),
            "counts": counts[used].tolist(),
            "max_us": self.max_us,
            "sum_us": self._sum_us,
        }

    def merge_json(self, document: dict[str, object]) -> None:
        buckets, counts = document["buckets"], document["counts"]
        max_us, sum_us = document["max_us"], document["sum_us"]
        assert isinstance(buckets, list)
        assert isinstance(counts, list)
        assert isinstance(max_us, int)
        assert isinstance(sum_us, int)
        self._counts[buckets] += np.array(counts, dtype=np.int64)
        self.max_us = max(self.max_us, max_us)
        self._sum_us += sum_us
