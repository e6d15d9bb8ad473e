"""The table of faults. Adding one: a file with a SPEC, and its line here."""

from __future__ import annotations

from chaos.faults import (
    kafka_drop_response,
    kafka_refuse_request,
    kill,
    latency,
    link_cut,
    link_stall,
    pause,
    restart,
    terminate,
)
from chaos.faults.base import FaultSpec

FAULTS: dict[str, FaultSpec] = {
    spec.name: spec
    for spec in (
        link_cut.SPEC,
        link_stall.SPEC,
        latency.SPEC,
        kill.SPEC,
        terminate.SPEC,
        pause.SPEC,
        restart.SPEC,
        kafka_drop_response.SPEC,
        kafka_refuse_request.SPEC,
    )
}
