"""Reads the records that a member of a share group may get from a partition: the log from the next offset that is
offered.

A read acquires no records. `acquire` gives the records to the member, and tells which offsets it has acquired.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from broker.log.errors import STORAGE_ERRORS, OffsetOutOfRangeError
from broker.node.features.share_groups.delivery.deliveries import Acquired, Fetched
from broker.node.features.share_groups.group_settings import GroupSettings
from broker.node.features.share_groups.live_share import LiveShare
from broker.node.features.share_groups.persister import Place
from broker.node.process.clock import monotonic_ms
from broker.node.replicas.partitions import Partitions
from broker.wire.errors import ErrorCode
from broker.wire.records import iter_batches


@dataclass(slots=True, kw_only=True)
class ShareRead:
    place: Place
    error_code: ErrorCode = ErrorCode.none
    live: LiveShare | None = None
    records: bytes = b""
    fetched: Fetched | None = None
    acquired: tuple[Acquired, ...] = ()

    @property
    def is_news(self) -> bool:
        return self.error_code is not ErrorCode.none or bool(self.acquired)


def read(
    partitions: Partitions, live: LiveShare, settings: GroupSettings, left_bytes: int, *, is_first: bool
) -> ShareRead | None:
    """Reads records for a share partition. None if no record is offered now, or if the share partition is still
    loading."""
    core, log = live.core, live.hosted.log
    if core is None:
        return None
    core.limits = settings.limits
    if core.start_offset < log.log_start_offset:
        core.log_start_moved(log.log_start_offset)
    offset = core.next_fetch_offset()
    high_watermark = live.hosted.replica.high_watermark
    limit = log.last_stable_offset(high_watermark) if settings.is_read_committed else high_watermark
    if not core.can_acquire() or offset >= limit or (left_bytes <= 0 and not is_first):
        return None
    try:
        records = log.read(offset, max(0, left_bytes), limit, minimum_one_batch=is_first)
        hidden = _hidden(live, records, offset, limit, is_read_committed=settings.is_read_committed)
    except OffsetOutOfRangeError:
        return None  # the log start offset has just moved: the next read will see it
    except STORAGE_ERRORS as failure:
        return ShareRead(place=live.place, error_code=partitions.storage_failed(live.hosted, failure).error_code)
    headers = [batch.header for batch in iter_batches(records)]
    fetched = Fetched(
        fetch_offset=offset,
        batches=[(max(header.base_offset, offset), header.last_offset) for header in headers],
        hidden=hidden,
    )
    return ShareRead(place=live.place, live=live, records=bytes(records), fetched=fetched)


def _hidden(
    live: LiveShare, records: bytes, offset: int, limit: int, *, is_read_committed: bool
) -> list[tuple[int, int]]:
    """The offsets that the member does not get: with isolation level read_committed, records of aborted transactions.
    It gets the offsets of markers. They have no record, so it acknowledges them as gaps."""
    aborted = live.hosted.log.aborted_transactions(offset, limit) if is_read_committed else []
    if not aborted:
        return []
    # By producer, (first, last offset) of its aborted transactions. Those of one producer do not overlap.
    of_producer: dict[int, list[tuple[int, int]]] = {}
    for each in aborted:
        of_producer.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
    for ranges in of_producer.values():
        ranges.sort()
    return [
        (header.base_offset, header.last_offset)
        for header in (batch.header for batch in iter_batches(records))
        if header.is_transactional
        and not header.is_control
        and _is_in(of_producer.get(header.producer_id, ()), header.base_offset)
    ]


def _is_in(ranges: Sequence[tuple[int, int]], offset: int) -> bool:
    """Whether one of the ranges has this offset. They are ascending and do not overlap."""
    place = bisect_right(ranges, offset, key=lambda each: each[0]) - 1
    return place >= 0 and offset <= ranges[place][1]


def acquire(found: ShareRead, member: str, *, records_max: int, batch_size: int, is_strict: bool) -> int:
    """Acquires records for the member. Returns how many it has acquired."""
    live, fetched = found.live, found.fetched
    assert live is not None
    assert live.core is not None
    assert fetched is not None
    found.acquired = live.core.acquire(
        member,
        fetched,
        records_max=records_max,
        batch_size=batch_size,
        is_strict=is_strict,
        now_ms=monotonic_ms(),
    )
    live.set_timer()
    found.records = acquired_batches(found.records, found.acquired)
    return sum(each.count for each in found.acquired)


def acquired_batches(records: bytes, acquired: Sequence[Acquired]) -> bytes:
    """The record batches from the first to the last acquired record."""
    if not acquired:
        return b""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    kept = [
        (batch.position, batch.position + len(batch.buffer))
        for batch in iter_batches(records)
        if batch.header.last_offset >= first and batch.header.base_offset <= last
    ]
    return records[kept[0][0] : kept[-1][1]] if kept else b""
