"""slicing: a stream comes in pieces of `average_bytes` ± `variation_bytes`, with `delay_us` between them.

Proved by the time that a load of known size takes: one delay for each piece.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.faults.probes import door_of, probe_load
from chaos.faults.toxics import LinkToxics, streams_of

PIECES = 50
SHARE_EXPECTED = 0.7  # delays below a millisecond are saved up
TIMEOUT_MS = 5_000


class Slicing:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._streams = streams_of(parameters["stream"])
        self._average = int(parameters["average_bytes"])
        self._variation = int(parameters["variation_bytes"])
        self._delay_us = int(parameters["delay_us"])
        self._toxics = LinkToxics(door=context.port.plain, lease=context.lease, name=context.toxic_name, type="slicer")

    def inject(self) -> None:
        attributes = {
            "average_size": self._average, "size_variation": self._variation, "delay": self._delay_us
        }  # fmt: skip
        self._toxics.add(self._context.links, self._streams, attributes)

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        detail: dict[str, object] = {}
        is_effective = True
        for link in self._context.links:
            load = probe_load(
                door_of(self._context.port, link),
                stream=self._streams[0],
                size_bytes=PIECES * self._average,
                timeout_ms=TIMEOUT_MS,
            )
            expected_us = load.size_bytes // (self._average + self._variation) * self._delay_us
            detail[link] = {"bytes": load.size_bytes, "took_us": load.elapsed_us, "expected_us": expected_us}
            is_effective &= load.is_answered and load.elapsed_us >= SHARE_EXPECTED * expected_us
        return Proof(is_effective=is_effective, detail=detail)


SPEC = FaultSpec(
    name="slicing",
    label="stream sliced",
    colour="#5b2c6f",
    target_kind="link",
    default_target="client->leader",
    make=Slicing,
    parameters={"average_bytes": 16, "variation_bytes": 8, "delay_us": 200, "stream": "upstream"},
)
