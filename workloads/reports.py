"""What load processes tell of themselves: the state while they run, the report at the end, and how both are added up.

Each has one type on all its ways: from a worker of Locust, from the process of readers apart, and from a load host. Who
receives one checks it by its type. Pure. Shown by tests/workloads/test_workloads_reports.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from runlog.records.load import ClientSettings, Health, LoadDone, PayloadFigures, ProducerEnd, Progress
from workloads.histogram import Histogram, LogHistogram
from workloads.stages import Stages, StagesTold

_SUMMED: Final = ("ready", "producing", "consuming", "sent", "acked", "failed", "unknown", "received")


class LoadState(BaseModel):
    """What a load process, or several, have done so far."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    ready: int  # users
    producing: int
    consuming: int
    sent: int  # records, as all below
    acked: int
    failed: int
    unknown: int
    received: int
    received_by_reader: dict[str, int]  # The key is the number of the group.
    refusals: dict[str, int]  # error code -> sends without an acknowledgement
    recent: dict[str, Histogram]  # The last half second or so, for the live view.
    last_received_us: int  # -1: nothing was received
    errors: tuple[str, ...]
    client: dict[str, Any]  # The key is the producer. Each client library has figures of its own.


class LoadReport(BaseModel):
    """The account of one load process at its end. Shares are of one core."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    producers: tuple[ProducerEnd, ...]
    lag: Histogram
    stages: StagesTold
    hub: Histogram
    cpu_share: float
    gc_ms: float
    gc_ms_max: float
    thread_cpu_share: float
    cores: tuple[int, ...]
    late_sends: int
    backpressure_sends: int
    unsent: int
    unsent_for_space: int
    foreign_records: int
    redelivery: dict[str, dict[str, int]]  # The key is the reader.
    payload_zlib_ratio: float
    payload: PayloadFigures
    client_effective: dict[str, Any]  # settings, as the client library names them
    client: dict[str, Any]  # as in a state


def merge_states(states: Sequence[LoadState]) -> LoadState:
    """Of no processes: nothing was done."""
    names = dict.fromkeys(name for state in states for name in state.recent)
    return LoadState(
        **{name: sum(getattr(state, name) for state in states) for name in _SUMMED},
        received_by_reader=_summed(state.received_by_reader for state in states),
        refusals=_summed(state.refusals for state in states),
        recent={name: merged(state.recent[name] for state in states if name in state.recent).told() for name in names},
        last_received_us=max((state.last_received_us for state in states), default=-1),
        errors=tuple(error for state in states for error in state.errors),
        client={producer: figures for state in states for producer, figures in state.client.items()},
    )


def merged(histograms: Iterable[Histogram]) -> LogHistogram:
    whole = LogHistogram()
    for histogram in histograms:
        whole.merge(histogram)
    return whole


def _summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    whole: dict[str, int] = {}
    for part in parts:
        for key, count in part.items():
            whole[key] = whole.get(key, 0) + count
    return whole


def progress_of(state: LoadState, readers: int) -> Progress:
    """The progress for a live view, from a merged state: the last half second, and the backlog of the slowest
    reader."""
    latency, end_to_end, schedule_lag = (
        merged([state.recent[name]] if name in state.recent else ())
        for name in ("latency", "end_to_end", "schedule_lag")
    )
    slowest = min((state.received_by_reader.get(str(reader), 0) for reader in range(readers)), default=None)
    return Progress(
        sent=state.sent,
        acked=state.acked,
        failed=state.failed,
        unknown=state.unknown,
        received=state.received,
        latency_us_p50=latency.quantile_us(0.5) if latency.count else None,
        latency_us_p99=latency.quantile_us(0.99) if latency.count else None,
        end_to_end_us_p99=end_to_end.quantile_us(0.99) if end_to_end.count else None,
        schedule_lag_us_p99=schedule_lag.quantile_us(0.99) if schedule_lag.count else None,
        backlog=None if slowest is None else max(0, state.acked - slowest),
        refusals=state.refusals or None,
    )


def merge_reports(reports: Sequence[LoadReport], *, t_us: int) -> LoadDone:
    """Producers, health and effective settings of the whole cell."""
    producers = [end for report in reports for end in report.producers]
    return LoadDone(
        t_us=t_us,
        producers=tuple(sorted(producers, key=lambda end: (end.producer, end.incarnation))),
        health=_merge_health(reports),
        effective=ClientSettings(
            client=next((report.client_effective for report in reports if report.client_effective), {})
        ),
    )


def merge_client_metrics(reports: Sequence[LoadReport]) -> dict[str, Any]:
    """Metrics by the producers' numbers, each with the names of its library."""
    return {number: metrics for report in reports for number, metrics in report.client.items()}


def _merge_health(reports: Sequence[LoadReport]) -> Health:
    lag, hub, stages = merged(one.lag for one in reports), merged(one.hub for one in reports), Stages()
    for report in reports:
        stages.merge(report.stages)
    return Health(
        schedule_lag_us_p50=lag.quantile_us(0.5),
        schedule_lag_us_p99=lag.quantile_us(0.99),
        schedule_lag_us_max=lag.max_us,
        hub_lag_us_p99=hub.quantile_us(0.99),
        cpu_share=max((report.cpu_share for report in reports), default=0.0),
        cpu_share_by_process=tuple(report.cpu_share for report in reports),
        thread_cpu_share_by_process=tuple(report.thread_cpu_share for report in reports),
        cores_by_process=tuple(report.cores for report in reports),
        gc_ms=round(sum(report.gc_ms for report in reports), 3),
        gc_ms_max=max((report.gc_ms_max for report in reports), default=0.0),
        late_sends=sum(report.late_sends for report in reports),
        backpressure_sends=sum(report.backpressure_sends for report in reports),
        unsent=sum(report.unsent for report in reports),
        unsent_for_space=sum(report.unsent_for_space for report in reports),
        foreign_records=sum(report.foreign_records for report in reports),
        payload_zlib_ratio=next((report.payload_zlib_ratio for report in reports), 0.0),
        stages=stages.figures(),
        payload=next((report.payload for report in reports), PayloadFigures()),
        more=_merge_redelivery(reports),
    )


def _merge_redelivery(reports: Sequence[LoadReport]) -> dict[str, int]:
    """Figures of readers that remove repeated records, one for each name, as the report shows them. If two processes
    each got a record once, this is no duplicate in either of them, because each process counts by itself."""
    return _summed(
        {f"redelivery_{reader}_{name}": count}
        for report in reports
        for reader, counts in report.redelivery.items()
        for name, count in counts.items()
    )
