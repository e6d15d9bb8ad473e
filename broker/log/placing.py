"""The offsets of batches in a log. A leader assigns them. A follower keeps them, if they continue its log.

Shown by tests/broker_log/test_log_partition_log.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.log.errors import LogCorruptError
from broker.log.filesystem import Buffer
from broker.wire.records import LENGTH_OVERHEAD_BYTES, BatchHeader, set_base_offset_and_epoch


def place(
    buffer: Buffer, headers: Iterable[BatchHeader], offset: int, leader_epoch: int
) -> tuple[memoryview, list[BatchHeader]]:
    """The same batches with offsets from `offset` on, and their headers. The offsets are written into `buffer`. A
    read-only buffer is copied first."""
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    if view.readonly:
        view = memoryview(bytearray(view))
    position = 0
    placed: list[BatchHeader] = []
    for header in headers:
        set_base_offset_and_epoch(view, offset, leader_epoch, position)
        placed.append(header.placed(offset, leader_epoch))
        offset += header.last_offset_delta + 1
        position += header.batch_length + LENGTH_OVERHEAD_BYTES
    return view, placed


def expect_continuing(headers: Iterable[BatchHeader], end_offset: int, name: str) -> None:
    """Raises LogCorruptError if a batch lies below the end of the log or of the batch before it. Gaps are allowed:
    compaction leaves them."""
    for header in headers:
        if header.base_offset < end_offset:
            raise LogCorruptError(f"{name}: batch at {header.base_offset}, log ends at {end_offset}")
        end_offset = header.next_offset
