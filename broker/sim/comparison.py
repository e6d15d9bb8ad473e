"""Compares, at the end of a run, the answers that producers got with what is in the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.sim.invariants.healed import (
    AcknowledgedRecordIsNotLost,
    AcknowledgedRecordIsWhereItWasSaid,
    IdempotenceNoRecordTwice,
    IdempotentProducersRecordsKeepTheirOrder,
    WhatDefinitelyFailedIsNotInTheLog,
)
from broker.sim.plan import TOPIC
from broker.wire.records import decode_records

if TYPE_CHECKING:
    from broker.sim.producers import SimProducer
    from broker.sim.stage import Stage


def compare_producers(world: Stage) -> None:
    for index in range(world.settings.partitions):
        places = _places(world, index)
        for producer in world.producers:
            _compare(world, producer, index, places)


def _places(world: Stage, index: int) -> dict[bytes, list[int]]:
    """The identity of each record in the leader's log, and the offsets where it is."""
    places: dict[bytes, list[int]] = {}
    for life in world.cluster.up():
        hosted = None if life.broker is None else life.broker.partitions.get(TOPIC, index)
        if hosted is None or not hosted.replica.is_leader:
            continue
        start = hosted.log.log_start_offset
        while start < hosted.log.log_end_offset:
            for offset, _, _, value, _ in decode_records(hosted.log.read(start, 1 << 20)):
                places.setdefault(bytes(value or b"").split(b" ")[0], []).append(offset)
                start = offset + 1
        return places
    return places


def _compare(world: Stage, producer: SimProducer, index: int, places: dict[bytes, list[int]]) -> None:
    key = (TOPIC, index)
    was_unclean = world.partitions.was_unclean(key)
    mine = [each for each in places if each.startswith(f"{producer.name}:{index}:".encode())]
    for identity, (partition, offset) in producer.acked.items():
        if partition == index and producer.acks == "all" and not was_unclean:
            found = places.get(identity, [])
            AcknowledgedRecordIsNotLost(world.fail).check(identity, offset, found=found)
            AcknowledgedRecordIsWhereItWasSaid(world.fail).check(identity, offset, found=found)
    for identity in mine:
        WhatDefinitelyFailedIsNotInTheLog(world.fail).check(identity, producer.failed, found=places[identity])
        if producer.is_idempotent and not was_unclean:
            IdempotenceNoRecordTwice(world.fail).check(identity, found=places[identity])
    if producer.is_idempotent and not was_unclean:
        numbers = [int(each.rpartition(b":")[2]) for each in sorted(mine, key=lambda each: places[each][0])]
        IdempotentProducersRecordsKeepTheirOrder(world.fail).check(f"{producer.name} in {key}", numbers)
