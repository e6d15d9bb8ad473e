"""Which partitions are on this broker, and which of them are offline.

If the storage of a partition fails in any call, `storage_failed` takes that partition offline
(docs/decisions/0008-storage-failures.md):

- It is not hosted again until the process starts anew.
- Its waiting produces fail.
- `on_offline` makes the broker tell the controller, which moves the leadership.

The other partitions go on.
Knows no protocol message: the handlers do.
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
    """`high_watermarks` are those of the last checkpoint, and of what has gone offline since."""

    def __init__(
        self,
        *,
        cores: Cores,
        high_watermarks: dict[tuple[str, int], int],
        on_offline: Callable[[], None],
        on_directory_failure: Callable[[OSError], None] | None,  # None: it is raised
        journal: Journal,
        logger: Logger,
    ) -> None:
        self._cores, self.high_watermarks = cores, high_watermarks
        self._on_offline, self._on_directory_failure = on_offline, on_directory_failure
        self._journal, self._logger = journal, logger
        self._hosted: dict[tuple[str, int], HostedPartition] = {}
        self._offline: dict[tuple[str, int], UUID] = {}  # topic ids of those whose storage failed in this life
        self._followed: dict[int, list[HostedPartition]] = {}  # by leader, as the last image has it

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
        """As the controller is told (KIP-858)."""
        return [replica_directory(topic_id, index) for (_, index), topic_id in sorted(self._offline.items())]

    def followed(self, leader_id: int) -> list[HostedPartition]:
        """What a fetcher of that leader pulls. The same list as long as nothing changed but what fetchers do."""
        followed = self._followed.get(leader_id)
        if followed is None:
            followed = self._followed[leader_id] = [
                each
                for each in self._hosted.values()
                if not each.replica.is_leader and each.replica.leader_id == leader_id
            ]
        return followed

    def offline_topic_id(self, topic: str, index: int) -> UUID | None:
        """Of the partition that is offline here under this name, None if none is."""
        return self._offline.get((topic, index))

    # -- what comes and goes -----------------------------------------------------------------------------------------

    def host(self, hosted: HostedPartition) -> None:
        self._hosted[hosted.key] = hosted

    def drop(self, topic: str, index: int) -> HostedPartition | None:
        """It is served no more; None if it was not."""
        return self._hosted.pop((topic, index), None)

    def forget_offline(self, topic: str, index: int) -> None:
        """Its topic was deleted."""
        self._offline.pop((topic, index), None)

    def forget_followed(self, leader_id: int | None = None) -> None:
        """The partitions that follow this leader (or any) have changed, or the fetcher must compare them anew."""
        if leader_id is None:
            self._followed.clear()
        else:
            self._followed.pop(leader_id, None)

    # -- the door ----------------------------------------------------------------------------------------------------

    def storage_failed(self, hosted: HostedPartition, error: Exception) -> AppendOutcome:
        """Take one partition offline after an error of its storage. What it had in memory is dropped.

        Kafka takes a log directory offline (KIP-112) and has several. Here each partition's directory counts as one.
        """
        if self._hosted.get(hosted.key) is hosted:  # else this has been told, or the topic is deleted
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
