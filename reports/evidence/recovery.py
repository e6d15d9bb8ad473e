"""How a cell came back from its first fault: time to detect, to elect, to the first ack, back to the service level.

Pure: takes events of journal or probe, and the rate of acknowledgements in time buckets. Times count from the moment
when the first fault began to act. If a fault ended a process, detection and election count from that end, because until
then no broker had to be replaced. `figure_checks.py` compares them with a scenario's limits.
Shown by tests/reports/test_reports_recovery.py.
"""

from __future__ import annotations

from typing import Final

import pandas as pd

from reports.evidence.asked import is_closed_loop, unsent
from reports.evidence.topic_events import events_of
from reports.read.cell import Cell
from reports.read.model import Recovery
from runlog.records.cluster import BrokerEvent, ControllerElected
from runlog.records.cluster_kinds import ClusterKind
from runlog.records.fault import FaultLine, FaultPhase
from runlog.records.hosts import clock_error_of_sends_us
from runlog.records.partition import BecameLeader, IsrChanged, LeaderSeen

SERVICE_LEVEL: Final = 0.9  # A share of the rate before the fault.
STEADY_US: Final = 1_000_000  # the rate must stay there this long, or to the end of the load
BASELINE_US_MIN: Final = 500_000
SILENT_SHARE: Final = 0.05  # A share of the rate before. Less in a bucket is silence.
SILENT_SLOTS: Final = 2  # buckets of silence that are a pause
ENDS_A_PROCESS: Final = frozenset({"kill", "terminate", "restart", "pause", "power_loss"})


def recovery(cell: Cell, slots: pd.DataFrame, slot_us: int) -> Recovery | None:
    """The times of recovery. None if no fault acted, or if no rate was measured before it."""
    fault = next((line for line in cell.fault_lines if line.phase is FaultPhase.APPLIED), None)
    start_us, end_us = cell.window_us()
    if fault is None or slots.empty or end_us <= start_us:
        return None
    fault_us = fault.t_us
    if fault_us - start_us < BASELINE_US_MIN:
        before = slots[(slots["t_us"] >= start_us - BASELINE_US_MIN) & (slots["t_us"] + slot_us <= fault_us)]
    else:
        before = slots[(slots["t_us"] >= start_us) & (slots["t_us"] + slot_us <= fault_us)]
    if len(before) * slot_us < BASELINE_US_MIN / 2 or not before["acked"].sum():
        return None
    after = slots[(slots["t_us"] + slot_us > fault_us) & (slots["t_us"] < end_us)]
    per_slot = _expected(cell, before, after)
    recover_us = _back_us(after, per_slot, slot_us)
    struck = _process_fault(cell, fault)
    struck_us = fault_us if struck is None else struck.t_us
    elect_us = _elected_us(cell, struck_us)
    error_us = clock_error_of_sends_us(cell.record.outcome.load_hosts)
    first_ack_us = _since(_first_ack_us(after, per_slot, elect_us), fault_us)
    back_us = _since(recover_us, fault_us)
    return Recovery(
        fault=_name(fault),
        fault_us=fault_us,
        process_fault="" if struck is None else _name(struck),
        process_fault_us=None if struck is None else struck.t_us,
        detect_us=_since(_detected_us(cell, struck_us), struck_us),
        elect_us=_since(elect_us, struck_us),
        first_ack_us=_beyond(first_ack_us, error_us),
        recover_us=_beyond(back_us, error_us),
        has_stopped=_has_stopped(after, per_slot),
        has_fallen=any(_below(after, per_slot, slot_us)),
        area_record_seconds=_area(after, per_slot, slot_us, recover_us),
        service_level_records_per_s=round(SERVICE_LEVEL * per_slot * 1e6 / slot_us, 1),
        clock_error_us=error_us,
        beyond_clocks=frozenset(
            name
            for name, us in (("first_ack_us", first_ack_us), ("recover_us", back_us))
            if us is not None and _beyond(us, error_us) is None
        ),
    )


def _expected(cell: Cell, before: pd.DataFrame, after: pd.DataFrame) -> float:
    """Acknowledgements a bucket: those before the fault, and not more than are due after it. A cluster that is still
    working off a disturbance when the fault begins acknowledges more than that, and cannot come back to it. What
    was due and never handed over was due last."""
    acked = float(before["acked"].mean())
    if is_closed_loop(cell) or not after["intended"].sum():
        return acked
    return min(acked, (float(after["intended"].sum()) + unsent(cell)) / len(after))


def _process_fault(cell: Cell, first: FaultLine) -> FaultLine | None:
    """The fault after the first one that ended a process. None if the first did so itself, or if another leader had
    been elected before: then the later one has its own story."""
    if first.kind in ENDS_A_PROCESS:
        return None
    applied = (line for line in cell.fault_lines if line.phase is FaultPhase.APPLIED and line.t_us >= first.t_us)
    found = next((line for line in applied if line.kind in ENDS_A_PROCESS), None)
    elected_us = _elected_us(cell, first.t_us)
    return None if found is None or (elected_us is not None and elected_us < found.t_us) else found


def _name(line: FaultLine) -> str:
    return f"{line.kind} on {line.target}"


def _since(t_us: int | None, fault_us: int) -> int | None:
    return None if t_us is None else max(0, t_us - fault_us)


def _beyond(us: int | None, error_us: float) -> int | None:
    """The fault has the harness's time, and an acknowledgement that of its load host: what is not above the bound of
    that clock may as well have been before the fault."""
    return us if us is None or not error_us or us > error_us else None


def _detected_us(cell: Cell, fault_us: int) -> int | None:
    """The first sign that the cluster acts on it: a broker fenced, an ISR or an epoch changed."""
    isr: dict[int, int] = {}
    for event in _replication_events(cell):
        if isinstance(event, LeaderSeen | IsrChanged):
            size = len(event.isr or ())
            if event.t_us > fault_us and size < isr.get(event.partition, size):
                return event.t_us
            isr[event.partition] = size
        elif event.t_us > fault_us:
            return event.t_us
    return None


def _replication_events(cell: Cell) -> list[BecameLeader | LeaderSeen | IsrChanged | ControllerElected | BrokerEvent]:
    """Events of replication of the cell's topic, and events of brokers."""
    topic = cell.record.topic.name
    return [
        event
        for event in cell.cluster_events
        if (
            isinstance(event, BecameLeader | LeaderSeen | IsrChanged)
            and (topic is None or event.topic is None or event.topic == topic)
        )
        or isinstance(event, ControllerElected)
        or (isinstance(event, BrokerEvent) and event.kind is ClusterKind.BROKER_FENCED)
    ]


def _elected_us(cell: Cell, fault_us: int) -> int | None:
    """When a leader of a later epoch than any before the fault took over, in any partition of the topic."""
    newest: dict[int, int] = {}
    for event in events_of(cell, BecameLeader, LeaderSeen):
        if event.leader < 0:
            continue
        partition, epoch = event.partition, event.leader_epoch
        if event.t_us > fault_us and partition in newest and epoch > newest[partition]:
            return event.t_us
        newest[partition] = max(epoch, newest.get(partition, epoch))
    return None


def _first_ack_us(after: pd.DataFrame, per_slot: float, elect_us: int | None) -> int | None:
    """End of the first silence that lasted two buckets; after an election the first acknowledgement since."""
    run = 0
    for t_us, acked in zip(after["t_us"].tolist(), after["acked"].tolist(), strict=True):
        is_silent = _is_silent(acked, per_slot)
        if not is_silent and (run >= SILENT_SLOTS if elect_us is None else t_us >= elect_us):
            return int(t_us)
        run = run + 1 if is_silent else 0
    return None


def _is_silent(acked: int, per_slot: float) -> bool:
    return acked <= SILENT_SHARE * per_slot


def _has_stopped(after: pd.DataFrame, per_slot: float) -> bool:
    run = 0
    for acked in after["acked"].tolist():
        run = run + 1 if _is_silent(acked, per_slot) else 0
        if run >= SILENT_SLOTS:
            return True
    return False


def _below(after: pd.DataFrame, per_slot: float, slot_us: int) -> list[bool]:
    """Whether the rate over the second until each bucket is below the service level."""
    rate = after["acked"].rolling(max(1, STEADY_US // slot_us), min_periods=1).mean()
    return [bool(one) for one in (rate < SERVICE_LEVEL * per_slot).tolist()]


def _back_us(after: pd.DataFrame, per_slot: float, slot_us: int) -> int | None:
    """The first moment from which the rate, over a second, stays at the service level; None if it never fell."""
    below = _below(after, per_slot, slot_us)
    if not any(below):
        return None
    last = len(below) - 1 - below[::-1].index(True)
    if last == len(below) - 1:
        return None  # still below when the load ended
    return int(after["t_us"].tolist()[last + 1])


def _area(after: pd.DataFrame, per_slot: float, slot_us: int, recover_us: int | None) -> float | None:
    """Records that were due and not yet acknowledged, summed over time: the area of a queue that grows and shrinks.

    Until service was back; to the end of the load if it was not.
    """
    part = after if recover_us is None else after[after["t_us"] < recover_us]
    missing = 0.0
    area = 0.0
    for acked in part["acked"].tolist():
        missing = max(0.0, missing + per_slot - float(acked))
        area += missing * slot_us / 1e6
    return round(area, 1)
