"""The types of the values that analysis, verdict and page exchange. No I/O, no Spark.

The harness imports it at its start, so it imports pandas (a third of a second) only where a frame is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reports.read.cell import Cell
from runlog.records.holes import Hole

if TYPE_CHECKING:
    import pandas as pd

_P50, _P90, _P99, _P999 = "p50", "p90", "p99", "p999"
QUANTILES: tuple[tuple[str, float], ...] = ((_P50, 0.5), (_P90, 0.9), (_P99, 0.99), (_P999, 0.999))
_AT: Final[Mapping[str, float]] = dict(QUANTILES)
CORRECTED: Final = "corrected"  # from the intended time of a record to its acknowledgement
UNCORRECTED: Final = "uncorrected"  # from the hand-over to the client
END_TO_END: Final = "end_to_end"  # from the intended time to the poll
SCHEDULE_LAG: Final = "schedule_lag"  # from the intended time to the hand-over
LATENCY_KINDS: tuple[str, ...] = (CORRECTED, UNCORRECTED, END_TO_END, SCHEDULE_LAG)
PREDICTED_KINDS: tuple[str, ...] = ("lost", "duplicated", "reordered")
MISROUTED: Final = "misrouted"  # the one damage beside those of which a client is the suspect, not a broker
DELIVERY_KINDS: tuple[str, ...] = (
    "dup_delivered",
    "redelivered",
    "redelivered_overdue",
    "lost_in_delivery",
    "unseen_pending",
    "unread",
    "read_above_hw",
    "nonmonotonic_poll",
    "poll_skip",
)
INTERVAL_KINDS: tuple[str, ...] = ("acked_below_min_isr", "two_leaders_ack")
TRANSACTION_KINDS: tuple[str, ...] = (
    "copy_missing",
    "copied_twice",
    "copy_reordered",
    "aborted_read",
    "precommitted_read",
    "torn_txn",
    "copy_passed_over",
    "copy_delivered_twice",
    "copy_gone",
    "copy_corrupt",
    "copy_unexpected",
)
SET_KINDS: tuple[str, ...] = (
    *PREDICTED_KINDS,
    "removed",
    "removed_in_doubt",
    MISROUTED,
    "lost_unacked",
    "recovered",
    "phantom",
    "unexpected",
    "corrupt",
    "offset_reused",
    "ack_misplaced",
    "answered_twice",
    "send_realtime_violation",
    *DELIVERY_KINDS,
    *INTERVAL_KINDS,
    *TRANSACTION_KINDS,
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class IdentityRange:
    """Identities (producer, incarnation, first_seq .. last_seq), both ends included."""

    producer: int
    incarnation: int
    first_seq: int
    last_seq: int

    @property
    def count(self) -> int:
        return self.last_seq - self.first_seq + 1

    def text(self) -> str:
        head = f"{self.producer}/{self.incarnation}/{self.first_seq}"
        return head if self.first_seq == self.last_seq else f"{head}-{self.last_seq}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentitySet:
    """A set of identities: exact count, order-free hash, and its ranges up to a limit."""

    count: int = 0
    hash: int = 0
    ranges: tuple[IdentityRange, ...] = ()

    @property
    def complete(self) -> bool:
        return sum(item.count for item in self.ranges) == self.count

    @property
    def hash_text(self) -> str:
        return f"{self.hash & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def union_of_disjoint(sets: Iterable[IdentitySet]) -> IdentitySet:
    """The union of sets that share no identity; neighbouring ranges are joined."""
    parts = list(sets)
    merged: list[IdentityRange] = []
    for item in sorted(item for part in parts for item in part.ranges):
        last = merged[-1] if merged else None
        if last and (last.producer, last.incarnation, last.last_seq + 1) == (
            item.producer,
            item.incarnation,
            item.first_seq,
        ):
            merged[-1] = IdentityRange(
                producer=last.producer, incarnation=last.incarnation, first_seq=last.first_seq, last_seq=item.last_seq
            )
        else:
            merged.append(item)
    combined = 0
    for part in parts:  # hashes of disjoint sets combine by exclusive or
        combined ^= part.hash
    return IdentitySet(count=sum(part.count for part in parts), hash=combined, ranges=tuple(merged))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetComparison:
    both: IdentitySet = IdentitySet()
    only_predicted: IdentitySet = IdentitySet()
    only_observed: IdentitySet = IdentitySet()
    how: str = "no prediction for this kind"

    @property
    def predicted(self) -> IdentitySet:
        return union_of_disjoint((self.both, self.only_predicted))

    @property
    def observed(self) -> IdentitySet:
        return union_of_disjoint((self.both, self.only_observed))

    @property
    def equal(self) -> bool:
        return self.only_predicted.count == 0 and self.only_observed.count == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Quantiles in microseconds. A quantile is None if the sample is too small for it, or if it falls on a record that
    was never acknowledged, or end to end never read: then it is among `not_reached`."""

    n: int = 0
    unanswered: int = 0  # records that never were acknowledged, or never read: they count as slower than the n others
    quantiles: Mapping[str, float | None] = field(default_factory=dict)
    max_us: int | None = None
    mean_us: float | None = None
    p99_interval_us: tuple[float, float] | None = None  # 95 % block bootstrap; its upper end may be infinite
    curve: tuple[tuple[float, float], ...] = ()  # (quantile, us) up to the highest quantile that the sample allows
    # (quantile, us, records at most as slow), in the steps of HdrHistogram, up to the highest that the sample allows
    spectrum: tuple[tuple[float, float, int], ...] = ()
    negative: int = 0  # latencies below zero: the clocks disagree
    beyond_clocks: frozenset[str] = frozenset()  # names of figures that are None because two clocks do not allow them

    @property
    def p50_us(self) -> float | None:
        return self.quantiles.get(_P50)

    @property
    def p90_us(self) -> float | None:
        return self.quantiles.get(_P90)

    @property
    def p99_us(self) -> float | None:
        return self.quantiles.get(_P99)

    @property
    def p999_us(self) -> float | None:
        return self.quantiles.get(_P999)

    @property
    def quantile_of_maximum(self) -> float:
        return self.n / (self.n + self.unanswered) if self.n else 0.0

    @property
    def answered_share(self) -> float | None:
        """Of the whole sample, the share that was acknowledged, or read. None if nothing was measured."""
        return self.quantile_of_maximum if self.n + self.unanswered else None

    @property
    def not_reached(self) -> tuple[str, ...]:
        """Names of the quantiles that fall on records which never were acknowledged, or never read."""
        return tuple(name for name, _ in QUANTILES if self.is_beyond(name))

    def is_beyond(self, name: str) -> bool:
        """Whether this quantile falls on such records: it is infinite."""
        if not self.unanswered or self.quantiles.get(name) is not None or name in self.beyond_clocks:
            return False
        return self.quantile_of_maximum < _AT[name]

    def us_of(self, name: str) -> float | None:
        """The quantile, infinite if it is not reached. None if the sample does not carry it."""
        return math.inf if self.is_beyond(name) else self.quantiles.get(name)


def answered_words(kind: str, latency: Latency) -> str:
    """`87.0% of the records were read`. Never 100 % if one is missing."""
    share = math.floor((latency.answered_share or 0.0) * 1000) / 1000
    return f"{share:.1%} of the records were {'read' if kind == END_TO_END else 'acknowledged'}"


class Basis(StrEnum):
    """What throughput counts."""

    ACKNOWLEDGED = "acknowledged"
    IN_LOG = "found in the log"  # with acks=0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Sends whose intended time lies in the measured window, by outcome; `*_total` are of the whole cell. A send whose
    transaction was aborted by an error counts as failed."""

    sent: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    aborted: int = 0  # as the workload planned it: in no other count but `sent_total`
    sent_total: int = 0
    acked_total: int = 0
    failed_total: int = 0
    unknown_total: int = 0
    aborted_total: int = 0
    log_total: int = 0
    log_in_window: int = 0
    received_total: int = 0
    received_in_window: int = 0
    corrupt_received: int = 0
    acked_bytes: int = 0
    acks_in_window: int = 0  # acknowledgements that came within the window, whenever the record was due
    intended_outside: int = 0  # sends whose intended time lies outside of the cell's life: no bucket of time has them


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRange:
    """Offsets [first, end) of the final log that one leader epoch wrote."""

    partition: int
    leader_epoch: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRow:
    """offset is -1 if the client was told none; acked_us is when the client was told the outcome."""

    partition: int
    offset: int
    status: int
    intended_us: int
    sent_us: int
    acked_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    partition: int
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecvRow:
    partition: int
    offset: int
    consumer: int
    polled_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow:
    """`outcome` of the transaction, from the log: 1 committed, 0 aborted, -1 never ended."""

    partition: int
    offset: int
    copier: int
    copier_incarnation: int
    txn: int
    outcome: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All rows that one identity left in the run log."""

    kind: str
    producer: int
    incarnation: int
    seq: int
    send: tuple[SendRow, ...] = ()
    log: tuple[LogRow, ...] = ()
    recv: tuple[RecvRow, ...] = ()
    copies: tuple[CopyRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An anomaly that concerns no single record, from the events of a cell: how often it happened, and the first
    cases."""

    count: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Times count from the first fault. If a later fault ended a process, detection and election count from that one.
    None: it did not happen, or it could not be seen."""

    fault: str
    fault_us: int
    process_fault: str = ""  # the later fault that ended or paused a process
    process_fault_us: int | None = None
    detect_us: int | None = None  # until the cluster reacted: a broker was fenced, an ISR or an epoch changed
    elect_us: int | None = None  # until another leader led
    first_ack_us: int | None = None  # until the first acknowledgement after the longest gap that the fault caused
    recover_us: int | None = None  # until the rate of acknowledgements was back, for good
    has_stopped: bool = False  # acknowledgements paused for two buckets of time or longer
    has_fallen: bool = False  # the rate over a second fell below the service level
    area_record_seconds: float | None = None  # missing acknowledgements, times how long they were missing
    service_level_records_per_s: float | None = None  # at this rate the service counts as recovered
    clock_error_us: float = 0.0  # how far acknowledgements on load hosts may be off beside the fault's time
    beyond_clocks: frozenset[str] = frozenset()  # fields that are None because they are not above this error


def _no_rows() -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame()


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFacts:
    """What was observed and predicted for one cell; input of the verdict."""

    cell: Cell
    counts: Counts = Counts()
    throughput_records_per_s: float = 0.0
    throughput_interval: tuple[float, float] | None = None
    throughput_basis: Basis = Basis.ACKNOWLEDGED
    steady_ratio: float | None = None
    latency: Mapping[str, Latency] = field(default_factory=dict)
    reader_latency: Mapping[int, Latency] = field(default_factory=dict)  # end to end, by group; empty: only one group
    observed: Mapping[str, IdentitySet] = field(default_factory=dict)
    predictions: Mapping[str, SetComparison] = field(default_factory=dict)
    gap_us: int | None = None
    gap_start_us: int | None = None
    gap_beyond_clocks: bool = False  # it is None because the clocks of two hosts do not allow it
    records_per_batch: float | None = None
    batches: int = 0
    compression_ratio: float | None = None
    log_bytes: int = 0
    epochs: tuple[EpochRange, ...] = ()
    stories: tuple[Story, ...] = ()
    findings: Mapping[str, Finding] = field(default_factory=dict)
    recovery: Recovery | None = None
    holes: tuple[Hole, ...] = ()  # found in its files; reports.evidence.holes tells those of its record
    contradictions: tuple[str, ...] = ()  # statements of the run log that contradict each other
    removed_by: tuple[str, ...] = ()  # what removed records lawfully before the final read, in words
    removal_doubts: tuple[str, ...] = ()  # why nobody can tell what removed others
    removed_beyond: tuple[str, ...] = ()  # logs that begin above what settings and journals explain
    unseen: int = 0  # acknowledged records that are not in the part of the log that was read
    slots: pd.DataFrame = field(default_factory=_no_rows)
    slot_us: int = 100_000

    @property
    def lost(self) -> int | None:
        """The number of lost records. None if the log was not read to its end."""
        return self.set_count("lost") if self.cell.is_read_to_end else None

    def set_count(self, kind: str) -> int:
        return self.observed[kind].count if kind in self.observed else 0

    def anomaly_count(self, name: str) -> int:
        """The count of any anomaly: of identities if it concerns records, otherwise of cases."""
        if name in self.findings:
            return self.findings[name].count
        return self.set_count(name)
