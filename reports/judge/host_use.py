"""How much of the host was used in a cell's measured window, and by whom. Pure.

Shown by tests/reports/test_reports_host_room.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from reports.judge.noise import host_noise
from reports.read.model import CellFacts
from runlog.records.cell import EXTERNAL
from runlog.records.stats import HostFigure


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUse:
    """Shares of all cores, as means over the window. None: not recorded."""

    host: float | None  # Whoever used it.
    load: float | None  # The load generator's processes used it.
    brokers: float | None  # The brokers that the harness started used it.


def host_use(facts: CellFacts, cores: int | None = None) -> HostUse:
    """`cores` of the host: runs older than the load generator's share have only that of each of its processes."""
    found = host_noise(facts, window_only=True)
    load = found.get(HostFigure.LOAD_SHARE)
    shares = facts.cell.record.outcome.health.cpu_share_by_process
    if load is None and shares and cores and not facts.cell.record.outcome.load_hosts:
        load = round(sum(shares) / cores, 4)
    is_elsewhere = facts.cell.record.engine == EXTERNAL  # no process of such a cluster is known, so the sum is 0
    brokers = None if is_elsewhere else found.get(HostFigure.BROKERS_SHARE)
    return HostUse(host=found.get(HostFigure.CPU_SHARE), load=load, brokers=brokers)
