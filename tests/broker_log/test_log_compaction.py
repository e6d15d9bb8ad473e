"""Compaction keeps the last record of each key, its offset and the order. This holds at every crash point, and with
tombstones, transactions, producer state, leader epochs, small maps, and logs that change meanwhile."""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.compaction import CompactionAborted, CompactionResult, compact, find_cleanable
from broker.log.config import LogConfig
from broker.log.filesystem import LOCAL, FileSystem
from broker.log.partition_log import PartitionLog
from broker.log.producers import Verdict
from broker.log.transactions import EndMarker
from broker.wire.record_filter import delete_horizon_ms
from broker.wire.records import CodecId, decode_records, encode_batch, iter_batches, validate_batches
from tests.broker_log.headers import headers_of
from tests.broker_log.steps import at_once

sys.path.insert(0, str(Path(__file__).parent))
from crashing_filesystem import Crash, CrashingFileSystem, FailingFileSystem

from tests.amount import examples

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, is_compacted=True, delete_retention_ms=1000)
MAP_BYTES = 1 << 20
Rows = list[tuple[int, bytes | None, bytes | None]]


def open_log(path: Path | str, filesystem: FileSystem = LOCAL, config: LogConfig = CONFIG) -> PartitionLog:
    return PartitionLog(str(path), name="t-0", config=config, filesystem=filesystem)


def rows(log: PartitionLog) -> Rows:
    """(offset, key, value) of every data record, by reading as a consumer would."""
    found: Rows = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 5000)
        if not data:
            break
        validate_batches(data, is_stored=True)
        for batch in iter_batches(data):
            offset = batch.header.next_offset
            if not batch.header.is_control:
                found += [(at, key, value) for at, _, key, value, _ in decode_records(batch)]
    return found


def latest(records: Rows) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {key: (offset, value) for offset, key, value in records}


def clean(
    log: PartitionLog, *, checkpoint: int = 0, now_ms: int = 10_000, map_bytes: int = MAP_BYTES, hw: int | None = None
) -> CompactionResult:
    high_watermark = log.log_end_offset if hw is None else hw
    cleanable = find_cleanable(log, checkpoint=checkpoint, high_watermark=high_watermark, now_ms=now_ms)
    steps = compact(log, cleanable, now_ms=now_ms, map_bytes_max=map_bytes)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: CompactionResult = end.value
        log.check_invariants()
        return result


def append(
    log: PartitionLog, pairs: list[tuple[bytes, bytes | None]], *, epoch: int = 0, timestamp: int = 5000, **more: object
) -> None:
    batch = encode_batch(
        [value for _, value in pairs],
        keys=[key for key, _ in pairs],
        timestamps_ms=timestamp,
        **more,  # type: ignore[arg-type]
    )
    assert log.append(batch, leader_epoch=epoch).verdict is Verdict.OK


pairs = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), st.one_of(st.none(), st.binary(min_size=1, max_size=60))
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(50), deadline=None)
@given(
    batches=st.lists(pairs, min_size=1, max_size=25),
    rounds=st.lists(pairs, max_size=6),
    codec=st.sampled_from(list(CodecId)),
    map_bytes=st.sampled_from([1, 250, MAP_BYTES]),
    later_ms=st.sampled_from([0, 5000]),
)
@pytest.mark.thorough
def test_each_key_keeps_its_last_record(
    batches: list[list[tuple[bytes, bytes | None]]],
    rounds: list[list[tuple[bytes, bytes | None]]],
    codec: CodecId,
    map_bytes: int,
    later_ms: int,
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = open_log(directory)
        for number, batch in enumerate(batches):
            append(log, batch, epoch=number // 5, codec=codec)
        now_ms, checkpoint = 10_000, 0
        written = rows(log)
        for batch in [*rounds, rounds[0] if rounds else batches[0]]:
            result = clean(log, checkpoint=checkpoint, now_ms=now_ms, map_bytes=map_bytes)
            assert checkpoint <= result.clean_until <= log.log_end_offset
            checkpoint = result.clean_until
            found = rows(log)
            assert set(found) <= set(written), "a record, an offset or a value that was never written"
            assert found == sorted(found, key=lambda row: row[0])
            wanted = {key: row for key, row in latest(written).items() if row[1] is not None}
            assert {key: row for key, row in latest(found).items() if row[1] is not None} == wanted
            below = [row for row in found if row[0] < checkpoint]
            assert len(latest(below)) == len(below), "two records of one key in what is clean"
            append(log, batch, epoch=30, codec=codec)
            written += rows(log)[-len(batch) :]
            now_ms += later_ms
        epochs, found = log.epochs.entries, rows(log)
        log.close()
        again = open_log(directory)
        assert rows(again) == found
        assert again.epochs.entries == epochs


def crash_and_reopen(original: Path, work: Path, crash_at: int) -> bool:
    """False once the compaction needs fewer changes than that."""
    shutil.copytree(original, work)
    disk = CrashingFileSystem()
    log = open_log(work, disk)
    written = latest(rows(log))
    end_offset, epochs = log.log_end_offset, log.epochs.entries
    disk.changes, disk.crash_at = 0, crash_at
    try:
        clean(log)
        crashed = False
    except Crash:
        crashed = True
    again = open_log(work)
    again.check_invariants()
    assert latest(rows(again)) == written
    assert (again.log_end_offset, again.epochs.entries) == (end_offset, epochs)
    assert not [path.name for path in work.iterdir() if path.suffix in (".cleaned", ".swap", ".tmp")]
    clean(again)  # the checkpoint was not written
    compacted = rows(again)
    active = again.segments[-1].base_offset
    assert latest(compacted) == written
    assert len(latest([row for row in compacted if row[0] < active])) == len(
        [row for row in compacted if row[0] < active]
    )
    return crashed


@pytest.mark.thorough
def test_every_crash_point_leaves_a_log_with_the_last_record_of_each_key(tmp_path: Path) -> None:
    rng = random.Random(5)
    log = open_log(tmp_path / "original")
    for number in range(14):
        append(
            log,
            [(b"k%d" % rng.randrange(6), rng.randbytes(rng.randrange(1, 60))) for _ in range(3)],
            epoch=number // 4,
        )
    log.close()
    crash_at = 1
    while crash_and_reopen(tmp_path / "original", tmp_path / f"crash-{crash_at}", crash_at):
        crash_at += 1
    assert crash_at > 15  # there were so many points


def test_a_tombstone_goes_only_after_delete_retention_ms(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, [(b"a", b"1"), (b"b", b"2")])
    append(log, [(b"a", None)], timestamp=6000)
    log.roll()
    clean(log, now_ms=10_000)
    assert rows(log) == [(1, b"b", b"2"), (2, b"a", None)]
    (_, _, last) = [next(iter_batches(log.read(offset, 1))).header for offset in (0, 1, 2)]
    assert delete_horizon_ms(last) == 11_000
    assert decode_records(log.read(2, 1))[0][1] == 6000  # the record's own time is still told
    clean(log, now_ms=10_999)
    assert rows(log)[-1] == (2, b"a", None)
    clean(log, now_ms=11_000)
    assert rows(log) == [(1, b"b", b"2")]
    assert log.log_end_offset == 3


def test_nothing_undecided_uncommitted_or_too_young_is_touched(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for timestamp in (1000, 2000, 3000):
        append(log, [(b"a", b"%d" % timestamp)], timestamp=timestamp)
        log.roll()
    assert find_cleanable(log, checkpoint=0, high_watermark=2, now_ms=5000).end_offset == 2
    log.config = replace(CONFIG, min_compaction_lag_ms=2500)
    assert find_cleanable(log, checkpoint=0, high_watermark=3, now_ms=5000).end_offset == 2
    log.config = replace(CONFIG, max_compaction_lag_ms=100)
    assert find_cleanable(log, checkpoint=0, high_watermark=3, now_ms=5000).is_due
    assert not find_cleanable(log, checkpoint=0, high_watermark=3, now_ms=1050).is_due
    log.config = CONFIG
    found = find_cleanable(log, checkpoint=2, high_watermark=3, now_ms=5000)
    assert found.dirty_ratio == pytest.approx(1 / 3)


def test_small_segments_become_one_and_keep_their_indexes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(60):
        append(log, [(b"k%d" % (number % 3), b"x" * 40)], timestamp=1000 + number)
    before = len(log.segments)
    result = clean(log)  # full segments become small ones
    clean(log)  # which become one
    assert len(log.segments) < before / 4
    assert result.bytes_after < result.bytes_before / 4
    assert result.records_removed == 60 - len(rows(log))
    newest = rows(log)[-1][0]
    assert at_once(log.find_timestamp(1000 + newest)) == (1000 + newest, newest)
    assert log.read(0, 1)  # an offset that is gone leads to the next one there is


def test_the_last_sequence_of_a_producer_survives_its_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, [(b"a", b"old"), (b"b", b"old")], producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, [(b"a", b"new"), (b"b", b"new")])
    log.roll()
    clean(log)
    assert rows(log) == [(2, b"a", b"new"), (3, b"b", b"new")]
    assert next((header.record_count, header.producer_id) for header in headers_of(log)) == (0, 7)
    for path in tmp_path.glob("*.producers"):
        path.unlink()  # the state must come from the batches alone
    again = open_log(tmp_path)
    retry = encode_batch(
        [b"old", b"old"], keys=[b"a", b"b"], timestamps_ms=5000, producer_id=7, producer_epoch=0, base_sequence=0
    )
    assert again.append(retry, leader_epoch=0).verdict is Verdict.DUPLICATE


def begin(log: PartitionLog, producer: int, sequence: int, key: bytes, value: bytes) -> None:
    append(log, [(key, value)], producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True)


def end(log: PartitionLog, producer: int, *, is_commit: bool) -> None:
    marker = EndMarker(is_commit, 0)
    log.append_marker(
        producer_id=producer, producer_epoch=0, marker=marker, leader_epoch=0, timestamp_ms=6000, transaction_version=1
    )
    log.high_watermark_advanced(log.log_end_offset)


def test_aborted_records_never_win_and_go_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    begin(log, 1, 0, b"a", b"committed")
    end(log, 1, is_commit=True)
    begin(log, 2, 0, b"a", b"aborted")
    end(log, 2, is_commit=False)
    append(log, [(b"z", b"z")])
    log.roll()
    clean(log, now_ms=10_000)
    assert rows(log) == [(0, b"a", b"committed"), (4, b"z", b"z")]
    markers = [header.base_offset for header in headers_of(log) if header.is_control]
    assert markers == [1, 3]
    assert [each.producer_id for each in log.aborted_transactions(0, 5)] == [2]


def test_markers_without_data_go_after_their_horizon_with_their_index_entries(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(2):
        begin(log, 2, number, b"a", b"aborted")
        end(log, 2, is_commit=False)
    begin(log, 3, 0, b"a", b"kept")
    end(log, 3, is_commit=True)
    log.roll()
    clean(log, now_ms=10_000)
    assert len([header for header in headers_of(log) if header.is_control]) == 3
    clean(log, now_ms=11_000)
    controls = [header for header in headers_of(log) if header.is_control]
    assert [header.producer_id for header in controls] == [3]  # its data is still there
    assert log.aborted_transactions(0, log.log_end_offset) == []
    assert rows(log) == [(4, b"a", b"kept")]
    assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset


def test_an_open_transaction_bounds_compaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, [(b"a", b"1")])
    log.roll()
    begin(log, 1, 0, b"a", b"2")
    log.roll()
    append(log, [(b"a", b"3")])
    log.roll()
    assert find_cleanable(log, checkpoint=0, high_watermark=3, now_ms=9000).end_offset == 1


def test_a_log_that_changes_meanwhile_is_left_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(30):
        append(log, [(b"k", b"x" * 50)], timestamp=number)
    cleanable = find_cleanable(log, checkpoint=0, high_watermark=30, now_ms=9000)
    steps = compact(log, cleanable, now_ms=9000, map_bytes_max=MAP_BYTES)
    for _ in range(35):
        next(steps)  # within the second pass
    log.advance_log_start(10)
    with pytest.raises(CompactionAborted):
        for _ in steps:
            pass
    assert not list(tmp_path.glob("*.cleaned"))
    assert [row[0] for row in rows(log)] == [offset for offset in range(30) if offset >= log.segments[0].base_offset]
    log.check_invariants()


def test_a_map_that_is_too_small_leaves_the_rest_for_the_next_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(30):
        append(log, [(b"k%d" % number, b"1" * 20)])
    for number in range(30):
        append(log, [(b"k%d" % number, b"2" * 20)])
    log.roll()
    rounds, checkpoint = 0, 0
    while checkpoint < 60:
        checkpoint = clean(log, checkpoint=checkpoint, map_bytes=1200).clean_until
        rounds += 1
    assert rounds > 3
    assert [value for _, _, value in rows(log)] == [b"2" * 20] * 30


def compactable(
    path: Path, filesystem: FileSystem
) -> tuple[PartitionLog, dict[bytes | None, tuple[int, bytes | None]]]:
    log = open_log(path, filesystem)
    for number in range(30):
        append(log, [(b"k%d" % (number % 3), b"value-%d-%d" % (number, each)) for each in range(3)])
    assert len(log.segments) > 3
    return log, latest(rows(log))


def test_a_swap_whose_last_open_fails_leaves_a_log_that_can_be_read(tmp_path: Path) -> None:
    """The new file was renamed, could not be opened again (EMFILE), and reads met closed files: EBADF."""
    disk = FailingFileSystem()
    log, written = compactable(tmp_path, disk)
    disk.fail("open", ".log", of_missing=False)
    clean(log)
    assert disk.failed
    disk.heal()
    assert latest(rows(log)) == written
    log.close()
    assert latest(rows(open_log(tmp_path))) == written


@pytest.mark.parametrize("call", ["rename", "remove", "sync_directory"])
def test_whatever_fails_within_a_swap_the_log_can_be_read_and_recovers(tmp_path: Path, call: str) -> None:
    for number in range(1, 12):
        disk = FailingFileSystem()
        path = tmp_path / str(number)
        log, written = compactable(path, disk)
        disk.fail(call, "", skip=number - 1)
        with contextlib.suppress(OSError):
            clean(log)
        has_failed = disk.failed
        disk.heal()
        assert latest(rows(log)) == written, f"{call} number {number}"
        assert latest(rows(open_log(path))) == written, f"{call} number {number}, opened again"
        if not has_failed:
            return
