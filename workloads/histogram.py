"""A mergeable histogram of microseconds with logarithmic buckets: any quantile within 1.6 %, the mean exactly. Pure."""

from __future__ import annotations

import functools
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

BUCKETS_PER_E_FOLD = 64
BUCKETS = 2_048  # up to e**32 us: no value is clamped

_FEW = 256
_SMALL_US = 1 << 17  # For smaller values a table has the buckets, which takes a tenth of the time of a logarithm.


def _buckets(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return (np.log1p(values) * BUCKETS_PER_E_FOLD).astype(np.int64)


@functools.cache
def _bucket_of_small() -> NDArray[np.int64]:
    return _buckets(np.arange(_SMALL_US))


class Histogram(BaseModel):
    """A histogram as it goes to another process: the buckets with a count, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    buckets: tuple[Annotated[int, Field(ge=0, lt=BUCKETS)], ...]
    counts: tuple[Annotated[int, Field(ge=0)], ...]
    max_us: int
    sum_us: int

    @model_validator(mode="after")
    def _pairs(self) -> Histogram:
        if len(self.buckets) != len(self.counts):
            raise ValueError(f"{len(self.buckets)} buckets have {len(self.counts)} counts")
        return self


class LogHistogram:
    """Negative values count as 0."""

    def __init__(self) -> None:
        self._counts = np.zeros(BUCKETS, dtype=np.int64)
        self.max_us = 0
        self._sum_us = 0

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def add(self, values_us: NDArray[np.int64]) -> None:
        if not len(values_us):
            return
        values = np.maximum(values_us, 0)
        largest = int(values.max())
        buckets = _bucket_of_small()[values] if largest < _SMALL_US else _buckets(values)
        if len(buckets) < _FEW:
            np.add.at(self._counts, buckets, 1)  # does not touch all buckets for a few values
        else:
            self._counts += np.bincount(buckets, minlength=BUCKETS)
        self.max_us = max(self.max_us, largest)
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

    def told(self) -> Histogram:
        counts = self._counts.copy()  # the thread of a producer may be adding: numpy lists only what stands still
        used = np.flatnonzero(counts)
        return Histogram(
            buckets=tuple(used.tolist()),
            counts=tuple(counts[used].tolist()),
            max_us=self.max_us,
            sum_us=self._sum_us,
        )

    def merge(self, other: Histogram) -> None:
        self._counts[list(other.buckets)] += np.array(other.counts, dtype=np.int64)
        self.max_us = max(self.max_us, other.max_us)
        self._sum_us += other.sum_us
