"""Observes a running cell: journals, Metadata, process and host figures, each into its jsonl file.

Three small threads per cell, stopped and joined within a bound. Shown by tests/harness/test_harness_recorders.py.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from harness.clusters.base import Address, ClusterState
from harness.run.recording.host_load import HostSampler, is_own_address
from harness.run.recording.jvm_threads import JvmThreads
from runlog.files.clock import RunClock
from runlog.records.cell import EXTERNAL
from runlog.records.cluster import ClusterEvent, Exited
from runlog.records.cluster_kinds import Source
from runlog.records.holes import HoleKind
from runlog.records.lines import RecordWriter
from runlog.records.partition import HighWatermark, LeaderSeen
from runlog.records.stats import HOST, HostFigure, Resources, StatsSample

ClusterWriter = RecordWriter[ClusterEvent]

PROBE_INTERVAL_S: Final = 0.1
STATS_INTERVAL_S: Final = 0.5
HIGH_WATERMARK_INTERVAL_S: Final = 0.5
EXIT_INTERVAL_S: Final = 0.2
JOURNAL_INTERVAL_S: Final = 0.2
_JOIN_TIMEOUT_S: Final = 5.0
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Periodic:
    """Calls `step` every `interval_s` in a thread of its own until stopped, and once more at the end.

    `hole`: what the evidence lacks if it does not come to that end. `problem`: why it did not, empty if it did; known
    after `stop`."""

    def __init__(self, name: str, interval_s: float, step: Callable[[], None], *, hole: HoleKind) -> None:
        self._name, self._interval_s, self._step = name, interval_s, step
        self.hole: Final = hole
        self._stop = threading.Event()
        self.problem = ""
        self.error: Exception | None = None  # that of `problem`, if one was raised
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=_JOIN_TIMEOUT_S)
        if self._thread.is_alive():
            self.problem = f"{self._name}: its last look did not end within {_JOIN_TIMEOUT_S:.0f} s"

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._interval_s):
                self._step()
            self._step()
        except Exception as error:  # the run goes on without this recorder, and the cell says so
            self.problem, self.error = f"{self._name} stopped: {type(error).__name__}: {error}", error


class JournalTail:
    """Copies what brokers append to their journals into the cell's cluster.jsonl, with t_us and source=journal."""

    def __init__(self, paths: Mapping[int, Path], clock: RunClock, writer: ClusterWriter) -> None:
        self._clock, self._writer = clock, writer
        self._positions = {
            broker: (path, path.stat().st_size if path.exists() else 0) for broker, path in paths.items()
        }
        self._rest: dict[int, bytes] = {}

    def step(self) -> None:
        """OSError if a journal cannot be read, or is not there any more as it was."""
        for broker, (path, position) in self._positions.items():
            if not path.exists() and not position:  # Its broker was not started yet.
                continue
            with path.open("rb") as file:
                if (size := file.seek(0, os.SEEK_END)) < position:
                    raise OSError(f"{path.name} of broker {broker} has {size} bytes, and {position} were read before")
                file.seek(position)
                data = file.read()
            if not data:
                continue
            self._positions[broker] = (path, position + len(data))
            # A line is written to the journal by one write(2), but a broker that is killed in between may leave a torn
            # line. Its successor begins a new line, and the writer leaves out what is not JSON.
            lines = (self._rest.get(broker, b"") + data).split(b"\n")
            self._rest[broker] = lines.pop()
            for line in lines:
                self._writer.copy(
                    line,
                    t0_monotonic_ns=self._clock.t0_monotonic_ns,
                    absent={"broker": broker},
                    always={"source": Source.JOURNAL.value},
                )


class LeaderProbe:
    """Writes a `leader` event whenever leader, epoch or ISR of a partition change, as seen by the broker that knows
    most."""

    def __init__(
        self, topic: str, ask: Callable[[], ClusterState | None], clock: RunClock, writer: ClusterWriter
    ) -> None:
        self._topic, self._ask, self._clock, self._writer = topic, ask, clock, writer
        self._last: dict[int, tuple[int, int, tuple[int, ...]]] = {}

    def step(self) -> None:
        state = self._ask()
        if state is None:
            return
        t_us = self._clock.now_us()
        for partition, found in sorted(state.partitions.items()):
            seen = (found.leader, found.leader_epoch, found.isr)
            last = self._last.get(partition)
            # Brokers learn of a change one after another. An older epoch is a broker that is behind, and no news.
            if seen == last or (last is not None and found.leader_epoch < last[1]):
                continue
            self._last[partition] = seen
            self._writer.append(
                LeaderSeen(
                    t_us=t_us,
                    broker=found.leader,
                    topic=self._topic,
                    partition=partition,
                    leader=found.leader,
                    leader_epoch=found.leader_epoch,
                    isr=tuple(found.isr),
                )
            )


class ExitWatch:
    """Writes an `exited` event when a broker process has ended. The analysis knows which brokers were killed or
    stopped."""

    def __init__(self, cluster: HasExits, clock: RunClock, writer: ClusterWriter) -> None:
        self._cluster, self._clock, self._writer = cluster, clock, writer
        self._told: set[int] = set()  # It holds pids, because one process ends once.

    def step(self) -> None:
        for broker, (pid, code) in self._cluster.exits().items():
            if pid not in self._told:
                self._told.add(pid)
                self._writer.append(Exited(t_us=self._clock.now_us(), broker=broker, code=code))


class HighWatermarkProbe:
    """Writes the end offset that consumers are shown, whenever it has changed since the last look."""

    def __init__(
        self,
        topic: str,
        partitions: int,
        ask: Callable[[int], tuple[int, int] | None],
        clock: RunClock,
        writer: ClusterWriter,
    ) -> None:
        self._topic, self._partitions, self._ask = topic, partitions, ask
        self._clock, self._writer = clock, writer
        self._last: dict[int, tuple[int, int]] = {}

    def step(self) -> None:
        for partition in range(self._partitions):
            answer = self._ask(partition)
            if answer is None or answer == self._last.get(partition):
                continue
            self._last[partition] = answer
            broker, offset = answer
            self._writer.append(
                HighWatermark(
                    t_us=self._clock.now_us(), broker=broker, topic=self._topic, partition=partition, offset=offset
                )
            )


class HasExits(Protocol):
    def exits(self) -> Mapping[int, tuple[int, int | None]]:
        """(pid, exit code) of brokers whose last process has ended."""


class HasPids(Protocol):
    def pids(self) -> Mapping[int, int]: ...


class Measured(HasPids, Protocol):
    """What is asked of a cluster whose CPU is measured."""

    @property
    def engine(self) -> str: ...
    def direct_addresses(self) -> Sequence[Address]: ...


class StatsSampler:
    """CPU and memory of the brokers and the host, twice a second, into stats.jsonl. For a broker that is a JVM also how
    much of that CPU its compiler and its collector took."""

    def __init__(
        self, cluster: Measured, load_pid: Callable[[], int | None], clock: RunClock, writer: RecordWriter[StatsSample]
    ) -> None:
        self._cluster, self._load_pid, self._clock, self._writer = cluster, load_pid, clock, writer
        self._host = HostSampler(brokers=lambda: cluster.pids().values(), load=self._load_pids)
        self._hides_brokers = cluster.engine == EXTERNAL and any(
            is_own_address(address.host) for address in cluster.direct_addresses()
        )
        self._cpu: dict[str, tuple[int, float, float]] = {}
        self._jvms: dict[str, JvmThreads] = {}

    def step(self) -> None:
        t_us = self._clock.now_us()
        self._sample_host(t_us)
        named = {f"broker-{broker}": pid for broker, pid in self._cluster.pids().items()}
        load_pid = self._load_pid()
        if load_pid is not None:
            named["load"] = load_pid
        for source, pid in named.items():
            self._sample_process(t_us, source, pid)

    def _load_pids(self) -> list[int]:
        pid = self._load_pid()
        return [] if pid is None else [pid]

    def _sample_host(self, t_us: int) -> None:
        values = self._host.sample()
        if values is not None:
            if self._hides_brokers:  # what they take looks like that of other programs
                values[HostFigure.FOREIGN_SHARE] = None
            self._write(t_us, HOST, {name: value for name, value in values.items() if value is not None})

    def _sample_process(self, t_us: int, source: str, pid: int) -> None:
        if source not in self._jvms or self._jvms[source].pid != pid:
            self._jvms[source] = JvmThreads(pid)
        own = self._jvms[source].look()  # before the whole, which includes it
        sample = process_sample(pid)
        if sample is None:
            return
        cpu_s, rss_bytes = sample
        now_s = time.monotonic()
        last = self._cpu.get(source)
        self._cpu[source] = (pid, cpu_s, now_s)
        values: dict[str, float] = {"cpu_s": round(cpu_s, 3), "rss_bytes": rss_bytes}
        if last is not None and last[0] == pid and now_s > last[2]:
            values["cpu_share"] = round((cpu_s - last[1]) / (now_s - last[2]), 4)
        if own is not None:
            values |= {"compiler_cpu_s": own.compiler_s, "collector_cpu_s": own.collector_s}
        self._write(t_us, source, values)

    def _write(self, t_us: int, source: str, values: Mapping[str, float]) -> None:
        self._writer.append(Resources(t_us=t_us, source=source, values=values))


def process_sample(pid: int) -> tuple[float, int] | None:
    """(CPU seconds, resident bytes) of a process, None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S, int(fields[21]) * _PAGE_BYTES
