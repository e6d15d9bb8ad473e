"""What stands in a log, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator

from broker.log.partition_log import PartitionLog
from broker.wire.records import BatchHeader


def headers_of(log: PartitionLog) -> Iterator[BatchHeader]:
    """Of all batches from the one that holds the log's start."""
    for segment in log.segments:
        if segment.next_offset > log.log_start_offset:
            for batch in segment.batches(segment.position_of(log.log_start_offset), bodies=False):
                yield batch.header
