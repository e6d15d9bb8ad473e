"""The consumer's decisions: the position in each partition, and what to fetch from which broker. unpacking.py reads the
answers.

- At most one fetch per broker is under way. A partition with unread records is not fetched again. This is Java's rule.
  It limits the memory to one fetch per broker.
- If a partition has a leader of another epoch, that leader must first confirm that the records before the position
  still exist (KIP-320). Otherwise, if a log was truncated and has grown beyond the position again, the reader would
  miss the new records before its position.
- With client.rack a leader may name a follower to read from (KIP-392). The follower is left for the leader after an
  error, when another leader is elected, when the metadata does not list it any more, and every metadata.max.age.ms.

Fetch sessions are left out. Shown by tests/broker_client/test_client_fetcher.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from broker.client.core.backoff import backoff_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.config import ConsumerConfig
from broker.client.core.errors import LOCAL_ERROR_CODE, KafkaError, LogTruncationError
from broker.client.core.fetch_state import (
    BY_DURATION,
    EARLIEST,
    LATEST,
    ConsumerRecord,
    FetchPosition,
    FetchResult,
    PartitionState,
    ReadReplica,
    Validation,
)
from broker.client.core.metadata import NO_LEADER, UNKNOWN_EPOCH, MetadataCache
from broker.client.core.unpacking import Room, unpack
from broker.wire.errors import ErrorCode, error_code, is_retriable


class FetcherCore:
    def __init__(self, config: ConsumerConfig, metadata: MetadataCache, rng: random.Random) -> None:
        self._config = config
        self._metadata = metadata
        self._random = rng
        self._partitions: dict[TopicPartition, PartitionState] = {}
        self._in_flight: dict[int, dict[TopicPartition, int]] = {}
        self._error: KafkaError | None = None
        self._turn = 0

    # -- calls of the consumer ------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replaces the assignment. Partitions that remain keep their position. New partitions of a group begin at its
        committed offset, or else by auto.offset.reset."""
        self._partitions = {each: self._partitions.get(each) or self._new_partition() for each in partitions}

    def awaiting_committed(self) -> list[TopicPartition]:
        """Partitions whose committed offset is not known yet."""
        return [partition for partition, state in self._partitions.items() if state.awaits_committed]

    def on_committed(self, partition: TopicPartition, committed: tuple[int, int] | None) -> None:
        """`committed` is (offset, leader epoch) of the group, or None if the group never committed."""
        state = self._partitions.get(partition)
        if state is None or not state.awaits_committed:
            return  # the caller has called seek since then, or lost the partition
        state.awaits_committed = False
        if committed is not None:
            self.seek(partition, *committed)
        elif self._config.auto_offset_reset == "none":
            text = f"{partition.topic}-{partition.partition}: nothing is committed and auto.offset.reset=none"
            self._error = self._error or KafkaError(LOCAL_ERROR_CODE, text, name="NO_OFFSET_FOR_PARTITION")
        else:
            state.reset_to = self._reset_timestamp()

    def assignment(self) -> list[TopicPartition]:
        return list(self._partitions)

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = UNKNOWN_EPOCH) -> None:
        """`leader_epoch` is the epoch of the record before. Without it the position cannot be validated, so no
        validation takes place."""
        state = self._state(partition)
        state.stand_at(offset)
        state.epochs.restart(offset, leader_epoch)

    def seek_to(self, partition: TopicPartition, timestamp: int) -> None:
        """Seek to EARLIEST or LATEST. The offset is looked up at the next poll."""
        state = self._state(partition)
        state.position = None
        state.awaits_committed = False
        state.reset_to = timestamp
        state.records.clear()

    def position(self, partition: TopicPartition) -> int | None:
        return self._state(partition).position

    def position_epoch(self, partition: TopicPartition) -> int:
        """Leader epoch of the record before the position. UNKNOWN_EPOCH if it is not known."""
        state = self._state(partition)
        return UNKNOWN_EPOCH if state.position is None else state.epochs.epoch_before(state.position)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Returns up to `limit` fetched records. Partitions take turns. If an error of a partition waits, raises it
        once."""
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

    # -- calls of the shell ---------------------------------------------------------------------------------------

    def resets(self, now_ms: int) -> dict[TopicPartition, int]:
        """Partitions whose offset has to be looked up, with the timestamp to ask for."""
        return {
            partition: state.reset_to
            for partition, state in self._partitions.items()
            if state.reset_to is not None and now_ms >= state.not_before_ms
        }

    def on_reset(self, partition: TopicPartition, offset: int, leader_epoch: int = UNKNOWN_EPOCH) -> None:
        state = self._partitions.get(partition)
        if state is not None and state.reset_to is not None:
            self.seek(partition, offset, leader_epoch)

    def validations(self, now_ms: int) -> dict[TopicPartition, Validation]:
        """The positions that the present leader has to confirm before anything is fetched from it."""
        found = {}
        for partition, state in self._partitions.items():
            if state.position is None or state.records or now_ms < state.not_before_ms:
                continue
            leader_epoch = self._metadata.leader_epoch(partition)
            if leader_epoch == state.validated_epoch or self._metadata.leader(partition) == NO_LEADER:
                continue
            offset_epoch = state.epochs.epoch_before(state.fetch_offset)
            if offset_epoch in (UNKNOWN_EPOCH, leader_epoch):
                # Either there is no epoch to compare, or everything was read from this same leader.
                state.validated_epoch = leader_epoch
                continue
            found[partition] = Validation(
                offset=state.fetch_offset, offset_epoch=offset_epoch, leader_epoch=leader_epoch
            )
        return found

    def on_validated(
        self, partition: TopicPartition, asked: Validation, end_epoch: int, end_offset: int, now_ms: int
    ) -> None:
        """Takes the leader's answer. After a truncation the position moves back to the offset where the logs diverge.
        With auto.offset.reset=none a truncation is an error that `take` raises, and the position stays until the caller
        seeks. If the leader knows no epoch as old as that of the position, the reset policy decides."""
        state = self._partitions.get(partition)
        if state is None or state.position is None or state.fetch_offset != asked.offset or state.records:
            return
        state.attempts = 0
        truncation = state.epochs.judge(state.fetch_offset, end_epoch, end_offset)
        if truncation is None:
            state.validated_epoch = asked.leader_epoch
            return
        divergent_offset = truncation.divergent_offset
        if self._config.auto_offset_reset == "none":
            self._error = self._error or LogTruncationError(partition, state.fetch_offset, divergent_offset)
            # after this time the leader is asked again, and `take` raises the error again
            self._back_off(state, now_ms)
        elif divergent_offset is None:
            self.seek_to(partition, self._reset_timestamp())
        else:
            state.stand_at(divergent_offset)
            state.epochs.cut(divergent_offset, truncation.leader_epoch)

    def on_validation_unsupported(self, partition: TopicPartition, asked: Validation) -> None:
        """The leader does not offer OffsetForLeaderEpoch. The position counts as valid."""
        state = self._partitions.get(partition)
        if state is not None and state.fetch_offset == asked.offset:
            state.validated_epoch = asked.leader_epoch

    def on_look_up_failed(self, partition: TopicPartition, now_ms: int) -> None:
        state = self._partitions.get(partition)
        if state is not None:
            self._back_off(state, now_ms)

    def plan(self, now_ms: int) -> dict[int, dict[TopicPartition, FetchPosition]]:
        """The partitions to fetch now, by broker. Brokers with a fetch under way are left out."""
        plans: dict[int, dict[TopicPartition, FetchPosition]] = {}
        unconfirmed = self.validations(now_ms)
        for partition, state in self._partitions.items():
            if state.position is None or state.records or now_ms < state.not_before_ms:
                continue
            leader = self._metadata.leader(partition)
            if leader == NO_LEADER:
                self._metadata.request_update()
                continue
            epoch = self._metadata.leader_epoch(partition)
            node = self._source(state, leader, epoch, now_ms)
            if node not in self._in_flight and partition not in unconfirmed:
                plans.setdefault(node, {})[partition] = FetchPosition(offset=state.fetch_offset, leader_epoch=epoch)
        return plans

    def _source(self, state: PartitionState, leader: int, leader_epoch: int, now_ms: int) -> int:
        """The broker to read this partition from."""
        named = state.read_replica
        if named is None:
            return leader
        if named.leader_epoch == leader_epoch and named.node in self._metadata.brokers and now_ms < named.until_ms:
            return named.node
        state.read_replica = None
        return leader

    def read_replica(self, partition: TopicPartition) -> int | None:
        """The follower that records come from. None: they come from the leader."""
        named = self._state(partition).read_replica
        return None if named is None else named.node

    def on_sent(self, node: int, plan: Mapping[TopicPartition, FetchPosition]) -> None:
        assert node not in self._in_flight
        self._in_flight[node] = {partition: position.offset for partition, position in plan.items()}

    def on_failed(self, node: int, now_ms: int) -> None:
        """There will be no answer: the connection is gone."""
        for partition in self._in_flight.pop(node, {}):
            state = self._partitions.get(partition)
            if state is not None:
                state.read_replica = None
                self._back_off(state, now_ms)
        self._metadata.request_update()

    def on_answer(self, node: int, results: Mapping[TopicPartition, FetchResult], now_ms: int) -> None:
        asked = self._in_flight.pop(node, {})
        room = Room()
        for partition, result in results.items():
            state = self._partitions.get(partition)
            # If a seek or a new assignment has moved the position since, the answer is of no use.
            if state is None or state.position is None or asked.get(partition) != state.fetch_offset:
                continue
            code = error_code(result.error_code)
            if code is ErrorCode.none:
                state.attempts = 0
                if result.preferred_read_replica != NO_LEADER:
                    self._read_from(partition, state, result.preferred_read_replica, now_ms)
                damage = unpack(partition, state, result, room, checks_crc=self._config.check_crcs)
                self._error = self._error or damage
            else:
                self._on_error(partition, state, code, now_ms)

    def next_retry_ms(self, now_ms: int) -> int | None:
        """When the next backoff ends. None if no backoff is running."""
        return min(
            (state.not_before_ms for state in self._partitions.values() if state.not_before_ms > now_ms), default=None
        )

    # -- private --------------------------------------------------------------------------------------------------

    def _read_from(self, partition: TopicPartition, state: PartitionState, node: int, now_ms: int) -> None:
        until_ms = now_ms + self._config.metadata_max_age_ms
        epoch = self._metadata.leader_epoch(partition)
        state.read_replica = ReadReplica(node=node, leader_epoch=epoch, until_ms=until_ms)
        if node not in self._metadata.brokers:
            # Until the metadata lists it, the leader would only name it again, at once and without records.
            self._metadata.request_update()
            self._back_off(state, now_ms)

    def _on_error(self, partition: TopicPartition, state: PartitionState, code: ErrorCode, now_ms: int) -> None:
        name = f"{partition.topic}-{partition.partition}"
        was_follower, state.read_replica = state.read_replica is not None, None
        if was_follower and code is ErrorCode.offset_out_of_range:
            self._back_off(state, now_ms)  # a follower may lack what the leader has, so the leader decides
            return
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

    def _back_off(self, state: PartitionState, now_ms: int) -> None:
        state.attempts += 1
        first_ms, longest_ms = self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
        state.not_before_ms = now_ms + backoff_ms(state.attempts, first_ms, longest_ms, self._random)

    def _new_partition(self) -> PartitionState:
        state = PartitionState()
        if self._config.has_group:
            state.awaits_committed = True
        elif self._config.auto_offset_reset != "none":
            state.reset_to = self._reset_timestamp()
        return state

    def _reset_timestamp(self) -> int:
        policy = self._config.auto_offset_reset
        return {"earliest": EARLIEST, "latest": LATEST}.get(policy, BY_DURATION)

    def _state(self, partition: TopicPartition) -> PartitionState:
        state = self._partitions.get(TopicPartition(*partition))
        if state is None:
            raise KafkaError(-1, f"{partition[0]}-{partition[1]} is not assigned", name="LOCAL_STATE")
        return state

    def check_invariants(self) -> None:
        for state in self._partitions.values():
            state.epochs.check_invariants()
            offsets = [record.offset for record in state.records]
            assert offsets == sorted(set(offsets))
            if state.position is not None:
                assert state.position <= (offsets[0] if offsets else state.fetch_offset)
