"""byte_limit: a link closes each connection after `bytes` bytes, as some load balancers do with long connections.

Proved from both sides: a short request is still answered, and a connection that carries more than the limit is closed.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter, Proof
from chaos.faults.probes import door_of, probe_link, probe_load
from chaos.faults.toxics import LinkToxics, streams_of

BYTES_MIN = 1_000  # a lower limit would cut even the short request of the proof
TIMEOUT_MS = 5_000  # a connection that is silent for this long was not closed, so it proves nothing


class ByteLimit:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._streams = streams_of(parameters["stream"])
        self._bytes = int(parameters["bytes"])
        self._toxics = LinkToxics(
            door=context.port.links.plain, lease=context.lease, name=context.toxic_name, type="limit_data"
        )

    def inject(self) -> None:
        self._toxics.add(self._context.links, self._streams, {"bytes": self._bytes})

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        detail: dict[str, object] = {}
        is_effective = True
        for link in self._context.links:
            door = door_of(self._context.port.links, link)
            short = probe_link(door, timeout_ms=TIMEOUT_MS)
            long = probe_load(door, stream=self._streams[0], size_bytes=2 * self._bytes, timeout_ms=TIMEOUT_MS)
            detail[link] = {"short": short.outcome, "long": long.outcome}
            is_effective &= short.outcome == "answered" and long.outcome in ("closed", "reset")
        return Proof(is_effective=is_effective, detail=detail)


def _problem(parameters: Mapping[str, Parameter]) -> str | None:
    if int(parameters["bytes"]) < BYTES_MIN:
        return f"bytes of byte_limit is {parameters['bytes']}, expected at least {BYTES_MIN}"
    return None


SPEC = FaultSpec(
    name="byte_limit",
    label="connections closed after a number of bytes",
    colour="#873600",
    target_kind="link",
    default_target="client->leader",
    make=ByteLimit,
    parameters={"bytes": 200_000, "stream": "upstream"},
    words={"bytes": "bytes that pass before a connection is closed"},
    problem=_problem,
    host_permit=HostPermit(word="byte_limit", toxic="limit_data"),
)
