"""All logs of one `log.dirs` entry: their names, their checkpoints, and whether the last stop was clean.

Owns: `<topic>-<partition>` directories, `partition.metadata` (the topic id), the high-watermark and recovery-point
checkpoints and the clean-shutdown mark. The mark is removed on opening: from then on a crash is a crash. Which crash
tells the boot id: as long as the machine was not started anew, nothing that was written is lost, and only the last
segment can be torn; after that every segment may have lost what was not synced, and is scanned.
Shown by tests/broker_log/test_log_partition_log.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from broker.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    PartitionOffsets,
    read_offsets,
    write_offsets,
)
from broker.log.errors import LogError, TopicIdMismatchError
from broker.log.filesystem import LOCAL, FileSystem
from broker.log.partition_log import LogConfig, PartitionLog

METADATA_FILE = "partition.metadata"
BOOT_FILE = "boot-id"
_LINUX_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NAME = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,9})")


def local_boot_id() -> str:
    """Another one each time that the machine starts; "" where the system tells none, then nothing is ever trusted."""
    try:
        return LOCAL.read_bytes(_LINUX_BOOT_ID).decode().strip()
    except OSError:
        return ""


def directory_name(topic: str, partition: int) -> str:
    name = f"{topic}-{partition}"
    if not _NAME.fullmatch(name) or topic in (".", ".."):
        raise LogError(f"not a topic name: {topic!r}, partition {partition}")
    return name


def parse_directory_name(name: str) -> tuple[str, int] | None:
    match = _NAME.fullmatch(name)
    return (match["topic"], int(match["partition"])) if match else None


class LogDirectory:
    """`was_clean_shutdown` tells whether logs are trusted or scanned when they are opened."""

    def __init__(
        self,
        path: str,
        *,
        config: LogConfig | None = None,
        filesystem: FileSystem = LOCAL,
        boot_id: str | None = None,  # None: the one of this machine
    ) -> None:
        self.path = path
        self.config = config or LogConfig()
        self._filesystem = filesystem
        filesystem.make_directory(path)
        mark = f"{path}/{CLEAN_SHUTDOWN_FILE}"
        self.was_clean_shutdown = filesystem.exists(mark)
        filesystem.remove(mark)
        self._log_starts = read_offsets(filesystem, f"{path}/{LOG_START_FILE}")
        self.cleaner_offsets = read_offsets(filesystem, f"{path}/{CLEANER_FILE}")  # first offset not yet compacted
        self._boot_id = local_boot_id() if boot_id is None else boot_id
        self.was_machine_restarted = not self._is_same_boot()
        # Logs that this boot has not scanned yet. Until it has, a crash must not make the next start trust them.
        self._unscanned = set(self.partitions()) if self.was_machine_restarted else set()
        self._note_boot()

    def _is_same_boot(self) -> bool:
        path = f"{self.path}/{BOOT_FILE}"
        is_known = bool(self._boot_id) and self._filesystem.exists(path)
        return is_known and self._filesystem.read_bytes(path) == self._boot_id.encode()

    def _note_boot(self) -> None:
        if not self._unscanned and not self._is_same_boot():
            self._filesystem.write_atomically(f"{self.path}/{BOOT_FILE}", self._boot_id.encode())

    def partitions(self) -> list[tuple[str, int]]:
        parsed = [parse_directory_name(name) for name in self._filesystem.list_directory(self.path)]
        return sorted(each for each in parsed if each is not None and self._filesystem.exists(self._log_path(*each)))

    def open_log(
        self, topic: str, partition: int, *, topic_id: str | None = None, config: LogConfig | None = None
    ) -> PartitionLog:
        """Open, recover or create. The topic id is kept in the directory; another one is a TopicIdMismatchError."""
        path = self._log_path(topic, partition)
        self._filesystem.make_directory(path)
        log = PartitionLog(
            path,
            name=f"{topic}-{partition}",
            config=config or self.config,
            filesystem=self._filesystem,
            clean=self.was_clean_shutdown,
            recovery_point=0 if self.was_machine_restarted else None,
            topic_id=self._check_topic_id(path, topic_id),
            log_start_offset=self._log_starts.get((topic, partition)),
        )
        self._is_scanned(topic, partition)
        return log

    def delete_log(self, topic: str, partition: int) -> None:
        self._log_starts.pop((topic, partition), None)
        if self.cleaner_offsets.pop((topic, partition), None) is not None:
            self.write_cleaner_offsets()
        self._filesystem.remove_tree(self._log_path(topic, partition))
        self._is_scanned(topic, partition)

    def _is_scanned(self, topic: str, partition: int) -> None:
        if (topic, partition) in self._unscanned:
            self._unscanned.discard((topic, partition))
            self._note_boot()

    def read_high_watermarks(self) -> PartitionOffsets:
        return read_offsets(self._filesystem, f"{self.path}/{HIGH_WATERMARK_FILE}")

    def write_high_watermarks(self, high_watermarks: Mapping[tuple[str, int], int]) -> None:
        """Atomic and fsynced: call it now and then, and on a clean stop."""
        write_offsets(self._filesystem, f"{self.path}/{HIGH_WATERMARK_FILE}", high_watermarks)

    def write_log_start_offsets(self, logs: Iterable[PartitionLog]) -> None:
        """What DeleteRecords moved into the middle of a segment; without it the records would be back after a crash."""
        offsets = dict(self._log_starts)  # of logs that are not open yet, too
        for log in logs:
            parsed = parse_directory_name(log.name)
            if parsed and log.log_start_offset > log.first_segment_offset:
                offsets[parsed] = log.log_start_offset
            elif parsed:
                offsets.pop(parsed, None)
        if offsets != self._log_starts:
            self._log_starts = offsets
            write_offsets(self._filesystem, f"{self.path}/{LOG_START_FILE}", offsets)

    def write_cleaner_offsets(self) -> None:
        write_offsets(self._filesystem, f"{self.path}/{CLEANER_FILE}", self.cleaner_offsets)

    def close(self, logs: Iterable[PartitionLog]) -> None:
        """Close the logs, note how far they are on disk, and mark the shutdown as clean."""
        recovery_points: PartitionOffsets = {}
        logs = list(logs)
        self.write_log_start_offsets(logs)
        for log in logs:
            log.close()
            parsed = parse_directory_name(log.name)
            if parsed:
                recovery_points[parsed] = log.log_end_offset
        write_offsets(self._filesystem, f"{self.path}/{RECOVERY_POINT_FILE}", recovery_points)
        self._filesystem.write_atomically(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", b"")

    def _log_path(self, topic: str, partition: int) -> str:
        return f"{self.path}/{directory_name(topic, partition)}"

    def _check_topic_id(self, path: str, topic_id: str | None) -> str | None:
        metadata_path = f"{path}/{METADATA_FILE}"
        stored: str | None = None
        if self._filesystem.exists(metadata_path):
            text = self._filesystem.read_bytes(metadata_path).decode(errors="replace")
            for line in text.splitlines() if text.endswith("\n") else ():  # else the power went before the sync
                key, _, value = line.partition(": ")
                stored = value if key == "topic_id" else stored
        if stored is None and topic_id is not None:
            # Synced here and now, before there is data: later a sync of this small file would have to wait until the
            # file system has written all data of its journal's transaction (seconds under load, with the loop blocked).
            self._filesystem.write_atomically(metadata_path, f"version: 0\ntopic_id: {topic_id}\n".encode())
        elif stored is not None and topic_id is not None and stored != topic_id:
            raise TopicIdMismatchError(f"{path} belongs to topic id {stored}, not {topic_id}")
        return stored or topic_id
