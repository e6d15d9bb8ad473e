"""Lines of stats.jsonl: samples of the host and the processes, the load's phases and progress, the clients' metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias

from runlog.records.codec import Rest
from runlog.records.load import Health, Progress

HOST: Final = "host"
LOAD: Final = "load"
WORKLOADS: Final = "workloads"  # reported by the load process itself


class HostFigure(StrEnum):
    """A figure of the host. Shares are of all cores."""

    CPU_SHARE = "cpu_share"
    STEAL_SHARE = "steal_share"  # other guests of the machine took it
    FOREIGN_SHARE = "foreign_share"  # Neither the harness, nor its children, nor the brokers that it started used it.
    LOAD_SHARE = "load_share"  # the load generator's processes on this host
    BROKERS_SHARE = "brokers_share"  # the brokers that the harness started
    CPU_PRESSURE = "psi_cpu_some_avg10"  # pressure stall information, percent
    IO_PRESSURE = "psi_io_some_avg10"
    MEMORY_PRESSURE = "psi_memory_some_avg10"


class StatName(StrEnum):
    RESOURCES = "resources"
    PHASE = "phase"
    PROGRESS = "progress"
    CLIENT = "client"
    GENERATOR_HEALTH = "generator_health"
    CLOCK = "clock"
    SHARE = "share"
    STALL = "stall"
    REQUESTS = "requests"
    REQUESTS_IN_ALL = "requests_in_all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """CPU and memory.

    Source host: those of HostFigure. foreign_share is left out if the brokers run on this host and the harness did not
    start them: then nobody can tell their CPU from that of others. psi_*_some_avg10 are in percent. Source broker-<id>
    or load: cpu_s since the process began, rss_bytes, cpu_share; of a broker on HotSpot also compiler_cpu_s and
    collector_cpu_s, parts of cpu_s by its threads.
    """

    t_us: int
    source: str = ""
    name: ClassVar[StatName] = StatName.RESOURCES
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSample:
    """The load began a phase. The line is written at once, because the recovery of a killed run takes the measured
    window from here."""

    t_us: int
    source: str = LOAD
    name: ClassVar[StatName] = StatName.PHASE
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSample:
    t_us: int
    source: str = LOAD
    name: ClassVar[StatName] = StatName.PROGRESS
    values: Progress = field(default_factory=Progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSample:
    """The metrics of each producer, by its number. Their names are those of the client library."""

    t_us: int
    source: str = ""
    name: ClassVar[StatName] = StatName.CLIENT
    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, t_us: int, source: str, metrics: Mapping[str, Any]) -> ClientSample:
        """`metrics` by producer, without those that are NaN or infinite: JSON has no word for them. The Java client
        tells NaN for every average until its first record is sent."""
        return cls(t_us=t_us, source=source, values={name: _finite(each) for name, each in metrics.items()})

    def by_producer(self) -> dict[str, Mapping[str, Any]]:
        return {name: metrics for name, metrics in self.values.items() if isinstance(metrics, Mapping)}


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSample:
    t_us: int
    source: str = ""
    name: ClassVar[StatName] = StatName.GENERATOR_HEALTH
    values: Health = field(default_factory=Health)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSample:
    """One round trip to a load host: four readings of monotonic clocks, in the order in which they were taken.

    `sent_ns` and `received_ns` are of the harness's host, the two between them of the load host. With them the bounds
    of the clock can be computed again (runlog/quality/clock_bound.py).
    """

    t_us: int  # when the answer came
    source: str = ""  # the load host
    name: ClassVar[StatName] = StatName.CLOCK
    sent_ns: int
    host_received_ns: int
    host_sent_ns: int
    received_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSample:
    """How many rows of the run log a load host has written of its share, by its own word, once a second.

    The line is written while the load runs. So it is known what a load host must have, whatever becomes of it.
    """

    t_us: int
    source: str = ""  # the load host
    name: ClassVar[StatName] = StatName.SHARE
    sends: int = 0  # with their outcome
    receives: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StallSample:
    """A short stretch of time in which the host stood still, or may have: harness.run.recording.host_stalls looks
    twenty times a second and writes only these. Shares are of all cores."""

    t_us: int  # when it ended
    source: str = HOST
    name: ClassVar[StatName] = StatName.STALL
    took_us: int = 0
    late_us: int = 0  # a thread that only sleeps woke up this much later than it had asked for
    stolen_share: float = 0.0  # other guests of the machine took it
    busy_share: float = 0.0  # programs of this host took it, ours and others


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsSample:
    """Requests of somebody's locustfile that ended within one second, by name, as its users told Locust. Times are
    Locust's `response_time`, from the call to its end: a user that waits asks for nothing meanwhile."""

    t_us: int  # when the second began
    source: str = ""  # the request's type
    name: ClassVar[StatName] = StatName.REQUESTS
    request: str = ""
    requests: int = 0  # failures too
    failures: int = 0
    p50_us: int = 0
    p99_us: int = 0
    max_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsInAll:
    """The same of the whole cell, written when the users are asked to stop, and again when they have ended: the last
    one counts."""

    t_us: int
    source: str = ""  # the request's type
    name: ClassVar[StatName] = StatName.REQUESTS_IN_ALL
    request: str = ""
    requests: int = 0
    failures: int = 0
    p50_us: int = 0
    p90_us: int = 0
    p99_us: int = 0
    max_us: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)  # the most frequent messages of failures


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSample:
    """A sample with a name that this version does not know."""

    t_us: int
    source: str = ""
    name: str = ""
    more: Rest


StatsSample: TypeAlias = (
    Resources
    | PhaseSample
    | ProgressSample
    | ClientSample
    | HealthSample
    | ClockSample
    | ShareSample
    | StallSample
    | RequestsSample
    | RequestsInAll
    | OtherSample
)


def _finite(value: Any) -> Any:  # Any: whatever a client library counts
    if not isinstance(value, Mapping):
        return value
    return {name: each for name, each in value.items() if not isinstance(each, float) or math.isfinite(each)}
