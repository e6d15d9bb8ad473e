"""Which logs of a directory are trusted at the next start, and what becomes of those that go."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from broker.log.checkpoints import LOG_START_FILE
from broker.log.config import LogConfig
from broker.log.directory import METADATA_TOPIC, LogDirectory
from broker.log.errors import TopicIdMismatchError
from broker.log.partition_log import PartitionLog
from broker.sim.disk import Failure, SimDisk
from broker.sim.filesystem import SimFileSystem
from broker.sim.scheduler import Scheduler
from broker.wire.records import encode_batch

SMALL = LogConfig(segment_bytes=200)


def directory_of(path: Path, *, boot: str = "boot-1") -> LogDirectory:
    return LogDirectory(str(path), config=SMALL, boot_id=boot)


def write(log: PartitionLog, count: int = 12) -> PartitionLog:
    for number in range(count):
        log.append(encode_batch([b"value-%d" % number], timestamps_ms=1), leader_epoch=1)
    return log


def test_after_sigkill_only_the_last_segment_is_scanned_also_beside_the_metadata_log(tmp_path: Path) -> None:
    """The quorum's directory is never opened as a log: the mark of the boot waited for it, and was never written."""
    (tmp_path / f"{METADATA_TOPIC}-0").mkdir(parents=True)
    log = write(directory_of(tmp_path).open_log("t", 0))
    assert len(log.segments) > 5
    again = directory_of(tmp_path)
    assert not again.was_machine_restarted
    recovery = again.open_log("t", 0).recovery
    assert (recovery.scanned_segments, recovery.segments) == (1, len(log.segments))


def test_after_a_restart_of_the_machine_all_segments_are_scanned_until_every_log_was(tmp_path: Path) -> None:
    first = directory_of(tmp_path)
    for index in (0, 1):
        write(first.open_log("t", index))
    second = directory_of(tmp_path, boot="boot-2")
    assert second.was_machine_restarted
    second.open_log("t", 0)
    third = directory_of(tmp_path, boot="boot-2")
    assert third.was_machine_restarted, "t-1 was not scanned yet"
    recovery = third.open_log("t", 1).recovery
    assert recovery.scanned_segments == recovery.segments
    third.open_log("t", 0)
    assert not directory_of(tmp_path, boot="boot-2").was_machine_restarted


def test_a_clean_stop_before_a_log_was_opened_does_not_vouch_for_it(tmp_path: Path) -> None:
    """A crash left it, and the next life was stopped before it had come to it."""
    first = directory_of(tmp_path)
    for index in (0, 1):
        write(first.open_log("t", index))
    second = directory_of(tmp_path)
    second.close([second.open_log("t", 0)])
    third = directory_of(tmp_path)
    assert not third.was_clean_shutdown
    assert third.open_log("t", 1).recovery.scanned_segments == 1
    third.close([third.open_log("t", 0)])
    fourth = directory_of(tmp_path)
    assert fourth.was_clean_shutdown
    fourth.close([])
    assert directory_of(tmp_path).was_clean_shutdown, "cleanly closed, and not touched since"


def test_gaps_of_compaction_are_none_of_a_crash_after_the_topic_is_not_compacted_any_more(tmp_path: Path) -> None:
    first = directory_of(tmp_path)
    log = write(first.open_log("t", 0))
    bases, end = [segment.base_offset for segment in log.segments], log.log_end_offset
    log.segments[1].truncate_to(bases[1])  # as compaction may empty one
    first.cleaner_offsets[("t", 0)] = bases[3]
    first.write_cleaner_offsets()
    assert directory_of(tmp_path, boot="boot-2").open_log("t", 0).log_end_offset == end


def test_a_log_that_goes_is_no_log_from_the_first_moment_on(tmp_path: Path) -> None:
    """Half removed, without its topic id, it would have become the log of another topic of that name."""
    directory = directory_of(tmp_path)
    write(directory.open_log("t", 0, topic_id="id-1")).close()
    directory.discard_log("t", 0)
    assert directory.partitions() == []
    assert directory.has_discarded()
    assert directory.open_log("t", 0, topic_id="id-2").log_end_offset == 0
    directory.remove_discarded()
    assert not directory.has_discarded()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["t-0"]


def test_the_longest_name_of_a_topic_can_go_too(tmp_path: Path) -> None:
    directory = directory_of(tmp_path)
    directory.open_log("x" * 249, 99999, topic_id="12345678-1234-1234-1234-123456789012")
    directory.discard_log("x" * 249, 99999)
    directory.remove_discarded()
    assert directory.partitions() == []
    assert not directory.has_discarded()


def test_a_removal_that_the_power_interrupts_leaves_the_whole_log_or_none() -> None:
    for seed in range(30):
        disk = SimDisk(scheduler=Scheduler(), rng=random.Random(seed), name="disk")
        directory = LogDirectory("data", config=SMALL, filesystem=SimFileSystem(disk), boot_id="1")
        log = write(directory.open_log("t", 0, topic_id="id-1"))
        log.close()
        directory.discard_log("t", 0)
        directory.remove_discarded()
        disk.lose_power(1.0)
        again = LogDirectory("data", config=SMALL, filesystem=SimFileSystem(disk), boot_id="2")
        if ("t", 0) in again.partitions():
            with pytest.raises(TopicIdMismatchError):
                again.open_log("t", 0, topic_id="id-2")
        else:
            assert again.open_log("t", 0, topic_id="id-2").log_end_offset == 0


def test_the_mark_of_a_clean_shutdown_tells_the_broker_epoch_to_the_next_life_only(tmp_path: Path) -> None:
    first = directory_of(tmp_path)
    assert first.previous_broker_epoch == -1
    first.close([first.open_log("t", 0)], broker_epoch=42)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":42}'  # as Apache Kafka's
    second = directory_of(tmp_path)
    assert second.previous_broker_epoch == 42
    second.close([second.open_log("t", 0)])  # it never registered, so the controller still knows 42
    third = directory_of(tmp_path)
    assert third.previous_broker_epoch == 42
    fourth = directory_of(tmp_path)  # the third one crashed
    assert fourth.previous_broker_epoch == -1


@pytest.mark.parametrize(
    "mark",
    [b"", b"7", b"[]", b'{"brokerEpoch":7}', b'{"version":1,"brokerEpoch":7}', b'{"version":0,"brokerEpoch":"7"}'],
)
def test_a_mark_without_an_epoch_is_trusted_for_the_logs_only(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(mark)
    directory = directory_of(tmp_path)
    assert directory.was_clean_shutdown
    assert directory.previous_broker_epoch == -1


def test_a_checkpoint_that_cannot_be_written_does_not_keep_the_logs_from_being_closed() -> None:
    disk = SimDisk(scheduler=Scheduler(), rng=random.Random(1), name="disk")
    directory = LogDirectory("/data", filesystem=SimFileSystem(disk), boot_id=disk.boot_id)
    logs = [write(directory.open_log("t", index)) for index in (0, 1)]
    logs[0].advance_log_start(5)  # into the middle of a segment, so this has to be noted
    disk.failures.append(Failure(call="replace", where=LOG_START_FILE, error=errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        directory.close(logs)
    assert not any(log.has_unflushed for log in logs)
    disk.failures.clear()
    again = LogDirectory("/data", filesystem=SimFileSystem(disk), boot_id=disk.boot_id)
    assert not again.was_clean_shutdown, "the log start was not noted"
    assert [again.open_log("t", index).log_end_offset for index in (0, 1)] == [12, 12]
