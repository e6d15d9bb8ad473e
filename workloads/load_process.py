"""One load process: its context, its users, its counters, its health, and its reports as JSON.

`state()` is a quick report twice a second, `report()` the full one at the end. Both are plain JSON so that a
worker can send them to the master as they are, and `merge_states` and `merge_reports` add up those of all processes.
"""

from __future__ import annotations

import os
import time
from typing import Any

import gevent

from runlog.records.codec import from_document, to_json
from runlog.records.load import ClientSettings, Health, LoadDone, PayloadFigures, ProducerEnd, Progress
from runlog.streams.schema import SendStatus
from workloads import payloads
from workloads.context import LoadContext, Phases
from workloads.counters import Counters
from workloads.health import HUB_TICK_S, GeneratorHealth
from workloads.histogram import LogHistogram
from workloads.model import Plan
from workloads.stages import Stages
from workloads.users import LoadMembers

TELL_INTERVAL_S = 0.5
LOOK_S = 0.02
Json = dict[str, Any]  # what json.dumps takes
_SUMMED = ("ready", "producing", "consuming", "sent", "acked", "failed", "unknown", "received")


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
            lag = LogHistogram()
            for loop in self.members.producers:
                lag.merge_json(loop.lag.to_json())
            self._window.turn(latency=self._counters.latency, end_to_end=self._counters.end_to_end, schedule_lag=lag)

    def state(self) -> Json:
        """Counts so far. Call `fold` first for fresh ones."""
        producers, consumers = self.members.producers, self.members.consumers
        last_received_ns = max((loop.last_received_ns for loop in consumers), default=0)
        return {
            "ready": sum(loop.is_ready for loop in producers) + sum(loop.is_ready for loop in consumers),
            "producing": sum(not loop.is_finished for loop in producers),
            "consuming": sum(not loop.is_finished for loop in consumers),
            "sent": sum(loop.handed for loop in producers),
            "acked": self._counters.by_status[SendStatus.ACKED],
            "failed": self._counters.by_status[SendStatus.FAILED],
            "unknown": self._counters.by_status[SendStatus.UNKNOWN],
            "received": self._counters.received,
            "received_by_reader": {str(reader): count for reader, count in self._counters.received_by_reader.items()},
            "refusals": {str(code): count for code, count in self._counters.refusals.items()},
            "recent": self._window.to_json(),
            "last_received_us": self.context.clock.to_us(last_received_ns) if last_received_ns else -1,
            "errors": list(self.context.errors),
            "client": {str(loop.number): loop.client_metrics() for loop in producers},
        }

    def report(self) -> Json:
        producers = self.members.producers
        pool = self.context.pool
        lag = LogHistogram()
        for loop in producers:
            lag.merge_json(loop.lag.to_json())
        effective: Json = next((loop.client_effective() for loop in producers if loop.is_ready), {})
        return {
            "producers": [
                {"producer": loop.number, "incarnation": loop.incarnation, "high_seq": loop.handed - 1}
                for loop in producers
            ],
            "lag": lag.to_json(),
            "stages": self._counters.stages.to_json(),
            "hub": self.health.hub.to_json(),
            "cpu_share": round(self._measured_cpu_share(), 4),
            "gc_ms": round(self.health.gc_ms, 3),
            "gc_ms_max": round(self.health.gc_ms_max, 3),
            "thread_cpu_share": round(self._thread_cpu_share, 4),
            "cores": sorted(os.sched_getaffinity(0)),
            "late_sends": sum(loop.late_sends for loop in producers),
            "backpressure_sends": sum(loop.backpressure_sends for loop in producers),
            "unsent": sum(loop.unsent for loop in producers),
            "unsent_for_space": sum(loop.unsent_for_space for loop in producers),
            "foreign_records": sum(loop.foreign for loop in self.members.consumers),
            "redelivery": self.context.redelivery_reports(),
            "payload_zlib_ratio": round(pool.achieved_ratio(), 3),
            "payload": to_json(payloads.describe(self.context.plan.workload, pool)),
            "client_effective": effective,
            "client": {str(loop.number): loop.client_metrics() for loop in producers},
        }


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

    def to_json(self) -> Json:
        return {name: found.to_json() for name, found in self._recent.items()}


def empty_state() -> Json:
    counts = dict.fromkeys(_SUMMED, 0)
    by_key: Json = {"received_by_reader": {}, "refusals": {}, "recent": {}, "client": {}}
    return {**counts, **by_key, "last_received_us": -1, "errors": []}


def progress_of(state: Json, readers: int) -> Progress:
    """The progress for a live view, from a merged state: the last half second, and the backlog of the slowest
    reader."""
    latency, end_to_end, schedule_lag = (_recent(state, name) for name in ("latency", "end_to_end", "schedule_lag"))
    slowest = min((state["received_by_reader"].get(str(reader), 0) for reader in range(readers)), default=None)
    return Progress(
        sent=state["sent"],
        acked=state["acked"],
        failed=state["failed"],
        unknown=state["unknown"],
        received=state["received"],
        latency_us_p50=latency.quantile_us(0.5) if latency.count else None,
        latency_us_p99=latency.quantile_us(0.99) if latency.count else None,
        end_to_end_us_p99=end_to_end.quantile_us(0.99) if end_to_end.count else None,
        schedule_lag_us_p99=schedule_lag.quantile_us(0.99) if schedule_lag.count else None,
        backlog=None if slowest is None else max(0, state["acked"] - slowest),
        refusals=state["refusals"] or None,
    )


def _recent(state: Json, name: str) -> LogHistogram:
    histogram = LogHistogram()
    for document in state["recent"].get(name, ()):
        histogram.merge_json(document)
    return histogram


def merge_states(states: list[Json]) -> Json:
    merged = empty_state()
    for state in states:
        for name in _SUMMED:
            merged[name] += state[name]
        merged["last_received_us"] = max(merged["last_received_us"], state["last_received_us"])
        merged["errors"].extend(state["errors"])
        for name in ("received_by_reader", "refusals"):
            for key, count in state[name].items():
                merged[name][key] = merged[name].get(key, 0) + count
        for name, document in state["recent"].items():
            merged["recent"].setdefault(name, []).append(document)
        merged["client"].update(state["client"])
    return merged


def _merge_redelivery(reports: list[dict[str, dict[str, int]]]) -> dict[str, int]:
    """Figures of readers that remove repeated records, one for each name, as the report shows them. If two processes
    each got a record once, this is no duplicate in either of them, because each process counts by itself."""
    merged: dict[str, int] = {}
    for report in reports:
        for reader, counts in report.items():
            for name, count in counts.items():
                key = f"redelivery_{reader}_{name}"
                merged[key] = merged.get(key, 0) + count
    return merged


def merge_reports(reports: list[Json], *, t_us: int) -> LoadDone:
    """Producers, health and effective settings of the whole cell."""
    producers = [from_document(ProducerEnd, end) for report in reports for end in report["producers"]]
    effective: dict[str, str] = next(
        (report["client_effective"] for report in reports if report["client_effective"]), {}
    )
    return LoadDone(
        t_us=t_us,
        producers=tuple(sorted(producers, key=lambda end: (end.producer, end.incarnation))),
        health=_merge_health(reports),
        effective=ClientSettings(client=effective),
    )


def merge_client_metrics(reports: list[Json]) -> dict[str, Any]:
    """Metrics by the producers' numbers, each with the names of its library."""
    return {number: metrics for report in reports for number, metrics in report["client"].items()}


def _merge_health(reports: list[Json]) -> Health:
    lag, hub, stages = LogHistogram(), LogHistogram(), Stages()
    for report in reports:
        lag.merge_json(report["lag"])
        hub.merge_json(report["hub"])
        stages.merge_json(report["stages"])

    def total(name: str) -> int:
        return sum(report[name] for report in reports)

    return Health(
        schedule_lag_us_p50=lag.quantile_us(0.5),
        schedule_lag_us_p99=lag.quantile_us(0.99),
        schedule_lag_us_max=lag.max_us,
        hub_lag_us_p99=hub.quantile_us(0.99),
        cpu_share=max((report["cpu_share"] for report in reports), default=0.0),
        cpu_share_by_process=tuple(report["cpu_share"] for report in reports),
        thread_cpu_share_by_process=tuple(report["thread_cpu_share"] for report in reports),
        cores_by_process=tuple(tuple(report["cores"]) for report in reports),
        gc_ms=round(sum(report["gc_ms"] for report in reports), 3),
        gc_ms_max=max((report["gc_ms_max"] for report in reports), default=0.0),
        late_sends=total("late_sends"),
        backpressure_sends=total("backpressure_sends"),
        unsent=total("unsent"),
        unsent_for_space=total("unsent_for_space"),
        foreign_records=total("foreign_records"),
        payload_zlib_ratio=next((report["payload_zlib_ratio"] for report in reports), 0.0),
        stages=stages.figures(),
        payload=from_document(PayloadFigures, next((report["payload"] for report in reports), {})),
        more=_merge_redelivery([report["redelivery"] for report in reports]),
    )
