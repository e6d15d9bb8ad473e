"""The table of faults. To add a fault, write a file with a SPEC and add a line here."""

from __future__ import annotations

from chaos.faults import (
    bandwidth,
    bit_flip,
    black_hole,
    byte_limit,
    certificates,
    clients,
    clock,
    container,
    credentials,
    disk,
    kafka_toxics,
    kill,
    latency,
    limits,
    link_cut,
    link_stall,
    log_directories,
    one_way_cut,
    pause,
    power_loss,
    replicas,
    reset,
    restart,
    slicing,
    slow_connect,
    terminate,
    topic,
    wrong_passwords,
)
from chaos.faults.base import FaultSpec

FAULTS: dict[str, FaultSpec] = {
    spec.name: spec
    for spec in (
        link_cut.SPEC,
        one_way_cut.SPEC,
        link_stall.SPEC,
        black_hole.SPEC,
        reset.SPEC,
        slow_connect.SPEC,
        latency.SPEC,
        bandwidth.SPEC,
        byte_limit.SPEC,
        slicing.SPEC,
        kill.SPEC,
        terminate.SPEC,
        pause.SPEC,
        restart.SPEC,
        power_loss.SPEC,
        bit_flip.SPEC,
        limits.SPEC,
        clock.SPEC,
        wrong_passwords.SPEC,
        *certificates.SPECS,
        *credentials.SPECS,
        *clients.SPECS,
        *disk.SPECS,
        *container.SPECS,
        *topic.SPECS,
        *replicas.SPECS,
        log_directories.SPEC,
        *kafka_toxics.SPECS,
    )
}
