"""All logs of one `log.dirs` entry: their names, their checkpoints, and whether the last shutdown was clean.

Owns: `<topic>-<partition>` directories, `partition.metadata` (the topic id), the checkpoints of high watermarks and
recovery points, and the clean-shutdown mark. The mark is removed when the directory is opened. If the process then
crashes, the next start knows it. The mark holds the broker epoch of the broker process that wrote it (KIP-966). From
this epoch the controller knows that the broker did not run in between.

The boot id tells which kind of crash it was. If the machine was not restarted, nothing that was written is lost, and
only the last segment can be torn. If it was restarted, every segment may have lost data that was not synced, so all are
scanned.

A log that is deleted is renamed first. So a directory that is only partly removed is never taken for a log. Shown by
tests/broker_log/test_log_directory.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from uuid import UUID

from broker.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    NO_EPOCH,
    RECOVERY_POINT_FILE,
    PartitionOffsets,
    clean_shutdown_mark,
    epoch_of_mark,
    read_offsets,
    write_offsets,
)
from broker.log.config import LogConfig
from broker.log.errors import LogError, TopicIdMismatchError
from broker.log.filesystem import LOCAL, FileSystem
from broker.log.partition_log import PartitionLog

METADATA_FILE = "partition.metadata"
BOOT_FILE = "boot-id"
DELETE_SUFFIX = "-delete"  # the log is being deleted; if a crash left a part of it, the next start removes that
FUTURE_SUFFIX = "-future"  # a copy of a log that another directory holds, on its way into this one (KIP-113)
METADATA_TOPIC = "__cluster_metadata"  # its directory is beside the logs and belongs to the quorum
# A renamed directory keeps this many characters of the topic's name. A file name, with id and suffix, has at most 255.
_NAME_IN_DELETED = 180
_LINUX_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_FUTURE = re.compile(rf"(?P<name>.+)\.[0-9a-f]{{32}}{FUTURE_SUFFIX}")
NAME_CHARACTERS_MAX = 255  # A directory's name may be so long.
_NAME = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,9})")


def local_boot_id() -> str:
    """An id that changes each time the machine starts. "" if the system does not tell it; then no log is ever
    trusted."""
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


def has_future_name(topic: str, partition: int) -> bool:
    """Whether the name is short enough for the directory of a future log."""
    return len(f"{directory_name(topic, partition)}.{'0' * 32}{FUTURE_SUFFIX}") <= NAME_CHARACTERS_MAX


class LogDirectory:
    """`was_clean_shutdown` tells whether logs are trusted or scanned when they are opened.

    `previous_broker_epoch` is the broker epoch of the previous process. NO_EPOCH: that process did not shut down
    cleanly.
    """

    def __init__(
        self,
        path: str,
        *,
        config: LogConfig | None = None,
        filesystem: FileSystem = LOCAL,
        boot_id: str | None = None,  # None: the boot id of this machine
        directory_id: UUID | None = None,  # None: it has none
    ) -> None:
        self.path, self.directory_id = path, directory_id
        self.config = config or LogConfig()
        self._filesystem = filesystem
        filesystem.make_directory(path)
        mark = f"{path}/{CLEAN_SHUTDOWN_FILE}"
        self.was_clean_shutdown = filesystem.exists(mark)
        self.previous_broker_epoch = NO_EPOCH
        if self.was_clean_shutdown:
            self.previous_broker_epoch = epoch_of_mark(filesystem.read_bytes(mark))
            filesystem.remove(mark)
            # a loss of power must not bring the mark back over data that is written from now on
            filesystem.sync_directory(path)
        self._log_starts = read_offsets(filesystem, f"{path}/{LOG_START_FILE}")
        self.cleaner_offsets = read_offsets(filesystem, f"{path}/{CLEANER_FILE}")  # first offset not yet compacted
        self._boot_id = local_boot_id() if boot_id is None else boot_id
        self.was_machine_restarted = not self._is_same_boot()
        # Logs that this process has not opened yet. After a restart of the machine they must be scanned. Until all are
        # scanned, neither a crash nor a clean shutdown may let the next start trust them.
        self._unopened = set(self.partitions())
        self._note_boot()

    def _is_same_boot(self) -> bool:
        path = f"{self.path}/{BOOT_FILE}"
        is_known = bool(self._boot_id) and self._filesystem.exists(path)
        return is_known and self._filesystem.read_bytes(path) == self._boot_id.encode()

    def _note_boot(self) -> None:
        is_checked = not (self.was_machine_restarted and self._unopened)
        if is_checked and not self._is_same_boot():
            self._filesystem.write_atomically(f"{self.path}/{BOOT_FILE}", self._boot_id.encode())

    def partitions(self) -> list[tuple[str, int]]:
        parsed = [parse_directory_name(name) for name in self._filesystem.list_directory(self.path)]
        logs = [each for each in parsed if each is not None and each[0] != METADATA_TOPIC]
        # A name like t-007 would be read as partition 7, but the directory of that partition is t-7.
        return sorted(each for each in logs if self._filesystem.exists(self._log_path(*each)))

    def topic_id_of(self, topic: str, partition: int) -> str | None:
        """The topic id in the directory of this log. None if it has none, or if the file is damaged."""
        return self.topic_id_at(directory_name(topic, partition))

    def topic_id_at(self, name: str) -> str | None:
        """The same for the directory with this name."""
        path = f"{self.path}/{name}/{METADATA_FILE}"
        stored: str | None = None
        if self._filesystem.exists(path):
            text = self._filesystem.read_bytes(path).decode(errors="replace")
            # a file without its last newline was not synced before a loss of power
            for line in text.splitlines() if text.endswith("\n") else ():
                key, _, value = line.partition(": ")
                stored = value if key == "topic_id" else stored
        return stored

    def open_log(
        self, topic: str, partition: int, *, topic_id: str | None = None, config: LogConfig | None = None
    ) -> PartitionLog:
        """Open, recover or create a log. Its directory holds the topic id. If `topic_id` is another one, it raises
        TopicIdMismatchError."""
        path = self._log_path(topic, partition)
        self._filesystem.make_directory(path)
        log = PartitionLog(
            path,
            name=f"{topic}-{partition}",
            config=config or self.config,
            filesystem=self._filesystem,
            clean=self.was_clean_shutdown,
            recovery_point=0 if self.was_machine_restarted else None,
            topic_id=self._check_topic_id(topic, partition, topic_id),
            log_start_offset=self._log_starts.get((topic, partition)),
            was_compacted=(topic, partition) in self.cleaner_offsets,
        )
        self._is_opened(topic, partition)
        return log

    def discard_log(self, topic: str, partition: int) -> None:
        """Rename the log, so that it is not found any more. `remove_discarded` removes its files later."""
        self._log_starts.pop((topic, partition), None)
        if self.cleaner_offsets.pop((topic, partition), None) is not None:
            self.write_cleaner_offsets()
        path = self._log_path(topic, partition)
        if self._filesystem.exists(path):
            topic_id = self.topic_id_of(topic, partition) or "no-id"
            target = f"{self.path}/{topic[:_NAME_IN_DELETED]}-{partition}.{topic_id}{DELETE_SUFFIX}"
            self._filesystem.remove_tree(target)  # left by an earlier process that did not finish the removal
            self._filesystem.rename(path, target)
        self._is_opened(topic, partition)

    # -- future logs

    def futures(self) -> dict[tuple[str, int], str]:
        """The names of the directories with future logs."""
        found: dict[tuple[str, int], str] = {}
        for name in self._filesystem.list_directory(self.path):
            match = _FUTURE.fullmatch(name)
            key = None if match is None else parse_directory_name(match["name"])
            if key is not None:
                found[key] = name
        return found

    def new_future(self, topic: str, partition: int, *, unique: UUID, topic_id: str | None) -> str:
        """Makes the directory of a future log, and returns its name."""
        name = f"{directory_name(topic, partition)}.{unique.hex}{FUTURE_SUFFIX}"
        self._filesystem.make_directory(f"{self.path}/{name}")
        self._write_topic_id(f"{self.path}/{name}", topic_id)
        self._filesystem.sync_directory(self.path)
        return name

    def open_future(self, topic: str, partition: int, name: str, config: LogConfig) -> PartitionLog:
        """Open or recover a future log. May take as long as the scan of its last segment, or of all segments after a
        restart of the machine."""
        return PartitionLog(
            f"{self.path}/{name}",
            name=directory_name(topic, partition),
            config=config,
            filesystem=self._filesystem,
            recovery_point=0 if self.was_machine_restarted else None,
            was_compacted=True,  # it may be a copy of a log with gaps
        )

    def promote(self, topic: str, partition: int, future: PartitionLog, *, was_compacted: bool) -> PartitionLog:
        """Gives a future log its final name, and returns it as it is under that name. All of it is on the disk then.
        Raises OSError."""
        key = (topic, partition)
        log_start_offset = future.log_start_offset
        future.close()
        self._log_starts.pop(key, None)
        path = self._log_path(topic, partition)
        self._filesystem.rename(future.directory, path)
        self._filesystem.sync_directory(self.path)
        log = PartitionLog(
            path,
            name=directory_name(topic, partition),
            config=future.config,
            filesystem=self._filesystem,
            clean=True,
            topic_id=self.topic_id_of(topic, partition),
            log_start_offset=log_start_offset,
            was_compacted=True,
        )
        self.write_log_start_offsets([log])
        if was_compacted:  # then it may have gaps, also if the topic is not compacted any more
            self.cleaner_offsets[key] = log_start_offset
            self.write_cleaner_offsets()
        return log

    def discard_future(self, name: str) -> None:
        """Rename the directory of a future log, so that it is not found any more. `remove_discarded` removes its files
        later."""
        target = f"{self.path}/{name[:_NAME_IN_DELETED]}.{name[-39:-7]}{DELETE_SUFFIX}"
        self._filesystem.remove_tree(target)
        if self._filesystem.exists(f"{self.path}/{name}"):
            self._filesystem.rename(f"{self.path}/{name}", target)

    # -- files of discarded logs

    def has_discarded(self) -> bool:
        return any(name.endswith(DELETE_SUFFIX) for name in self._filesystem.list_directory(self.path))

    def remove_discarded(self) -> None:
        """May take long, because a file system frees the blocks of large files one by one."""
        # otherwise a loss of power could give a half removed log its old name back
        self._filesystem.sync_directory(self.path)
        for name in self._filesystem.list_directory(self.path):
            if name.endswith(DELETE_SUFFIX):
                self._filesystem.remove_tree(f"{self.path}/{name}")

    def _is_opened(self, topic: str, partition: int) -> None:
        if (topic, partition) in self._unopened:
            self._unopened.discard((topic, partition))
            self._note_boot()

    def read_high_watermarks(self) -> PartitionOffsets:
        return read_offsets(self._filesystem, f"{self.path}/{HIGH_WATERMARK_FILE}")

    def write_high_watermarks(self, high_watermarks: Mapping[tuple[str, int], int]) -> None:
        """Atomic and fsynced. Call it now and then, and on a clean shutdown."""
        write_offsets(self._filesystem, f"{self.path}/{HIGH_WATERMARK_FILE}", high_watermarks)

    def write_log_start_offsets(self, logs: Iterable[PartitionLog]) -> None:
        """Write the log starts that DeleteRecords moved into the middle of a segment. Without them the deleted
        records would be readable again after a crash."""
        offsets = dict(self._log_starts)  # includes logs that are not open yet
        for log in logs:
            parsed = parse_directory_name(log.name)
            if parsed and log.log_start_offset > log.segments[0].base_offset:
                offsets[parsed] = log.log_start_offset
            elif parsed:
                offsets.pop(parsed, None)
        if offsets != self._log_starts:
            self._log_starts = offsets
            write_offsets(self._filesystem, f"{self.path}/{LOG_START_FILE}", offsets)

    def write_cleaner_offsets(self) -> None:
        write_offsets(self._filesystem, f"{self.path}/{CLEANER_FILE}", self.cleaner_offsets)

    def close(self, logs: Iterable[PartitionLog], *, is_whole: bool = True, broker_epoch: int = NO_EPOCH) -> None:
        """Close the logs, note how far each is on disk, and mark the shutdown as clean.

        `broker_epoch` is the epoch of this process. A process that never registered has none. Then the mark keeps the
        epoch of the process before it, because the controller still has that epoch.

        The mark is not written in three cases:

        - This process never opened a log that a crash left, so nobody has checked that log yet.
        - A log could not be closed.
        - `is_whole` is False, because another log is offline.

        Raises OSError if a file of the directory cannot be written. The logs are closed all the same.
        """
        recovery_points: PartitionOffsets = {}
        logs = list(logs)
        failure: OSError | None = None
        try:
            self.write_log_start_offsets(logs)
        except OSError as error:
            failure = error
        for log in logs:
            try:
                log.close()
            except OSError:
                is_whole = False
                continue
            parsed = parse_directory_name(log.name)
            if parsed:
                recovery_points[parsed] = log.log_end_offset
        if failure is not None:
            raise failure
        write_offsets(self._filesystem, f"{self.path}/{RECOVERY_POINT_FILE}", recovery_points)
        if is_whole and (self.was_clean_shutdown or not self._unopened):
            epoch = self.previous_broker_epoch if broker_epoch == NO_EPOCH else broker_epoch
            self._filesystem.write_atomically(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", clean_shutdown_mark(epoch))

    def _log_path(self, topic: str, partition: int) -> str:
        return f"{self.path}/{directory_name(topic, partition)}"

    def _check_topic_id(self, topic: str, partition: int, topic_id: str | None) -> str | None:
        path = self._log_path(topic, partition)
        stored = self.topic_id_of(topic, partition)
        if stored is None and topic_id is not None:
            self._write_topic_id(path, topic_id)
        elif stored is not None and topic_id is not None and stored != topic_id:
            raise TopicIdMismatchError(f"{path} belongs to topic id {stored}, not {topic_id}")
        return stored or topic_id

    def _write_topic_id(self, path: str, topic_id: str | None) -> None:
        """Synced now, before there is data. Later a sync of this small file would have to wait until the file system
        has written all data of its journal's transaction. That takes seconds under load and blocks the event loop."""
        if topic_id is not None:
            self._filesystem.write_atomically(f"{path}/{METADATA_FILE}", f"version: 0\ntopic_id: {topic_id}\n".encode())
