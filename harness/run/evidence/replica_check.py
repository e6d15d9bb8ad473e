"""After healing: do the replicas of a partition hold the same batches? Reads their segment files, of either engine.

Compared by base offset, leader epoch and CRC, up to the end of the shorter log. Each replica applies retention by
itself, also while this reads. So where it may, the comparison begins with the log that begins later. Each replica
compacts its log by itself, too. So there the records are compared: what both have is the same, and what only one has,
the other has removed for a newer record of its key. A difference is reported as `replica_divergence`. Shown by
tests/harness/test_harness_evidence.py.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from broker.door.batches import RawBatch, decode_fetched, iter_batches
from broker.door.protocol import CorruptBatchError, ProtocolError
from harness.clusters.segment_files import read_partition_headers
from runlog.records.partition import ReplicaDivergence

BATCHES_MAX = 2_000_000  # per replica; further batches are not read, and the digest ends there
RECORDS_MAX = 500_000  # per replica of a compacted log, about 150 MB; a longer one is not compared
READINGS_MAX = 5  # A log is read so often, if retention or compaction takes a file away in the middle.
Log = TypeVar("Log")
_Batch = tuple[int, int, int]  # base offset, leader epoch, CRC


class HasReplicas(Protocol):
    @property
    def broker_ids(self) -> tuple[int, ...]: ...
    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None: ...


@dataclass(slots=True, kw_only=True)
class CompactedLog:
    """The records of a replica, without markers."""

    # The key is the offset, the value the record's key and the CRC-32 of its value.
    records: dict[int, tuple[bytes | None, int]] = field(default_factory=dict)
    newest: dict[bytes, int] = field(default_factory=dict)  # The key is the record's key, the value its last offset.
    end_offset: int = 0

    def add(self, batch: RawBatch) -> None:
        for offset, _timestamp, key, value, _headers in [] if batch.header.is_control else decode_fetched(batch):
            own_key = None if key is None else bytes(key)
            self.records[offset] = own_key, -1 if value is None else zlib.crc32(value)
            if own_key is not None:
                self.newest[own_key] = offset
        self.end_offset = batch.header.next_offset

    def may_lack(self, offset: int, key: bytes | None) -> bool:
        """Whether a compaction may have removed that record here."""
        return key is not None and self.newest.get(key, -1) > offset


def divergence_events(
    cluster: HasReplicas,
    topic: str,
    partitions: Iterable[int],
    t_us: int,
    *,
    is_compacted: bool = False,
    is_shortened: bool = False,
) -> list[ReplicaDivergence]:
    """One event for each replica that differs from the one with the lowest number. OSError if a file cannot be read.

    `is_shortened`: retention or DeleteRecords may remove records.
    """
    events: list[ReplicaDivergence] = []
    for partition in partitions:
        found = ((broker, cluster.partition_directory(broker, topic, partition)) for broker in cluster.broker_ids)
        directories = {broker: directory for broker, directory in found if directory is not None}
        if is_compacted:
            differences = first_compacted_differences(_read_all(directories, _read_compacted))
        else:
            differences = first_differences(_read_all(directories, _read), is_shortened=is_shortened)
        for broker, offset in differences.items():
            events.append(
                ReplicaDivergence(
                    t_us=t_us,
                    broker=broker,
                    topic=topic,
                    partition=partition,
                    brokers=(min(directories), broker),
                    offset=offset,
                )
            )
    return events


def _read_all(directories: Mapping[int, Path], read: Callable[[Path], Log]) -> dict[int, Log]:
    return {broker: _whole(directory, read) for broker, directory in directories.items()}


def _whole(directory: Path, read: Callable[[Path], Log]) -> Log:
    """A file that went away after the directory was listed leaves a gap in what was read."""
    for _ in range(READINGS_MAX - 1):
        try:
            return read(directory)
        except FileNotFoundError:
            continue
    return read(directory)


def _read_compacted(directory: Path) -> CompactedLog:
    log = CompactedLog()
    for path in sorted(directory.glob("*.log")):
        if path.stat().st_size:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                _add_segment(log, data, path)
    return log


def _add_segment(log: CompactedLog, data: mmap.mmap, path: Path) -> None:
    """Bytes that are no batch end the reading, as in harness.clusters.segment_files."""
    with memoryview(data) as view:
        try:
            for batch in iter_batches(view):
                log.add(batch)
                batch.buffer.release()
                # What lies behind could be the newer records of what is missing here, so a part tells nothing.
                if len(log.records) > RECORDS_MAX:
                    raise OSError(f"{path}: a compacted log of more than {RECORDS_MAX} records is not compared")
        except CorruptBatchError:
            return
        except ProtocolError as error:
            raise OSError(f"{path}: {error}") from error


def first_compacted_differences(logs: Mapping[int, CompactedLog]) -> dict[int, int]:
    """As `first_differences`."""
    if not logs:
        return {}
    first = logs[min(logs)]
    found = {broker: _first_compacted_difference(first, log) for broker, log in logs.items()}
    return {broker: offset for broker, offset in found.items() if offset is not None}


def _first_compacted_difference(mine: CompactedLog, its: CompactedLog) -> int | None:
    end_offset = min(mine.end_offset, its.end_offset)
    for offset in sorted(mine.records.keys() | its.records.keys()):
        if offset >= end_offset:
            return None
        here, there = mine.records.get(offset), its.records.get(offset)
        if here is not None and there is not None:
            is_alike = here == there
        elif here is not None:
            is_alike = its.may_lack(offset, here[0])
        else:
            is_alike = there is not None and mine.may_lack(offset, there[0])
        if not is_alike:
            return offset
    return None


def _read(directory: Path) -> list[_Batch]:
    found: list[_Batch] = []
    for header in read_partition_headers(directory):
        found.append((header.base_offset, header.partition_leader_epoch, header.crc))
        if len(found) >= BATCHES_MAX:
            break
    return found


def first_differences(logs: Mapping[int, Sequence[_Batch]], *, is_shortened: bool = False) -> dict[int, int]:
    """For each broker, the first offset at which it differs from the broker with the lowest number, where both have
    logs. `is_shortened`: a log may begin later than another."""
    if not logs:
        return {}
    first = logs[min(logs)]
    found = {broker: _first_difference(first, log, is_shortened) for broker, log in logs.items()}
    return {broker: offset for broker, offset in found.items() if offset is not None}


def _first_difference(mine: Sequence[_Batch], its: Sequence[_Batch], is_shortened: bool) -> int | None:
    if is_shortened and mine and its:
        start = max(mine[0][0], its[0][0])
        mine, its = ([batch for batch in log if batch[0] >= start] for log in (mine, its))
    differing = (min(here[0], there[0]) for here, there in zip(mine, its, strict=False) if here != there)
    return next(differing, None)
