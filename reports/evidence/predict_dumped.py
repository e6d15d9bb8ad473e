"""Predicts loss from the log of a dead leader, which the harness read while it was dead. Pure.

A `truncated` event of source `log_dump` says which records of which epoch the next leader does not have. Who answered
for these offsets, and until when, is told best by the wire log: the proxies before each broker saw its answers.
Without it, time has to separate the dead leader's answers from those of the next one. That fails for a leader that
lost its leadership and did not hear of it: it goes on to answer until it dies, and so does its successor. Nobody knows
then which of them an acknowledgement came from, and the cell has a hole. Shown by
tests/reports/test_reports_predict_dumped.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from reports.evidence.predict_answers import AnswersGone, broker_of
from reports.evidence.topic_events import NEVER_US, Interval, succeeded, wire_lines
from reports.read.cell import Cell
from runlog.records.cluster import BrokerEvent
from runlog.records.cluster_kinds import ClusterKind
from runlog.records.holes import Hole, HoleKind
from runlog.records.partition import BecameLeader, LeaderSeen, Truncated


def lost_by_dump(
    cell: Cell, event: Truncated, leader_changes: Sequence[BecameLeader | LeaderSeen], change_us: int
) -> Interval | AnswersGone | tuple[Interval, Hole]:
    """An interval if time tells the loss, or the answers that tell it; and a hole if nothing tells the whole of it.

    `change_us` is when the first leader of a later epoch was seen.
    """
    if not _led(leader_changes, event):
        return _until(event, _between_death_and_change(cell, event, change_us))
    restart_us = _restart_us(cell, event, leader_changes, change_us)
    if _has_answers(cell, event):
        return AnswersGone(event=event, until_us=restart_us)
    lived_on = [death for death in _times(cell, event.broker, ClusterKind.KILLED) if change_us < death < restart_us]
    if not lived_on:
        return _until(event, _between_death_and_change(cell, event, change_us))
    hole = Hole(
        kind=HoleKind.DEAD_LOGS,
        where=f"broker {event.broker}, partition {event.partition}",
        what=(
            f"another leader was seen {(min(lived_on) - change_us) / 1e6:.1f} s before it died, and no proxy saw which "
            "of the two answered for these offsets from then on"
        ),
    )
    return _until(event, change_us), hole


def _restart_us(
    cell: Cell, event: Truncated, leader_changes: Sequence[BecameLeader | LeaderSeen], change_us: int
) -> int:
    """When the next process of the event's broker began: from then on its answers are not those of this epoch.

    A broker may be back before a probe sees its successor. So the start counts from the death that followed its
    leadership, and not from the change of leaders.
    """
    led_us = min(
        (
            change.t_us
            for change in leader_changes
            if change.partition == event.partition and change.leader_epoch == event.leader_epoch
        ),
        default=change_us,
    )
    killed = _times(cell, event.broker, ClusterKind.KILLED)
    starts = _times(cell, event.broker, ClusterKind.STARTED)
    deaths = [death for death in killed if led_us <= death <= change_us]
    after_us = min(deaths or [death for death in killed if death >= led_us], default=change_us)
    before_us = max((death for death in killed if death < led_us), default=NEVER_US)
    if not deaths and not any(before_us < start < led_us for start in starts):
        after_us = min(after_us, before_us)  # a busy probe saw the leadership when its broker was dead already
    return min((start for start in starts if start > after_us), default=NEVER_US)


def _led(leader_changes: Sequence[BecameLeader | LeaderSeen], event: Truncated) -> bool:
    """Whether the event's broker was the leader of these records. If no probe saw that epoch, it is taken for it."""
    leaders = {
        change.leader if isinstance(change, LeaderSeen) else change.broker
        for change in leader_changes
        if change.partition == event.partition and change.leader_epoch == event.leader_epoch
    }
    return not leaders or event.broker in leaders


def _has_answers(cell: Cell, event: Truncated) -> bool:
    """Whether a proxy saw the event's broker answer for any of the offsets."""
    return any(
        line.partition == event.partition
        and broker_of(line) == event.broker
        and succeeded(line)
        and line.base_offset < event.from_offset
        and line.base_offset + line.records > event.to_offset
        for line in wire_lines(cell)
    )


def _until(event: Truncated, before_us: int) -> Interval:
    first, end = event.to_offset, event.from_offset
    return Interval(kind="lost", partition=event.partition, from_offset=first, end_offset=end, before_us=before_us)


def _times(cell: Cell, broker: int, kind: ClusterKind) -> list[int]:
    return [
        event.t_us
        for event in cell.cluster_events
        if isinstance(event, BrokerEvent) and event.kind is kind and event.broker == broker
    ]


def _between_death_and_change(cell: Cell, event: Truncated, change_us: int) -> int:
    """The time until which answers came from the dead leader, if only a probe saw the change of leaders.

    A probe sees the new leader some time after it began to answer. Records that were sent again may be at the same
    offsets there. The dead leader's last answers arrive within moments of its death. The next leader is elected not
    before the session timeout. So the middle between the two times separates them, whatever the delay of the probe.
    """
    deaths = [death for death in _times(cell, event.broker, ClusterKind.KILLED) if death < change_us]
    return (max(deaths) + change_us) // 2 if deaths else change_us
