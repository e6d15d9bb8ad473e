"""Power that goes at once, on a disk that forgets what was not synced: what a log promised to be there is there."""

from __future__ import annotations

import random

import pytest

from broker.log.compaction import compact, find_cleanable
from broker.log.config import LogConfig
from broker.log.directory import LogDirectory
from broker.log.epochs import LeaderEpochCache
from broker.log.filesystem import FileSystem
from broker.log.partition_log import PartitionLog
from broker.sim.disk import SimDisk
from broker.sim.filesystem import SimFileSystem
from broker.sim.scheduler import Scheduler
from broker.wire.records import encode_batch
from tests.broker_log.headers import headers_of

SEEDS = range(40)


def new_disk(seed: int) -> SimDisk:
    return SimDisk(scheduler=Scheduler(), rng=random.Random(seed), name="disk")


def open_directory(filesystem: FileSystem, boot_id: str, config: LogConfig) -> tuple[LogDirectory, PartitionLog]:
    directory = LogDirectory("data", config=config, filesystem=filesystem, boot_id=boot_id)
    return directory, directory.open_log("t", 0)


def offsets(log: PartitionLog) -> list[int]:
    return [header.base_offset for header in headers_of(log)]


@pytest.mark.parametrize("segment_bytes", [300, 100_000])  # the cut drops whole segments, or cuts within one
def test_what_was_truncated_does_not_come_back(segment_bytes: int) -> None:
    for seed in SEEDS:
        disk = new_disk(seed)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig(segment_bytes=segment_bytes))
        for number in range(10):
            log.append(encode_batch([b"old-%d" % number], timestamps_ms=1), leader_epoch=1)
        log.flush()
        log.truncate_to(4)
        for number in range(4, 8):
            log.append(encode_batch([b"new-%d" % number], timestamps_ms=1), leader_epoch=2)
        disk.lose_power(1.0)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig(segment_bytes=segment_bytes))
        epochs = [header.partition_leader_epoch for header in headers_of(log)]
        assert epochs == [1, 1, 1, 1, 2, 2, 2, 2][: len(epochs)], f"seed {seed}"
        assert len(epochs) >= 4


@pytest.mark.parametrize("segment_bytes", [300, 100_000])
def test_a_clean_stop_after_a_kill_has_synced_what_the_killed_one_wrote(segment_bytes: int) -> None:
    config = LogConfig(segment_bytes=segment_bytes)
    for seed in SEEDS:
        disk = new_disk(seed)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, config)
        for number in range(10):
            log.append(encode_batch([b"value-%d" % number], timestamps_ms=1), leader_epoch=1)
        del log  # SIGKILL: the page cache keeps all
        directory, log = open_directory(SimFileSystem(disk), disk.boot_id, config)
        assert offsets(log) == list(range(10))
        directory.close([log])
        disk.lose_power(1.0)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, config)
        assert offsets(log) == list(range(10)), f"seed {seed}"


def test_with_flush_messages_all_that_a_restarted_log_shows_is_on_the_disk() -> None:
    """A follower asks for the next offset after it restarted, which says that it holds all before."""
    for seed in SEEDS:
        disk = new_disk(seed)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig())
        for number in range(10):
            log.append(encode_batch([b"value-%d" % number], timestamps_ms=1), leader_epoch=1)
        del log  # killed between the write and the sync
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig(flush_messages=1))
        shown = offsets(log)
        disk.lose_power(1.0)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig(flush_messages=1))
        assert offsets(log) == shown == list(range(10)), f"seed {seed}"


def test_a_new_segment_is_not_lost_with_the_entry_of_its_file() -> None:
    """Its content was synced; the directory that names it has to be, too, and the one that names the log."""
    config = LogConfig(segment_bytes=200, flush_messages=1)
    for seed in SEEDS:
        disk = new_disk(seed)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, config)
        for number in range(10):
            log.append(encode_batch([b"value-%d" % number], timestamps_ms=1), leader_epoch=1)
        assert len(log.segments) > 3
        disk.lose_power(1.0)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, config)
        assert offsets(log) == list(range(10)), f"seed {seed}"


def test_a_segment_that_truncation_removed_does_not_come_back_behind_what_took_its_place() -> None:
    """The log grew to the very offset where the removed segment began: it would go on with what had diverged."""
    config = LogConfig(segment_bytes=300, flush_messages=1)
    for seed in SEEDS:
        disk = new_disk(seed)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, config)
        for number in range(12):
            log.append(encode_batch([b"old-%d" % number], timestamps_ms=1), leader_epoch=1)
        bases = [segment.base_offset for segment in log.segments]
        log.truncate_to(bases[1] - 1)
        end = bases[1]
        log.append(encode_batch([b"new-%d" % end], timestamps_ms=1), leader_epoch=2)
        assert log.log_end_offset == end
        disk.lose_power(1.0)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, config)
        assert log.log_end_offset == end, f"seed {seed}"


def test_a_log_that_was_restarted_elsewhere_stays_there() -> None:
    for seed in SEEDS:
        disk = new_disk(seed)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig())
        for number in range(5):
            log.append(encode_batch([b"value-%d" % number], timestamps_ms=1), leader_epoch=1)
        log.flush()
        log.truncate_fully_and_start_at(100)
        disk.lose_power(1.0)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig())
        assert (log.log_start_offset, log.log_end_offset) == (100, 100), f"seed {seed}"


def test_a_crash_in_the_middle_of_starting_over_leaves_no_epoch_of_the_dropped_records() -> None:
    """A stale epoch at the end of the log is what a follower would tell its leader of a log that has nothing."""
    disk = new_disk(1)
    _, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig())
    for number in range(5):
        log.append(encode_batch([b"value-%d" % number], timestamps_ms=1), leader_epoch=number)
    log.flush()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(LeaderEpochCache, "clear", _killed)
        log.truncate_fully_and_start_at(100)
    _, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig())
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert (log.latest_epoch, tuple(log.epochs.entries)) == (-1, ())


def _killed(_: object) -> None:
    raise KeyboardInterrupt


def test_a_mark_of_a_clean_stop_that_comes_back_is_not_believed() -> None:
    """It was removed, and the power took that: what was written since is checked all the same."""
    damaged = 0
    for seed in SEEDS:
        disk = new_disk(seed)
        directory, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig())
        log.append(encode_batch([b"v" * 100], timestamps_ms=1), leader_epoch=1)
        directory.close([log])
        SimFileSystem(disk).sync_directory("data")
        directory, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig())
        assert directory.was_clean_shutdown
        for number in range(5):
            log.append(encode_batch([b"%d" % number * 100], timestamps_ms=1), leader_epoch=1)
        disk.lose_power(1.0)
        directory, log = open_directory(SimFileSystem(disk), disk.boot_id, LogConfig())
        assert not directory.was_clean_shutdown, f"seed {seed}"
        assert directory.was_machine_restarted
        damaged += bool(log.recovery.cut_bytes)
    assert damaged


@pytest.mark.parametrize("at_risk", [1.0, 0.5])
def test_a_compaction_that_loses_the_power_keeps_the_old_segments_or_has_the_new_one(at_risk: float) -> None:
    config = LogConfig(segment_bytes=300, flush_messages=1, is_compacted=True)
    for seed in SEEDS:
        disk = new_disk(seed)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, config)
        for number in range(12):
            log.append(
                encode_batch([b"value-%d" % number], keys=[b"k%d" % (number % 2)], timestamps_ms=1), leader_epoch=1
            )
        cleanable = find_cleanable(log, checkpoint=0, high_watermark=12, now_ms=10)
        for _ in compact(log, cleanable, now_ms=10, map_bytes_max=1 << 20):
            pass
        active = log.segments[-1].base_offset
        kept = {each for each in offsets(log) if each >= active - 2}
        disk.lose_power(at_risk)
        _, log = open_directory(SimFileSystem(disk), disk.boot_id, config)
        assert kept <= set(offsets(log)), f"seed {seed}"
        assert log.log_end_offset == 12
