"""Batches and the account of buffer.memory."""

from __future__ import annotations

from broker.client.core.accumulator import Accumulator
from broker.client.core.batch import Batch, BatchState, Outcome, TopicPartition

TP = TopicPartition("t", 0)


def make(batch_size: int = 1000, linger_ms: int = 5, memory: int = 10_000) -> Accumulator:
    return Accumulator(batch_size_bytes=batch_size, linger_ms=linger_ms, buffer_memory_bytes=memory)


def add(accumulator: Accumulator, size_bytes: int, now_ms: int = 0, key: bytes | None = None) -> Batch | None:
    queue = accumulator.queue_of(TP)
    appended = accumulator.try_append(queue, b"v", key, (), now_ms, None, size_bytes, now_ms)
    accumulator.check_invariants()
    return None if appended is None else appended[0]


def test_records_share_a_batch_until_batch_size() -> None:
    accumulator = make()
    batches = [add(accumulator, 300) for _ in range(7)]  # 61 + 3 * 300 fits, a fourth does not
    assert [batches.index(batch) for batch in batches] == [0, 0, 0, 3, 3, 3, 6]
    assert [batch.state for batch in accumulator.queues[TP].batches] == [
        BatchState.QUEUED,
        BatchState.QUEUED,
        BatchState.OPEN,
    ]


def test_a_batch_is_due_when_it_lingered_or_another_follows_or_somebody_hurries() -> None:
    accumulator = make(linger_ms=5)
    add(accumulator, 300, now_ms=100)
    queue = accumulator.queues[TP]
    assert not accumulator.is_due(queue, 104, hurry=False)
    assert accumulator.due_at_ms(queue) == 105
    assert accumulator.is_due(queue, 105, hurry=False)
    assert accumulator.is_due(queue, 100, hurry=True)
    for _ in range(3):
        add(accumulator, 300, now_ms=100)
    assert accumulator.is_due(queue, 100, hurry=False)
    queue.is_muted = True
    assert not accumulator.is_due(queue, 1000, hurry=True)


def test_memory_is_refused_when_full_and_returns_when_a_batch_ends() -> None:
    accumulator = make(batch_size=1000, memory=2500)
    first = add(accumulator, 900)
    assert first is not None
    assert add(accumulator, 900) is not None
    assert accumulator.used_bytes == 2000
    assert add(accumulator, 900) is None
    accumulator.take_first(accumulator.queues[TP])
    first.outcome = Outcome(0, -1, None)
    accumulator.forget(first)
    accumulator.check_invariants()
    assert add(accumulator, 900) is not None


def test_a_record_larger_than_batch_size_gets_a_batch_of_its_own_and_pays_for_it() -> None:
    accumulator = make(batch_size=1000)
    add(accumulator, 100)
    large = add(accumulator, 5000)
    assert large is not None
    assert large.record_count == 1
    assert accumulator.used_bytes == 6000
    assert add(accumulator, 10) is not large


def test_a_batch_that_was_taken_takes_no_record() -> None:
    accumulator = make()
    taken = add(accumulator, 100)
    accumulator.take_first(accumulator.queues[TP])
    assert taken is not None
    assert not taken.takes_plain
    assert taken.append(b"late", None, (), 0, None, 10) is None
    assert add(accumulator, 100) is not taken


def test_a_retried_batch_goes_to_the_front_and_numbered_ones_in_sequence_order() -> None:
    accumulator = make(batch_size=100)
    queue = accumulator.queue_of(TP)
    for _ in range(4):
        add(accumulator, 90)
    first, second, third = (accumulator.take_first(queue) for _ in range(3))
    for sequence, batch in ((2**31 - 2, first), (2**31 - 1, second), (0, third)):  # sequences wrap
        batch.base_sequence = sequence
    for batch in (second, third, first):
        accumulator.put_back(batch)
        accumulator.check_invariants()
    assert list(queue.batches)[:3] == [first, second, third]


def test_keys_and_headers_that_come_late_leave_earlier_records_without() -> None:
    accumulator = make()
    batch = add(accumulator, 10)
    assert batch is not None
    assert batch.takes_plain
    add(accumulator, 10, key=b"k")
    add(accumulator, 10)
    assert batch.keys == [None, b"k", None]
    assert not batch.takes_plain


def test_what_records_waited_is_less_than_what_their_batch_did() -> None:
    accumulator = make()
    batch, *others = [add(accumulator, 10, now_ms=stamp_ms) for stamp_ms in (1_000, 1_000, 1_004, 1_010)]
    assert batch is not None
    assert others == [batch] * 3
    assert batch.waited_ms(1_010) == 10 + 10 + 6 + 0
    assert batch.waited_ms(1_002) == 2 + 2, "a wall clock that was set back makes no negative wait"
