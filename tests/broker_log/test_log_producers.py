"""Sequence checks of idempotent producers."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.log.filesystem import LOCAL
from broker.log.producers import BATCHES_KEPT, PRODUCERS_MAX, ProducerState, Verdict
from broker.wire.records import BatchHeader, encode_batch, parse_batch_header


def header(sequence: int, *, count: int = 2, epoch: int = 0, producer_id: int = 7, offset: int = 0) -> BatchHeader:
    batch = encode_batch(
        [b"v"] * count,
        timestamps_ms=1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        base_offset=offset,
    )
    return parse_batch_header(batch)


def state_after(*headers: BatchHeader) -> ProducerState:
    state = ProducerState()
    for each in headers:
        assert state.check(each)[0] is Verdict.OK
        state.update(each)
    return state


def test_next_sequence_is_ok_and_a_gap_is_not() -> None:
    state = state_after(header(0), header(2))
    assert state.check(header(4)) == (Verdict.OK, None)
    assert state.check(header(5)) == (Verdict.OUT_OF_ORDER, None)
    assert state.check(header(3)) == (Verdict.OUT_OF_ORDER, None)


def test_repeated_batch_is_a_duplicate_with_its_first_offsets() -> None:
    state = state_after(header(0, offset=100), header(2, offset=102))
    verdict, first = state.check(header(0, offset=999))
    assert verdict is Verdict.DUPLICATE
    assert first is not None
    assert (first.base_offset, first.last_offset) == (100, 101)


def test_duplicates_are_known_for_five_batches_only() -> None:
    batches = [header(2 * number, offset=2 * number) for number in range(BATCHES_KEPT + 1)]
    state = state_after(*batches)
    assert [state.check(each)[0] for each in batches] == [Verdict.OUT_OF_ORDER] + [Verdict.DUPLICATE] * BATCHES_KEPT


def test_same_start_with_another_length_is_no_duplicate() -> None:
    state = state_after(header(0, count=2))
    assert state.check(header(0, count=3))[0] is Verdict.OUT_OF_ORDER


def test_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() -> None:
    state = state_after(header(0, epoch=3))
    assert state.check(header(2, epoch=2))[0] is Verdict.INVALID_EPOCH
    assert state.check(header(2, epoch=4))[0] is Verdict.OUT_OF_ORDER
    assert state.check(header(0, epoch=4))[0] is Verdict.OK
    state.update(header(0, epoch=4))
    assert state.check(header(0, epoch=3))[0] is Verdict.INVALID_EPOCH


def test_sequences_wrap_at_int32() -> None:
    state = state_after(header(2**31 - 2, count=2))
    assert state.check(header(0))[0] is Verdict.OK
    state = state_after(header(2**31 - 1, count=2))
    assert state.check(header(1))[0] is Verdict.OK
    assert state.check(header(0))[0] is Verdict.OUT_OF_ORDER
    assert state.check(header(2**31 - 1, count=2))[0] is Verdict.DUPLICATE


def test_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerState().check(header(55))[0] is Verdict.OK


def test_batches_without_a_producer_leave_no_trace() -> None:
    state = ProducerState()
    plain = parse_batch_header(encode_batch([b"v"], timestamps_ms=1))
    assert state.check(plain)[0] is Verdict.OK
    state.update(plain)
    assert len(state) == 0


def test_snapshot_round_trips_with_all_five_batches(tmp_path: Path) -> None:
    state = state_after(*(header(2 * number, offset=2 * number) for number in range(7)), header(0, producer_id=9))
    path = str(tmp_path / "snapshot")
    state.save(LOCAL, path)
    loaded = ProducerState()
    assert loaded.load(LOCAL, path)
    assert loaded.entry(7) == state.entry(7)
    assert loaded.entry(9) == state.entry(9)
    assert len(loaded) == 2


@pytest.mark.parametrize("position", [0, 5, 30])
def test_damaged_snapshot_is_not_believed(tmp_path: Path, position: int) -> None:
    path = tmp_path / "snapshot"
    state_after(header(0)).save(LOCAL, str(path))
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    loaded = state_after(header(0))
    assert not loaded.load(LOCAL, str(path))
    assert len(loaded) == 0
    assert not loaded.load(LOCAL, str(tmp_path / "missing"))


@pytest.mark.thorough
def test_number_of_producers_is_bounded() -> None:
    state = ProducerState()
    first = header(0)
    for producer_id in range(PRODUCERS_MAX + 3):
        state.update(first._replace(producer_id=producer_id))
    assert len(state) == PRODUCERS_MAX
    assert state.entry(2) is None
    assert state.entry(3) is not None


DAY_MS = 86_400_000


def test_a_producer_that_was_forgotten_goes_on_with_its_next_sequence() -> None:
    """Kafka accepts it (ProducerAppendInfo.checkSequence: no current entry); librdkafka goes fatal on a refusal."""
    state = state_after(header(0), header(2))
    assert state.forget_idle(1_000, DAY_MS) == 0
    assert state.forget_idle(1_000 + DAY_MS, DAY_MS) == 1
    assert state.entry(7) is None
    assert state.check(header(4), is_complete=True)[0] is Verdict.OK
    assert ProducerState().check(header(4), is_complete=True)[0] is Verdict.OUT_OF_ORDER, "nobody was ever forgotten"


def test_a_forgotten_producer_is_accepted_after_a_restart_too(tmp_path: Path) -> None:
    state = state_after(header(0), header(0, producer_id=8))
    state.forget_idle(1_000, DAY_MS)
    state.update(header(2, producer_id=8))
    state.forget_idle(1_000 + DAY_MS, DAY_MS)
    path = str(tmp_path / "snapshot")
    state.save(LOCAL, path)
    loaded = ProducerState()
    assert loaded.load(LOCAL, path)
    assert loaded.entry(7) is None
    assert loaded.check(header(2), is_complete=True)[0] is Verdict.OK
    assert loaded.check(header(4, producer_id=8), is_complete=True)[0] is Verdict.OK
    assert loaded.check(header(5, producer_id=8), is_complete=True)[0] is Verdict.OUT_OF_ORDER


def test_a_producer_expires_by_when_it_wrote_and_not_by_the_timestamps_of_its_records(tmp_path: Path) -> None:
    """Records of 1970 (timestamps 1): their producer is at work now."""
    now_ms = 50 * DAY_MS
    state = state_after(header(0))
    assert state.forget_idle(now_ms, DAY_MS) == 0
    state.update(header(2))
    assert state.forget_idle(now_ms + DAY_MS, DAY_MS) == 0, "it wrote since the last look"
    path = str(tmp_path / "snapshot")
    state.save(LOCAL, path)
    loaded = ProducerState()
    loaded.load(LOCAL, path)
    assert loaded.forget_idle(now_ms + 2 * DAY_MS - 1, DAY_MS) == 0
    assert loaded.forget_idle(now_ms + 2 * DAY_MS, DAY_MS) == 1, "a restart does not begin its day anew"


def test_a_clock_that_is_set_back_does_not_keep_a_producer_for_ever() -> None:
    state = state_after(header(0))
    state.forget_idle(100 * DAY_MS, DAY_MS)
    assert state.forget_idle(2 * DAY_MS, DAY_MS) == 0
    assert state.forget_idle(3 * DAY_MS, DAY_MS) == 1


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    batch = encode_batch([b"v"], timestamps_ms=1, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    state = ProducerState()
    state.update(parse_batch_header(batch))
    state.forget_idle(0, DAY_MS)
    assert state.forget_idle(5 * DAY_MS, DAY_MS) == 0
