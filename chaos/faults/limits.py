"""limit_descriptors: a broker process may open no more files and accept no more connections than it already has.

prlimit(2) lowers RLIMIT_NOFILE of the running process to the first free descriptor number, after `headroom` further
free ones. open(), socket() and accept() then fail with EMFILE, while open files stay open. The broker accepts no new
connections. When it must begin the next segment, its log directory goes offline, and the broker stops. Healing restores
the old limit, and starts a broker that went down.

Proved from outside: a new connection to the broker's own listener gets no answer, or the broker is gone. If the broker
closes something meanwhile, it has free descriptors again. The probe's connections then take these and stay open, as
many new clients would do.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.faults.probes import Door, hold_link
from chaos.faults.processes import identities, start_again
from chaos.lease import is_alive

PROBE_MS: Final = 700
HELD_MAX: Final = 64  # connections to one broker


class NoSuchProcess(Exception):
    """There is nothing to limit, because the broker does not run or its process is not ours."""


class LimitDescriptors:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._headroom = int(parameters["headroom"])
        self._before = identities(context.port.brokers, context.brokers)
        self._old: dict[int, tuple[int, int]] = {}  # soft and hard limit
        self._limits: dict[int, int] = {}
        self._held: dict[int, list[socket.socket]] = {}

    def inject(self) -> None:
        for broker in self._context.brokers:
            identity = self._before.get(broker)
            if identity is None:
                raise NoSuchProcess(f"broker {broker} does not run: there are no descriptors to limit")
            try:
                limit = limit_for(open_descriptors(identity.pid), self._headroom)
                hard = resource.prlimit(identity.pid, resource.RLIMIT_NOFILE)[1]
                self._old[broker] = resource.prlimit(identity.pid, resource.RLIMIT_NOFILE, (limit, hard))
            except OSError as error:
                raise NoSuchProcess(f"broker {broker}, pid {identity.pid}: its limit cannot be set: {error}") from error
            self._limits[broker] = limit

    def heal(self) -> None:
        while self._held:
            for connection in self._held.popitem()[1]:
                connection.close()
        for broker, old in list(self._old.items()):
            identity = self._before[broker]
            if is_alive(identity):
                resource.prlimit(identity.pid, resource.RLIMIT_NOFILE, old)
            start_again(self._context.port, broker)
            del self._old[broker], self._limits[broker]

    def prove(self) -> Proof:
        detail: dict[str, object] = {}
        is_effective = bool(self._limits)
        for broker, limit in self._limits.items():
            identity = self._before[broker]
            is_running = is_alive(identity)
            outcome = self._probe(broker) if is_running else "nobody there"
            detail[f"broker {broker}"] = {
                "pid": identity.pid,
                "limit": limit,
                "open": len(open_descriptors(identity.pid)) if is_running else None,
                "new connection": outcome,
                "answered before": len(self._held.get(broker, ())),
                "state": "alive" if is_running else "gone",
            }
            is_effective &= outcome != "answered"
        return Proof(is_effective=is_effective, detail=detail)

    def _probe(self, broker: int) -> str:
        """Send a request on a new connection to the broker itself, not through the proxy. While requests are answered,
        it is repeated up to HELD_MAX times, and the connections stay open."""
        links, link = self._context.port.links, f"client-{broker}"
        client, proxy = links.plain(link)
        listener = Door(address=client.proxy(proxy).upstream, access=links.probe_access(link))
        held = self._held.setdefault(broker, [])
        while len(held) < HELD_MAX:
            outcome, connection = hold_link(listener, timeout_ms=PROBE_MS)
            if connection is None:
                return outcome
            held.append(connection)
        return "answered"


def open_descriptors(pid: int) -> frozenset[int]:
    """The numbers of the open descriptors. Empty if the process has ended."""
    try:
        return frozenset(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return frozenset()


def limit_for(taken: frozenset[int], headroom: int) -> int:
    """The limit that leaves `headroom` free descriptors. The kernel does not count open descriptors. It compares the
    limit with the number of the new descriptor, which is the lowest free number."""
    number = 0
    for _ in range(headroom + 1):
        while number in taken:
            number += 1
        number += 1
    return number - 1


def _problem(parameters: Mapping[str, Parameter]) -> str | None:
    headroom = int(parameters["headroom"])
    return None if 0 <= headroom <= 1_000_000 else f"headroom is from 0 to 1000000 descriptors, got {headroom}"


SPEC = FaultSpec(
    name="limit_descriptors",
    label="descriptors limited",
    colour="#a04000",
    target_kind="broker",
    default_target="leader",
    make=LimitDescriptors,
    parameters={"headroom": 0},  # how many more descriptors it may open
    problem=_problem,
    engines=("reference", "kafka"),
)
