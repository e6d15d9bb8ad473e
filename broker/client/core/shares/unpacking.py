"""Reads the acquired records from one partition's part of an answer to ShareFetch.

An answer has whole record batches, and says which offsets the member has acquired. Acquired offsets without a record
(control batches, offsets that compaction removed) are gaps. The consumer acknowledges gaps itself. The records of a
damaged batch and those after it are rejected, as by Java's client. Shown by
tests/broker_client/test_client_share_fetcher.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError
from broker.client.core.shares.values import AcknowledgeType, SharePart, ShareRecord
from broker.wire.errors import CorruptBatchError, ErrorCode
from broker.wire.records import check_fetched, decode_fetched, iter_batches

# The acquired offsets of one answer. A broker has at most 10,000 records of a partition in flight
# (group.share.partition.max.record.locks). Without a limit, an answer of a few bytes could claim 2**63 of them.
ACQUIRED_MAX = 1_000_000


@dataclass(slots=True, kw_only=True)
class Unpacked:
    records: list[ShareRecord] = field(default_factory=list)
    others: dict[int, AcknowledgeType] = field(default_factory=dict)  # acquired offsets that nobody gets
    damage: KafkaError | None = None


def is_too_much(parts: list[SharePart]) -> bool:
    """Whether the answer claims more acquired offsets than a broker gives, or ranges that are none."""
    ranges = [each for part in parts for each in part.acquired]
    return any(last < first or first < 0 for first, last, _ in ranges) or (
        sum(last - first + 1 for first, last, _ in ranges) > ACQUIRED_MAX
    )


def unpack(partition: TopicPartition, part: SharePart, *, checks_crc: bool) -> Unpacked:
    found = Unpacked()
    counts = {offset: count for first, last, count in part.acquired for offset in range(first, last + 1)}
    topic, number = partition
    try:
        for batch in iter_batches(part.records):
            if checks_crc and not batch.is_crc_valid():
                raise CorruptBatchError("the CRC does not match", position=batch.position)
            check_fetched(batch.header)
            if batch.header.is_control or not _has_any(counts, batch.header.base_offset, batch.header.last_offset):
                continue
            for record in decode_fetched(batch):
                count = counts.pop(record[0], None)
                if count is not None:
                    found.records.append(ShareRecord(topic, number, *record, count))
    except CorruptBatchError as error:
        at = min(counts, default=-1)
        found.damage = KafkaError(ErrorCode.corrupt_message, f"{topic}-{number} from offset {at} on: {error}")
    kind = AcknowledgeType.GAP if found.damage is None else AcknowledgeType.REJECT
    found.others = dict.fromkeys(counts, kind)
    return found


def _has_any(counts: dict[int, int], first: int, last: int) -> bool:
    if last - first > len(counts):
        return any(first <= offset <= last for offset in counts)
    return any(offset in counts for offset in range(first, last + 1))
