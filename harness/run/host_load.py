"""The load of the host while a cell runs: busy, stolen and foreign CPU, pressure stall. Reads only /proc.

Foreign CPU was used neither by the harness nor by a process that it started. On a shared host this is why two runs
differ. Shown by tests/harness/test_harness_recorders.py.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runlog.records.stats import HostFigure

_PROC: Final = Path("/proc")
_PRESSURES: Final = {
    HostFigure.CPU_PRESSURE: "cpu",
    HostFigure.IO_PRESSURE: "io",
    HostFigure.MEMORY_PRESSURE: "memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTicks:
    """Ticks of all cores since boot; waiting for a disk is not busy. `stolen` went to other guests of the machine."""

    busy: int
    stolen: int
    total: int


class HostSampler:
    """Shares of all cores since the previous sample. The first sample only starts the count."""

    def __init__(self) -> None:
        self._last: HostTicks | None = None
        self._own: dict[int, int] = {}

    def sample(self) -> dict[str, float | None] | None:
        ticks = host_ticks()
        own_ticks = self._own_ticks()
        last, self._last = self._last, ticks
        if last is None or ticks.total <= last.total:
            return None
        passed = ticks.total - last.total
        stolen = (ticks.stolen - last.stolen) / passed
        busy = (ticks.busy - last.busy) / passed
        values: dict[str, float | None] = {
            HostFigure.CPU_SHARE: round(busy, 4),
            HostFigure.STEAL_SHARE: round(stolen, 4),
            HostFigure.FOREIGN_SHARE: round(max(0.0, busy - stolen - own_ticks / passed), 4),
        }
        return values | {figure: pressure(name) for figure, name in _PRESSURES.items()}

    def _own_ticks(self) -> int:
        """Ticks that this process and its descendants used since the last call. A process that ended in between is
        missed."""
        now = _descendants_ticks(os.getpid())
        used = sum(ticks - self._own.get(pid, 0) for pid, ticks in now.items() if pid in self._own)
        used += sum(ticks for pid, ticks in now.items() if pid not in self._own and self._own)
        self._own = now
        return used


def host_ticks() -> HostTicks:
    fields = [int(field) for field in (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    return HostTicks(busy=sum(fields) - fields[3] - fields[4], stolen=fields[7], total=sum(fields))


def pressure(resource: str) -> float | None:
    """Share of the last ten seconds in which some task waited for the resource, in percent; None on an old kernel."""
    try:
        first = (_PROC / "pressure" / resource).read_text().split("\n", 1)[0]
        return float(first.split("avg10=")[1].split()[0])
    except (OSError, IndexError, ValueError):
        return None


def _descendants_ticks(root: int) -> dict[int, int]:
    """CPU ticks of a process and all that descend from it."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry.name)
        parents[pid] = int(fields[1])
        ticks[pid] = int(fields[11]) + int(fields[12])
    family = {root}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return {pid: ticks[pid] for pid in family if pid in ticks}
