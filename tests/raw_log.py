"""A partition as raw record batches, read over plain Fetch requests as the harness' final read does it."""

from __future__ import annotations

from collections.abc import Iterator

from broker.door.clients import TopicPartition
from broker.wire.batch import RawBatch
from harness.clusters.external import ExternalCluster
from harness.clusters.requests.log_reader import TopicLogReader


def read_batches(
    bootstrap: str, partition: TopicPartition, from_offset: int = 0, to_offset: int | None = None
) -> Iterator[RawBatch]:
    """Every batch that holds offsets from `from_offset` up to (not including) `to_offset`, in order, checked.

    `to_offset` None: the high watermark at the start. TimeoutError when nothing comes for 15 s.
    """
    cluster = ExternalCluster(bootstrap)
    cluster.start()
    reader = TopicLogReader(partition.topic, lambda index: cluster.probe_of_leader(partition.topic, index))
    end = reader.end_offset(partition.partition) if to_offset is None else to_offset
    return reader.batches(partition.partition, end, from_offset=from_offset)
