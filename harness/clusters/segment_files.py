"""The batches in a broker's segment files, on this host. The format is the same for every engine.

Shown by tests/harness/test_harness_truncation.py.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from broker.door.batches import BatchHeader, iter_batches
from broker.door.protocol import CorruptBatchError


def read_partition_headers(directory: Path) -> Iterator[BatchHeader]:
    """Headers of all whole batches in a partition's directory, in order. A torn or zeroed end stops the reading of a
    segment."""
    for path in sorted(directory.glob("*.log")):
        if path.stat().st_size == 0:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            # Batches are views of the map, which cannot be closed while they exist. Only their headers leave this
            # block.
            with memoryview(data) as view:
                headers = _headers(view)
        yield from headers


def _headers(view: memoryview) -> list[BatchHeader]:
    """The headers of all batches. Bytes that are no batch end the reading, but the headers before them count."""
    headers: list[BatchHeader] = []
    try:
        for batch in iter_batches(view):
            headers.append(batch.header)  # a list comprehension would lose them at the exception
            batch.buffer.release()
    except CorruptBatchError:
        pass
    return headers
