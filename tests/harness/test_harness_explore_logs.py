"""`harness.explore.execution.log_records`: what a log says of a record, also of a deleted one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker.log.transactions import EndMarker, encode_end_marker
from broker.wire.batch import RawBatch, iter_batches, set_base_offset
from broker.wire.records import encode_batch
from harness.explore.execution.log_records import deleted_of, logged_of
from harness.explore.oracles.oracles import suspicions
from harness.explore.trial.history import Change, Delivered, History, Logged, Rebalance
from harness.explore.trial.model import Program, Role, Trial


def sent(*values: bytes) -> bytes | bytearray:
    return encode_batch(
        list(values), timestamps_ms=5, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )


def ended(*, is_commit: bool) -> bytearray:
    return encode_end_marker(producer_id=1, producer_epoch=0, marker=EndMarker(is_commit, 0), timestamp_ms=5)


@dataclass
class Reader:
    parts: Sequence[bytes | bytearray]

    def _all(self) -> Iterator[RawBatch]:
        offset = 0
        for part in map(bytearray, self.parts):
            set_base_offset(part, offset)
            for batch in iter_batches(part):
                offset = batch.header.next_offset
                yield batch

    def end_offset(self, partition: int) -> int:
        return max(batch.header.next_offset for batch in self._all())

    def batches(self, partition: int, to_offset: int, *, from_offset: int | None = None) -> Iterator[RawBatch]:
        for batch in self._all():
            if (from_offset or 0) < batch.header.next_offset and batch.header.base_offset < to_offset:
                yield batch


LOG = Reader([sent(b"a", b"b"), ended(is_commit=True), sent(b"c"), ended(is_commit=False), sent(b"d")])


def told(records: list[Logged]) -> list[tuple[int, bytes | None, bool]]:
    return [(one.offset, one.value, one.is_aborted) for one in records]


def test_what_is_open_at_the_end_was_left_open() -> None:
    assert told(logged_of(LOG, 0, 0, number=0)) == [
        (0, b"a", False),
        (1, b"b", False),
        (3, b"c", True),
        (5, b"d", True),
    ]
    assert told(logged_of(LOG, 0, 1, number=0)) == [(1, b"b", False), (3, b"c", True), (5, b"d", True)]


def test_what_is_deleted_is_judged_by_a_marker_that_stays() -> None:
    assert told(deleted_of(LOG, 0, 0, 2, number=0)) == [(0, b"a", False), (1, b"b", False)]
    assert told(deleted_of(LOG, 0, 0, 4, number=0)) == [(0, b"a", False), (1, b"b", False), (3, b"c", True)]
    assert told(deleted_of(LOG, 0, 4, 6, number=0)) == [(5, b"d", False)]  # its marker was on the way
    assert all(one.is_deleted for one in deleted_of(LOG, 0, 0, 6, number=0))


def test_a_reader_of_records_that_are_deleted_in_the_middle_of_a_transaction_is_not_accused() -> None:
    """They were called aborted where their marker was not read too: in a later fetch, or not in the log yet."""
    assigned = Rebalance(at_us=1, change=Change.ASSIGNED, partitions=frozenset({0}))
    given = [
        Delivered(at_us=2 + place, partition=0, offset=place, value=value) for place, value in enumerate((b"a", b"b"))
    ]
    log = (*deleted_of(LOG, 0, 0, 1, number=0), *logged_of(LOG, 0, 1, number=0))
    trial = Trial(program=Program(name="p", role=Role.CONSUMER, moves=()))
    assert [str(one) for one in suspicions(trial, History(happened=(assigned, *given), log=log, ends={0: 2}))] == []
