"""Faults that need a container: disconnect (no network), limit_cpu (a share of a core) and limit_memory (hardly any
memory).

They need `--cluster docker`. Only limit_memory also works without it. It then puts a process of this host into a
control group of its own. The kernel proves each fault, and not the container engine: the network interface is gone from
the broker's namespace, its group was stopped for some periods, requests for memory were refused. Containers need no
lease for a crash of the harness, because the next start removes them. A control group of our own has a lease.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from chaos import cgroup, memory_group
from chaos.faults.base import FaultContext, FaultRun, FaultSpec, Parameter, Proof
from chaos.faults.processes import identities, start_again
from chaos.lease import is_alive
from chaos.ports.brokers import Containers

ENGINES: Final = ("docker",)
MEBIBYTE: Final = 1 << 20


class NoContainers(Exception):
    """The cluster's brokers are processes of this host."""


def containers(context: FaultContext) -> Containers:
    brokers = context.port.brokers
    if not isinstance(brokers, Containers):
        raise NoContainers("this fault acts on containers: it needs --cluster docker")
    return brokers


class Disconnect:
    """The broker has no network. Callers get no answer at all, while the broker keeps running and keeps its memory."""

    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._before = identities(context.port.brokers, context.brokers)
        self._disconnected: list[int] = []

    def inject(self) -> None:
        engine = containers(self._context)
        for broker in self._context.brokers:
            self._disconnected.append(broker)
            engine.disconnect(broker)

    def heal(self) -> None:
        while self._disconnected:
            containers(self._context).reconnect(self._disconnected[-1])
            self._disconnected.pop()

    def prove(self) -> Proof:
        detail: dict[str, object] = {}
        is_effective = bool(self._before)
        for broker, identity in self._before.items():
            interfaces = network_interfaces(identity.pid)
            detail[f"broker {broker}"] = {"pid": identity.pid, "interfaces": interfaces}
            is_effective &= is_alive(identity) and interfaces == ["lo"]
        return Proof(is_effective=is_effective, detail=detail)


def network_interfaces(pid: int) -> list[str]:
    """The interfaces in the process' network namespace. Empty if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    except OSError:
        return []
    return sorted(line.partition(":")[0].strip() for line in lines)


class Limit:
    """A limit of the kernel. It takes effect when the broker reaches it, so it is proved when the fault ends."""

    def __init__(
        self, context: FaultContext, *, set_limit: Callable[[int, int], None], lift: Callable[[int], None],
        limit_of: Callable[[int], object], hits_of: Callable[[int], int],
    ) -> None:  # fmt: skip
        self._context, self._set_limit, self._lift = context, set_limit, lift
        self._limit_of, self._hits_of = limit_of, hits_of
        self._before = identities(context.port.brokers, context.brokers)
        self._hits: dict[int, int] = {}

    def inject(self) -> None:
        for broker, identity in self._before.items():
            self._hits[broker] = self._hits_of(identity.pid)
            self._set_limit(broker, identity.pid)

    def heal(self) -> None:
        for broker in list(self._hits):
            self._lift(broker)
            # The kernel has killed it, because it wanted more memory than it may have.
            start_again(self._context.port, broker)
            del self._hits[broker]

    def prove(self) -> Proof:
        detail: dict[str, object] = {}
        is_effective = bool(self._hits)
        for broker, hits in self._hits.items():
            identity = self._before[broker]
            is_running = is_alive(identity)
            grown = self._hits_of(identity.pid) - hits if is_running else 0
            detail[f"broker {broker}"] = {
                "pid": identity.pid,
                "limit": self._limit_of(identity.pid) if is_running else None,
                "times_limited": grown,
                "state": "alive" if is_running else "gone",
            }
            is_effective &= grown > 0 or not is_running
        return Proof(is_effective=is_effective, detail=detail)


def _limit_cpu(context: FaultContext, parameters: Mapping[str, Parameter]) -> FaultRun:
    percent = int(parameters["percent"])
    return Limit(
        context,
        set_limit=lambda broker, _: containers(context).limit_cpu(broker, percent / 100),
        lift=lambda broker: containers(context).limit_cpu(broker, None),
        limit_of=cgroup.cpu_cores_max,
        hits_of=cgroup.cpu_throttled,
    )


class OwnGroups:
    """Control groups for brokers that are processes of this host."""

    def __init__(self, context: FaultContext, headroom_bytes: int) -> None:
        self._context, self._headroom_bytes = context, headroom_bytes
        # The key is the broker. The value is the path of its group, and the group's entry in the lease.
        self._groups: dict[int, tuple[Path, str | None]] = {}

    def squeeze(self, broker: int, pid: int) -> None:
        lease = self._context.lease
        path = memory_group.create(f"{memory_group.PREFIX}{pid}", self._headroom_bytes)
        self._groups[broker] = path, None if lease is None else lease.add_cgroup(path)
        memory_group.add(path, pid)

    def lift(self, broker: int) -> None:
        path, entry = self._groups.pop(broker)
        memory_group.remove(path)
        if entry is not None and self._context.lease is not None:
            self._context.lease.remove(entry)


def _memory_host_problem(engine: str) -> str:
    return "" if engine == "docker" else memory_group.problem()


def _limit_memory(context: FaultContext, parameters: Mapping[str, Parameter]) -> FaultRun:
    headroom = int(parameters["headroom_mib"]) * MEBIBYTE

    groups = None if isinstance(context.port.brokers, Containers) else OwnGroups(context, headroom)

    def squeeze(broker: int, pid: int) -> None:
        containers(context).limit_memory(broker, cgroup.anonymous_bytes(pid) + headroom)

    return Limit(
        context,
        set_limit=squeeze if groups is None else groups.squeeze,
        lift=(lambda broker: containers(context).limit_memory(broker, None)) if groups is None else groups.lift,
        limit_of=cgroup.memory_bytes_max,
        hits_of=cgroup.memory_limit_hits,
    )


def _cpu_problem(parameters: Mapping[str, Parameter]) -> str | None:
    percent = int(parameters["percent"])
    return None if 1 <= percent <= 6400 else f"percent (of one core) is {percent}, expected 1 to 6400"


def _memory_problem(parameters: Mapping[str, Parameter]) -> str | None:
    headroom = int(parameters["headroom_mib"])
    return None if headroom >= 0 else f"headroom_mib is {headroom}, expected at least 0"


SPECS: tuple[FaultSpec, ...] = (
    FaultSpec(
        name="disconnect",
        label="off the network",
        colour="#1f618d",
        target_kind="broker",
        default_target="leader",
        make=Disconnect,
        parameters={},
        engines=ENGINES,
    ),
    FaultSpec(
        name="limit_cpu",
        label="CPU limited",
        colour="#5d6d1e",
        target_kind="broker",
        default_target="leader",
        make=_limit_cpu,
        parameters={"percent": 5},  # The percentage is that of one core.
        problem=_cpu_problem,
        is_proved_at_heal=True,
        engines=ENGINES,
    ),
    FaultSpec(
        name="limit_memory",
        label="memory limited",
        colour="#76448a",
        target_kind="broker",
        default_target="leader",
        make=_limit_memory,
        # The limit is what the process holds when the fault begins, plus this. A container can release page cache. A
        # process in a group of its own needs new pages for it.
        parameters={"headroom_mib": 0},
        problem=_memory_problem,
        is_proved_at_heal=True,
        host_problem=_memory_host_problem,
    ),
)
