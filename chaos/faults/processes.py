"""What faults on broker processes share: the pid before the fault, and evidence from /proc after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from chaos.faults.base import FaultContext, Proof, heal_each
from chaos.lease import ProcessIdentity, is_alive, read_identity, read_state
from chaos.ports.brokers import Brokers, HostProcesses
from chaos.ports.cluster import ClusterPort


def identities(brokers: Brokers, ids: Sequence[int]) -> dict[int, ProcessIdentity]:
    """The processes of those brokers that run."""
    if isinstance(brokers, HostProcesses):
        found = {broker: brokers.identity(broker) for broker in ids}
    else:
        pids = brokers.pids()
        found = {broker: read_identity(pids[broker]) for broker in ids if broker in pids}
    return {broker: identity for broker, identity in found.items() if identity}


class BrokersEnd:
    """A fault in which `end` takes brokers down. Healing starts them again on their old data."""

    def __init__(self, context: FaultContext, end: Callable[[int], None]) -> None:
        self._context, self._end = context, end
        self._before: dict[int, ProcessIdentity] = {}

    def inject(self) -> None:
        self._before = identities(self._context.port.brokers, self._context.brokers)
        for broker in self._context.brokers:
            self._end(broker)

    def heal(self) -> None:
        heal_each(self._context.brokers, partial(start_again, self._context.port))

    def prove(self) -> Proof:
        return prove_gone(self._context.port.brokers, self._before)


def start_again(port: ClusterPort, broker: int) -> None:
    if not port.brokers.is_running(broker):
        port.processes.restart(broker)


def prove_gone(brokers: Brokers, before: dict[int, ProcessIdentity]) -> Proof:
    alive = {broker: _is_alive(brokers, broker, identity) for broker, identity in before.items()}
    states: dict[str, object] = {
        f"broker {broker}": {"pid": identity.pid, "state": "alive" if alive[broker] else "gone"}
        for broker, identity in before.items()
    }
    return Proof(is_effective=bool(before) and not any(alive.values()), detail=states)


def _is_alive(brokers: Brokers, broker: int, identity: ProcessIdentity) -> bool:
    if isinstance(brokers, HostProcesses):
        return brokers.state_of(broker, identity) is not None
    return is_alive(identity)


def prove_stopped(brokers: Brokers, before: dict[int, ProcessIdentity]) -> Proof:
    """Whether the process is stopped by a signal (state T), or frozen with its container."""
    states = {
        broker: brokers.state_of(broker, identity) if isinstance(brokers, HostProcesses) else _state_here(identity)
        for broker, identity in before.items()
    }
    return Proof(
        is_effective=bool(before) and all(state in ("T", "frozen") for state in states.values()),
        detail={f"broker {broker}": {"pid": before[broker].pid, "state": state} for broker, state in states.items()},
    )


def _state_here(identity: ProcessIdentity) -> str | None:
    return "frozen" if is_frozen(identity.pid) else read_state(identity.pid)


def is_frozen(pid: int) -> bool:
    """Whether the cgroup freezer has frozen it. In version 1 this is a controller of its own, in version 2 an event in
    the one hierarchy."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return False
    for line in lines:
        _, names, path = line.split(":", 2)
        if names == "freezer" and _holds(Path(f"/sys/fs/cgroup/freezer{path}/freezer.state"), "FROZEN"):
            return True
        if not names and _holds(Path(f"/sys/fs/cgroup{path}/cgroup.events"), "frozen 1"):
            return True
    return False


def _holds(path: Path, line: str) -> bool:
    try:
        return line in path.read_text().splitlines()
    except OSError:
        return False
