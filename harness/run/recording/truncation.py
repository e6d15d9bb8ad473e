"""Records in a dead leader's log that the surviving log lacks: `truncated` events for engines without a journal.

While a broker is dead its segment files are read (same batch format everywhere). When a new leader stands, it is
asked with OffsetForLeaderEpoch where each of the dead log's epochs ends. Records of the dead log beyond that are what a
truncation removes. Shown by tests/harness/test_harness_truncation.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from broker.door.batches import BatchHeader
from harness.clusters.capabilities import DeadEpochs
from harness.clusters.requests.probe import BrokerProbe
from harness.clusters.segment_files import read_partition_headers
from harness.errors import HarnessError
from runlog.records.cluster_kinds import Source
from runlog.records.partition import Truncated


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRange:
    """Offsets [start, end) that one leader epoch wrote, as a log holds them."""

    leader_epoch: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedLog:
    broker: int
    topic: str
    partition: int
    epochs: tuple[EpochRange, ...]

    @property
    def end_offset(self) -> int:
        return self.epochs[-1].end_offset if self.epochs else 0


def dump_epochs(headers: Iterable[BatchHeader]) -> tuple[EpochRange, ...]:
    ranges: list[EpochRange] = []
    for header in headers:
        start = header.base_offset
        if ranges and ranges[-1].leader_epoch == header.partition_leader_epoch:
            start = ranges.pop().start_offset
        ranges.append(
            EpochRange(leader_epoch=header.partition_leader_epoch, start_offset=start, end_offset=header.next_offset)
        )
    return tuple(ranges)


def truncated_ranges(
    dumped: DumpedLog, epoch_end_offset: Callable[[int], tuple[int, int] | None]
) -> list[tuple[int, EpochRange]] | None:
    """(end offset that survives, range of the dead log) for each epoch that lost something. None: no answer.

    `epoch_end_offset(epoch)` is the present leader's answer: (its largest epoch <= the asked one, the end of that
    epoch).
    """
    gone = []
    for found in dumped.epochs:
        answer = epoch_end_offset(found.leader_epoch)
        if answer is None:
            return None
        epoch, end_offset = answer
        # If the leader has nothing of this epoch, it told the end of an older one. That older epoch may have gone on at
        # the same offsets elsewhere, so its end says nothing about these records: all of them are gone.
        surviving = max(found.start_offset, end_offset) if epoch == found.leader_epoch else found.start_offset
        if surviving < found.end_offset:
            gone.append((surviving, found))
    return gone


def truncated_events(dumped: DumpedLog, gone: Iterable[tuple[int, EpochRange]], t_us: int) -> list[Truncated]:
    """Events for cluster.jsonl: records with to_offset <= offset < from_offset are gone."""
    return [
        Truncated(
            t_us=t_us,
            broker=dumped.broker,
            source=Source.LOG_DUMP,
            topic=dumped.topic,
            partition=dumped.partition,
            leader_epoch=found.leader_epoch,
            from_offset=found.end_offset,
            to_offset=surviving,
        )
        for surviving, found in gone
    ]


class LogSource(Protocol):
    """What a dump needs of a cluster."""

    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None: ...
    def probe_of_leader(self, topic: str, partition: int) -> BrokerProbe | None: ...


class DeadLogs:
    """The logs of the brokers that were killed in this cell, read while they were dead."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._dumped: list[DumpedLog] = []
        self.problems: list[str] = []

    def dump(self, cluster: LogSource, broker: int) -> None:
        if isinstance(cluster, DeadEpochs):
            self._dump_there(cluster, broker)
            return
        for partition in range(self._partitions):
            directory = cluster.partition_directory(broker, self._topic, partition)
            if directory is None:
                continue
            try:
                epochs = dump_epochs(read_partition_headers(directory))
            except OSError as error:
                self.problems.append(f"log of broker {broker}, {self._topic}-{partition} could not be read: {error}")
                continue
            self._dumped.append(DumpedLog(broker=broker, topic=self._topic, partition=partition, epochs=epochs))

    def _dump_there(self, cluster: DeadEpochs, broker: int) -> None:
        try:
            found = cluster.dead_epochs(broker, self._topic, self._partitions)
        except HarnessError as error:
            self.problems.append(f"log of broker {broker}, {self._topic} was not read: {error}")
            return
        for partition, told in sorted(found.items()):
            epochs = tuple(
                EpochRange(leader_epoch=epoch, start_offset=start, end_offset=end) for epoch, start, end in told
            )
            self._dumped.append(DumpedLog(broker=broker, topic=self._topic, partition=partition, epochs=epochs))

    def truncated_events(self, cluster: LogSource, t_us: int) -> list[Truncated]:
        """Ask the present leaders when the cluster is healthy again. If nobody answers, this is a problem and not a
        guess."""
        events: list[Truncated] = []
        for dumped in self._dumped:
            probe = cluster.probe_of_leader(dumped.topic, dumped.partition)
            gone = None
            if probe is not None:
                ask = partial(probe.epoch_end_offset, dumped.topic, dumped.partition)
                gone = truncated_ranges(dumped, ask)
                probe.close()
            if gone is None:
                self.problems.append(f"{dumped.topic}-{dumped.partition}: no leader told where the epochs end")
                continue
            events += truncated_events(dumped, gone, t_us)
        return events
