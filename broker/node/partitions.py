"""The partitions of this broker: each a log on disk and a replication core, and what they make of the metadata image.

A partition whose storage fails, in whatever call, goes offline through one door, `storage_failed`: it is hosted no more
until the process starts again, its waiting produces fail, and `on_offline` has the controller told, which hands its
leadership on (docs/decisions/0008-storage-failures.md). The others go on.
Owns logs, cores, waiting acks=all produces and who wants to be woken by new data. Knows no protocol message: the
handlers do. Every change of a core goes through `perform`, which carries out its actions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import NamedTuple, TypeAlias
from uuid import UUID

from broker.controller.delta import MetadataDelta, PartitionChange, diff
from broker.controller.image import MetadataImage
from broker.controller.records import replica_directory
from broker.log.directory import LogDirectory
from broker.log.errors import STORAGE_ERRORS, LogError, TopicIdMismatchError
from broker.log.filesystem import LOCAL, FileSystem
from broker.log.partition_log import PartitionLog
from broker.log.producers import Verdict
from broker.log.retention import apply_retention
from broker.log.transactions import EndMarker
from broker.log.verification import VerificationGuard
from broker.node.cleaner import Cleaner
from broker.node.clock import monotonic_ms, wall_ms
from broker.node.config import NodeConfig, with_dynamic
from broker.node.journal import Journal
from broker.node.log_recovery import LogRecovery, RunBlocking, in_thread
from broker.node.logs import Logger
from broker.node.topic_config import TopicConfig, broker_overrides, topic_config
from broker.node.wakes import Readers
from broker.replication import (
    Appended,
    AwaitReplication,
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    CompleteProduce,
    Event,
    FetchedFromLeader,
    HighWatermarkAdvanced,
    IsrChanged,
    PartitionReplica,
    ProposeIsr,
    ReplicationConfig,
    StopReplica,
    Tick,
    Truncated,
)
from broker.wire.errors import ErrorCode
from broker.wire.records import BatchHeader

ProduceDone: TypeAlias = Callable[[ErrorCode], None]

_REFUSALS = {
    Verdict.OUT_OF_ORDER: ErrorCode.out_of_order_sequence_number,
    Verdict.INVALID_EPOCH: ErrorCode.invalid_producer_epoch,
    Verdict.INVALID_TXN_STATE: ErrorCode.invalid_txn_state,
    Verdict.COORDINATOR_FENCED: ErrorCode.transaction_coordinator_fenced,
}
_OK, _NONE = Verdict.OK, ErrorCode.none  # looked up once: an enum's member costs 70 ns each time
DELETED_TOPICS_MAX = 10_000  # names remembered, of 250 bytes at most
TICK_MS = 50  # how late a deadline of a core may be noticed


def _nothing() -> None:
    return None


class HostedPartition:
    """One partition on this broker."""

    __slots__ = (
        "config",
        "discarded_offset",
        "follower_log_starts",
        "index",
        "log",
        "readers",
        "replica",
        "topic",
        "topic_id",
        "unflushed_since_ms",
    )

    def __init__(
        self,
        *,
        topic: str,
        topic_id: UUID,
        index: int,
        log: PartitionLog,
        replica: PartitionReplica,
        config: TopicConfig,
    ) -> None:
        self.topic, self.topic_id, self.index = topic, topic_id, index
        self.log, self.replica, self.config = log, replica, config
        self.readers = Readers()
        self.discarded_offset = 0  # with harness.discard: the offset that the next batch is told
        self.follower_log_starts: dict[int, int] = {}  # by replica id, from its last fetch
        self.unflushed_since_ms: int | None = None  # since when the log holds what flush.ms counts

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.index


class AppendOutcome(NamedTuple):
    error_code: ErrorCode
    base_offset: int = -1
    required_offset: int = -1  # of the high watermark, for acks=all
    message: str | None = None


class Partitions:
    def __init__(
        self,
        *,
        config: NodeConfig,
        logger: Logger,
        journal: Journal,
        propose_isr: Callable[[HostedPartition, ProposeIsr], None],
        on_roles_changed: Callable[[], None],
        filesystem: FileSystem = LOCAL,
        on_offline: Callable[[], None] = _nothing,
        on_directory_failure: Callable[[OSError], None] | None = None,  # None: it is raised
        boot_id: str | None = None,
        run_blocking: RunBlocking = in_thread,
    ) -> None:
        self._on_offline, self._on_directory_failure = on_offline, on_directory_failure
        self._config, self._logger, self._journal = config, logger, journal
        self._static_config = config
        self._propose_isr, self._on_roles_changed = propose_isr, on_roles_changed
        self._directory = LogDirectory(str(config.log_dirs), filesystem=filesystem, boot_id=boot_id)
        self._high_watermarks = self._directory.read_high_watermarks()
        self._hosted: dict[tuple[str, int], HostedPartition] = {}
        self._offline: dict[tuple[str, int], UUID] = {}  # topic ids of those whose storage failed in this life
        self._followed: dict[int, list[HostedPartition]] = {}  # by leader, as the last image has it
        # Those that may have a deadline or something to flush: what a core was told of since they last had neither.
        self._timed: dict[HostedPartition, None] = {}
        self._produces: dict[int, ProduceDone] = {}
        self._next_token = 0
        self._eligible_epochs: dict[int, int] = {}
        self._is_closed = False
        self._live: tuple[int, ...] = ()
        # Names of topics that were deleted: producers of the old one go on with their sequences in the new one.
        self._deleted_topics: set[str] = set()
        self.recovery = LogRecovery(
            node_id=config.node_id,
            directory=self._directory,
            log_config=lambda image, topic: topic_config(self._config, image, topic).log,
            run_blocking=run_blocking,
            journal=journal,
            logger=logger,
        )
        self.cleaner = Cleaner(
            directory=self._directory,
            hosted=self._hosted.values,
            config=lambda: self._config,
            storage_failed=self.storage_failed,
            journal=journal,
            logger=logger,
        )

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

    # -- the image ---------------------------------------------------------------------------------------------------

    def apply_image(self, old: MetadataImage, new: MetadataImage) -> MetadataDelta:
        delta = diff(old, new, broker_id=self._config.node_id)
        self._followed.clear()
        self._live = new.live_broker_ids()
        if old.broker_configs != new.broker_configs:
            self._config = with_dynamic(self._static_config, broker_overrides(new, self._config.node_id))
            for name in {hosted.topic for hosted in self._hosted.values()}:
                self._reconfigure(name, new)
        for removal in delta.removed:
            self._remove(removal.topic, removal.partition)
        self._note_deleted(old, new)
        for name in delta.topic_configs:
            self._reconfigure(name, new)
        if delta.brokers:
            self._eligible_epochs = _eligible_epochs(new)
        for change in delta.leads:
            self._lead(change, new)
        if delta.brokers:
            for hosted in list(self._hosted.values()):
                if hosted.replica.is_leader:
                    self.perform(hosted, BrokersChanged(eligible_epochs=self._eligible_epochs))
        for change in delta.follows:
            self._follow(change, new)
        self._followed.clear()
        if delta.removed or delta.leads or delta.follows or delta.brokers:
            self._on_roles_changed()
        return delta

    def _note_deleted(self, old: MetadataImage, new: MetadataImage) -> None:
        for name, topic in old.topics.items() if old.topics is not new.topics else ():
            after = new.topics.get(name)
            if after is not topic and (after is None or after.topic_id != topic.topic_id):
                self._deleted_topics.add(name)
        if len(self._deleted_topics) > DELETED_TOPICS_MAX:
            self._deleted_topics.pop()  # whichever: of a name that comes again, its old producers may be refused

    def _host(self, change: PartitionChange, image: MetadataImage) -> HostedPartition | None:
        """None: its storage is offline."""
        key = (change.topic, change.partition)
        if self._offline.get(key) == change.topic_id:
            return None
        hosted = self._hosted.get(key)
        if hosted is not None and hosted.topic_id == change.topic_id:
            return hosted
        if hosted is not None:
            self._remove(*key)  # the topic was deleted and made anew
        self._offline.pop(key, None)  # likewise
        effective = topic_config(self._config, image, change.topic)
        try:
            log = self._open_log(change, effective)
        except (*STORAGE_ERRORS, LogError, ValueError) as error:  # unreadable or damaged: neither guessed nor deleted
            self._note_offline(key, change.topic_id, error)
            return None
        replica = PartitionReplica(
            config=ReplicationConfig(
                broker_id=self._config.node_id, replica_lag_time_max_ms=self._config.replica_lag_time_max_ms
            ),
            # What was deleted had been committed.
            high_watermark=max(self._high_watermarks.get(key, 0), log.log_start_offset),
            log_end_offset=log.log_end_offset,
        )
        hosted = HostedPartition(
            topic=change.topic,
            topic_id=change.topic_id,
            index=change.partition,
            log=log,
            replica=replica,
            config=effective,
        )
        self._hosted[key] = hosted
        return hosted

    def _open_log(self, change: PartitionChange, effective: TopicConfig) -> PartitionLog:
        topic, partition, topic_id = change.topic, change.partition, str(change.topic_id)
        self.recovery.discard_now(topic, partition)  # of a deleted topic of this name
        log = self.recovery.take(topic, partition, topic_id, effective.log)
        try:
            log = log or self._directory.open_log(topic, partition, topic_id=topic_id, config=effective.log)
        except TopicIdMismatchError as error:  # nothing else: a damaged log is not ours to delete
            # What is left of a topic of that name which was deleted while this broker was down.
            self._logger.warning("stale_log_removed", topic=topic, partition=partition, cause=repr(str(error)))
            self.recovery.forget(topic, partition)
            self.recovery.discard(topic, partition)
            self._high_watermarks.pop((topic, partition), None)
            log = self._directory.open_log(topic, partition, topic_id=topic_id, config=effective.log)
        if log.log_end_offset == 0 and topic in self._deleted_topics:
            log.producers.expect_strangers()
        if log.log_end_offset > 0 or log.recovery.cut_bytes:
            summary = asdict(log.recovery)
            self._journal.write("log_recovered", topic=topic, partition=partition, **summary)
        return log

    def _lead(self, change: PartitionChange, image: MetadataImage) -> None:
        hosted, state = self._host(change, image), change.state
        if hosted is None:
            return
        is_new = state.leader_epoch > hosted.replica.leader_epoch or not hosted.replica.is_leader
        if is_new:
            try:
                hosted.log.assign_epoch(state.leader_epoch)
            except OSError as error:
                self.storage_failed(hosted, error)
                return
            names = {"topic": hosted.topic, "partition": hosted.index}
            facts = {**names, "leader_epoch": state.leader_epoch}
            self._journal.write("became_leader", **facts, log_end_offset=hosted.log.log_end_offset)
            self._journal.write("isr_changed", **facts, isr=list(state.isr))
            self._logger.info("became_leader", **facts, log_end_offset=hosted.log.log_end_offset, isr=state.isr)
        event = BecomeLeader(
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=state.isr,
            replicas=state.replicas,
            log_end_offset=hosted.log.log_end_offset,
            min_insync_replicas=hosted.config.min_insync_replicas,
        )
        self.perform(hosted, BrokersChanged(eligible_epochs=self._eligible_epochs))
        self.perform(hosted, event)
        if is_new:
            hosted.readers.role_changed()
        else:
            hosted.readers.isr_changed()

    def _follow(self, change: PartitionChange, image: MetadataImage) -> None:
        hosted, state = self._host(change, image), change.state
        if hosted is None:
            return
        is_new = state.leader_epoch > hosted.replica.leader_epoch or hosted.replica.is_leader
        try:
            # An epoch that we led without appending anything would hide the epochs of what we fetch from now on.
            hosted.log.epochs.truncate_to(hosted.log.log_end_offset)
        except OSError as error:
            self.storage_failed(hosted, error)
            return
        event = BecomeFollower(
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=state.isr,
            replicas=state.replicas,
            log_end_offset=hosted.log.log_end_offset,
        )
        self.perform(hosted, event)
        if is_new:
            self._journal.became_follower(
                topic=hosted.topic, partition=hosted.index, leader_epoch=state.leader_epoch, leader=state.leader
            )
            hosted.readers.role_changed()

    def _reconfigure(self, topic: str, image: MetadataImage) -> None:
        for hosted in self._hosted.values():
            if hosted.topic == topic:
                hosted.config = topic_config(self._config, image, topic)
                hosted.log.config = hosted.config.log
                hosted.replica.min_insync_replicas = hosted.config.min_insync_replicas
                self._timed[hosted] = None  # flush.ms

    def _remove(self, topic: str, partition: int) -> None:
        hosted = self._hosted.pop((topic, partition), None)
        was_offline = self._offline.pop((topic, partition), None) is not None
        if hosted is None and not was_offline:
            return
        if hosted is not None:
            self.perform(hosted, StopReplica())
            hosted.readers.role_changed()
            self._timed.pop(hosted, None)
            hosted.log.abandon()  # what is deleted need not be flushed
        self._high_watermarks.pop((topic, partition), None)
        self.recovery.discard_soon(topic, partition)

    # -- appending ---------------------------------------------------------------------------------------------------

    def append(
        self,
        hosted: HostedPartition,
        buffer: memoryview,
        headers: list[BatchHeader],
        *,
        client_id: str,
        correlation_id: int,
        guard: VerificationGuard | None = None,
        must_be_verified: bool = False,
    ) -> AppendOutcome:
        """Offsets are written into `buffer`. Unless the error code is `none`, nothing was appended."""
        replica = hosted.replica
        try:
            result = hosted.log.append(
                buffer,
                leader_epoch=replica.leader_epoch,
                headers=headers,
                guard=guard,
                must_be_verified=must_be_verified,
            )
        except OSError as error:
            return self.storage_failed(hosted, error)
        if result.verdict is _OK:
            if self._journal.with_appends:
                self._journal_batches("appended", hosted, result.headers, client_id, correlation_id)
            self.perform(hosted, Appended(log_end_offset=hosted.log.log_end_offset))
            hosted.readers.appended()
            return AppendOutcome(_NONE, result.base_offset, result.last_offset + 1)
        if result.verdict is Verdict.DUPLICATE:
            self._journal_refused(
                "duplicate_sequence", hosted, headers[0], result.base_offset, client_id, correlation_id
            )
        else:
            self._journal_refused("out_of_order_sequence", hosted, headers[0], -1, client_id, correlation_id)
            return AppendOutcome(error_code=_REFUSALS[result.verdict])
        return AppendOutcome(
            error_code=ErrorCode.none, base_offset=result.base_offset, required_offset=result.last_offset + 1
        )

    def storage_failed(self, hosted: HostedPartition, error: Exception) -> AppendOutcome:
        """The door of an error under one partition: it is offline from here on, and what it had in memory is gone.

        Kafka takes the log directory offline (KIP-112), of which it has several; here each partition's counts as one.
        """
        if self._hosted.get(hosted.key) is hosted:  # else this has been told, or the topic is deleted
            self._high_watermarks[hosted.key] = hosted.replica.high_watermark
            del self._hosted[hosted.key]
            self._followed.clear()
            self._note_offline(hosted.key, hosted.topic_id, error)
            self.perform(hosted, StopReplica())
            self._timed.pop(hosted, None)
            hosted.log.abandon()
            hosted.readers.role_changed()
        return AppendOutcome(error_code=ErrorCode.kafka_storage_error, message=str(error))

    def _note_offline(self, key: tuple[str, int], topic_id: UUID, error: Exception) -> None:
        self._offline[key] = topic_id
        facts = {"topic": key[0], "partition": key[1], "cause": f"{type(error).__name__}: {error}"}
        self._logger.error("partition_offline", **{**facts, "cause": repr(facts["cause"])})
        self._journal.write("storage_failed", **facts)
        self._on_offline()

    def _directory_failed(self, error: OSError) -> None:
        """A file of the log directory itself: it is the only one, so the broker cannot go on (as Kafka's, KIP-112)."""
        self._journal.write("storage_failed", cause=f"{type(error).__name__}: {error}")
        if self._on_directory_failure is None:
            raise error
        self._on_directory_failure(error)

    def append_marker(
        self,
        hosted: HostedPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        marker: EndMarker,
        transaction_version: int,
    ) -> AppendOutcome:
        """End the producer's transaction in this log. Unless the error code is `none`, nothing was appended."""
        try:
            result = hosted.log.append_marker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                marker=marker,
                leader_epoch=hosted.replica.leader_epoch,
                timestamp_ms=wall_ms(),
                transaction_version=transaction_version,
            )
        except OSError as error:
            return self.storage_failed(hosted, error)
        facts = {"producer_id": producer_id, "producer_epoch": producer_epoch, "is_commit": marker.is_commit}
        if result.verdict is not Verdict.OK:
            error_code = _REFUSALS[result.verdict]
            where = {"topic": hosted.topic, "partition": hosted.index}
            self._journal.write("transaction_marker_refused", **where, **facts, error=error_code.name)
            return AppendOutcome(error_code=error_code)
        self._journal.write(
            "transaction_marker",
            topic=hosted.topic,
            partition=hosted.index,
            leader_epoch=hosted.replica.leader_epoch,
            offset=result.base_offset,
            coordinator_epoch=marker.coordinator_epoch,
            **facts,
        )
        self.perform(hosted, Appended(log_end_offset=hosted.log.log_end_offset))
        hosted.readers.appended()
        return AppendOutcome(
            error_code=ErrorCode.none, base_offset=result.base_offset, required_offset=result.last_offset + 1
        )

    def _journal_batches(
        self, kind: str, hosted: HostedPartition, headers: Iterable[BatchHeader], client_id: str, correlation_id: int
    ) -> None:
        for header in headers:
            self._journal_batch(kind, hosted, header, header.base_offset, header.last_offset, client_id, correlation_id)

    def _journal_refused(
        self,
        kind: str,
        hosted: HostedPartition,
        header: BatchHeader,
        base_offset: int,
        client_id: str,
        correlation_id: int,
    ) -> None:
        last_offset = base_offset + header.last_offset_delta if base_offset >= 0 else -1
        self._journal_batch(kind, hosted, header, base_offset, last_offset, client_id, correlation_id)

    def _journal_batch(
        self,
        kind: str,
        hosted: HostedPartition,
        header: BatchHeader,
        base_offset: int,
        last_offset: int,
        client_id: str,
        correlation_id: int,
    ) -> None:
        self._journal.write(
            kind,
            topic=hosted.topic,
            partition=hosted.index,
            leader_epoch=hosted.replica.leader_epoch,
            base_offset=base_offset,
            last_offset=last_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            crc=header.crc,
            client_id=client_id,
            correlation_id=correlation_id,
        )

    def await_replication(
        self, hosted: HostedPartition, *, required_offset: int, timeout_ms: int, done: ProduceDone
    ) -> None:
        """`done` gets the error of an acks=all produce, perhaps before this returns."""
        self._next_token += 1
        self._produces[self._next_token] = done
        event = AwaitReplication(
            token=self._next_token, required_offset=required_offset, deadline_ms=monotonic_ms() + timeout_ms
        )
        self.perform(hosted, event)

    # -- following ---------------------------------------------------------------------------------------------------

    def append_fetched(self, hosted: HostedPartition, records: memoryview, headers: list[BatchHeader]) -> None:
        hosted.log.append_as_follower(records, headers=headers)

    def followed_up(self, hosted: HostedPartition, *, leader_epoch: int, leader_high_watermark: int) -> None:
        event = FetchedFromLeader(
            leader_epoch=leader_epoch,
            leader_high_watermark=leader_high_watermark,
            log_end_offset=hosted.log.log_end_offset,
        )
        self.perform(hosted, event)

    def truncate(self, hosted: HostedPartition, offset: int) -> None:
        """Cut the diverging tail, and tell the journal which offsets of which leader epoch are gone."""
        log = hosted.log
        gone = _epochs_of_range(log, offset, log.log_end_offset)
        result = log.truncate_to(offset)
        self.cleaner.truncated(hosted, result.to_offset)
        self.perform(hosted, Truncated(log_end_offset=log.log_end_offset))
        for epoch, begin, end in gone:
            begin = max(begin, result.to_offset)
            if begin < end:
                self._journal.truncated(
                    topic=hosted.topic, partition=hosted.index, leader_epoch=epoch, from_offset=end, to_offset=begin
                )
        self._logger.info(
            "truncated",
            topic=hosted.topic,
            partition=hosted.index,
            from_offset=result.from_offset,
            to_offset=result.to_offset,
        )

    def restart_at(self, hosted: HostedPartition, offset: int) -> None:
        """The leader no longer has what we need: drop everything and begin at its log start."""
        log = hosted.log
        gone = _epochs_of_range(log, log.log_start_offset, log.log_end_offset)
        log.truncate_fully_and_start_at(offset)
        self.cleaner.truncated(hosted, 0)
        self.perform(hosted, Truncated(log_end_offset=log.log_end_offset))
        for epoch, begin, end in gone:
            self._journal.truncated(
                topic=hosted.topic, partition=hosted.index, leader_epoch=epoch, from_offset=end, to_offset=begin
            )

    # -- the beginning of the log ------------------------------------------------------------------------------------

    def delete_records(self, hosted: HostedPartition, offset: int) -> ErrorCode:
        """As leader: records below `offset` (-1: the high watermark) go. Followers learn it with their next fetch."""
        high_watermark = hosted.replica.high_watermark
        wanted = high_watermark if offset == -1 else offset
        if not 0 <= wanted <= high_watermark:
            return ErrorCode.offset_out_of_range
        try:
            has_moved = hosted.log.advance_log_start(wanted)
        except OSError as error:
            return self.storage_failed(hosted, error).error_code
        if has_moved:
            self._logger.info("records_deleted", topic=hosted.topic, partition=hosted.index, log_start_offset=wanted)
            hosted.readers.log_start_moved(wakes_followers=True)
        return ErrorCode.none

    def low_watermark(self, hosted: HostedPartition) -> int:
        """The smallest log start offset of its live replicas, as far as we know."""
        others = [replica for replica in hosted.replica.followers if replica in self._live]
        return min([hosted.log.log_start_offset, *(hosted.follower_log_starts.get(replica, -1) for replica in others)])

    def follow_log_start(self, hosted: HostedPartition, leader_log_start_offset: int) -> None:
        """As follower: what the leader deleted goes here too, as far as it is committed."""
        reachable = min(leader_log_start_offset, hosted.replica.high_watermark)
        if reachable > hosted.log.log_start_offset:
            hosted.log.advance_log_start(reachable)

    def _retain(self) -> None:
        """Retention of every log, by the wall clock that record timestamps are of."""
        now_ms = wall_ms()
        for hosted in list(self._hosted.values()):
            start_offset = hosted.log.log_start_offset
            try:
                result = apply_retention(hosted.log, now_ms=now_ms, high_watermark=hosted.replica.high_watermark)
            except STORAGE_ERRORS as error:
                self.storage_failed(hosted, error)
                continue
            finally:
                if hosted.log.log_start_offset != start_offset:
                    hosted.readers.log_start_moved(wakes_followers=False)
                    self._followed.pop(hosted.replica.leader_id, None)  # its fetcher compares all that it follows
            hosted.log.producers.forget_idle(now_ms, self._config.producer_id_expiration_ms)
            if result.deleted_segments:
                facts = asdict(result)
                self._journal.write("segments_deleted", topic=hosted.topic, partition=hosted.index, **facts)
                self._logger.info("segments_deleted", topic=hosted.topic, partition=hosted.index, **facts)

    def _flush_if_due(self, hosted: HostedPartition, now_ms: int) -> None:
        """flush.ms: what was written is fsynced at most so much (and one tick) later."""
        flush_ms = hosted.config.flush_ms
        if flush_ms is None or not hosted.log.has_unflushed:
            hosted.unflushed_since_ms = None
        elif hosted.unflushed_since_ms is None:
            hosted.unflushed_since_ms = now_ms
        elif now_ms - hosted.unflushed_since_ms >= flush_ms:
            hosted.unflushed_since_ms = None
            try:
                hosted.log.flush()
            except OSError as error:
                self.storage_failed(hosted, error)

    # -- cores -------------------------------------------------------------------------------------------------------

    def perform(self, hosted: HostedPartition, event: Event) -> None:
        self._timed[hosted] = None
        actions = hosted.replica.handle(event, monotonic_ms())
        if not actions:
            return
        for action in actions:
            match action:
                case HighWatermarkAdvanced():
                    hosted.log.high_watermark_advanced(hosted.replica.high_watermark)
                    hosted.readers.committed()
                case CompleteProduce():
                    self._produces.pop(action.token)(action.error_code)
                case ProposeIsr():
                    self._propose_isr(hosted, action)
                case IsrChanged():
                    hosted.readers.isr_changed()
                    self._journal.isr_changed(
                        topic=hosted.topic,
                        partition=hosted.index,
                        leader_epoch=action.leader_epoch,
                        isr=action.isr,
                    )
                    self._logger.info("isr_changed", topic=hosted.topic, partition=hosted.index, isr=action.isr)

    # -- life --------------------------------------------------------------------------------------------------------

    async def run_timers(self) -> None:
        """Serve the deadlines of the cores, flush, retain and write checkpoints, until cancelled."""
        checkpoint_ms = self._config.replica_high_watermark_checkpoint_interval_ms
        next_checkpoint_ms = monotonic_ms() + checkpoint_ms
        next_retention_ms = monotonic_ms() + self._config.log_initial_task_delay_ms
        next_starts_ms = monotonic_ms() + self._config.log_flush_start_offset_checkpoint_interval_ms
        while True:
            await asyncio.sleep(TICK_MS / 1000)
            now_ms = monotonic_ms()
            for hosted in list(self._timed):
                if self._hosted.get(hosted.key) is not hosted:
                    del self._timed[hosted]  # gone, and told of something late
                    continue
                deadline_ms = hosted.replica.next_deadline_ms()
                if deadline_ms is not None and deadline_ms <= now_ms:
                    self.perform(hosted, Tick())
                self._flush_if_due(hosted, now_ms)
                if deadline_ms is None and hosted.unflushed_since_ms is None:
                    self._timed.pop(hosted, None)  # until its core is told of something
            if now_ms >= next_retention_ms:
                next_retention_ms = now_ms + self._config.log_retention_check_interval_ms
                self._retain()
            if now_ms >= next_starts_ms:
                next_starts_ms = now_ms + self._config.log_flush_start_offset_checkpoint_interval_ms
                try:
                    self._directory.write_log_start_offsets(hosted.log for hosted in self._hosted.values())
                except OSError as error:
                    self._directory_failed(error)
            if now_ms >= next_checkpoint_ms:
                next_checkpoint_ms = now_ms + checkpoint_ms
                try:
                    self.checkpoint()
                except OSError as error:
                    self._directory_failed(error)

    def checkpoint(self) -> None:
        for hosted in self._hosted.values():
            self._high_watermarks[hosted.key] = hosted.replica.high_watermark
        self._directory.write_high_watermarks(self._high_watermarks)

    def close(self) -> None:
        """Answer what waits, flush everything, leave the mark of a clean stop."""
        if self._is_closed:
            return
        self._is_closed = True
        self._followed.clear()
        for hosted in list(self._hosted.values()):
            self.perform(hosted, StopReplica())
        self.checkpoint()
        self.recovery.finish_discards()
        logs = [*(hosted.log for hosted in self._hosted.values()), *self.recovery.untaken()]
        self._directory.close(logs, is_whole=not self._offline)


def _eligible_epochs(image: MetadataImage) -> dict[int, int]:
    return {
        broker_id: registration.broker_epoch
        for broker_id, registration in image.brokers.items()
        if not registration.fenced and not registration.in_controlled_shutdown
    }


def _epochs_of_range(log: PartitionLog, begin: int, end: int) -> list[tuple[int, int, int]]:
    """(leader epoch, first offset, end offset) of each stretch of one epoch in [begin, end)."""
    stretches = []
    entries = log.epochs.entries
    for position, entry in enumerate(entries):
        stretch_end = entries[position + 1].start_offset if position + 1 < len(entries) else end
        first, last = max(begin, entry.start_offset), min(end, stretch_end)
        if first < last:
            stretches.append((entry.epoch, first, last))
    return stretches
