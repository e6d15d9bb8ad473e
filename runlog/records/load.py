"""What load processes report: the lines on their standard output, and their figures at the end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias

from runlog.records.codec import Rest, from_document
from runlog.records.hosts import LoadHostRecord

_REDELIVERY: Final = re.compile(r"redelivery_([a-z0-9-]+)_([a-z_]+)")


class LoadEventName(StrEnum):
    READY = "ready"
    PHASE = "phase"
    PROGRESS = "progress"
    DONE = "done"
    ERROR = "error"
    END = "end"
    HOSTS = "hosts"
    CEILINGS = "ceilings"


class LoadPhase(StrEnum):
    CONNECT = "connect"
    WARMUP = "warmup"
    MEASURE = "measure"
    DRAIN = "drain"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Counts are since the load began, quantiles of the last half second."""

    sent: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    received: int = 0
    latency_us_p50: float | None = None
    latency_us_p99: float | None = None
    end_to_end_us_p99: float | None = None
    schedule_lag_us_p99: float | None = None
    backlog: int | None = None  # acknowledged, and not yet read by the slowest reader
    refusals: Mapping[str, int] | None = None  # error code -> sends without an acknowledgement


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFigures:
    """Times of one stage, of the records that were due in the measured window. A percentile is null if the sample is
    too small for it."""

    n: int
    mean_us: float | None = None
    p50_us: float | None = None
    p90_us: float | None = None
    p99_us: float | None = None
    p999_us: float | None = None
    max_us: float | None = None
    negative: int = 0  # times below zero, because the broker's clock has whole milliseconds: they count as zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Censored:
    """Sends of the measured window without an end time."""

    failed: int | None = None
    unknown: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """Stages from or to the append need `message.timestamp.type: LogAppendTime`. They have the broker's wall clock in
    them. So they say nothing if the broker is on another host than the load."""

    censored: Censored = Censored()
    schedule_lag: StageFigures | None = None
    send_to_append: StageFigures | None = None
    append_to_ack: StageFigures | None = None
    send_to_ack: StageFigures | None = None
    intended_to_ack: StageFigures | None = None
    append_to_poll: StageFigures | None = None
    intended_to_poll: StageFigures | None = None

    def by_name(self) -> dict[str, StageFigures]:
        """The stages that were measured."""
        found = {
            "schedule_lag": self.schedule_lag,
            "send_to_append": self.send_to_append,
            "append_to_ack": self.append_to_ack,
            "send_to_ack": self.send_to_ack,
            "intended_to_ack": self.intended_to_ack,
            "append_to_poll": self.append_to_poll,
            "intended_to_poll": self.intended_to_poll,
        }
        return {name: figures for name, figures in found.items() if figures is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadFigures:
    bodies: int | None = None
    mean_size_bytes: float | None = None
    corpus: str | None = None
    corpus_read_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivery:
    """Of a reader that removes records that are delivered again. The counts use an exact set of identities."""

    records: int = 0
    handed_on: int = 0  # after removal
    duplicates_before: int = 0
    duplicates_after: int = 0
    wrongly_removed: int = 0  # had never been handed on
    not_judged: int = 0  # came after the memory was full


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How well the load generator itself worked. Shares are of one core; None: that version did not record it."""

    schedule_lag_us_p50: float | None = None
    schedule_lag_us_p99: float | None = None
    schedule_lag_us_max: float | None = None
    hub_lag_us_p99: float | None = None
    cpu_share: float | None = None  # The busiest process counts.
    cpu_share_by_process: tuple[float, ...] | None = None
    thread_cpu_share_by_process: tuple[float, ...] | None = None  # The busiest thread of each process counts.
    cores_by_process: tuple[tuple[int, ...], ...] | None = None
    gc_ms: float | None = None
    gc_ms_max: float | None = None
    late_sends: int | None = None
    backpressure_sends: int | None = None  # the client had no space: counts as latency, not as schedule lag
    unsent: int | None = None  # records that were due, but not handed over before the drain ended
    unsent_for_space: int | None = None  # those of them that were due while the client had no space
    foreign_records: int | None = None
    payload_zlib_ratio: float | None = None
    stages: Stages | None = None
    payload: PayloadFigures | None = None
    more: Rest = field(default_factory=dict)  # redelivery_<reader>_<figure>, of readers that remove what comes again

    @property
    def busiest_process_cpu_share(self) -> float | None:
        return max(self.cpu_share_by_process) if self.cpu_share_by_process else self.cpu_share

    @property
    def limiting_cpu_share(self) -> float | None:
        """At 1.0 the generator is full. A process that uses one core is full when the core is. If its client has
        threads outside Python, the process is full when one of its threads uses a whole core."""
        processes = self.cpu_share_by_process
        threads, cores = self.thread_cpu_share_by_process, self.cores_by_process
        if not processes or not threads or not cores:
            return self.busiest_process_cpu_share
        pairs = zip(processes, threads, cores, strict=False)
        return max(process if len(own) == 1 else thread for process, thread, own in pairs)

    @property
    def redeliveries(self) -> dict[str, Redelivery]:
        """The redeliveries by the reader's name, which has no underscore."""
        counts: dict[str, dict[str, Any]] = {}
        for key, value in self.more.items():
            match = _REDELIVERY.fullmatch(key)
            if match is not None:
                counts.setdefault(match[1], {})[match[2]] = value
        return {reader: from_document(Redelivery, found) for reader, found in sorted(counts.items())}

    def number(self, name: str) -> float | None:
        """A figure that has no field of its own."""
        value = self.more.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEnd:
    """How far one start of a producer came: all its seqs from 0 to high_seq were handed to the client."""

    producer: int
    incarnation: int
    high_seq: int = -1  # -1: not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The process waits for its plan."""

    event: ClassVar[LoadEventName] = LoadEventName.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBegan:
    """A phase of the load began. The time is exact, and at most a few milliseconds ago."""

    event: ClassVar[LoadEventName] = LoadEventName.PHASE
    phase: LoadPhase
    t_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressTold:
    """The state of the load, twice a second."""

    event: ClassVar[LoadEventName] = LoadEventName.PROGRESS
    t_us: int
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings that the client really used, by Kafka's names."""

    client: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadDone:
    """The figures of the whole load. It is the last line."""

    event: ClassVar[LoadEventName] = LoadEventName.DONE
    t_us: int
    producers: tuple[ProducerEnd, ...] = ()
    health: Health = Health()
    effective: ClientSettings = ClientSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadError:
    """Something went wrong; the message is for the user."""

    event: ClassVar[LoadEventName] = LoadEventName.ERROR
    message: str = ""
    fatal: bool = True  # else one user of the load has failed, and the others go on


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEnded:
    """Made by the harness: the process has closed its standard output."""

    event: ClassVar[LoadEventName] = LoadEventName.END


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsTold:
    """Of load hosts: who is there, when a cell begins who has which share, and after it what became of each share.
    Nothing follows the last one in a cell."""

    event: ClassVar[LoadEventName] = LoadEventName.HOSTS
    hosts: tuple[LoadHostRecord, ...] = ()
    refused: tuple[str, ...] = ()  # hosts that may not take part, each with the reason
    is_beginning: bool = False  # A cell begins with it: nothing has come of these shares yet.


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCeiling:
    """What the load generator of one host reached by itself."""

    host: str
    records_per_s: float = 0.0
    cpu_share_by_process: tuple[float, ...] = ()
    why: str = ""  # it was not measured


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingsTold:
    """The answer to the question what each load host reaches."""

    event: ClassVar[LoadEventName] = LoadEventName.CEILINGS
    ceilings: tuple[HostCeiling, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLoadEvent:
    """An event with a name that this version does not know."""

    event: str
    more: Rest


LoadEvent: TypeAlias = (
    Ready | PhaseBegan | ProgressTold | LoadDone | LoadError | LoadEnded | HostsTold | CeilingsTold | OtherLoadEvent
)
