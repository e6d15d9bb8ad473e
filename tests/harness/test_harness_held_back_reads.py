"""The final read of a topic whose broker holds records back, because the run's user is over its fetch quota (KIP-219).

The reference broker has no quotas; Apache Kafka and clusters of a cloud have.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.door.clients import KafkaError, TopicPartition
from broker.door.questions import records_from
from broker.wire.apis import ApiKey
from broker.wire.messages import response
from broker.wire.records import encode_batch
from harness.clusters.requests import log_reader
from harness.clusters.requests.log_reader import TopicLogReader

VERSION = 12
BATCH = bytes(encode_batch([b"a", b"b", b"c"], timestamps_ms=0))
WAIT_MS = 10_000  # two such waits are longer than the limit of a read in which nothing comes


def held_back(wait_ms: int = WAIT_MS) -> Any:
    return response(ApiKey.FETCH, VERSION, throttle_time=wait_ms, responses=[])


def served() -> Any:
    partition = {"partition_index": 0, "high_watermark": 3, "last_stable_offset": 3, "records": BATCH}
    return response(ApiKey.FETCH, VERSION, responses=[{"topic": "t", "partitions": [partition]}])


class Leader:
    """A connection to the leader, which gives these answers in turn."""

    def __init__(self, answers: Iterable[Any]) -> None:
        self._answers = iter(answers)

    def ask(self, question: Any) -> Any:
        return question.parse(next(self._answers))

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(s=0.0)

    def sleep(seconds: float) -> None:
        now.s += seconds

    monkeypatch.setattr(log_reader, "time", SimpleNamespace(monotonic=lambda: now.s, sleep=sleep))
    return now


def read(*answers: Any, should_stop: bool = False) -> int:
    leader: Any = Leader(answers)
    reader = TopicLogReader("t", lambda partition: leader, should_stop=lambda: should_stop)
    return sum(batch.header.record_count for batch in reader.batches(0, 3, from_offset=0))


def test_it_waits_as_it_is_told_and_reads_everything(clock: SimpleNamespace) -> None:
    assert read(held_back(), held_back(), held_back(), served()) == 3
    assert clock.s == pytest.approx(3 * WAIT_MS / 1000)


def test_it_ends_with_the_run_and_when_nothing_is_let_through(clock: SimpleNamespace) -> None:
    with pytest.raises(TimeoutError, match=r"t-0, at offset 0: .* holds records back .*; the run was stopped"):
        read(held_back(), should_stop=True)
    assert clock.s == 0
    with pytest.raises(TimeoutError, match="t-0, at offset 0: the fetch quota of the run's user holds records back"):
        read(*[held_back()] * 100)


def test_an_answer_without_the_partition_and_without_a_wait_is_an_error() -> None:
    question = records_from(TopicPartition("t", 0), 0, size_bytes_max=1_000, max_wait_ms=0)
    assert question.parse(held_back()).held_back_ms == WAIT_MS
    with pytest.raises(KafkaError, match="t-0 at offset 0"):
        question.parse(held_back(0))
