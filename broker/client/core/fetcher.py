"""The consumer's decisions: where each partition stands, what to fetch from whom, and what a fetched batch contains.

One fetch is under way per broker at most; a partition with unread records is not fetched again (Java's rule: memory is
bounded by one fetch per broker). With isolation.level=read_committed the records of aborted transactions are dropped
here, by the list that comes with each answer (KIP-98). Left out: groups, fetch sessions, follower fetching, and the
check of a position against OffsetForLeaderEpoch after a leader change.
Shown by tests/broker_client/test_client_fetcher.py.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from broker.client.core.backoff import backoff_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.config import ConsumerConfig
from broker.client.core.errors import KafkaError
from broker.client.core.metadata import NO_LEADER, MetadataCache
from broker.wire.errors import CorruptBatchError, ErrorCode, error_code, is_retriable
from broker.wire.records import RawBatch, decode_records, iter_batches

EARLIEST = -2  # timestamps of ListOffsets with a meaning of their own
LATEST = -1


class ConsumerRecord(NamedTuple):
    """A named tuple, as one is made per record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """One partition of an answer. `records` must stay valid until `on_answer` returns."""

    error_code: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes | memoryview = b""
    aborted: tuple[tuple[int, int], ...] = ()  # (producer id, first offset) of transactions that reach into `records`


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    offset: int
    leader_epoch: int


class AbortedTransactions:
    """Which batches of one answer belong to aborted transactions: told of them in order, batch by batch."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = sorted(aborted, key=lambda each: each[1], reverse=True)  # the next one is last
        self._open: set[int] = set()

    def drops(self, batch: RawBatch) -> bool:
        header = batch.header
        while self._ahead and self._ahead[-1][1] <= header.last_offset:
            self._open.add(self._ahead.pop()[0])
        if not header.is_transactional or header.producer_id not in self._open:
            return False
        if header.is_control and _is_abort(batch):
            self._open.discard(header.producer_id)
        return not header.is_control


def _is_abort(batch: RawBatch) -> bool:
    """The key of a control record is a version and a type, of which 0 is ABORT."""
    key = decode_records(batch)[0][2]
    return key is not None and key[2:4] == b"\x00\x00"


class _Partition:
    """Invariant: `position` is the offset of the next record to hand out; `fetch_offset` that of the next to fetch."""

    __slots__ = ("attempts", "fetch_offset", "high_watermark", "not_before_ms", "position", "records", "reset_to")

    def __init__(self) -> None:
        self.position: int | None = None
        self.fetch_offset = 0
        self.reset_to: int | None = None
        self.records: deque[ConsumerRecord] = deque()
        self.not_before_ms = 0
        self.attempts = 0
        self.high_watermark = -1


class FetcherCore:
    def __init__(self, config: ConsumerConfig, metadata: MetadataCache, rng: random.Random) -> None:
        self._config = config
        self._metadata = metadata
        self._random = rng
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._in_flight: dict[int, dict[TopicPartition, int]] = {}
        self._error: KafkaError | None = None
        self._turn = 0

    # -- what the caller asks -------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. Partitions that stay keep their position."""
        self._partitions = {each: self._partitions.get(each) or self._new_partition() for each in partitions}

    def assignment(self) -> list[TopicPartition]:
        return list(self._partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        state = self._state(partition)
        state.position = state.fetch_offset = offset
        state.reset_to = None
        state.records.clear()

    def seek_to(self, partition: TopicPartition, timestamp: int) -> None:
        """To EARLIEST or LATEST: the offset is looked up at the next poll."""
        state = self._state(partition)
        state.position = None
        state.reset_to = timestamp
        state.records.clear()

    def position(self, partition: TopicPartition) -> int | None:
        return self._state(partition).position

    def high_watermark(self, partition: TopicPartition) -> int:
        return self._state(partition).high_watermark

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to `limit` fetched records; partitions take turns. Raises a waiting error of a partition, once."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        taken: list[ConsumerRecord] = []
        states = list(self._partitions.values())
        self._turn += 1
        for index in range(len(states)):
            state = states[(index + self._turn) % len(states)]
            records = state.records
            if not records:
                continue
            if len(records) <= limit - len(taken):
                taken.extend(records)
                records.clear()
                state.position = state.fetch_offset
            else:
                taken.extend([records.popleft() for _ in range(limit - len(taken))])
                state.position = records[0].offset
            if len(taken) == limit:
                break
        return taken

    # -- what the shell asks and tells ----------------------------------------------------------------------------

    def resets(self, now_ms: int) -> dict[TopicPartition, int]:
        """Partitions whose offset has to be looked up, with the timestamp to ask for."""
        return {
            partition: state.reset_to
            for partition, state in self._partitions.items()
            if state.reset_to is not None and now_ms >= state.not_before_ms
        }

    def on_reset(self, partition: TopicPartition, offset: int) -> None:
        state = self._partitions.get(partition)
        if state is not None and state.reset_to is not None:
            self.seek(partition, offset)

    def on_reset_failed(self, partition: TopicPartition, now_ms: int) -> None:
        state = self._partitions.get(partition)
        if state is not None:
            self._back_off(state, now_ms)

    def plan(self, now_ms: int) -> dict[int, dict[TopicPartition, FetchPosition]]:
        """What to fetch now, by leader. Leaders with a fetch under way are left out."""
        plans: dict[int, dict[TopicPartition, FetchPosition]] = {}
        for partition, state in self._partitions.items():
            if state.position is None or state.records or now_ms < state.not_before_ms:
                continue
            leader = self._metadata.leader(partition)
            if leader == NO_LEADER:
                self._metadata.request_update()
            elif leader not in self._in_flight:
                epoch = self._metadata.leader_epoch(partition)
                plans.setdefault(leader, {})[partition] = FetchPosition(offset=state.fetch_offset, leader_epoch=epoch)
        return plans

    def on_sent(self, node: int, plan: Mapping[TopicPartition, FetchPosition]) -> None:
        assert node not in self._in_flight
        self._in_flight[node] = {partition: position.offset for partition, position in plan.items()}

    def on_failed(self, node: int, now_ms: int) -> None:
        """No answer: the connection is gone."""
        for partition in self._in_flight.pop(node, {}):
            state = self._partitions.get(partition)
            if state is not None:
                self._back_off(state, now_ms)
        self._metadata.request_update()

    def on_answer(self, node: int, results: Mapping[TopicPartition, FetchResult], now_ms: int) -> None:
        asked = self._in_flight.pop(node, {})
        for partition, result in results.items():
            state = self._partitions.get(partition)
            # An answer to a position that was left by a seek or a new assignment since is of no use.
            if state is None or state.position is None or asked.get(partition) != state.fetch_offset:
                continue
            code = error_code(result.error_code)
            if code is ErrorCode.none:
                state.attempts = 0
                state.high_watermark = result.high_watermark
                self._take_records(partition, state, result)
            else:
                self._on_error(partition, state, code, now_ms)

    def next_retry_ms(self, now_ms: int) -> int | None:
        """When a backoff ends, None if none is running."""
        return min(
            (state.not_before_ms for state in self._partitions.values() if state.not_before_ms > now_ms), default=None
        )

    # -- inside ---------------------------------------------------------------------------------------------------

    def _take_records(self, partition: TopicPartition, state: _Partition, result: FetchResult) -> None:
        topic, number = partition
        make = ConsumerRecord._make
        aborted = AbortedTransactions(result.aborted)
        try:
            for batch in iter_batches(result.records):
                if self._config.check_crcs and not batch.is_crc_valid():
                    raise CorruptBatchError("the CRC does not match", position=batch.position)
                is_dropped = aborted.drops(batch)
                if batch.header.next_offset <= state.fetch_offset:
                    continue
                if not is_dropped and not batch.header.is_control:
                    wanted = state.fetch_offset
                    records = decode_records(batch)
                    if records and records[0][0] < wanted:
                        records = [record for record in records if record[0] >= wanted]
                    state.records.extend([make((topic, number, *record)) for record in records])
                state.fetch_offset = batch.header.next_offset
        except CorruptBatchError as error:
            text = f"{topic}-{number} at offset {state.fetch_offset}: {error}"
            self._error = self._error or KafkaError(ErrorCode.corrupt_message, text)
        if not state.records:
            state.position = state.fetch_offset

    def _on_error(self, partition: TopicPartition, state: _Partition, code: ErrorCode, now_ms: int) -> None:
        name = f"{partition.topic}-{partition.partition}"
        if code is ErrorCode.offset_out_of_range:
            if self._config.auto_offset_reset == "none":
                text = f"{name}: offset {state.fetch_offset} is out of range and auto.offset.reset=none"
                self._error = self._error or KafkaError(code, text)
                self._back_off(state, now_ms)
            else:
                self.seek_to(partition, self._reset_timestamp())
            return
        self._back_off(state, now_ms)
        self._metadata.request_update()
        if not is_retriable(code):
            self._error = self._error or KafkaError(code, f"{name}: fetch at offset {state.fetch_offset}")

    def _back_off(self, state: _Partition, now_ms: int) -> None:
        state.attempts += 1
        first_ms, longest_ms = self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
        state.not_before_ms = now_ms + backoff_ms(state.attempts, first_ms, longest_ms, self._random)

    def _new_partition(self) -> _Partition:
        state = _Partition()
        if self._config.auto_offset_reset != "none":
            state.reset_to = self._reset_timestamp()
        return state

    def _reset_timestamp(self) -> int:
        return EARLIEST if self._config.auto_offset_reset == "earliest" else LATEST

    def _state(self, partition: TopicPartition) -> _Partition:
        state = self._partitions.get(TopicPartition(*partition))
        if state is None:
            raise KafkaError(-1, f"{partition[0]}-{partition[1]} is not assigned", name="LOCAL_STATE")
        return state

    def check_invariants(self) -> None:
        for state in self._partitions.values():
            offsets = [record.offset for record in state.records]
            assert offsets == sorted(set(offsets))
            if state.position is not None:
                assert state.position <= (offsets[0] if offsets else state.fetch_offset)
