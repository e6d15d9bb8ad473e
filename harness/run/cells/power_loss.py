"""A loss of power, after the fact: cuts a dead broker's segment files to what its disk would have kept.

The machine would restart after a loss of power. So the boot id that the log directory remembers is made different from
that of this boot. This shows whether a broker trusts its closed segments, as after a mere kill, or reads them again.
The broker's storage notes how far each file was synced (`chaos.durable` reads it). What is cut of the cell's own topic
is reported as `truncated` events with source `disk`, so that the prediction can say which of these records no other
broker had."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.durable import durable_sizes
from chaos.ports.brokers import BrokerFiles
from harness.clusters.cluster import Cluster
from harness.clusters.segment_files import read_partition_headers
from harness.errors import UsageError
from harness.run.recording.truncation import EpochRange, dump_epochs
from runlog.records.cluster_kinds import Source
from runlog.records.partition import Truncated

BOOT_FILE: Final = "boot-id"  # in the log directory: of the boot whose page cache the broker trusts
OTHER_BOOT: Final = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    bytes_by_file: Mapping[str, int]
    events: tuple[Truncated, ...]


def lose_power(
    cluster: Cluster,
    broker: int,
    *,
    topic: str,
    partitions: Iterable[int],
    writeback_ms: int,
    torn_bytes: int,
    t_us: int,
) -> Dropped:
    """What `drop_unsynced` does, to a broker that does not run. UsageError for a cluster whose storage takes no
    notes."""
    control = cluster.disk_control(broker) if isinstance(cluster, BrokerFiles) else None
    if control is None:
        raise UsageError("power_loss needs reference brokers, whose storage accounts for what is synced")
    found = {partition: cluster.partition_directory(broker, topic, partition) for partition in partitions}
    return drop_unsynced(
        control.with_name(control.name + ".durable"),
        broker=broker,
        topic=topic,
        directories={partition: path for partition, path in found.items() if path is not None},
        writeback_ms=writeback_ms,
        torn_bytes=torn_bytes,
        t_us=t_us,
    )


def drop_unsynced(
    account: Path,
    *,
    broker: int,
    topic: str,
    directories: Mapping[int, Path],
    writeback_ms: int,
    torn_bytes: int,
    t_us: int,
) -> Dropped:
    """`directories`: of the topic's partitions on this broker. Files of other topics are cut as well."""
    now_ms = time.monotonic_ns() // 1_000_000
    with account.open(encoding="utf-8", errors="replace") as lines:
        durable = durable_sizes(lines, now_ms=now_ms, writeback_ms=writeback_ms)
    before = {partition: dump_epochs(read_partition_headers(path)) for partition, path in directories.items()}
    dropped: dict[str, int] = {}
    for name, size in durable.items():
        path = Path(name)
        if not path.is_file():
            continue
        kept = min(path.stat().st_size, size + torn_bytes)
        cut = path.stat().st_size - kept
        dropped[f"{path.parent.name}/{path.name}"] = max(0, cut)
        if cut > 0:
            os.truncate(path, kept)
    for log_directory in {Path(name).parent.parent for name in durable}:
        if (log_directory / BOOT_FILE).is_file():
            (log_directory / BOOT_FILE).write_text(OTHER_BOOT, encoding="ascii")
    events: list[Truncated] = []
    for partition, path in directories.items():
        left = dump_epochs(read_partition_headers(path))
        end_offset = left[-1].end_offset if left else 0
        events += [
            Truncated(
                t_us=t_us,
                broker=broker,
                source=Source.DISK,
                topic=topic,
                partition=partition,
                leader_epoch=gone.leader_epoch,
                from_offset=gone.end_offset,
                to_offset=gone.start_offset,
            )
            for gone in _beyond(before[partition], end_offset)
        ]
    return Dropped(bytes_by_file=dropped, events=tuple(events))


def _beyond(epochs: tuple[EpochRange, ...], end_offset: int) -> list[EpochRange]:
    return [
        EpochRange(
            leader_epoch=item.leader_epoch, start_offset=max(item.start_offset, end_offset), end_offset=item.end_offset
        )
        for item in epochs
        if item.end_offset > end_offset
    ]
