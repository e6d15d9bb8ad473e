"""manifest.json: what run this is, by which versions on which host, and how far it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class RunStatus(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    KILLED = "killed"  # said by who recovers the run afterwards


class CertificationStatus(StrEnum):
    NONE = "none"
    DONE = "done"
    SKIPPED = "skipped"
    NOT_NEEDED = "not needed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRecord:
    """Where a process is, so that no other host's or container's is taken for it."""

    host: str
    machine: str
    boot_id: str
    pid_namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRecord:
    """Who writes the directory."""

    pid: int
    start_ticks: int
    place: PlaceRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    system: str
    machine: str
    cpu: str
    cores: int | None
    memory_bytes: int | None
    python_executable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRecord:
    """One measured shape of load. Shares are of one core."""

    id: str
    client: str
    shape: str
    properties: Mapping[str, str]
    records_per_s: float
    window_s: float | None = None
    attempts: int | None = None
    cpu_share_by_process: tuple[float, ...] = ()
    broker_cpu_share: float | None = None
    gc_ms: float | None = None
    gc_ms_max: float | None = None
    hub_lag_us_p99: float | None = None
    foreign_share: float | None = None
    disturbed: bool = False  # others ran meanwhile: the true ceiling is higher


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificationRecord:
    """What the load generator reached by itself, before the first cell."""

    status: str
    why: str
    seconds: float
    certificates: tuple[CertificateRecord, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    schema_version: int | None
    run_id: str | None
    suite: str | None
    description: str | None
    argv: tuple[str, ...]
    command: str
    engine: str | None
    client: str | None
    seed: int | None
    t0_monotonic_ns: int | None  # zero of all *_us times
    t0_wall: str | None
    t0_wall_s: float | None
    cells: tuple[Any, ...] | None  # ids in executed order; what is no id is told by the reader
    versions: Mapping[str, str]
    host: HostRecord
    suite_document: Mapping[str, Any]
    status: str | None  # RunStatus; whatever else somebody wrote is told as it is
    owner: OwnerRecord | None = None
    mark: str | None = None  # begins every topic, group and transactional id of the run
    certification: CertificationRecord | None = None
    warm_ups: tuple[str, ...] | None = None  # a line for each warmed cluster
    ended_us: int | None = None

    @property
    def has_search(self) -> bool:
        """Whether the suite searches a rate, so that search.json must be there."""
        return bool(self.suite_document.get("search"))
