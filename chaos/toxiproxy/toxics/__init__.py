"""The table of toxics. `STANDARD` are Toxiproxy's own. `KAFKA` and `OWN` exist only in the embedded server."""

from __future__ import annotations

from chaos.toxiproxy.toxic import ToxicSpec
from chaos.toxiproxy.toxics import (
    bandwidth,
    kafka_alter_response,
    kafka_close_connection,
    kafka_corrupt_batch,
    kafka_cut_frame,
    kafka_delay_response,
    kafka_drop_response,
    kafka_edit_response,
    kafka_hide_topic,
    kafka_hold_request,
    kafka_refuse_request,
    kafka_silence,
    latency,
    limit_data,
    no_accept,
    noop,
    reset_peer,
    slicer,
    slow_close,
    timeout,
)

STANDARD: dict[str, ToxicSpec] = {
    spec.type: spec
    for spec in (
        bandwidth.SPEC,
        latency.SPEC,
        limit_data.SPEC,
        noop.SPEC,
        reset_peer.SPEC,
        slicer.SPEC,
        slow_close.SPEC,
        timeout.SPEC,
    )
}
KAFKA: dict[str, ToxicSpec] = {
    spec.type: spec
    for spec in (
        kafka_alter_response.SPEC,
        kafka_close_connection.SPEC,
        kafka_corrupt_batch.SPEC,
        kafka_cut_frame.SPEC,
        kafka_delay_response.SPEC,
        kafka_drop_response.SPEC,
        kafka_edit_response.SPEC,
        kafka_hide_topic.SPEC,
        kafka_hold_request.SPEC,
        kafka_refuse_request.SPEC,
        kafka_silence.SPEC,
    )
}
OWN: dict[str, ToxicSpec] = {no_accept.SPEC.type: no_accept.SPEC}
ALL: dict[str, ToxicSpec] = STANDARD | KAFKA | OWN
