"""Control batches, last stable offset, aborted-transaction index and verification guards."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.producers import Verdict
from broker.log.transaction_index import AbortedTransaction
from broker.log.transactions import EndMarker, decode_end_marker, encode_end_marker
from broker.wire.errors import CorruptBatchError
from broker.wire.record_filter import without_records
from broker.wire.records import decode_records, encode_batch, iter_batches, parse_batch_header, validate_batches

SMALL = LogConfig(segment_bytes=900, index_interval_bytes=200)
LEGACY, BUMPING = 1, 2  # transaction.version


def open_log(path: Path, *, clean: bool = False) -> PartitionLog:
    return PartitionLog(str(path / "t-0"), name="t-0", config=SMALL, clean=clean)


def data(producer_id: int, sequence: int, *, epoch: int = 0, values: int = 1, transactional: bool = True) -> bytes:
    return encode_batch(
        [b"%d/%d" % (producer_id, sequence + number) for number in range(values)],
        timestamps_ms=1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def append(log: PartitionLog, batch: bytes) -> int:
    result = log.append(batch, leader_epoch=0)
    assert result.verdict is Verdict.OK
    return result.base_offset


def end(log: PartitionLog, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> Verdict:
    return log.append_marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        marker=EndMarker(commit, coordinator_epoch),
        leader_epoch=0,
        timestamp_ms=5,
        transaction_version=LEGACY,
    ).verdict


def read_committed(log: PartitionLog, high_watermark: int, *, max_bytes: int = 250) -> list[bytes]:
    """What a consumer sees that fetches small pieces and drops what the answers call aborted."""
    stable = log.last_stable_offset(high_watermark)
    offset, values = log.log_start_offset, []
    while offset < stable:
        records = log.read(offset, max_bytes, stable)
        batches = list(iter_batches(records))
        upper_bound = batches[-1].header.next_offset
        aborted = log.aborted_transactions(offset, upper_bound)
        for batch in batches:
            header = batch.header
            is_aborted = header.is_transactional and any(
                each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
                for each in aborted
            )
            if not header.is_control and not is_aborted:
                values += [value or b"" for _, _, _, value, _ in decode_records(batch)]
        offset = upper_bound
    return values


# -- markers


def test_marker_is_a_control_batch_without_sequence_that_decodes_to_itself() -> None:
    for marker in (EndMarker(True, 7), EndMarker(False, 0)):
        batch = encode_end_marker(producer_id=3, producer_epoch=2, marker=marker, timestamp_ms=99)
        (header,) = validate_batches(batch)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 2, -1)
        assert header.is_control
        assert header.is_transactional
        assert decode_end_marker(batch) == marker


def test_marker_bytes_are_those_of_kafkas_schema() -> None:
    batch = encode_end_marker(producer_id=3, producer_epoch=2, marker=EndMarker(True, 7), timestamp_ms=99)
    ((_, timestamp, key, value, _),) = decode_records(batch)
    assert (timestamp, key, value) == (99, b"\0\0\0\1", b"\0\0\0\0\0\7")  # version, COMMIT | version, coordinator epoch


def test_other_control_types_are_no_markers_and_a_torn_key_is_corrupt() -> None:
    def control(key: bytes) -> bytes:
        return encode_batch(
            [b"\0\0\0\0\0\0"], keys=[key], timestamps_ms=1, producer_id=1, producer_epoch=0, control=True
        )

    assert decode_end_marker(control(b"\0\0\0\2")) is None  # KRaft's leader change
    with pytest.raises(CorruptBatchError, match="control record"):
        decode_end_marker(control(b"\0\0"))


# -- last stable offset


def test_last_stable_offset_stops_at_the_first_ongoing_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, data(9, 0, transactional=False))
    assert log.last_stable_offset(1) == 1
    append(log, data(1, 0))  # offset 1
    append(log, data(2, 0))  # offset 2
    assert log.last_stable_offset(3) == 1
    assert end(log, 1, commit=True) is Verdict.OK
    log.high_watermark_advanced(4)
    assert log.last_stable_offset(4) == 2
    assert end(log, 2, commit=False) is Verdict.OK
    log.high_watermark_advanced(5)
    assert log.last_stable_offset(5) == 5


def test_ended_transaction_is_stable_only_once_its_marker_is_replicated(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, data(1, 0))
    end(log, 1, commit=False)
    log.high_watermark_advanced(1)
    assert log.last_stable_offset(1) == 0
    log.high_watermark_advanced(2)
    assert log.last_stable_offset(2) == 2


def test_marker_for_a_producer_without_a_transaction_changes_nothing_but_its_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert end(log, 1, commit=False, epoch=4) is Verdict.OK
    assert log.aborted_transactions(0, 10) == []
    assert log.append(data(1, 0, epoch=3), leader_epoch=0).verdict is Verdict.INVALID_EPOCH
    assert log.append(data(1, 0, epoch=4), leader_epoch=0).verdict is Verdict.OK


def test_marker_with_a_bumped_epoch_makes_the_next_sequence_zero(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, data(1, 0))
    append(log, data(1, 1))
    end(log, 1, commit=True, epoch=1)
    assert log.append(data(1, 2, epoch=0), leader_epoch=0).verdict is Verdict.INVALID_EPOCH
    assert log.append(data(1, 2, epoch=1), leader_epoch=0).verdict is Verdict.OUT_OF_ORDER
    assert log.append(data(1, 0, epoch=1), leader_epoch=0).verdict is Verdict.OK


def test_marker_with_the_same_epoch_keeps_the_sequences(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, data(1, 0))
    end(log, 1, commit=True)
    assert log.append(data(1, 0), leader_epoch=0).verdict is Verdict.DUPLICATE
    assert log.append(data(1, 1), leader_epoch=0).verdict is Verdict.OK


def test_late_marker_of_the_same_epoch_cannot_end_the_next_transaction_since_version_2(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, data(1, 0, epoch=0))
    append_of = {"producer_id": 1, "marker": EndMarker(True, 0), "leader_epoch": 0, "timestamp_ms": 1}

    def mark(epoch: int, version: int) -> Verdict:
        return log.append_marker(producer_epoch=epoch, transaction_version=version, **append_of).verdict  # type: ignore[arg-type]

    assert mark(0, BUMPING) is Verdict.INVALID_EPOCH
    assert mark(1, BUMPING) is Verdict.OK
    assert mark(1, BUMPING) is Verdict.OK  # a retry, harmless: there is no transaction
    append(log, data(1, 0, epoch=1))
    assert mark(1, BUMPING) is Verdict.INVALID_EPOCH
    assert mark(1, LEGACY) is Verdict.OK


def test_marker_of_an_old_coordinator_is_fenced(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    end(log, 1, commit=True, coordinator_epoch=5)
    append(log, data(1, 0))
    assert end(log, 1, commit=True, coordinator_epoch=4) is Verdict.COORDINATOR_FENCED
    assert end(log, 1, commit=True, coordinator_epoch=5) is Verdict.OK


def test_plain_batch_within_a_transaction_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, data(1, 0))
    result = log.append(data(1, 1, transactional=False), leader_epoch=0)
    assert result.verdict is Verdict.INVALID_TXN_STATE
    assert log.log_end_offset == 1


def test_offset_commits_of_a_transaction_have_no_sequences(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(2):
        batch = encode_batch([b"o"], timestamps_ms=1, producer_id=1, producer_epoch=3, transactional=True)
        validate_batches(batch)  # as followers do
        append(log, batch)
    assert log.last_stable_offset(2) == 0
    stale = encode_batch([b"o"], timestamps_ms=1, producer_id=1, producer_epoch=2, transactional=True)
    assert log.append(stale, leader_epoch=0).verdict is Verdict.INVALID_EPOCH


def test_batch_that_compaction_emptied_begins_no_transaction(tmp_path: Path) -> None:
    """Its marker may be gone: a follower that fetches the log anew would wait for it for ever."""
    log = open_log(tmp_path)
    emptied = without_records(parse_batch_header(data(1, 0, values=2)))
    log.append_as_follower(emptied)
    assert log.last_stable_offset(2) == 2
    assert log.append(data(1, 2), leader_epoch=0).verdict is Verdict.OK  # and the sequence is still known
    assert log.last_stable_offset(3) == 2


# -- the index


def test_aborted_transactions_are_those_that_reach_into_the_range(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, data(1, 0))  # 0
    append(log, data(2, 0))  # 1
    end(log, 1, commit=False)  # 2
    append(log, data(3, 0))  # 3
    end(log, 2, commit=False)  # 4
    end(log, 3, commit=True)  # 5
    one = AbortedTransaction(producer_id=1, first_offset=0, last_offset=2, last_stable_offset=1)
    two = AbortedTransaction(producer_id=2, first_offset=1, last_offset=4, last_stable_offset=3)
    assert log.aborted_transactions(0, 6) == [one, two]
    assert log.aborted_transactions(3, 6) == [two]
    assert log.aborted_transactions(0, 1) == [one]
    assert log.aborted_transactions(5, 6) == []


def test_index_file_has_kafkas_format(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, data(1, 0))
    end(log, 1, commit=False)
    (path,) = (tmp_path / "t-0").glob("*.txnindex")
    expected = b"\0\0" + b"".join(number.to_bytes(8, "big") for number in (1, 0, 1, 2))
    assert path.read_bytes() == expected


def test_index_of_a_log_without_aborts_is_no_file(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, data(1, 0))
    end(log, 1, commit=True)
    log.close()
    assert list((tmp_path / "t-0").glob("*.txnindex")) == []


@pytest.mark.parametrize("cut_bytes", [0, 1, 33, 34, 50])
def test_damaged_index_is_written_anew_after_a_crash(tmp_path: Path, cut_bytes: int) -> None:
    log = open_log(tmp_path)
    for number in range(2):
        append(log, data(1, number))
        end(log, 1, commit=False)
    before = log.aborted_transactions(0, 4)
    (path,) = (tmp_path / "t-0").glob("*.txnindex")
    path.write_bytes(path.read_bytes()[:cut_bytes] + b"\xff" * 40)
    log = open_log(tmp_path)
    assert log.aborted_transactions(0, 4) == before
    assert len(path.read_bytes()) == 68


# -- verification (KIP-890)


def verified(log: PartitionLog, batch: bytes, *, bumping: bool = False) -> object:
    header = parse_batch_header(batch)
    return log.checks.begin_verification(
        header.producer_id, header.producer_epoch, sequence=header.base_sequence, supports_epoch_bump=bumping
    )


def guarded_append(log: PartitionLog, batch: bytes, guard: object) -> Verdict:
    return log.append(batch, leader_epoch=0, guard=guard, must_be_verified=True).verdict  # type: ignore[arg-type]


def test_first_batch_of_a_transaction_needs_a_guard_and_later_ones_do_not(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batch = data(1, 0)
    assert guarded_append(log, batch, None) is Verdict.INVALID_TXN_STATE
    guard = verified(log, batch)
    assert guard is not None
    assert guarded_append(log, batch, guard) is Verdict.OK
    assert verified(log, data(1, 1)) is None
    assert guarded_append(log, data(1, 1), None) is Verdict.OK


def test_marker_between_verification_and_append_refuses_the_batch(tmp_path: Path) -> None:
    """The hanging transaction of KIP-890: verify, end of the transaction, late append."""
    log = open_log(tmp_path)
    batch = data(1, 0)
    guard = verified(log, batch)
    end(log, 1, commit=False)
    assert guarded_append(log, batch, guard) is Verdict.INVALID_TXN_STATE
    assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset == 1


def test_offsets_of_a_transaction_need_the_current_epoch_and_a_guard_that_no_marker_took_away(tmp_path: Path) -> None:
    log = open_log(tmp_path)

    def judge(epoch: int, guard: object, *, must: bool = True) -> Verdict:
        return log.checks.may_append_transactionally(1, epoch, guard, must_be_verified=must)  # type: ignore[arg-type]

    assert judge(0, None) is Verdict.INVALID_TXN_STATE
    assert judge(0, None, must=False) is Verdict.OK
    guard = log.checks.begin_verification(1, 0, supports_epoch_bump=True)
    assert judge(0, guard) is Verdict.OK
    end(log, 1, commit=True, epoch=1)
    assert judge(0, guard) is Verdict.INVALID_EPOCH
    assert judge(1, guard) is Verdict.INVALID_TXN_STATE
    append(log, data(1, 0, epoch=1))
    assert judge(1, None) is Verdict.OK


def test_batches_that_wait_together_share_a_guard_and_keep_their_order(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first, second = data(1, 0), data(1, 1)
    guard = verified(log, first)
    assert verified(log, second) is guard
    assert guarded_append(log, second, guard) is Verdict.OUT_OF_ORDER
    assert guarded_append(log, first, guard) is Verdict.OK
    assert guarded_append(log, second, guard) is Verdict.OK


def test_unknown_producer_of_version_2_begins_at_zero(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batch = data(1, 3)
    assert guarded_append(log, batch, verified(log, batch, bumping=True)) is Verdict.OUT_OF_ORDER
    other = data(2, 3)
    assert guarded_append(log, other, verified(log, other)) is Verdict.OUT_OF_ORDER  # nothing was ever deleted here
    log.truncate_fully_and_start_at(5)
    assert guarded_append(log, other, verified(log, other)) is Verdict.OK


# -- all of it against a model


@dataclass
class Model:
    """Every batch with its value; which transactions are open; what is decided."""

    rows: list[tuple[int, bytes, int | None]] = field(default_factory=list)  # offset, value, transaction
    outcome: dict[int, bool | None] = field(default_factory=dict)  # transaction -> committed, None: open
    marker_at: dict[int, int] = field(default_factory=dict)
    begun_at: dict[int, int] = field(default_factory=dict)

    def stable(self, high_watermark: int) -> int:
        undecided = [
            begun
            for transaction, begun in self.begun_at.items()
            if self.outcome[transaction] is None or self.marker_at[transaction] >= high_watermark
        ]
        return min([high_watermark, *undecided])

    def committed(self, high_watermark: int) -> list[bytes]:
        stable = self.stable(high_watermark)
        return [v for offset, v, each in self.rows if offset < stable and (each is None or self.outcome[each])]

    def cut(self, offset: int) -> None:
        self.rows = [row for row in self.rows if row[0] < offset]
        for transaction in [each for each, begun in self.begun_at.items() if begun >= offset]:
            del self.begun_at[transaction], self.outcome[transaction]
            self.marker_at.pop(transaction, None)
        for transaction in [each for each, marker in self.marker_at.items() if marker >= offset]:
            del self.marker_at[transaction]
            self.outcome[transaction] = None


@pytest.mark.parametrize("seed", range(12))
def test_read_committed_view_equals_the_model_through_rolls_truncations_and_restarts(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    log, model = open_log(tmp_path), Model()
    high_watermark, transactions = 0, 0
    for step in range(150):
        producer = rng.randrange(5)
        entry = log.producers.entry(producer)
        epoch, sequence = (entry.epoch, entry.last_sequence + 1) if entry else (0, 0)
        current = [
            each for each, begun in model.begun_at.items() if model.outcome[each] is None and each % 5 == producer
        ]
        action = rng.choices(["write", "end", "plain", "advance", "cut", "restart"], [10, 5, 3, 8, 1, 1])[0]
        if action == "write":
            if not current:
                transactions += 1
                current = [5 * transactions + producer]
                model.begun_at[current[0]], model.outcome[current[0]] = log.log_end_offset, None
            offset = append(log, data(producer, sequence, epoch=epoch))
            model.rows.append((offset, b"%d/%d" % (producer, sequence), current[0]))
        elif action == "end" and current:
            model.outcome[current[0]] = commit = rng.random() < 0.5
            model.marker_at[current[0]] = log.log_end_offset
            assert end(log, producer, commit=commit, epoch=epoch + rng.randrange(2)) is Verdict.OK
        elif action == "plain":
            value = b"plain-%d" % step
            model.rows.append((append(log, encode_batch([value], timestamps_ms=1)), value, None))
        elif action == "advance":
            high_watermark = rng.randint(high_watermark, log.log_end_offset)
            log.high_watermark_advanced(high_watermark)
        elif action == "cut":
            cut = log.truncate_to(rng.randint(high_watermark, log.log_end_offset)).to_offset
            model.cut(cut)
        elif action == "restart":
            clean = rng.random() < 0.5
            if clean:
                log.close()
            log = open_log(tmp_path, clean=clean)
            log.high_watermark_advanced(high_watermark)
        log.check_invariants()
        assert log.last_stable_offset(high_watermark) == model.stable(high_watermark)
    assert read_committed(log, high_watermark) == model.committed(high_watermark)
    for producer in range(5):
        entry = log.producers.entry(producer)
        end(log, producer, commit=False, epoch=entry.epoch if entry else 0)
    log.high_watermark_advanced(log.log_end_offset)
    model.outcome = {each: bool(outcome) for each, outcome in model.outcome.items()}
    model.marker_at = dict.fromkeys(model.outcome, -1)
    assert read_committed(log, log.log_end_offset) == model.committed(log.log_end_offset)
