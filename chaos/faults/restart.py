"""restart: a broker is stopped (`how: terminate` or `kill`) and started again at once. Proved by the new process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter, Proof, heal_each
from chaos.faults.processes import identities, prove_gone, start_again
from chaos.lease import ProcessIdentity


class Restart:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._is_kill = parameters["how"] == "kill"
        self._before: dict[int, ProcessIdentity] = {}

    def inject(self) -> None:
        port = self._context.port
        self._before = identities(port.brokers, self._context.brokers)
        for broker in self._context.brokers:
            if self._is_kill:
                port.processes.kill(broker)
            else:
                port.processes.terminate(broker)
            port.processes.restart(broker)

    def heal(self) -> None:
        heal_each(self._context.brokers, partial(start_again, self._context.port))

    def prove(self) -> Proof:
        return prove_gone(self._context.port.brokers, self._before)


SPEC = FaultSpec(
    name="restart",
    label="restarted",
    colour="#16a085",
    target_kind="broker",
    default_target="leader",
    make=Restart,
    parameters={"how": "terminate"},
    host_permit=HostPermit(word="terminate", parameter="how"),
)
