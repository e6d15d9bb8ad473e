"""slow_connect: connections to a link are not accepted while it lasts: no refusal, no answer, connect() just hangs.

By a full queue of the proxy's listener (toxic `no_accept` of the embedded server, which is the one that clients see).
Proved by connecting: the probe's own connect() has no answer within its time. With end_open: 1 what is open ends first.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.faults.probes import probe_connect
from chaos.faults.toxics import SILENCE_MS, LinkToxics


class SlowConnect:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._end_open = int(parameters["end_open"])
        self._toxics = LinkToxics(
            door=context.port.kafka, lease=context.lease, name=context.toxic_name, type="no_accept"
        )

    def inject(self) -> None:
        self._toxics.add(self._context.links, ("downstream",), {"end_open": self._end_open})

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        outcomes: dict[str, object] = {}
        for link in self._context.links:
            client, proxy = self._context.port.kafka(link)
            outcomes[link] = probe_connect(client.proxy(proxy).listen, timeout_ms=SILENCE_MS).outcome
        return Proof(
            is_effective=all(outcome == "silent" for outcome in outcomes.values()),
            detail={"silent_ms": SILENCE_MS, "links": outcomes},
        )


def _problem(parameters: Mapping[str, Parameter]) -> str | None:
    return None if parameters["end_open"] in (0, 1) else f"end_open is 0 or 1, got {parameters['end_open']}"


SPEC = FaultSpec(
    name="slow_connect",
    label="connections not accepted",
    colour="#7b7d7d",
    target_kind="client_link",
    default_target="client->leader",
    make=SlowConnect,
    parameters={"end_open": 1},
    problem=_problem,
)
