"""pause: SIGSTOP. The broker neither answers nor closes a socket. Healing sends SIGCONT."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter, Proof, heal_each
from chaos.faults.processes import identities, prove_stopped
from chaos.lease import ProcessIdentity
from chaos.ports.brokers import HostProcesses


class Pause:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._before: dict[int, ProcessIdentity] = {}
        self._entries: list[str] = []

    def inject(self) -> None:
        self._before = identities(self._context.port.brokers, self._context.brokers)
        for broker, identity in self._before.items():
            if self._context.lease and not isinstance(self._context.port.brokers, HostProcesses):  # else it is there
                self._entries.append(self._context.lease.add_stopped_process(identity.pid))
            self._context.port.processes.pause(broker)

    def heal(self) -> None:
        heal_each(self._before, self._resume)
        while self._entries and self._context.lease:
            self._context.lease.remove(self._entries.pop())

    def _resume(self, broker: int) -> None:
        if self._context.port.brokers.is_running(broker):
            self._context.port.processes.resume(broker)

    def prove(self) -> Proof:
        return prove_stopped(self._context.port.brokers, self._before)


SPEC = FaultSpec(
    name="pause",
    label="paused (SIGSTOP)",
    colour="#2980b9",
    target_kind="broker",
    default_target="leader",
    make=Pause,
    parameters={},
    host_permit=HostPermit(word="pause"),
)
