"""kill: SIGKILL. The broker cannot clean up, and the kernel closes its sockets. The page cache survives, so this does
not test fsync.

Healing starts the brokers again on their old data.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter
from chaos.faults.processes import BrokersEnd


def make(context: FaultContext, parameters: Mapping[str, Parameter]) -> BrokersEnd:
    return BrokersEnd(context, context.port.processes.kill)


SPEC = FaultSpec(
    name="kill",
    label="killed (SIGKILL)",
    colour="#2c3e50",
    target_kind="broker",
    default_target="leader",
    make=make,
    parameters={},
    host_permit=HostPermit(word="kill"),
)
