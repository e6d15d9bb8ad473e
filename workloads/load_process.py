"""One load process: its context, its users, its counters, its health, and its reports.

`state()` is a quick report twice a second, `report()` the full one at the end. `workloads/reports.py` adds up those of
all processes.
"""

from __future__ import annotations

import os
import time
from typing import Any

import gevent

from runlog.records.load import ProducerEnd
from runlog.streams.schema import SendStatus
from workloads import payloads
from workloads.context import LoadContext, Phases
from workloads.counters import Counters
from workloads.health import HUB_TICK_S, GeneratorHealth
from workloads.histogram import Histogram, LogHistogram
from workloads.model import Plan
from workloads.reports import LoadReport, LoadState, merged
from workloads.users import LoadMembers

TELL_INTERVAL_S = 0.5
LOOK_S = 0.02


class LoadProcess:
    """Lives on the main thread; `environment` is Locust's, without types."""

    def __init__(self, plan: Plan, environment: Any) -> None:
        self.context = LoadContext(plan)
        self.members = LoadMembers(self.context)
        self.health = GeneratorHealth()
        self._counters = Counters(self.context.live)
        self._environment = environment
        self._cpu_share: float | None = None
        self._thread_cpu_share = 0.0
        self._phases: Phases | None = None
        self._window = _Window()
        environment.load_members = self.members

    def begin(self, phases: Phases) -> None:
        self._phases = phases
        clock = self.context.clock
        self._counters.window_us = (clock.to_us(phases.measure_ns), clock.to_us(phases.end_ns))
        self.health.start()
        self.context.begin(phases)
        gevent.spawn(self._watch_window, phases)

    def _watch_window(self, phases: Phases) -> None:
        """Measures the hub's latency and the CPU over the measured window."""
        gevent.sleep(max(0.0, phases.measure_ns - time.monotonic_ns()) / 1e9)
        self.health.restart_cpu()
        while time.monotonic_ns() < phases.end_ns and not self.context.sending_stopped.is_set():
            started_s = time.monotonic()
            gevent.sleep(HUB_TICK_S)
            self.health.note_hub_tick(HUB_TICK_S, time.monotonic() - started_s)
        self._cpu_share, self._thread_cpu_share = self.health.cpu_share(), self.health.busiest_thread_cpu_share()

    def _measured_cpu_share(self) -> float:
        """The CPU share over the measured window. If the window has not ended, up to now."""
        return (
            self.health.cpu_share() if self._cpu_share is None and self._phases is not None else self._cpu_share or 0.0
        )

    def fold(self, *, everything: bool = False) -> None:
        """Take in what was logged; to be called every LOOK_S, so that each time is short."""
        self._counters.fold(
            [loop.writer_name for loop in self.members.producers],
            [loop.writer_name for loop in self.members.consumers],
            self._environment.runner.stats,
            everything=everything,
        )
        for loop in self.members.producers:
            loop.prepare()
        if self._window.is_due():
            self._window.turn(
                latency=self._counters.latency, end_to_end=self._counters.end_to_end, schedule_lag=self._lag()
            )

    def _lag(self) -> LogHistogram:
        return merged(loop.lag.told() for loop in self.members.producers)

    def state(self) -> LoadState:
        """Counts so far. Call `fold` first for fresh ones."""
        producers, consumers = self.members.producers, self.members.consumers
        last_received_ns = max((loop.last_received_ns for loop in consumers), default=0)
        return LoadState(
            ready=sum(loop.is_ready for loop in producers) + sum(loop.is_ready for loop in consumers),
            producing=sum(not loop.is_finished for loop in producers),
            consuming=sum(not loop.is_finished for loop in consumers),
            sent=sum(loop.handed for loop in producers),
            acked=self._counters.by_status[SendStatus.ACKED],
            failed=self._counters.by_status[SendStatus.FAILED],
            unknown=self._counters.by_status[SendStatus.UNKNOWN],
            received=self._counters.received,
            received_by_reader={str(reader): count for reader, count in self._counters.received_by_reader.items()},
            refusals={str(code): count for code, count in self._counters.refusals.items()},
            recent=self._window.told(),
            last_received_us=self.context.clock.to_us(last_received_ns) if last_received_ns else -1,
            errors=tuple(self.context.errors),
            client={str(loop.number): loop.client_metrics() for loop in producers},
        )

    def report(self) -> LoadReport:
        producers, pool = self.members.producers, self.context.pool
        return LoadReport(
            producers=tuple(
                ProducerEnd(producer=loop.number, incarnation=loop.incarnation, high_seq=loop.handed - 1)
                for loop in producers
            ),
            lag=self._lag().told(),
            stages=self._counters.stages.told(),
            hub=self.health.hub.told(),
            cpu_share=round(self._measured_cpu_share(), 4),
            gc_ms=round(self.health.gc_ms, 3),
            gc_ms_max=round(self.health.gc_ms_max, 3),
            thread_cpu_share=round(self._thread_cpu_share, 4),
            cores=tuple(sorted(os.sched_getaffinity(0))),
            late_sends=sum(loop.late_sends for loop in producers),
            backpressure_sends=sum(loop.backpressure_sends for loop in producers),
            unsent=sum(loop.unsent for loop in producers),
            unsent_for_space=sum(loop.unsent_for_space for loop in producers),
            foreign_records=sum(loop.foreign for loop in self.members.consumers),
            redelivery=self.context.redelivery_reports(),
            payload_zlib_ratio=round(pool.achieved_ratio(), 3),
            payload=payloads.describe(self.context.plan.workload, pool),
            client_effective=next((loop.client_effective() for loop in producers if loop.is_ready), {}),
            client={str(loop.number): loop.client_metrics() for loop in producers},
        )


class _Window:
    """Histograms of the last half second or so, for the live view."""

    def __init__(self) -> None:
        self._earlier: dict[str, LogHistogram] = {}
        self._recent: dict[str, LogHistogram] = {}
        self._turned_s = 0.0

    def is_due(self) -> bool:
        return time.monotonic() - self._turned_s >= TELL_INTERVAL_S * 0.9

    def turn(self, **so_far: LogHistogram) -> None:
        self._turned_s = time.monotonic()
        empty = LogHistogram()
        self._recent = {name: found.since(self._earlier.get(name, empty)) for name, found in so_far.items()}
        self._earlier = {name: found.copy() for name, found in so_far.items()}

    def told(self) -> dict[str, Histogram]:
        return {name: found.told() for name, found in self._recent.items()}
