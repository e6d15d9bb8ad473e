"""A look-up by time is done in steps of bounded work, and a batch that nobody can read is no fault of the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log import time_search
from broker.log.config import LogConfig
from broker.log.errors import STORAGE_ERRORS, LogCorruptError, UnreadableBatchError
from broker.log.filesystem import LOCAL
from broker.log.partition_log import PartitionLog
from broker.log.segment import Segment
from broker.log.time_search import HEADERS_PER_STEP, RECORDS_PER_STEP
from broker.wire.compression import CodecId
from broker.wire.records import BATCH_OVERHEAD_BYTES, RawBatch, encode_batch
from tests.broker_log.steps import at_once
from tests.odd_batches import empty_headers, foreign_name, record, unreadable, with_records


class Work:
    """Counts what is done between two yields."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heads = self.bodies = self.records = 0
        self.most_heads = self.most_bodies = self.most_records = self.steps = 0
        batches, body_of, record_heads = Segment.batches, time_search.body_of, time_search.record_heads

        def counted_batches(segment: Segment, position: int = 0, *, bodies: bool):  # type: ignore[no-untyped-def]
            for batch in batches(segment, position, bodies=bodies):
                self.heads += 1
                yield batch

        def counted_body(batch: RawBatch) -> bytes:
            self.bodies += 1
            return body_of(batch)

        def counted_heads(body: bytes, count: int):  # type: ignore[no-untyped-def]
            for head in record_heads(body, count):
                self.records += 1
                yield head

        monkeypatch.setattr(Segment, "batches", counted_batches)
        monkeypatch.setattr(time_search, "body_of", counted_body)
        monkeypatch.setattr(time_search, "record_heads", counted_heads)

    def of(self, steps: time_search.Steps[tuple[int, int] | None]) -> tuple[int, int] | None:
        try:
            while True:
                self.heads = self.bodies = self.records = 0
                try:
                    next(steps)
                finally:
                    self.steps += 1
                    self.most_heads = max(self.most_heads, self.heads)
                    self.most_bodies = max(self.most_bodies, self.bodies)
                    self.most_records = max(self.most_records, self.records)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def opened(path: Path, *batches: bytes, config: LogConfig | None = None) -> PartitionLog:
    log = PartitionLog(str(path / "t-0"), name="t-0", config=config or LogConfig())
    for batch in batches:
        log.append(batch, leader_epoch=0)
    return log


def test_a_name_of_a_header_is_not_looked_at(tmp_path: Path) -> None:
    log = opened(tmp_path, foreign_name(1_000))
    assert at_once(log.find_timestamp(900)) == at_once(log.find_max_timestamp()) == (1_000, 0)


def test_eight_million_headers_cost_one_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = empty_headers(8_000_000)
    assert len(batch) < 2_000
    log, work = opened(tmp_path, batch), Work(monkeypatch)
    assert work.of(log.find_timestamp(900)) == (1_000, 0)
    assert (work.most_records, work.most_bodies) == (1, 1)


def test_headers_that_lie_about_their_time_cost_one_batch_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each says that it has a record of the time that is asked for, and none has."""
    lies = with_records(b"".join(map(record, range(500))), 500, codec=CodecId.ZSTD, max_timestamp=5_000)
    log, work = opened(tmp_path, *[lies] * 40, encode_batch([b"v"], timestamps_ms=5_000)), Work(monkeypatch)
    assert work.of(log.find_timestamp(5_000)) == (5_000, 40 * 500)
    assert (work.most_bodies, work.most_records) == (1, 500)
    assert work.steps > 40
    assert work.of(log.find_timestamp(5_001)) is None


@pytest.mark.thorough
def test_records_beyond_what_produce_accepts_are_walked_in_several_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 2 * RECORDS_PER_STEP + 1
    old = with_records(b"".join(map(record, range(count))), count, codec=CodecId.ZSTD, max_timestamp=5_000)
    log, work = opened(tmp_path, old), Work(monkeypatch)
    assert work.of(log.find_timestamp(5_000)) is None
    assert work.most_records == RECORDS_PER_STEP


def test_the_largest_time_behind_a_deleted_beginning_is_found_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 3 * HEADERS_PER_STEP
    log = opened(tmp_path, *(encode_batch([b""], timestamps_ms=10_000 - number) for number in range(count)))
    log.advance_log_start(7)
    work = Work(monkeypatch)
    assert work.of(log.find_max_timestamp()) == (10_000 - 7, 7)
    assert work.most_heads <= HEADERS_PER_STEP


def test_headers_are_walked_in_steps_if_the_index_has_few_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = LogConfig(index_interval_bytes=1 << 30)
    batches = (encode_batch([b""], timestamps_ms=number) for number in range(3 * HEADERS_PER_STEP))
    log, work = opened(tmp_path, *batches, config=config), Work(monkeypatch)
    last = 3 * HEADERS_PER_STEP - 1
    assert work.of(log.find_timestamp(last)) == (last, last)
    assert work.most_heads <= HEADERS_PER_STEP


CHANGES: dict[str, Callable[[PartitionLog], object]] = {
    "truncated": lambda log: log.truncate_to(2),
    "started over": lambda log: log.truncate_fully_and_start_at(700),
    "deleted from its start": lambda log: log.advance_log_start(20),
    "rolled": lambda log: log.roll(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("at", range(4))
def test_the_log_may_change_between_two_steps(tmp_path: Path, change: str, at: int) -> None:
    lies = with_records(record(), 1, max_timestamp=5_000)
    log = opened(tmp_path, *[lies] * 30, config=LogConfig(segment_bytes=10 * len(lies)))
    for steps in (log.find_timestamp(5_000), log.find_max_timestamp()):
        for _ in range(at):
            next(steps, None)
        CHANGES[change](log)
        assert at_once(steps) is None


def test_a_batch_that_nobody_can_read_is_no_fault_of_the_disk(tmp_path: Path) -> None:
    log = opened(tmp_path, encode_batch([b"v"], timestamps_ms=1), unreadable(1_000))
    with pytest.raises(UnreadableBatchError, match="the batch at offset 1") as found:
        at_once(log.find_timestamp(900))
    assert found.value.offset == 1
    assert not isinstance(found.value, STORAGE_ERRORS)
    assert at_once(log.find_timestamp(1)) == (1, 0), "the others are found"


def test_a_batch_that_the_disk_has_changed_is_one(tmp_path: Path) -> None:
    log = opened(tmp_path, unreadable(1_000))
    LOCAL.open(f"{log.directory}/{0:020d}.log").write_at(BATCH_OVERHEAD_BYTES, b"X")
    with pytest.raises(LogCorruptError, match="the disk has changed"):
        at_once(log.find_timestamp(900))


def test_a_time_beyond_64_bits_is_never_answered(tmp_path: Path) -> None:
    log = opened(tmp_path, with_records(record(time=10), 1, timestamp=2**63 - 5))
    with pytest.raises(UnreadableBatchError):
        at_once(log.find_timestamp(900))
