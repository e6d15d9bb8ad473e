"""The load of the host while a cell runs: busy, stolen and foreign CPU, pressure stall. Reads only /proc.

Foreign CPU was used neither by the harness nor by a process that it started, brokers in containers among them. On a
shared host this is why two runs differ. Shown by tests/harness/test_harness_recorders.py.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
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


def no_pids() -> Iterable[int]:
    return ()


class HostSampler:
    """Shares of all cores since the previous sample. The first sample only starts the count.

    `brokers` and `load`: the processes of each that are ours. They count with all that descends from them."""

    def __init__(
        self, *, brokers: Callable[[], Iterable[int]] = no_pids, load: Callable[[], Iterable[int]] = no_pids
    ) -> None:
        self._brokers, self._load = brokers, load
        self._last: HostTicks | None = None
        self._own: dict[int, int] = {}

    def sample(self) -> dict[str, float | None] | None:
        ticks = host_ticks()
        own_ticks, brokers_ticks, load_ticks = self._own_ticks()
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
            HostFigure.BROKERS_SHARE: round(brokers_ticks / passed, 4),
            HostFigure.LOAD_SHARE: round(load_ticks / passed, 4),
        }
        return values | {figure: pressure(name) for figure, name in _PRESSURES.items()}

    def _own_ticks(self) -> tuple[int, int, int]:
        """Ticks since the last call: of all that is ours, of our brokers, of our load. A process that ended in between
        is missed."""
        processes = _Processes()
        brokers, load = processes.families(self._brokers()), processes.families(self._load())
        own = processes.families([os.getpid()]) | brokers | load
        last, self._own = self._own, {pid: processes.ticks[pid] for pid in own}

        def used(pids: Iterable[int]) -> int:
            return sum(processes.ticks[pid] - last.get(pid, 0) for pid in pids) if last else 0

        return used(own), used(brokers), used(load)


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


class _Processes:
    """All processes of the host: who began them, and the CPU ticks of each."""

    def __init__(self) -> None:
        self.ticks: dict[int, int] = {}
        self._children: dict[int, list[int]] = {}
        for entry in _PROC.iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid = int(entry.name)
            self.ticks[pid] = int(fields[11]) + int(fields[12])
            self._children.setdefault(int(fields[1]), []).append(pid)

    def families(self, roots: Iterable[int]) -> set[int]:
        """These processes and all that descend from them, as far as they are there."""
        found: set[int] = set()
        waiting = list(roots)
        while waiting:
            pid = waiting.pop()
            if pid in self.ticks and pid not in found:
                found.add(pid)
                waiting += self._children.get(pid, ())
        return found


def is_own_address(host: str) -> bool:
    """Whether an address is one of this host: a socket can be bound to it."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as bound:
                try:
                    bound.bind(address)
                except OSError:
                    continue
                return True
    except OSError:
        pass
    return False
