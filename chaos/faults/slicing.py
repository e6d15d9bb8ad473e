"""slicing: a stream arrives in pieces of `average_bytes` ± `variation_bytes`, with `delay_us` between them.

Proved by the time that a load of known size takes. It is longer than before by one delay for each piece.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter, Proof
from chaos.faults.load_proof import prove_by_load
from chaos.faults.probes import Before, door_of, probe_load
from chaos.faults.toxics import LinkToxics, streams_of

PIECES = 250  # 33 ms with the default parameters; without the fault a busy host takes 7 ms for as many bytes
OBSERVE_MS = 1_000
SHARE_EXPECTED = 0.7  # shorter delays are added up to whole milliseconds


class Slicing:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._streams = streams_of(parameters["stream"])
        self._average = int(parameters["average_bytes"])
        self._variation = int(parameters["variation_bytes"])
        self._delay_us = int(parameters["delay_us"])
        self._toxics = LinkToxics(
            door=context.port.links.plain, lease=context.lease, name=context.toxic_name, type="slicer"
        )
        self._before = Before()

    def observe(self) -> None:
        size_bytes, stream = PIECES * self._average, self._streams[0]
        self._before.take(
            self._context.links,
            lambda link: probe_load(
                door_of(self._context.port.links, link), stream=stream, size_bytes=size_bytes, timeout_ms=OBSERVE_MS
            ),
        )

    def inject(self) -> None:
        attributes = {
            "average_size": self._average, "size_variation": self._variation, "delay": self._delay_us
        }  # fmt: skip
        self._toxics.add(self._context.links, self._streams, attributes)

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        piece_bytes = self._average + self._variation
        return prove_by_load(
            self._context,
            self._streams[0],
            size_bytes=PIECES * self._average,
            expected_us=lambda size_bytes: size_bytes // piece_bytes * self._delay_us,
            share=SHARE_EXPECTED,
            before=self._before,
        )


SPEC = FaultSpec(
    name="slicing",
    label="stream sliced",
    colour="#5b2c6f",
    target_kind="link",
    default_target="client->leader",
    make=Slicing,
    parameters={"average_bytes": 16, "variation_bytes": 8, "delay_us": 200, "stream": "upstream"},
    host_permit=HostPermit(word="slicing", toxic="slicer"),
)
