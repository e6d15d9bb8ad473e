"""Which partitions are on this broker, and which of them are offline.

If the storage of a partition fails in any call, `storage_failed` takes that partition offline
(docs/decisions/0008-storage-failures.md):

- It is not hosted again until the process is restarted.
- Its waiting produces fail.
- `on_offline` makes the broker tell the controller, which moves the leadership.

The other partitions are not affected. This module knows no protocol message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from broker.controller.records import replica_directory
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.cores import Cores
from broker.node.replicas.hosted import AppendOutcome, HostedPartition
from broker.replication import StopReplica
from broker.wire.errors import ErrorCode


class Partitions:
    """`high_watermarks` has the values of the last checkpoint, and of partitions that went offline since."""

    def __init__(
        self,
        *,
        cores: Cores,
        high_watermarks: dict[tuple[str, int], int],
        on_offline: Callable[[], None],
        on_directory_failure: Callable[[OSError], None] | None,  # None: the error is raised
        journal: Journal,
        logger: Logger,
    ) -> None:
        self._cores, self.high_watermarks = cores, high_watermarks
        self._on_offline, self._on_directory_failure = on_offline, on_directory_failure
        self._journal, self._logger = journal, logger
        self._hosted: dict[tuple[str, int], HostedPartition] = {}
        self._offline: dict[tuple[str, int], UUID] = {}  # topic ids of partitions whose storage failed in this process
        self._followed: dict[int, list[HostedPartition]] = {}  # by leader, according to the last image

    # -- reading -----------------------------------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> HostedPartition | None:
        return self._hosted.get((topic, index))

    def all(self) -> Iterable[HostedPartition]:
        return self._hosted.values()

    def is_offline(self, topic: str, index: int) -> bool:
        return (topic, index) in self._offline

    def offline(self) -> list[tuple[str, int]]:
        return sorted(self._offline)

    def offline_directories(self) -> list[UUID]:
        """The ids of failed directories for the controller (KIP-858)."""
        return [replica_directory(topic_id, index) for (_, index), topic_id in sorted(self._offline.items())]

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

    def forget_followed(self, leader_id: int | None = None) -> None:
        """The partitions that follow this leader (None: any leader) have changed, or the fetcher must compare them
        again."""
        if leader_id is None:
            self._followed.clear()
        else:
            self._followed.pop(leader_id, None)

    # -- errors of the storage ---------------------------------------------------------------------------------------

    def storage_failed(self, hosted: HostedPartition, error: Exception) -> AppendOutcome:
        """Takes one partition offline after an error of its storage. Its state in memory is dropped.

        Kafka takes a whole log directory offline (KIP-112) and may have several. Here each partition's directory counts
        as a log directory.
        """
        if self._hosted.get(hosted.key) is hosted:  # otherwise it is offline already, or the topic was deleted
            self.high_watermarks[hosted.key] = hosted.replica.high_watermark
            del self._hosted[hosted.key]
            self._followed.clear()
            self.note_offline(hosted.key, hosted.topic_id, error)
            self._cores.perform(hosted, StopReplica())
            self._cores.timed.pop(hosted, None)
            hosted.log.abandon()
            hosted.readers.role_changed()
        return AppendOutcome(error_code=ErrorCode.kafka_storage_error, message=str(error))

    def note_offline(self, key: tuple[str, int], topic_id: UUID, error: Exception) -> None:
        self._offline[key] = topic_id
        facts = {"topic": key[0], "partition": key[1], "cause": f"{type(error).__name__}: {error}"}
        self._logger.error("partition_offline", **{**facts, "cause": repr(facts["cause"])})
        self._journal.write("storage_failed", **facts)
        self._on_offline()

    def directory_failed(self, error: OSError) -> None:
        """A file of the log directory itself failed. There is only one, so the broker cannot go on (KIP-112)."""
        self._journal.write("storage_failed", cause=f"{type(error).__name__}: {error}")
        if self._on_directory_failure is None:
            raise error
        self._on_directory_failure(error)
