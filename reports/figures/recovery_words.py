"""How a cell came back from its faults, in sentences: each time with the event that it counts from. Pure.

Shown by tests/reports/test_reports_recovery.py.
"""

from __future__ import annotations

import math

from reports.evidence.recovery import SERVICE_LEVEL
from reports.read.cell import Cell
from reports.read.model import Recovery


def recovery_sentences(cell: Cell, found: Recovery | None) -> tuple[str, ...]:
    """Sentences about the recovery. There are none if no fault acted."""
    if found is None:
        return ()
    first = _event(cell, found.fault, found.fault_us)
    last = first if found.process_fault_us is None else _event(cell, found.process_fault, found.process_fault_us)
    return (
        f"After {last}: {_cluster(found)}.",
        f"After {first}: {_acknowledgements(found)}; {_service(found)}.",
        *_clocks(found),
        f"Service counts as back at {found.service_level_records_per_s or 0:,.0f} acknowledged records/s. That is a "
        f"threshold, {SERVICE_LEVEL:.0%} of the rate before the fault, and no measured rate.",
    )


def _clocks(found: Recovery) -> tuple[str, ...]:
    if not found.clock_error_us:
        return ()
    if not math.isfinite(found.clock_error_us):
        return (
            "Times from a fault to an acknowledgement are not shown: the fault has the harness's clock, and no bound "
            "of the load hosts' clocks is known.",
        )
    error = f"{found.clock_error_us / 1e3:,.3f} ms"
    hidden = " One that is not above that is not shown." if found.beyond_clocks else ""
    return (
        f"Times from a fault to an acknowledgement can be wrong by up to {error}: the fault has the harness's clock, "
        f"and acknowledgements have those of the load hosts.{hidden}",
    )


def _event(cell: Cell, fault: str, at_us: int) -> str:
    return f"{fault} at second {(at_us - cell.span_us()[0]) / 1e6:.2f}"


def _cluster(found: Recovery) -> str:
    if found.detect_us is None and found.elect_us is None:
        return "the cluster saw nothing that it had to act on (no broker fenced, no ISR or leader changed)"
    detected = "" if found.detect_us is None else f"detected after {_seconds(found.detect_us)}"
    elected = "no new leader" if found.elect_us is None else f"new leader after {_seconds(found.elect_us)}"
    return ", ".join(filter(None, (detected, elected)))


def _acknowledgements(found: Recovery) -> str:
    if found.first_ack_us is not None:
        return f"acknowledgements paused, and the first came after {_seconds(found.first_ack_us)}"
    if found.has_stopped and found.beyond_clocks:
        return "acknowledgements paused"
    if found.has_stopped:
        return "acknowledgements paused, and none came again before the load ended"
    return "acknowledgements never paused"


def _service(found: Recovery) -> str:
    area = (
        ""
        if found.area_record_seconds is None
        else f", area of violation {found.area_record_seconds:,.0f} record-seconds"
    )
    if found.recover_us is not None:
        return f"service back after {_seconds(found.recover_us)}{area}"
    if found.has_fallen and found.beyond_clocks:
        return f"the rate fell below the service level{area}"
    if found.has_fallen:
        return f"service was not back when the load ended{area}"
    return "the rate stayed at the service level"


def _seconds(us: int) -> str:
    return f"{us / 1e6:.2f} s"
