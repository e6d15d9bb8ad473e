"""terminate: SIGTERM: a clean stop, leadership handed over first where the broker does so.

Healing starts the brokers again on their old data.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.faults.processes import identities, prove_gone
from chaos.lease import ProcessIdentity


class Terminate:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._before: dict[int, ProcessIdentity] = {}

    def inject(self) -> None:
        self._before = identities(self._context.port, self._context.brokers)
        for broker in self._context.brokers:
            self._context.port.terminate(broker)

    def heal(self) -> None:
        for broker in self._context.brokers:
            if not self._context.port.is_running(broker):
                self._context.port.restart(broker)

    def prove(self) -> Proof:
        return prove_gone(self._before)


SPEC = FaultSpec(
    name="terminate",
    label="stopped (SIGTERM)",
    colour="#7f8c8d",
    target_kind="broker",
    default_target="leader",
    make=Terminate,
    parameters={},
)
