"""Power that goes at once, on a disk that forgets what was not synced: what a log promised to be there is there."""

from __future__ import annotations

import random

import pytest

from broker.log.directory import LogDirectory
from broker.log.filesystem import FileSystem
from broker.log.partition_log import LogConfig, PartitionLog
from broker.sim.disk import SimDisk
from broker.sim.scheduler import Scheduler
from broker.wire.records import encode_batch

SEEDS = range(40)


def new_disk(seed: int) -> SimDisk:
    return SimDisk(scheduler=Scheduler(), rng=random.Random(seed), name="disk")


def open_directory(filesystem: FileSystem, boot_id: str, config: LogConfig) -> tuple[LogDirectory, PartitionLog]:
    directory = LogDirectory("data", config=config, filesystem=filesystem, boot_id=boot_id)
    return directory, directory.open_log("t", 0)


def offsets(log: PartitionLog) -> list[int]:
    return [header.base_offset for header in log.batch_headers()]


@pytest.mark.parametrize("segment_bytes", [300, 100_000])  # the cut drops whole segments, or cuts within one
def test_what_was_truncated_does_not_come_back(segment_bytes: int) -> None:
    for seed in SEEDS:
        disk = new_disk(seed)
        _, log = open_directory(disk.mount(), disk.boot_id, LogConfig(segment_bytes=segment_bytes))
        for number in range(10):
            log.append(encode_batch([b"old-%d" % number], timestamps_ms=1), leader_epoch=1)
        log.flush()
        log.truncate_to(4)
        for number in range(4, 8):
            log.append(encode_batch([b"new-%d" % number], timestamps_ms=1), leader_epoch=2)
        disk.lose_power(1.0)
        _, log = open_directory(disk.mount(), disk.boot_id, LogConfig(segment_bytes=segment_bytes))
        epochs = [header.partition_leader_epoch for header in log.batch_headers()]
        assert epochs == [1, 1, 1, 1, 2, 2, 2, 2][: len(epochs)], f"seed {seed}"
        assert len(epochs) >= 4


@pytest.mark.parametrize("segment_bytes", [300, 100_000])
def test_a_clean_stop_after_a_kill_has_synced_what_the_killed_one_wrote(segment_bytes: int) -> None:
    config = LogConfig(segment_bytes=segment_bytes)
    for seed in SEEDS:
        disk = new_disk(seed)
        _, log = open_directory(disk.mount(), disk.boot_id, config)
        for number in range(10):
            log.append(encode_batch([b"value-%d" % number], timestamps_ms=1), leader_epoch=1)
        del log  # SIGKILL: the page cache keeps all
        directory, log = open_directory(disk.mount(), disk.boot_id, config)
        assert offsets(log) == list(range(10))
        directory.close([log])
        disk.lose_power(1.0)
        _, log = open_directory(disk.mount(), disk.boot_id, config)
        assert offsets(log) == list(range(10)), f"seed {seed}"


def test_with_flush_messages_all_that_a_restarted_log_shows_is_on_the_disk() -> None:
    """A follower asks for the next offset after it restarted, which says that it holds all before."""
    for seed in SEEDS:
        disk = new_disk(seed)
        _, log = open_directory(disk.mount(), disk.boot_id, LogConfig())
        for number in range(10):
            log.append(encode_batch([b"value-%d" % number], timestamps_ms=1), leader_epoch=1)
        del log  # killed between the write and the sync
        _, log = open_directory(disk.mount(), disk.boot_id, LogConfig(flush_messages=1))
        shown = offsets(log)
        disk.lose_power(1.0)
        _, log = open_directory(disk.mount(), disk.boot_id, LogConfig(flush_messages=1))
        assert offsets(log) == shown == list(range(10)), f"seed {seed}"
