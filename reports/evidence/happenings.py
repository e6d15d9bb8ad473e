"""Anomalies of replication and liveness, found in the events of the journal and the probe; and offsets for which an
acknowledgement would be an anomaly.

Pure: takes the event lines of one cell. Anomalies of single records are given as intervals of offsets, which the
queries join with the acknowledgements. All others are given as findings. `anomalies.py` has each rule in words,
and tests/reports/planted_cases.py plants a case of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Protocol, TypeVar

from reports.evidence.configuration import configuration_of
from reports.evidence.history import group_findings
from reports.evidence.share_groups import share_findings
from reports.evidence.topic_events import NEVER_US, Interval, events_of, lives, recreations
from reports.read.cell import Cell
from reports.read.model import EpochRange, Finding
from runlog.records.cell import CellAnomaly, CellStatus
from runlog.records.cluster import ControllerElected, Exited
from runlog.records.cluster_kinds import ClusterKind, Source
from runlog.records.fault import FaultPhase
from runlog.records.partition import (
    Appended,
    BecameLeader,
    HighWatermark,
    IsrChanged,
    LeaderSeen,
    ReplicaDivergence,
    Truncated,
)

EXAMPLES_MAX = 5
ASKED_END_US = 2_000_000  # a process that ends this soon after the harness's own kill or stop did not crash
STORAGE_END_US = 30_000_000  # a process whose disk failed may take this long to stop
_ENDED_BY_HARNESS = (ClusterKind.KILLED, ClusterKind.STOPPED)
_DENIES = ("disk_", "limit_")  # faults that may end a broker, because they deny it disk, descriptors or memory
_ENDED_BY_FAULT = (ClusterKind.STORAGE_FAILED, ClusterKind.QUORUM_FAILED, ClusterKind.OUT_OF_MEMORY)


def findings(cell: Cell, epochs: Sequence[EpochRange]) -> dict[str, Finding]:
    """The findings by anomaly. An anomaly that was looked for and not found has a count of 0."""
    of_topic = lives(cell)
    found: dict[str, list[str]] = {
        "epoch_regression": _epoch_regressions(epochs),
        "hw_regression": [case for life in of_topic for case in _high_watermark_regressions(life)],
        "truncate_below_hw": [case for life in of_topic for case in _truncations_below_high_watermark(life)],
        "isr_never_recovers": _isr_left_short(of_topic[-1]),
        "replica_divergence": _divergences(of_topic[-1]),
        "zombie_write": [case for life in of_topic for case in _zombie_writes(life)],
        "two_controllers": _two_controllers(cell),
        "crashed": _crashes(cell),
        **_outcome(cell),
        **group_findings(cell),
        **share_findings(cell),
    }
    by_cases = {name: Finding(count=len(cases), examples=tuple(cases[:EXAMPLES_MAX])) for name, cases in found.items()}
    return {**by_cases, "foreign": _foreign(cell)}


def suspect_intervals(cell: Cell) -> list[Interval]:
    """Offsets for which a success in the given time is an anomaly."""
    cuts = [*(item.cut_us for item in recreations(cell)), NEVER_US]
    return [
        replace(interval, before_us=min(interval.before_us, cut_us))
        for life, cut_us in zip(lives(cell), cuts, strict=True)
        for interval in (*_below_min_isr(life), *_by_a_deposed_leader(life))
    ]


# --- events -----------------------------------------------------------------------------------------------------------


class _OfPartition(Protocol):
    @property
    def partition(self) -> int: ...


E = TypeVar("E", bound=_OfPartition)


def _by_partition(events: Iterable[E]) -> dict[int, list[E]]:
    groups: dict[int, list[E]] = defaultdict(list)
    for event in events:
        groups[event.partition].append(event)
    return groups


# --- what an answer must not have said ------------------------------------------------------------------------------


def _below_min_isr(cell: Cell) -> list[Interval]:
    """Appends that a leader made while it knew that its ISR was too small, until it knew otherwise."""
    configuration = configuration_of(cell)
    if configuration.acks != "all" or configuration.min_isr < 2:
        return []
    appends = _by_partition(events_of(cell, Appended))
    intervals: list[Interval] = []
    changes_of: dict[tuple[int, int], list[IsrChanged]] = defaultdict(list)
    for change in events_of(cell, IsrChanged):
        changes_of[change.partition, change.leader_epoch].append(change)
    for (partition, epoch), changes in changes_of.items():
        ends = [change.t_us for change in changes[1:]] + [_next_leader_us(cell, partition, epoch)]
        for change, end_us in zip(changes, ends, strict=True):
            if len(change.isr) >= configuration.min_isr:
                continue
            intervals += [
                Interval(
                    kind="acked_below_min_isr",
                    partition=partition,
                    from_offset=item.base_offset,
                    end_offset=item.last_offset + 1,
                    after_us=item.t_us,
                    before_us=end_us,
                )
                for item in appends.get(partition, ())
                if item.leader_epoch == epoch and change.t_us <= item.t_us < end_us
            ]
    return intervals


def _next_leader_us(cell: Cell, partition: int, epoch: int) -> int:
    changes = events_of(cell, BecameLeader)
    times = [change.t_us for change in changes if change.partition == partition and change.leader_epoch > epoch]
    return min(times, default=NEVER_US)


def _by_a_deposed_leader(cell: Cell) -> list[Interval]:
    """Appends of an older epoch made after a newer epoch's first append: none may be acknowledged with acks=all.

    An answer counts until the newer leader gives the same offset. Offsets that the newer leader had given before are
    left out, because it is not known which of the two leaders answered."""
    intervals: list[Interval] = []
    for partition, appends in _by_partition(events_of(cell, Appended)).items():
        newest = -1
        for item in appends:
            newest = max(newest, item.leader_epoch)
            if item.leader_epoch == newest:
                continue
            again = [
                other.t_us
                for other in appends
                if other.leader_epoch > item.leader_epoch
                and other.base_offset <= item.last_offset
                and other.last_offset >= item.base_offset
            ]
            if any(t_us <= item.t_us for t_us in again):
                continue
            intervals.append(
                Interval(
                    kind="two_leaders_ack",
                    partition=partition,
                    from_offset=item.base_offset,
                    end_offset=item.last_offset + 1,
                    after_us=item.t_us,
                    before_us=min(again, default=NEVER_US),
                )
            )
    return intervals


def _foreign(cell: Cell) -> Finding:
    """Records that the harness did not make. The final read only counts them."""
    count = cell.record.outcome.final_read.foreign or 0
    if count <= 0:
        return Finding()
    return Finding(count=count, examples=(f"{count} record(s) that no producer of the harness made",))


# --- replication ------------------------------------------------------------------------------------------------------


def _epoch_regressions(epochs: Sequence[EpochRange]) -> list[str]:
    """Epochs must not fall as offsets grow, nor may two epochs claim the same offsets."""
    cases: list[str] = []
    by_partition: dict[int, list[EpochRange]] = defaultdict(list)
    for item in epochs:
        by_partition[item.partition].append(item)
    for partition, ranges in by_partition.items():
        ranges.sort(key=lambda item: (item.first_offset, item.leader_epoch))
        for before, after in pairwise(ranges):
            if after.leader_epoch < before.leader_epoch or after.first_offset < before.end_offset:
                cases.append(
                    f"partition {partition}: epoch {before.leader_epoch} up to offset {before.end_offset - 1}, then "
                    f"epoch {after.leader_epoch} from offset {after.first_offset}"
                )
    return cases


def _high_watermark_regressions(cell: Cell) -> list[str]:
    cases: list[str] = []
    for partition, shown in _by_partition(events_of(cell, HighWatermark)).items():
        highest: HighWatermark | None = None
        for event in shown:
            if highest is not None and event.broker != highest.broker:
                highest = None  # a new leader knows the high watermark of its last fetch and may show less for a moment
            if highest is not None and event.offset < highest.offset:
                cases.append(
                    f"partition {partition}: {highest.offset} by broker {highest.broker}, then "
                    f"{event.offset} by broker {event.broker}"
                )
            if highest is None or event.offset > highest.offset:
                highest = event
    return cases


def _truncations_below_high_watermark(cell: Cell) -> list[str]:
    """A high watermark that was shown is a promise: no member of the ISR removes a record below it."""
    cases: list[str] = []
    shown = _by_partition(events_of(cell, HighWatermark))
    leaders = _by_partition(events_of(cell, BecameLeader, LeaderSeen))
    for event in events_of(cell, Truncated):
        if event.source is Source.DISK or event.restarted_at is not None:  # below the leader's log start nobody reads
            continue
        # The high watermarks of a later leader are offsets of its own epoch. They say nothing about the cut records.
        changes = leaders.get(event.partition, [])
        later = [change.t_us for change in changes if change.leader_epoch > event.leader_epoch]
        end_us = min([event.t_us + 1, *later])
        own = {change.leader for change in changes if change.leader_epoch == event.leader_epoch}
        before = [
            item.offset
            for item in shown.get(event.partition, ())
            if item.t_us < end_us and (not own or item.broker in own)
        ]
        if before and event.to_offset < min(max(before), event.from_offset):
            cases.append(
                f"partition {event.partition}: broker {event.broker} cut back to {event.to_offset}, "
                f"high watermark {max(before)} had been shown"
            )
    return cases


def _isr_left_short(cell: Cell) -> list[str]:
    """An ISR that is smaller than the replicas at the end of the cell, after healing. A cell that was cut short was not
    healed, so it does not count."""
    wanted, outcome = cell.record.topic.replication_factor, cell.record.outcome
    was_healed = outcome.status is CellStatus.DONE or outcome.anomaly is not CellAnomaly.NONE
    if wanted is None or not was_healed:
        return []
    cases: list[str] = []
    for partition, changes in _by_partition(events_of(cell, IsrChanged, LeaderSeen)).items():
        newest = max(changes, key=lambda change: (change.leader_epoch, change.t_us))
        isr = list(newest.isr or ())
        if len(isr) < wanted:
            cases.append(f"partition {partition}: ISR {isr} of {wanted} replicas at the end")
    return cases


def _divergences(cell: Cell) -> list[str]:
    """The harness compares the replicas' segment files after healing and reports where they diverge."""
    return [
        f"partition {event.partition}: brokers {list(event.brokers or ())} differ at offset {event.offset}"
        for event in events_of(cell, ReplicaDivergence)
    ]


def _zombie_writes(cell: Cell) -> list[str]:
    """A batch appended with a producer epoch below one that this partition had seen of the same producer id."""
    cases: list[str] = []
    newest: dict[tuple[int, int], int] = {}
    for event in events_of(cell, Appended):
        if event.producer_id < 0:
            continue
        key, epoch = (event.partition, event.producer_id), event.producer_epoch
        if epoch < newest.get(key, epoch):
            cases.append(
                f"partition {key[0]} offset {event.base_offset}: producer {key[1]} epoch {epoch} after epoch "
                f"{newest[key]}"
            )
        newest[key] = max(epoch, newest.get(key, epoch))
    return cases


def _two_controllers(cell: Cell) -> list[str]:
    by_epoch: dict[int, set[int]] = defaultdict(set)
    for event in cell.cluster_events:
        if isinstance(event, ControllerElected):
            by_epoch[event.controller_epoch].add(event.broker)
    return [
        f"controller epoch {epoch}: brokers {sorted(brokers)}"
        for epoch, brokers in sorted(by_epoch.items())
        if len(brokers) > 1
    ]


# --- life -------------------------------------------------------------------------------------------------------------


def _crashes(cell: Cell) -> list[str]:
    """A broker that ended by itself, although its disk did not fail and no fault denied it disk, descriptors or
    memory."""
    excused = [
        (event.broker, event.t_us, ASKED_END_US if asked else STORAGE_END_US)
        for event in cell.cluster_events
        if (asked := event.kind in _ENDED_BY_HARNESS) or event.kind in _ENDED_BY_FAULT
    ]
    return [
        f"broker {event.broker} ended {'by itself' if event.code is None else f'with {event.code}'}"
        for event in cell.cluster_events
        if isinstance(event, Exited)
        and not _is_denied(cell, event)
        and not any(
            broker == event.broker and abs(t_us - event.t_us) <= within_us for broker, t_us, within_us in excused
        )
    ]


def _is_denied(cell: Cell, exited: Exited) -> bool:
    """Whether a fault on disk, descriptors or memory was active on that broker."""
    begun_us: dict[str, int] = {}
    windows: list[tuple[int, int]] = []
    for line in cell.fault_lines:
        if not line.kind.startswith(_DENIES) or str(exited.broker) not in line.resolved:
            continue
        if line.phase is FaultPhase.APPLIED:
            begun_us[line.id] = line.t_us
        elif line.phase is FaultPhase.HEALED and line.id in begun_us:
            windows.append((begun_us.pop(line.id), line.t_us + ASKED_END_US))
    windows += [(begin_us, NEVER_US) for begin_us in begun_us.values()]
    return any(begin_us <= exited.t_us <= end_us for begin_us, end_us in windows)


def _outcome(cell: Cell) -> dict[str, list[str]]:
    """What the harness itself says about a cell that it could not carry out."""
    outcome = cell.record.outcome
    reason = outcome.reason or "no reason recorded"
    return {
        name.value: [reason] if name is outcome.anomaly else [] for name in CellAnomaly if name is not CellAnomaly.NONE
    }
