"""Which partitions are on this broker, and which of them are offline.

If the storage of a partition fails in any call, `storage_failed` takes that partition offline. If the broker has
several log directories, it takes the directory offline with all its partitions
(docs/decisions/0008-storage-failures.md):

- It is not hosted again until the process is restarted.
- Its waiting produces fail.
- `on_offline` makes the broker tell the controller, which moves the leadership.

Other partitions are not affected. This module knows no protocol message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from broker.controller.records import replica_directory
from broker.log.directory import LogDirectory
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.cores import Cores
from broker.node.replicas.directories import Failures, LogDirectories
from broker.node.replicas.hosted import AppendOutcome, HostedPartition
from broker.replication import StopReplica
from broker.wire.errors import ErrorCode


class Partitions:
    """`high_watermarks` has the values of the last checkpoint, and of partitions that went offline since."""

    def __init__(
        self,
        *,
        cores: Cores,
        directories: LogDirectories,
        high_watermarks: dict[tuple[str, int], int],
        on_offline: Callable[[], None],
        on_directory_failure: Callable[[OSError], None] | None,  # None: the error is raised
        journal: Journal,
        logger: Logger,
    ) -> None:
        self._cores, self._directories, self.high_watermarks = cores, directories, high_watermarks
        self._on_offline, self._on_directory_failure = on_offline, on_directory_failure
        self._journal, self._logger = journal, logger
        self._hosted: dict[tuple[str, int], HostedPartition] = {}
        self._offline: dict[tuple[str, int], UUID] = {}  # topic ids of partitions whose storage failed in this process
        self._offline_alone: set[tuple[str, int]] = set()  # those of them whose log directory works
        self._followed: dict[int, list[HostedPartition]] = {}  # The key is the leader in the last image.

    # -- reading -----------------------------------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> HostedPartition | None:
        return self._hosted.get((topic, index))

    def all(self) -> Iterable[HostedPartition]:
        return self._hosted.values()

    def is_offline(self, topic: str, index: int) -> bool:
        return (topic, index) in self._offline

    def is_offline_alone(self, topic: str, index: int) -> bool:
        """Whether it is offline although its log directory works."""
        return (topic, index) in self._offline_alone

    def offline(self) -> list[tuple[str, int]]:
        return sorted(self._offline)

    def offline_directories(self) -> list[UUID]:
        """What the controller has to know as failed (KIP-858): log directories, and replicas that failed alone."""
        alone = ((key, self._offline[key]) for key in sorted(self._offline_alone))
        return [*self._directories.failed_ids(), *(replica_directory(topic_id, key[1]) for key, topic_id in alone)]

    def directory_id(self, topic: str, index: int) -> UUID | None:
        """The id of the log directory that holds the log of the partition, or soon will. None if it is not known."""
        return self._directories.directory_id((topic, index))

    def followed(self, leader_id: int) -> list[HostedPartition]:
        """The partitions to fetch from that leader. It is the same list as long as only fetchers change the
        partitions."""
        followed = self._followed.get(leader_id)
        if followed is None:
            followed = self._followed[leader_id] = [
                each
                for each in self._hosted.values()
                if not each.replica.is_leader and each.replica.leader_id == leader_id
            ]
        return followed

    def offline_topic_id(self, topic: str, index: int) -> UUID | None:
        """The topic id of the partition that is offline here under this name. None if there is none."""
        return self._offline.get((topic, index))

    # -- adding and removing -----------------------------------------------------------------------------------------

    def host(self, hosted: HostedPartition) -> None:
        self._hosted[hosted.key] = hosted

    def drop(self, topic: str, index: int) -> HostedPartition | None:
        """Removes the partition, which is no longer served. None if it was not here."""
        return self._hosted.pop((topic, index), None)

    def forget_offline(self, topic: str, index: int) -> None:
        """Forgets that the partition is offline, because its topic was deleted."""
        self._offline.pop((topic, index), None)
        self._offline_alone.discard((topic, index))

    def forget_followed(self, leader_id: int | None = None) -> None:
        """The partitions that follow this leader (None: any leader) have changed, or the fetcher must compare them
        again."""
        if leader_id is None:
            self._followed.clear()
        else:
            self._followed.pop(leader_id, None)

    # -- errors of the storage ---------------------------------------------------------------------------------------

    def storage_failed(self, hosted: HostedPartition, error: Exception) -> AppendOutcome:
        """Takes a partition offline after an error of its storage. Its state in memory is dropped.

        If the broker has several log directories, an error of the disk takes the whole directory offline, as in Kafka
        (KIP-112). A damaged log costs its own partition only.
        """
        if self._hosted.get(hosted.key) is hosted:  # otherwise it is offline already, or the topic was deleted
            if self._directories.are_several and isinstance(error, OSError):
                self.directory_failed(self._directories.of_log(hosted.log), error)
            if self._hosted.get(hosted.key) is hosted:
                self._drop(hosted)
                self.note_offline(hosted.key, hosted.topic_id, error)
        return AppendOutcome(error_code=ErrorCode.kafka_storage_error, message=str(error))

    def log_failed(
        self, key: tuple[str, int], topic_id: UUID, directory: LogDirectory | None, error: Exception
    ) -> None:
        """The log of a partition that is not hosted yet could not be opened, in this directory. None: its directory
        does not work."""
        if directory is not None and self._directories.are_several and isinstance(error, OSError):
            self.directory_failed(directory, error)
        is_lost = directory is None or directory not in self._directories.working
        self.note_offline(key, topic_id, error, is_alone=not is_lost)

    def _drop(self, hosted: HostedPartition) -> None:
        self.high_watermarks[hosted.key] = hosted.replica.high_watermark
        del self._hosted[hosted.key]
        self._followed.clear()
        self._cores.perform(hosted, StopReplica())
        self._cores.timed.pop(hosted, None)
        hosted.log.abandon()
        hosted.readers.role_changed()

    def note_offline(self, key: tuple[str, int], topic_id: UUID, error: Exception, *, is_alone: bool = True) -> None:
        """`is_alone`: its log directory works, so the controller is told of the replica itself."""
        self._offline[key] = topic_id
        if is_alone:
            self._offline_alone.add(key)
        facts = {"topic": key[0], "partition": key[1], "cause": f"{type(error).__name__}: {error}"}
        self._logger.error("partition_offline", **{**facts, "cause": repr(facts["cause"])})
        self._journal.write("storage_failed", **facts)
        self._on_offline()

    def directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        """Takes a log directory offline, with all its partitions. The broker cannot go on without the directory of the
        metadata log, nor without any directory (KIP-112)."""
        if directory not in self._directories.working:
            return
        cause = f"{type(error).__name__}: {error}"
        where = {"directory": directory.path} if self._directories.are_several else {}
        self._journal.write("storage_failed", **where, cause=cause)
        if self._directories.ends_broker(directory):
            if self._on_directory_failure is None:
                raise error
            self._on_directory_failure(error)
            return
        self._logger.error("log_directory_offline", directory=directory.path, cause=repr(cause))
        self._directories.fail(directory)
        for hosted in list(self._hosted.values()):
            if self._directories.of_log(hosted.log) is directory:
                self._drop(hosted)
                self.note_offline(hosted.key, hosted.topic_id, error, is_alone=False)
        self._on_offline()

    def directories_failed(self, failures: Failures) -> None:
        for directory, error in failures:
            self.directory_failed(directory, error)
