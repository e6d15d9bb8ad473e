"""Reading a partition as raw record batches, for a final read that must not decode more than it needs.

Follows leader changes; bounded by its time limit. Batches come as the leader stores them, compressed or not.
Shown by tests/broker_client/test_client_mock_cluster.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from broker.client.blocking import BlockingClient
from broker.client.clock import now_ms
from broker.client.consumer import fetch_request, fetch_results
from broker.client.core.batch import TopicPartition
from broker.client.core.config import parse_admin
from broker.client.core.errors import KafkaError, TimedOutError
from broker.client.core.fetcher import LATEST, FetchPosition
from broker.client.offsets import list_offset
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message
from broker.wire.records import RawBatch, iter_batches

_FETCH_BYTES_MAX = 8 * 1024 * 1024
_FETCH_WAIT_MS = 200


def read_batches(
    bootstrap: str,
    partition: TopicPartition,
    from_offset: int = 0,
    to_offset: int | None = None,
    timeout_ms: int = 30_000,
) -> Iterator[RawBatch]:
    """Every batch that holds offsets from `from_offset` up to (not including) `to_offset`, in order, CRC checked.

    `to_offset` None: the high watermark at the start. Raises TimedOutError when the end is not reached in time (a log
    that was truncated below `to_offset` never reaches it), KafkaError for what a broker refuses. Each batch owns its
    bytes.
    """
    properties = {"bootstrap.servers": bootstrap, "request.timeout.ms": str(max(1000, timeout_ms // 4))}
    client = BlockingClient(parse_admin(properties), random.Random())
    deadline_ms = now_ms() + timeout_ms
    chosen = TopicPartition(*partition)
    try:
        end = list_offset(client, chosen, LATEST, deadline_ms)[0] if to_offset is None else to_offset
        position = from_offset
        while position < end:
            for batch in _fetch_before(client, chosen, position, end, deadline_ms):
                if batch.header.next_offset <= position:
                    continue
                if batch.header.base_offset >= end:
                    return
                yield batch
                position = batch.header.next_offset
    finally:
        client.close()


def _fetch_before(
    client: BlockingClient, partition: TopicPartition, position: int, end: int, deadline_ms: int
) -> list[RawBatch]:
    """One fetch; what keeps it from succeeding until the deadline becomes one clear time-out."""
    text = f"{partition.topic}-{partition.partition}: at offset {position} of {end} when the time was up"
    if now_ms() >= deadline_ms:
        raise TimedOutError(text)
    try:
        return _fetch(client, partition, position, deadline_ms)
    except KafkaError as error:
        if error.retriable or isinstance(error, TimedOutError):
            raise TimedOutError(f"{text}; last failure: {error}") from error
        raise


def _fetch(client: BlockingClient, partition: TopicPartition, offset: int, deadline_ms: int) -> list[RawBatch]:
    def build(version: int) -> Message:
        position = FetchPosition(offset=offset, leader_epoch=client.metadata.leader_epoch(partition))
        return fetch_request(
            version,
            {partition: position},
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES_MAX,
            partition_max_bytes=_FETCH_BYTES_MAX,
        )

    def parse(message: Message) -> list[RawBatch]:
        name = f"{partition.topic}-{partition.partition} at offset {offset}"
        if getattr(message, "error_code", ErrorCode.none) != ErrorCode.none:
            raise KafkaError(message.error_code, name)
        result = fetch_results(message).get(partition)
        if result is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, name)
        if result.error_code:
            raise KafkaError(result.error_code, name)
        batches = list(iter_batches(bytes(result.records)))
        for batch in batches:
            if not batch.is_crc_valid():
                raise KafkaError(
                    ErrorCode.corrupt_message, f"{name}: batch at {batch.header.base_offset} fails its CRC"
                )
        return batches

    return client.ask_leader(partition, ApiKey.FETCH, build, parse, deadline_ms)
