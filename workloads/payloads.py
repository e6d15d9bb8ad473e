"""The bodies of a load's records by workload: fixed size, a size distribution, or the user's own corpus.

Made before the clock starts. A corpus is read up to CORPUS_BYTES_MAX; how much was used is told, not hidden.
Shown by tests/workloads/test_workloads_payloads.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from runlog.records.load import PayloadFigures
from runlog.streams.payload import HEADER_BYTES
from runlog.streams.payload_pool import POOL_BYTES, PayloadPool, random_bodies
from workloads.model import ListedSizes, LognormalSizes, Sizes, UniformSizes, Workload

CORPUS_BYTES_MAX = 64 * 1024 * 1024
_BODIES_MIN, _BODIES_MAX = 512, 65_536  # enough for the shape of a distribution; a bound on memory
_POOL_BYTES_MAX = 256 * 1024 * 1024


class PayloadError(ValueError):
    """No records can be made of this workload's payload settings."""


def build_pool(workload: Workload, seed: int) -> PayloadPool:
    """PayloadError when a corpus cannot be read or holds no line, or a distribution needs too much memory."""
    if workload.corpus is not None:
        return PayloadPool.of_bodies(_corpus_lines(workload.corpus))
    if workload.sizes is None:
        return PayloadPool(
            record_size_bytes=workload.record_size_bytes, compressibility=workload.compressibility, seed=seed
        )
    sizes = drawn_sizes(workload.sizes, seed)
    if int(sizes.sum()) > _POOL_BYTES_MAX:
        raise PayloadError(
            f"{len(sizes)} bodies of these sizes take {int(sizes.sum()) / 1e6:.0f} MB, "
            f"expected at most {_POOL_BYTES_MAX / 1e6:.0f} MB: take smaller sizes"
        )
    return PayloadPool.of_bodies(random_bodies(sizes, compressibility=workload.compressibility, seed=seed))


def drawn_sizes(sizes: Sizes, seed: int) -> NDArray[np.int_]:
    """Value sizes, header included, of the bodies in the pool; the same for the same seed."""
    generator = np.random.Generator(np.random.PCG64([seed, 1]))
    first = _draw(sizes, generator, _BODIES_MIN)
    count = int(np.clip(POOL_BYTES // first.mean(), _BODIES_MIN, _BODIES_MAX))
    return np.concatenate([first, _draw(sizes, generator, count - _BODIES_MIN)])


def _draw(sizes: Sizes, generator: np.random.Generator, count: int) -> NDArray[np.int_]:
    if isinstance(sizes, UniformSizes):
        return generator.integers(sizes.low_bytes, sizes.high_bytes, size=count, endpoint=True)
    if isinstance(sizes, LognormalSizes):
        drawn = np.rint(sizes.median_bytes * np.exp(sizes.sigma * generator.standard_normal(count)))
        clipped: NDArray[np.int_] = np.clip(drawn, HEADER_BYTES, sizes.high_bytes).astype(np.int_)
        return clipped
    assert isinstance(sizes, ListedSizes)
    weights = np.array([entry.weight for entry in sizes.sizes])
    values = np.array([entry.size_bytes for entry in sizes.sizes])
    chosen: NDArray[np.int_] = generator.choice(values, size=count, p=weights / weights.sum())
    return chosen


def _corpus_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            read_bytes = 0
            found = False
            for line in file:
                read_bytes += len(line)
                if read_bytes > CORPUS_BYTES_MAX:
                    break
                found = True
                yield line.rstrip(b"\r\n")
    except OSError as error:
        raise PayloadError(f"corpus {path}: {error.strerror}") from error
    if not found:
        raise PayloadError(f"corpus {path}: expected lines of text, at most {CORPUS_BYTES_MAX} bytes each, got none")


def read_times_ms(path: Path) -> NDArray[np.float64]:
    """The times of a recorded trace: one number of ms in each line, ascending; empty lines and # comments are
    skipped."""
    times: list[float] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PayloadError(f"trace {path}: {error}") from error
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            time_ms = float(text)
        except ValueError:
            raise PayloadError(f"trace {path}:{number}: expected milliseconds, got {text!r}") from None
        if not time_ms >= (times[-1] if times else 0.0):
            raise PayloadError(f"trace {path}:{number}: {text} is before its predecessor, or negative")
        times.append(time_ms)
    if not times:
        raise PayloadError(f"trace {path}: expected one time a line, got none")
    return np.array(times)


def describe(workload: Workload, pool: PayloadPool) -> PayloadFigures:
    """What the records are made of, for the account at the end."""
    made = PayloadFigures(bodies=len(pool), mean_size_bytes=round(pool.mean_size_bytes, 1))
    if workload.corpus is None:
        return made
    size = workload.corpus.stat().st_size if workload.corpus.exists() else 0
    share = min(1.0, CORPUS_BYTES_MAX / max(1, size))
    return replace(made, corpus=str(workload.corpus), corpus_read_share=share)
