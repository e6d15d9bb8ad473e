"""What the users of one load process share: the plan, the clock, the phases and the list of started users.

The threads of the users read it. Only `begin`, `stop_sending` and `stop_receiving` change it, and only the conductor
calls them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runlog.files.clock import RunClock
from runlog.files.paths import live_directory
from workloads import keys, payloads, schedule
from workloads.clients.protocol import ClientSetup
from workloads.model import Plan, Replay
from workloads.reader_group import ReaderGroup
from workloads.redelivery import RedeliveryFilter, RedisStore, Store, TableStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Absolute monotonic times in ns. Warm-up starts at `start_ns`, the measured window at `measure_ns`."""

    start_ns: int
    measure_ns: int
    end_ns: int
    drain_end_ns: int

    @classmethod
    def of(cls, plan: Plan, start_ns: int) -> Phases:
        workload = plan.workload
        measure_ns = start_ns + workload.warmup_ms * 1_000_000
        end_ns = measure_ns + workload.measure_ms * 1_000_000
        return cls(
            start_ns=start_ns,
            measure_ns=measure_ns,
            end_ns=end_ns,
            drain_end_ns=end_ns + workload.drain_ms * 1_000_000,
        )


class LoadContext:
    """One per load process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = RunClock(t0_monotonic_ns=plan.t0_monotonic_ns)
        self.live = live_directory(plan.run_dir, plan.cell_id)
        self.live.mkdir(parents=True, exist_ok=True)
        shape = plan.workload.schedule
        trace = shape.file if isinstance(shape, Replay) else None
        recorded_ms = payloads.read_times_ms(trace) if trace is not None else None
        self.schedule = schedule.build(plan.workload, plan.seed, recorded_ms)
        self.pool = payloads.build_pool(plan.workload, plan.seed)
        self.keys = keys.key_sequence(plan.workload, plan.seed)
        self.sending_stopped = threading.Event()
        self.receiving_stopped = threading.Event()
        self._begun = threading.Event()
        self._phases: Phases | None = None
        self._lock = threading.Lock()
        self._drain_deadline_ns: int | None = None
        self._filters: dict[int, RedeliveryFilter] = {}
        self.errors: list[str] = []

    def producer_setup(self, producer: int) -> ClientSetup:
        plan = self.plan
        return ClientSetup(
            bootstrap_servers=plan.bootstrap_servers,
            topics=plan.topic_names,
            properties=plan.properties,
            runtime=plan.runtime,
            transactional_id=f"{plan.topic}-p{producer}" if plan.workload.is_transactional else None,
        )

    def consumer_setup(self, reader: ReaderGroup) -> ClientSetup:
        plan = self.plan
        return ClientSetup(
            bootstrap_servers=plan.bootstrap_servers,
            topics=plan.topic_names,
            properties={**plan.consumer_properties, **plan.workload.isolation, **reader.properties},
            runtime=plan.runtime,
            group_id=reader.group_id(plan.topic) if reader.mode == "group" else None,
            own_group_id=reader.group_id(plan.topic),
            start=reader.start,
        )

    def redelivery_filter(self, reader_number: int) -> RedeliveryFilter | None:
        """One filter for a reader, for all its consumers in this process. None if the reader keeps every record."""
        reader = self.plan.workload.reader_groups[reader_number]
        if reader.deduplicate == "none":
            return None
        with self._lock:
            if reader_number not in self._filters:
                store: Store = TableStore(reader.deduplicate_entries)
                if reader.deduplicate == "redis":
                    # No other run has this prefix.
                    prefix = f"{self.plan.topic}-{reader.name}-{self.plan.t0_monotonic_ns}"
                    store = RedisStore(reader.redis_url, prefix, reader.deduplicate_keep_ms)
                is_alone = reader.deduplicate == "table" or self.plan.processes_here == 1
                self._filters[reader_number] = RedeliveryFilter(store, is_alone=is_alone)
            return self._filters[reader_number]

    def redelivery_reports(self) -> dict[str, dict[str, int]]:
        """The reports of readers that remove redelivered records, by the reader's name."""
        with self._lock:
            filters = dict(self._filters)
        return {self.plan.workload.reader_groups[number].name: each.report() for number, each in filters.items()}

    def begin(self, phases: Phases) -> None:
        """Let all users start at the same instant."""
        self._phases = phases
        self._begun.set()

    def wait_begin(self) -> Phases | None:
        """Block the calling user thread until the phases are known; None if the run was stopped before."""
        while not self._begun.wait(0.05):
            if self.sending_stopped.is_set():
                return None
        return self._phases

    def stop_sending(self, drain_deadline_ns: int) -> None:
        """No more sends from now on, whatever the schedule says; what is in flight may complete until the deadline."""
        self._drain_deadline_ns = drain_deadline_ns
        self.sending_stopped.set()

    def drain_deadline_ns(self, phases: Phases) -> int:
        return self._drain_deadline_ns if self._drain_deadline_ns is not None else phases.drain_end_ns

    def add_error(self, message: str) -> None:
        with self._lock:
            if len(self.errors) < 100:
                self.errors.append(message)

    def claim_number(self, kind: str, numbers: Sequence[int]) -> int:
        """The first of these numbers of a kind of user that no process of this cell has taken."""
        return claim_number(self.live, kind, numbers)


def claim_number(directory: Path, kind: str, numbers: Sequence[int]) -> int:
    for number in numbers:
        try:
            descriptor = os.open(directory / f"{kind}-{number}.claim", os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        os.close(descriptor)
        return number
    raise RuntimeError(f"all {len(numbers)} numbers of {kind} are taken in {directory}; was this cell run before?")
