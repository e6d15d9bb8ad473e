"""terminate: SIGTERM. The broker stops cleanly. Brokers that can do so hand over their leadership first.

Healing starts the brokers again on their old data.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter
from chaos.faults.processes import BrokersEnd


def make(context: FaultContext, parameters: Mapping[str, Parameter]) -> BrokersEnd:
    return BrokersEnd(context, context.port.processes.terminate)


SPEC = FaultSpec(
    name="terminate",
    label="stopped (SIGTERM)",
    colour="#7f8c8d",
    target_kind="broker",
    default_target="leader",
    make=make,
    parameters={},
    host_permit=HostPermit(word="terminate"),
)
