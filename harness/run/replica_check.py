"""After healing: do the replicas of a partition hold the same batches? Reads their segment files, of either engine.

Compared by base offset, leader epoch and CRC, up to the end of the shortest log. A difference is reported as
`replica_divergence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from harness.clusters.segment_files import read_partition_headers
from runlog.records.partition import ReplicaDivergence

BATCHES_MAX = 2_000_000  # per replica; further batches are not read, and the digest ends there
_Batch = tuple[int, int, int]  # base offset, leader epoch, CRC


class HasReplicas(Protocol):
    @property
    def broker_ids(self) -> tuple[int, ...]: ...
    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None: ...


def divergence_events(
    cluster: HasReplicas, topic: str, partitions: Iterable[int], t_us: int
) -> list[ReplicaDivergence]:
    """One event for each replica that differs from the one with the lowest number. OSError if a file cannot be read."""
    events: list[ReplicaDivergence] = []
    for partition in partitions:
        logs: dict[int, Sequence[_Batch]] = {}
        for broker in cluster.broker_ids:
            directory = cluster.partition_directory(broker, topic, partition)
            if directory is not None:
                logs[broker] = _read(directory)
        for broker, offset in first_differences(logs).items():
            events.append(
                ReplicaDivergence(
                    t_us=t_us,
                    broker=broker,
                    topic=topic,
                    partition=partition,
                    brokers=(min(logs), broker),
                    offset=offset,
                )
            )
    return events


def _read(directory: Path) -> list[_Batch]:
    found: list[_Batch] = []
    for header in read_partition_headers(directory):
        found.append((header.base_offset, header.partition_leader_epoch, header.crc))
        if len(found) >= BATCHES_MAX:
            break
    return found


def first_differences(logs: Mapping[int, Sequence[_Batch]]) -> dict[int, int]:
    """For each broker, the first offset at which it differs from the broker with the lowest number, where both have
    logs."""
    if not logs:
        return {}
    first = logs[min(logs)]
    result: dict[int, int] = {}
    for broker, log in logs.items():
        for mine, its in zip(first, log, strict=False):
            if mine != its:
                result[broker] = min(mine[0], its[0])
                break
    return result
