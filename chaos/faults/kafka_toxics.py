"""The faults that know Kafka's protocol: one for each Kafka toxic of the embedded server, on links of clients.

Their parameters are the attributes of the toxic (`chaos/toxiproxy/toxics/kafka_*.py` describes each toxic). They are
proved when they end, by the number of exchanges on which the server acted. For Produce the wire log names each
exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from chaos.faults.base import FaultContext, FaultRun, FaultSpec, HostPermit, Parameter, Proof
from chaos.faults.toxics import LinkToxics
from chaos.toxiproxy.errors import ApiError
from chaos.toxiproxy.kafka.turns import AFTER
from chaos.toxiproxy.toxics import KAFKA

_LABELS = {
    "kafka_drop_response": ("responses dropped", "#c2185b"),
    "kafka_refuse_request": ("requests refused", "#e67e22"),
    "kafka_delay_response": ("responses delayed", "#6c3483"),
    "kafka_edit_response": ("responses replaced", "#b9770e"),
    "kafka_alter_response": ("responses altered", "#00695c"),
    "kafka_hide_topic": ("topic hidden", "#117864"),
    "kafka_hold_request": ("requests held back", "#145a32"),
    "kafka_cut_frame": ("frames cut", "#943126"),
    "kafka_silence": ("no answer", "#3f51b5"),
    "kafka_close_connection": ("connections closed", "#827717"),
    "kafka_corrupt_batch": ("batches corrupted", "#641e16"),
}


class KafkaToxic:
    def __init__(self, kind: str, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._attributes = dict(parameters)
        # A request that was held back shows nothing before it has arrived.
        self._counter = "released" if kind == "kafka_hold_request" else "acted"
        self._toxics = LinkToxics(
            door=context.port.links.kafka, lease=context.lease, name=context.toxic_name, type=kind
        )

    def inject(self) -> None:
        self._toxics.add(self._context.links, ("downstream",), self._attributes)

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        counters = {link: state.counters for link, state in self._toxics.states().items()}
        acted = sum(counter.get(self._counter, 0) for counter in counters.values())
        return Proof(is_effective=acted > 0, detail={"acted": acted, "links": counters})


def _make(kind: str) -> Callable[[FaultContext, Mapping[str, Parameter]], FaultRun]:
    return lambda context, parameters: KafkaToxic(kind, context, parameters)


def _parameters(kind: str) -> dict[str, Parameter]:
    """The attributes of the toxic but for the name of another toxic: a scenario names steps, and a step begins when its
    condition says so."""
    return {name: value for name, value in KAFKA[kind].defaults().items() if name != AFTER}


def _problem(kind: str, parameters: Mapping[str, Parameter]) -> str | None:
    try:
        KAFKA[kind].parse(parameters, KAFKA[kind].defaults())
    except ApiError as error:
        return str(error)
    return None


SPECS: tuple[FaultSpec, ...] = tuple(
    FaultSpec(
        name=kind,
        label=label,
        colour=colour,
        target_kind="client_link",
        default_target="client->leader",
        make=_make(kind),
        parameters=_parameters(kind),
        problem=partial(_problem, kind),
        is_proved_at_heal=True,
        host_permit=HostPermit(word=kind, toxic=kind),
    )
    for kind, (label, colour) in _LABELS.items()
)
