"""The log directories of this broker (log.dirs): which of them work, and which one holds the log of a partition.

Owns: where each log lies, and where a new one is made. As in Kafka that is the directory with the fewest logs of those
that are not cordoned (KIP-1066). A directory that failed is not used again in this process (KIP-112). `Partitions`
decides what becomes of its partitions.

The files of a directory are those of broker/log/directory.py. The ids of the directories are in their meta.properties.
Shown by tests/broker_node/test_node_directories.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

from broker.log.checkpoints import NO_EPOCH, PartitionOffsets
from broker.log.config import LogConfig
from broker.log.directory import LogDirectory
from broker.log.partition_log import PartitionLog

Key: TypeAlias = tuple[str, int]  # topic, partition
Failures: TypeAlias = list[tuple[LogDirectory, OSError]]


PREFERRED_MAX = 10_000  # replicas that do not exist here, and may never


class DuplicateLogError(ValueError):
    """Two directories hold a log of the same partition, and nothing tells which one counts."""


class LogDirectories:
    """`working` has the directories that work, in the order of log.dirs. `failed` has the paths of the others, with
    their ids (None: the id could not be read)."""

    def __init__(
        self,
        working: Sequence[LogDirectory],
        *,
        failed: Mapping[str, UUID | None] | None = None,
        metadata_path: str = "",  # the directory with the metadata log; it may be none of these
        cordoned: Collection[Path] = (),  # those that get no new replicas
    ) -> None:
        self.working = list(working)
        self._cordoned = frozenset(map(str, cordoned))
        self.failed: dict[str, UUID | None] = dict(failed or {})
        self._began_without = bool(self.failed)
        self.are_several = len(self.working) + len(self.failed) > 1
        self._metadata_path = metadata_path
        self._by_path = {each.path: each for each in self.working}  # also those that failed since
        self._preferred: dict[Key, LogDirectory] = {}
        self._where: dict[Key, LogDirectory] = {}
        self._promised: dict[Key, LogDirectory] = {}  # where replicas will soon lie
        self._twice: dict[Key, list[LogDirectory]] = {}  # logs in two directories
        for directory in self.working:
            for key in directory.partitions():
                if key in self._where:
                    self._twice.setdefault(key, [self._where[key]]).append(directory)
                self._where[key] = directory

    # -- reading

    def partitions(self) -> list[Key]:
        """The partitions with a log in a directory that works."""
        return sorted(self._where)

    def where(self, key: Key) -> LogDirectory | None:
        return self._where.get(key)

    def of_log(self, log: PartitionLog) -> LogDirectory:
        """The directory of an open log. The directory may have failed since."""
        return self._by_path[log.directory.rpartition("/")[0]]

    def is_lost(self, key: Key, wanted: UUID | None, *, may_have_log: bool) -> bool:
        """Whether the log lies in a directory that does not work. `wanted` is the directory as far as the controller
        knows. `may_have_log`: the broker may have had a log of it before this process."""
        found = self._where.get(key)
        if found is not None:
            return found not in self.working
        if not self._began_without:  # then every log is known
            return False
        if wanted is None:
            return may_have_log
        return wanted not in self.working_ids()

    def promise(self, key: Key, directory: LogDirectory | None) -> None:
        """The replica will soon lie in this directory, and the controller is told so already. None: no longer."""
        if directory is None:
            self._promised.pop(key, None)
        else:
            self._promised[key] = directory

    def directory_id(self, key: Key) -> UUID | None:
        """The id of the directory to tell the controller for this replica. None if it is not known."""
        directory = self._promised.get(key) or self._where.get(key)
        return None if directory is None else directory.directory_id

    def working_ids(self) -> list[UUID]:
        return [each.directory_id for each in self.working if each.directory_id is not None]

    def failed_ids(self) -> list[UUID]:
        return [each for each in self.failed.values() if each is not None]

    def cordon(self, paths: Collection[Path]) -> bool:
        """These directories, and no others, get no new replicas from now on. False if this was so already."""
        before, self._cordoned = self._cordoned, frozenset(map(str, paths))
        return before != self._cordoned

    def is_cordoned(self, path: str | Path) -> bool:
        return str(path) in self._cordoned

    def cordoned_ids(self) -> list[UUID]:
        """Of those that work."""
        found = (each.directory_id for each in self.working if self.is_cordoned(each.path))
        return [each for each in found if each is not None]

    def ends_broker(self, directory: LogDirectory) -> bool:
        """Whether the broker cannot go on without it: it holds the metadata log, or is the last one that works."""
        return directory.path == self._metadata_path or self.working == [directory]

    @property
    def was_clean_shutdown(self) -> bool:
        return all(each.was_clean_shutdown for each in self.working)

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the previous process. NO_EPOCH: a directory lacks its mark, so records may be lost."""
        epochs = {each.previous_broker_epoch for each in self.working}
        return epochs.pop() if len(epochs) == 1 and not self.failed else NO_EPOCH

    # -- logs

    def settle(self, key: Key, wanted: UUID | None) -> LogDirectory | None:
        """The directory that holds the log. If two do, it is the one that the controller knows, and the log in the
        other one is discarded. Raises DuplicateLogError if the controller knows neither."""
        found = self._twice.get(key)
        if found is None:
            return self._where.get(key)
        chosen = next((each for each in found if each.directory_id is not None and each.directory_id == wanted), None)
        if chosen is None:
            paths = " and ".join(each.path for each in found)
            raise DuplicateLogError(
                f"{paths} both have a log of {key[0]}-{key[1]}, and the controller knows neither as its directory. "
                "Remove the log in the directory that failed most recently"
            )
        for each in found:
            if each is not chosen:
                each.discard_log(*key)
        del self._twice[key]
        self._where[key] = chosen
        return chosen

    def at(self, path: str) -> LogDirectory | None:
        """The directory with this absolute path, if it works."""
        return next((each for each in self.working if str(Path(each.path).absolute()) == path), None)

    def is_configured(self, path: str) -> bool:
        paths = (*(each.path for each in self.working), *self.failed)
        return path in {str(Path(each).absolute()) for each in paths}

    def prefer(self, key: Key, directory: LogDirectory) -> None:
        """If the partition gets a log, it is made there."""
        if key in self._preferred or len(self._preferred) < PREFERRED_MAX:
            self._preferred[key] = directory

    def moved(self, key: Key, directory: LogDirectory) -> None:
        self._where[key] = directory

    def place(self, key: Key, wanted: UUID | None = None) -> LogDirectory:
        """The directory that holds the log, or that gets it: the preferred one, the wanted one, or the one with the
        fewest logs of those that are not cordoned."""
        found = self.settle(key, wanted)
        if found is None:
            preferred = self._preferred.pop(key, None)
            asked = (each for each in self.working if wanted is not None and each.directory_id == wanted)
            found = preferred if preferred in self.working else next(asked, None) or self._emptiest()
        return found

    def _emptiest(self) -> LogDirectory:
        open_ones = [each for each in self.working if not self.is_cordoned(each.path)]
        if len(self.working) == 1 or not open_ones:  # a replica that was placed here nevertheless, as in Kafka
            return self.working[0]
        counts = dict.fromkeys((each.path for each in open_ones), 0)
        for directory in self._where.values():
            if directory.path in counts:
                counts[directory.path] += 1
        return min(open_ones, key=lambda each: counts[each.path])  # the first of several

    def open_log(
        self, key: Key, *, topic_id: str | None, config: LogConfig, wanted: UUID | None = None
    ) -> PartitionLog:
        directory = self._where[key] = self.place(key, wanted)  # also if it cannot be opened: it is the one that failed
        return directory.open_log(*key, topic_id=topic_id, config=config)

    def topic_id_of(self, topic: str, partition: int) -> str | None:
        directory = self._where.get((topic, partition))
        return None if directory is None else directory.topic_id_of(topic, partition)

    def discard_log(self, topic: str, partition: int) -> None:
        key = (topic, partition)
        for directory in self._twice.pop(key, [self._where[key]] if key in self._where else []):
            if directory in self.working:
                directory.discard_log(topic, partition)
        self._where.pop(key, None)

    # -- checkpoints

    def read_high_watermarks(self) -> PartitionOffsets:
        found: PartitionOffsets = {}
        for directory in self.working:
            found.update(directory.read_high_watermarks())
        return found

    def write_high_watermarks(self, high_watermarks: Mapping[Key, int]) -> Failures:
        def write(directory: LogDirectory) -> None:
            if self.are_several:
                own = {key: offset for key, offset in high_watermarks.items() if self._where.get(key) is directory}
                directory.write_high_watermarks(own)
            else:  # also of partitions that have no log here any more
                directory.write_high_watermarks(high_watermarks)

        return self.each(write)

    def write_log_start_offsets(self, logs: Iterable[PartitionLog]) -> Failures:
        logs = list(logs)
        return self.each(lambda each: each.write_log_start_offsets(log for log in logs if self.of_log(log) is each))

    def each(self, work: Callable[[LogDirectory], None]) -> Failures:
        """Does this in every directory that works. An error in one does not keep it from being done in the others."""
        failures: Failures = []
        for directory in list(self.working):
            try:
                work(directory)
            except OSError as error:
                failures.append((directory, error))
        return failures

    # -- failure and end

    def fail(self, directory: LogDirectory) -> None:
        self.working.remove(directory)
        self.failed[directory.path] = directory.directory_id

    def close(
        self, logs: Iterable[PartitionLog], *, offline: Iterable[Key], broker_epoch: int = NO_EPOCH, is_whole: bool
    ) -> Failures:
        """Closes every log. A directory with an offline partition does not get the mark of a clean shutdown. Without
        `is_whole` none gets it."""
        logs = list(logs)
        damaged = {id(self._where.get(key)) for key in offline}

        def close(directory: LogDirectory) -> None:
            directory.close(
                [log for log in logs if self.of_log(log) is directory],
                is_whole=is_whole and not (id(directory) in damaged if self.are_several else damaged),
                broker_epoch=broker_epoch,
            )

        return self.each(close)
