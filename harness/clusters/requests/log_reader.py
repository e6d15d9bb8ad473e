"""The log of one topic, by plain Fetch requests to each partition's leader. The final read uses it.

It shares with the reference client the questions and the way to ask them, but not the consumer. It never retries
silently, and gives up within a limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from broker.door.batches import RawBatch, check_fetched, iter_batches
from broker.door.clients import KafkaError, TopicPartition
from broker.door.protocol import CorruptBatchError, ErrorCode, error_name
from broker.door.questions import EARLIEST, LATEST, offset_at, records_from
from harness.clusters.requests.probe import BrokerProbe, ask_leader, is_answer

FETCH_BYTES: Final = 8 << 20
FETCH_WAIT_MS: Final = 500
_STALL_TIMEOUT_S: Final = 15.0
_SLICE_S: Final = 0.25  # A wait has such slices, so that it ends soon if the run is stopped.
_OUT_OF_RANGE: Final = error_name(ErrorCode.offset_out_of_range)
_HELD_BACK_MAX_S: Final = 600.0  # in all, for one partition: a quota that lets nothing through must not hold the run


class TopicLogReader:
    """`probe_of_leader(partition)` opens a connection to the partition's present leader, or gives None. `should_stop`
    ends the wait for a quota, which may be long."""

    def __init__(
        self,
        topic: str,
        probe_of_leader: Callable[[int], BrokerProbe | None],
        *,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._topic, self._should_stop = topic, should_stop
        self._probe_of_leader = probe_of_leader

    def end_offset(self, partition: int) -> int:
        """The high watermark. TimeoutError when no leader gives it within 15 s."""
        return self._offset(partition, LATEST)

    def start_offset(self, partition: int) -> int:
        """The first offset of the log. It is not 0 if records were deleted."""
        return self._offset(partition, EARLIEST)

    def _offset(self, partition: int, timestamp: int) -> int:
        question = offset_at(TopicPartition(self._topic, partition), timestamp)
        answer, problem = ask_leader(lambda: self._probe_of_leader(partition), question, timeout_s=_STALL_TIMEOUT_S)
        if answer is None:
            raise TimeoutError(f"{self._topic}-{partition}: no offset within {_STALL_TIMEOUT_S:.0f} s: {problem}")
        return answer.offset

    def batches(self, partition: int, to_offset: int, *, from_offset: int | None = None) -> Iterator[RawBatch]:
        """Whole batches from the log's start (or the one with `from_offset`) until `to_offset`. TimeoutError when
        nothing comes for 15 s, not counting the waits that brokers ask for because of a quota. If what comes next was
        deleted, they go on at the new start of the log."""
        held_back_s = 0.0
        position = self.start_offset(partition) if from_offset is None else from_offset
        probe: BrokerProbe | None = None
        deadline = time.monotonic() + _STALL_TIMEOUT_S
        problem = "no leader"
        try:
            while position < to_offset:
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"{self._topic}-{partition}: nothing after offset {position}: {problem}")
                probe = probe or self._probe_of_leader(partition)
                records, problem, wait_s = (
                    (None, "no leader", 0.0) if probe is None else self._fetch(probe, partition, position)
                )
                if wait_s:
                    held_back_s += wait_s
                    if held_back_s > _HELD_BACK_MAX_S:
                        raise TimeoutError(f"{self._topic}-{partition}, at offset {position}: {problem}")
                    self._wait(wait_s, f"{self._topic}-{partition}, at offset {position}: {problem}")
                    deadline = time.monotonic() + _STALL_TIMEOUT_S
                    continue
                if problem == _OUT_OF_RANGE:
                    position = max(position, self.start_offset(partition))
                if records is None and probe is not None:
                    probe.close()
                    probe = None
                if not records:
                    time.sleep(0.05)
                    continue
                for batch in self._checked(records, partition, position):
                    if batch.header.next_offset <= position:
                        continue  # a fetch may begin before the offset asked for
                    yield batch
                    position = batch.header.next_offset
                    deadline = time.monotonic() + _STALL_TIMEOUT_S
        finally:
            if probe is not None:
                probe.close()

    def _wait(self, wait_s: float, why: str) -> None:
        until_s = time.monotonic() + wait_s
        while (left_s := until_s - time.monotonic()) > 0:
            if self._should_stop():
                raise TimeoutError(f"{why}; the run was stopped")
            time.sleep(min(left_s, _SLICE_S))

    def _checked(self, records: memoryview | bytes, partition: int, position: int) -> Iterator[RawBatch]:
        try:
            for batch in iter_batches(records):
                check_fetched(batch.header)
                yield batch
        except CorruptBatchError as error:
            raise CorruptBatchError(f"{self._topic}-{partition}, fetched at offset {position}: {error}") from error

    def _fetch(self, probe: BrokerProbe, partition: int, offset: int) -> tuple[memoryview | bytes | None, str, float]:
        """Records from `offset`, possibly empty; None and the reason when the leader must be looked up again. The last
        is how long the broker wants us to wait because of a quota, in seconds."""
        question = records_from(
            TopicPartition(self._topic, partition), offset, size_bytes_max=FETCH_BYTES, max_wait_ms=FETCH_WAIT_MS
        )
        try:
            found = probe.ask(question)
        except KafkaError as error:
            return None, error.name if is_answer(error) else "no answer", 0.0
        if found.held_back_ms:
            cause = "the fetch quota of the run's user holds records back (consumer_byte_rate or request_percentage)"
            return None, cause, found.held_back_ms / 1000
        return found.records, "no records", 0.0


class SeveralTopics:
    """Topics of equal size as one: partition p of topic t is t * partitions + p, as in the run log."""

    def __init__(self, topics: Sequence[TopicLogReader], *, partitions: int) -> None:
        self._topics, self._partitions = topics, partitions

    def end_offset(self, partition: int) -> int:
        topic, partition = divmod(partition, self._partitions)
        return self._topics[topic].end_offset(partition)

    def start_offset(self, partition: int) -> int:
        topic, partition = divmod(partition, self._partitions)
        return self._topics[topic].start_offset(partition)

    def batches(self, partition: int, to_offset: int, *, from_offset: int | None = None) -> Iterator[RawBatch]:
        topic, partition = divmod(partition, self._partitions)
        return self._topics[topic].batches(partition, to_offset, from_offset=from_offset)
