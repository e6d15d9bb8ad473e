"""The one tolerant reader of a cell's files of lines, and how each line becomes a record.

A line that the analysis cannot use (no kind, a time that is text, an offset beyond 64 bits) is left out and reported.
So it affects only its own cell. Shown by tests/runlog/test_runlog_lines.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from runlog.files.json_lines import JsonlWriter
from runlog.files.strangers import LINE_BYTES_MAX, clean_document
from runlog.records import cluster, fault, history, load, member_journal, partition, stats, wire
from runlog.records.codec import Json, NoObjectError, RecordError, from_line, needed_fields, to_json

R = TypeVar("R")
LINES_MAX: Final = 2_000_000  # a cell writes thousands; more come from a broken writer, and must not fill the memory
PROBLEMS_MAX: Final = 5  # reported one by one; the others are only counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Family(Generic[R]):
    """The lines of one file. `tag` is the field that says which of `types` a line is. `other` is the type of other
    lines."""

    name: str  # The file's name, without .jsonl.
    tag: str = ""
    types: Mapping[str, type[Any]] = field(default_factory=dict)
    other: type[Any]

    @property
    def has_mono_ns(self) -> bool:
        """Whether its lines have the monotonic clock. Lines of other families have only the time of the run."""
        return any(field.name == "mono_ns" for field in fields(self.other))

    def needed(self, kind: str = "") -> tuple[str, ...]:
        """Fields without which a line of that kind cannot be used."""
        found = needed_fields(self.types.get(kind, self.other))
        return found if not self.tag or self.tag in found else (*found, self.tag)

    def record(self, line: Mapping[str, Any]) -> R:
        """RecordError for a line that cannot be used."""
        if not self.tag:
            record: R = from_line(self.other, line)
            return record
        kind = line.get(self.tag)
        if kind is not None and not isinstance(kind, str):
            raise RecordError(f"has {self.tag}={str(kind)[:40]!r}, expected a text")
        known: R = from_line(self.types.get(kind or "", self.other), line)
        return known


class RecordWriter(Generic[R]):
    """Appends the records of one family to a file, from any thread; after close() nothing happens."""

    def __init__(self, path: Path, family: Family[R]) -> None:
        self._writer, self._family = JsonlWriter(path), family

    def append(self, record: R) -> None:
        """Hands one line to the kernel. OSError if the disk refuses."""
        self._writer.append(to_json(record))

    def copy(
        self, line: bytes, *, t0_monotonic_ns: int, absent: Json | None = None, always: Json | None = None
    ) -> None:
        """Copies a line of another process's file, with its time on the run's clock. `absent` are fields that the line
        gets if it does not have them. `always` are fields that replace its own.

        A torn line is left out. A whole line that is no record is kept unchanged, and its reader reports what is wrong.
        """
        try:
            found = _decoded(line, self._family, t0_monotonic_ns)
        except NoObjectError:
            return
        found = {**(absent or {}), **found, **(always or {})}
        try:
            self.append(record_of(found, self._family))
        except RecordError:
            self._writer.append(found)

    def close(self) -> None:
        self._writer.close()

    def __enter__(self) -> RecordWriter[R]:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


CLUSTER: Final[Family[cluster.ClusterEvent]] = Family(
    name="cluster",
    tag="kind",
    types={
        **{
            kind: cluster.BrokerEvent
            for kind in (
                "started", "stopped", "killed", "paused", "resumed", "out_of_memory", "broker_fenced",
                "broker_unfenced",
            )
        },
        "exited": cluster.Exited,
        "controller_elected": cluster.ControllerElected,
        "metadata_snapshot_installed": cluster.SnapshotInstalled,
        "quorum_failed": cluster.QuorumFailed,
        "storage_failed": cluster.StorageFailed,
        "became_leader": partition.BecameLeader,
        "became_follower": partition.BecameFollower,
        "leader": partition.LeaderSeen,
        "isr_changed": partition.IsrChanged,
        "high_watermark": partition.HighWatermark,
        "appended": partition.Appended,
        "duplicate_sequence": partition.SequenceRefused,
        "out_of_order_sequence": partition.SequenceRefused,
        "truncated": partition.Truncated,
        "log_recovered": partition.LogRecovered,
        "stray_log_removed": partition.StrayLogRemoved,
        "log_start_advance": partition.LogStartAdvance,
        "segments_deleted": partition.SegmentsDeleted,
        "compaction_begun": partition.CompactionBegun,
        "log_compacted": partition.LogCompacted,
        "replica_divergence": partition.ReplicaDivergence,
        "transaction_decided": cluster.TransactionDecided,
        "transaction_marker": partition.TransactionMarker,
        "transaction_marker_refused": partition.TransactionMarkerRefused,
    },
    other=cluster.OtherClusterEvent,
)  # fmt: skip
FAULTS: Final[Family[fault.FaultLine]] = Family(name="faults", other=fault.FaultLine)
WIRE: Final[Family[wire.WireExchange]] = Family(name="wire", other=wire.WireExchange)
HISTORY: Final[Family[history.HistoryLine]] = Family(
    name="history",
    tag="kind",
    types={
        **{kind: history.MemberEvent for kind in ("started", "left", "problem", "renewed")},
        "assigned": history.Assigned,
        "revoked": history.Revoked,
        "committed": history.OffsetCommitted,
        "position": history.Position,
        "reset": history.PositionReset,
        "transaction_began": history.TransactionBegan,
        "transaction": history.TransactionEnded,
        "balance": history.Balance,
        "share_delivered": history.ShareDelivered,
        "share_acknowledged": history.ShareAcknowledged,
        "share_end": history.ShareEnd,
    },
    other=history.OtherHistory,
)
MEMBER_JOURNAL: Final[Family[member_journal.JournalLine]] = Family(
    name="<member>-<n>",
    tag="kind",
    types={
        **{kind: member_journal.MemberSaid for kind in ("started", "left", "problem", "renewed")},
        "assigned": member_journal.PartitionsAssigned,
        "revoked": member_journal.PartitionsRevoked,
        "committed": member_journal.OffsetsCommitted,
        "delivered": member_journal.RecordsDelivered,
        "share_polled": member_journal.SharePolled,
        "share_acknowledged": member_journal.ShareAcknowledged,
        "share_end": member_journal.ShareEnd,
        "transaction_began": member_journal.CopyBegan,
        "transaction": member_journal.CopyEnded,
    },
    other=member_journal.OtherJournalLine,
)
STATS: Final[Family[stats.StatsSample]] = Family(
    name="stats",
    tag="name",
    types={
        "resources": stats.Resources,
        "phase": stats.PhaseSample,
        "progress": stats.ProgressSample,
        "client": stats.ClientSample,
        "generator_health": stats.HealthSample,
        "clock": stats.ClockSample,
        "share": stats.ShareSample,
        "stall": stats.StallSample,
        "requests": stats.RequestsSample,
        "requests_in_all": stats.RequestsInAll,
    },
    other=stats.OtherSample,
)
LOAD: Final[Family[load.LoadEvent]] = Family(
    name="load",
    tag="event",
    types={
        "ready": load.Ready,
        "phase": load.PhaseBegan,
        "progress": load.ProgressTold,
        "done": load.LoadDone,
        "error": load.LoadError,
        "end": load.LoadEnded,
        "hosts": load.HostsTold,
        "ceilings": load.CeilingsTold,
    },
    other=load.OtherLoadEvent,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(Generic[R]):
    records: tuple[R, ...] = ()
    problems: tuple[str, ...] = ()  # lines left out, each with its number; the file itself
    is_torn: bool = False  # the last line has no end: normal where the writer was killed


def read_lines(path: Path, family: Family[R], *, t0_monotonic_ns: int | None = None) -> Lines[R]:
    """The lines of one file, none if it does not exist. A line that has only `mono_ns` gets `t_us` on the run's
    clock."""
    if path.is_symlink():
        return Lines(problems=(f"{path.name}: a link, which is not followed",))
    if not path.exists():
        return Lines()
    records: list[R] = []
    problems: list[str] = []
    is_torn = False
    try:
        for number, line in _whole_lines(path, problems):
            if line is None:
                is_torn = True
            elif line.strip():
                try:
                    records.append(read_line(line, family, t0_monotonic_ns=t0_monotonic_ns))
                except RecordError as error:
                    problems.append(f"line {number} {error} and was left out")
    except OSError as error:
        problems.append(f"cannot be read: {error}")
    return Lines(records=tuple(records), problems=_told(path.name, problems), is_torn=is_torn)


def own_lines(path: Path, family: Family[R], *, containing: bytes = b"") -> Iterator[R]:
    """The lines of a file that a process of this run writes, one after the other; none if it does not exist.

    Lines that a kill has torn are left out, and so are lines that do not contain `containing`. RecordError names a line
    that is no record.
    """
    if not path.exists():
        return
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.endswith(b"\n"):
                return
            if containing in line:
                try:
                    yield read_line(line, family)
                except NoObjectError:
                    continue
                except RecordError as error:
                    raise RecordError(f"{path.name}: line {number} {error}") from None


def _whole_lines(path: Path, problems: list[str]) -> Iterator[tuple[int, bytes | None]]:
    """Lines with their numbers; None for a torn last line."""
    with path.open("rb") as stream:
        number = 0
        while line := stream.readline(LINE_BYTES_MAX):
            number += 1
            is_whole = line.endswith(b"\n")
            if number > LINES_MAX or (len(line) == LINE_BYTES_MAX and not is_whole):
                problems.append(f"only the first {number - 1} lines were read: the next one is over a limit")
                return
            yield number, line if is_whole else None


def _told(name: str, problems: list[str]) -> tuple[str, ...]:
    shown = [f"{name}: {problem}" for problem in problems[:PROBLEMS_MAX]]
    more = len(problems) - len(shown)
    return (*shown, *([f"{name}: {more} more lines were left out"] if more else []))


def read_line(line: bytes, family: Family[R], *, t0_monotonic_ns: int | None = None) -> R:
    """One line as a record. RecordError if it is no record of the family."""
    return record_of(_decoded(line, family, t0_monotonic_ns), family)


def _decoded(line: bytes, family: Family[Any], t0_monotonic_ns: int | None) -> Json:
    """A line that has only `mono_ns` gets `t_us`. RecordError if it is no JSON object."""
    try:
        found = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise NoObjectError("is no JSON") from None
    if not isinstance(found, dict):
        raise NoObjectError("is no JSON object")
    mono_ns = found.get("mono_ns")
    if "t_us" not in found and type(mono_ns) is int and t0_monotonic_ns is not None:
        found["t_us"] = (mono_ns - t0_monotonic_ns) // 1000
        if not family.has_mono_ns:
            del found["mono_ns"]
    cleaned: Json = clean_document(found) if b"\\u" in line else found
    return cleaned


def record_of(line: Json, family: Family[R]) -> R:
    """The record of a line. RecordError names the kind of the line, if a field is missing."""
    try:
        return family.record(line)
    except RecordError as error:
        problem = str(error)
        if problem.startswith("has no "):
            raise RecordError(f"({line.get(family.tag) or 'no kind'}) {problem}") from None
        raise


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
