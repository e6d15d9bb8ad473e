"""kafka_refuse_request: some Produce requests get an error instead of being forwarded, while later ones pass.

Proved at its end, by the number of exchanges that the embedded server acted on; the wire log names each.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.faults.toxics import LinkToxics
from chaos.toxiproxy.toxics import KAFKA

_TYPE = "kafka_refuse_request"


class KafkaRefuseRequest:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._attributes = dict(parameters)
        self._toxics = LinkToxics(door=context.port.kafka, lease=context.lease, name=context.toxic_name, type=_TYPE)

    def inject(self) -> None:
        self._toxics.add(self._context.links, ("downstream",), self._attributes)

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        counters = {link: state.counters for link, state in self._toxics.states().items()}
        acted = sum(counter.get("acted", 0) for counter in counters.values())
        return Proof(is_effective=acted > 0, detail={"acted": acted, "links": counters})


SPEC = FaultSpec(
    name=_TYPE,
    label="requests refused",
    colour="#e67e22",
    target_kind="client_link",
    default_target="client->leader",
    make=KafkaRefuseRequest,
    parameters=KAFKA[_TYPE].defaults(),
    is_proved_at_heal=True,
)
