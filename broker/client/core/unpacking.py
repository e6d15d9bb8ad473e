"""Reads the records from one partition's part of an answer to Fetch.

With isolation.level=read_committed, the records of aborted transactions are dropped here. Each answer contains the list
of aborted transactions (KIP-98). Shown by tests/broker_client/test_client_fetcher.py.
"""

from __future__ import annotations

from broker.client.core.aborted import AbortedTransactions
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError
from broker.client.core.fetch_state import ConsumerRecord, FetchResult, PartitionState
from broker.wire.errors import CorruptBatchError, ErrorCode
from broker.wire.records import (
    FETCHED_BYTES_MAX,
    FETCHED_RECORDS_MAX,
    DecodedRecord,
    RawBatch,
    check_fetched,
    decode_fetched,
    iter_batches,
)


class Room:
    """How much one answer may unpack to; the rest of the answer is not read. One batch always fits. Without this limit,
    small batches that are much larger after decompression would fill the memory."""

    __slots__ = ("_bytes", "_records")

    def __init__(self) -> None:
        self._bytes = self._records = 0

    @property
    def is_taken(self) -> bool:
        return self._bytes >= FETCHED_BYTES_MAX or self._records >= FETCHED_RECORDS_MAX

    def take(self, batch: RawBatch, records: list[DecodedRecord]) -> None:
        self._records += len(records)
        if batch.header.codec:  # batches without compression are limited by the size of the answer
            self._bytes += sum(len(record[2] or b"") + len(record[3] or b"") for record in records)


def unpack(
    partition: TopicPartition, state: PartitionState, result: FetchResult, room: Room, *, checks_crc: bool
) -> KafkaError | None:
    """Puts as many records into `state` as there is room for. The rest is fetched again.

    Returns the error of a damaged batch. The records before it are kept.
    """
    topic, number = partition
    make = ConsumerRecord._make
    aborted = AbortedTransactions(result.aborted)
    damage: KafkaError | None = None
    try:
        for batch in iter_batches(result.records):
            if checks_crc and not batch.is_crc_valid():
                raise CorruptBatchError("the CRC does not match", position=batch.position)
            check_fetched(batch.header)
            is_dropped = aborted.drops(batch)
            if batch.header.next_offset <= state.fetch_offset:
                continue
            if not is_dropped and not batch.header.is_control:
                if room.is_taken:
                    break
                wanted = state.fetch_offset
                records = decode_fetched(batch)
                room.take(batch, records)
                if records and records[0][0] < wanted:
                    records = [record for record in records if record[0] >= wanted]
                state.records.extend([make((topic, number, *record)) for record in records])
            state.epochs.read(max(batch.header.base_offset, state.fetch_offset), batch.header.partition_leader_epoch)
            state.fetch_offset = batch.header.next_offset
    except CorruptBatchError as error:
        damage = KafkaError(ErrorCode.corrupt_message, f"{topic}-{number} at offset {state.fetch_offset}: {error}")
    if not state.records:
        state.position = state.fetch_offset
    return damage
