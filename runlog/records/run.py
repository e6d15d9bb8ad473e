"""manifest.json: which run this is, its versions and its host, and how far it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from runlog.files.place import Place
from runlog.records.codec import Rest


class RunStatus(StrEnum):
    NOT_RECORDED = "not recorded"  # made by the reader, never written: the manifest does not say it
    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    KILLED = "killed"  # written when the run is recovered afterwards


class CertificationStatus(StrEnum):
    NONE = "none"
    DONE = "done"
    SKIPPED = "skipped"
    NOT_NEEDED = "not needed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRecord:
    """The process that writes the directory."""

    pid: int
    start_ticks: int  # start time from /proc: a later process with the same pid has another one
    place: Place | None = None  # where the pid is valid; older versions do not write it


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """The machine on which the harness ran."""

    system: str  # kernel and its release
    machine: str  # the architecture
    cpu: str  # model name
    cores: int | None  # number of cores that the harness may use
    memory_bytes: int | None
    python_executable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRecord:
    """One measured shape of load. Shares are of one core."""

    id: str  # cells refer to it
    client: str
    shape: str  # in words
    properties: Mapping[str, str]  # The client gets them.
    records_per_s: float  # the ceiling: acknowledged by a broker that stores nothing
    window_s: float | None = None
    attempts: int | None = None
    cpu_share_by_process: tuple[float, ...] = ()
    broker_cpu_share: float | None = None
    gc_ms: float | None = None  # spent by Python's garbage collector
    gc_ms_max: float | None = None
    hub_lag_us_p99: float | None = None
    foreign_share: float | None = None  # CPU that other programs took at that time
    disturbed: bool = False  # other programs ran at that time, so the true ceiling is higher


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificationRecord:
    """What the load generator reached by itself, before the first cell."""

    status: CertificationStatus
    why: str  # why it was not done
    seconds: float  # how long it took
    certificates: tuple[CertificateRecord, ...]
    problems: tuple[str, ...]  # shapes without a certificate, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimitRecord:
    """A limit of the suite for a figure of several cells, or of the run itself."""

    limit: str  # as text: `median(p99_ms) <= 50`
    cells: tuple[str, ...] = ()  # shell patterns of cell ids; empty: all but the tries of a rate search


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    schema_version: int | None  # The run log has this version (runlog/streams/schema.py).
    run_id: str | None  # name of the directory when it was made
    suite: str | None  # its name
    description: str | None
    argv: tuple[str, ...]  # the command line, without secrets
    command: str  # the same for a shell, with the seed
    engine: str | None
    client: str | None
    seed: int | None
    t0_monotonic_ns: int | None  # zero of all *_us times
    t0_wall: str | None  # date and time of the same moment
    t0_wall_s: float | None
    cells: tuple[Any, ...] | None  # ids in executed order; the reader reports an entry that is no id
    versions: Mapping[str, str]  # The key is `kafka-harness`, `python` or a library.
    host: HostRecord
    suite_document: Mapping[str, Any]  # the suite as it was run (`harness schema suite`), without secrets
    status: RunStatus
    limits: tuple[RunLimitRecord, ...] = ()  # limits over several cells, or of the run
    owner: OwnerRecord | None = None
    mark: str | None = None  # the beginning of every topic, group and transactional id of the run
    store: str | None = None  # where load hosts put run logs and ended cells are kept: URL, below it the mark
    certification: CertificationRecord | None = None
    warm_ups: tuple[str, ...] | None = None  # a line for each warmed cluster
    ended_us: int | None = None
    more: Rest = field(default_factory=dict)  # fields of other versions, kept when the document is written again

    @property
    def has_search(self) -> bool:
        """Whether the suite searches a rate, so that search.json must be there."""
        return bool(self.suite_document.get("search"))
