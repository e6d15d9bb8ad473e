"""Applies a metadata image to the partitions: which are hosted, which lead, which follow, and with which settings.

Owns: the effective settings (those of the file, overridden by those set at run time), and what it remembers of earlier
images. It opens logs, and lets LogRecovery discard them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from broker.controller.delta import MetadataDelta, PartitionChange, diff
from broker.controller.image import MetadataImage
from broker.log.errors import STORAGE_ERRORS, LogError, TopicIdMismatchError
from broker.log.partition_log import PartitionLog
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.cores import Cores
from broker.node.replicas.directories import LogDirectories
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.log_recovery import LogRecovery
from broker.node.replicas.partitions import Partitions
from broker.node.settings.config import NodeConfig
from broker.node.settings.properties import with_dynamic
from broker.node.settings.topic_config import TopicConfig, broker_overrides, topic_config
from broker.replication import (
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    PartitionReplica,
    ReplicationConfig,
    StopReplica,
)

DELETED_TOPICS_MAX = 10_000  # names that are remembered, each of at most 250 bytes


@dataclass(slots=True, kw_only=True)
class InEffect:
    """What the last applied image says to the other parts of this package. Only Roles writes it."""

    config: NodeConfig  # the settings of the file, overridden by those set at run time
    live: tuple[int, ...] = ()  # live brokers


class Roles:
    def __init__(
        self,
        *,
        in_effect: InEffect,
        partitions: Partitions,
        cores: Cores,
        directories: LogDirectories,
        recovery: LogRecovery,
        on_replica: Callable[[PartitionChange], None],
        journal: Journal,
        logger: Logger,
    ) -> None:
        self._in_effect, self._static_config = in_effect, in_effect.config
        self._partitions, self._cores, self._directories, self._recovery = partitions, cores, directories, recovery
        self._on_replica, self._journal, self._logger = on_replica, journal, logger
        self._eligible_epochs: dict[int, int] = {}
        # Names of deleted topics. If a topic of that name is created again, producers continue with their old
        # sequences.
        self._deleted_topics: set[str] = set()

    @property
    def config(self) -> NodeConfig:
        return self._in_effect.config

    def apply_image(self, old: MetadataImage, new: MetadataImage) -> MetadataDelta:
        delta = diff(old, new, broker_id=self.config.node_id)
        self._partitions.forget_followed()
        self._in_effect.live = new.live_broker_ids()
        if old.broker_configs != new.broker_configs:
            self._in_effect.config = with_dynamic(self._static_config, broker_overrides(new, self.config.node_id))
            for name in {hosted.topic for hosted in self._partitions.all()}:
                self._reconfigure(name, new)
        for removal in delta.removed:
            self._remove(removal.topic, removal.partition)
            # A replica that was offline alone, moved away and comes back stays offline until a restart. Until then the
            # controller counts it as failed, and does not add it to any ISR.
            topic, key = new.topics.get(removal.topic), (removal.topic, removal.partition)
            is_same = topic is not None and topic.topic_id == self._partitions.offline_topic_id(*key)
            if not (is_same and self._partitions.is_offline_alone(*key)):
                self._partitions.forget_offline(*key)
        self._note_deleted(old, new)
        for name in delta.topic_configs:
            self._reconfigure(name, new)
        if delta.brokers:
            self._eligible_epochs = _eligible_epochs(new)
        for change in delta.leads:
            self._lead(change, new)
        if delta.brokers:
            for hosted in list(self._partitions.all()):
                if hosted.replica.is_leader:
                    self._cores.perform(hosted, BrokersChanged(eligible_epochs=self._eligible_epochs))
        for change in delta.follows:
            self._follow(change, new)
        for change in (*delta.leads, *delta.follows):
            self._on_replica(change)
        self._partitions.forget_followed()
        return delta

    def _note_deleted(self, old: MetadataImage, new: MetadataImage) -> None:
        for name, topic in old.topics.items() if old.topics is not new.topics else ():
            after = new.topics.get(name)
            if after is not topic and (after is None or after.topic_id != topic.topic_id):
                self._deleted_topics.add(name)
        if len(self._deleted_topics) > DELETED_TOPICS_MAX:
            # any of them: if a topic of that name is created again, its old producers may be refused
            self._deleted_topics.pop()

    def _host(self, change: PartitionChange, image: MetadataImage) -> HostedPartition | None:
        """The hosted partition. It is created if necessary. None if its storage is offline."""
        key = (change.topic, change.partition)
        if self._partitions.offline_topic_id(*key) == change.topic_id:
            return None
        hosted = self._partitions.get(*key)
        if hosted is not None and hosted.topic_id == change.topic_id:
            return hosted
        if hosted is not None:
            self._remove(*key)  # the topic was deleted and created again
        self._partitions.forget_offline(*key)  # The reason is the same.
        effective = topic_config(self.config.topics, image, change.topic)
        self._recovery.discard_now(*key)  # the log of a deleted topic with this name
        if self._is_lost(change):
            error = OSError("the log directory of the replica is offline")
            self._partitions.log_failed(key, change.topic_id, None, error)
            return None
        try:
            log = self._open_log(change, effective)
        # the log is unreadable or damaged: it is not repaired by guessing, and not deleted
        except (*STORAGE_ERRORS, LogError, ValueError) as failure:
            self._partitions.log_failed(key, change.topic_id, self._directories.where(key), failure)
            return None
        replica = PartitionReplica(
            config=ReplicationConfig(
                broker_id=self.config.node_id, replica_lag_time_max_ms=self.config.replication.replica_lag_time_max_ms
            ),
            # Deleted records had been committed.
            high_watermark=max(self._partitions.high_watermarks.get(key, 0), log.log_start_offset),
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
        self._partitions.host(hosted)
        return hosted

    def _is_lost(self, change: PartitionChange) -> bool:
        node_id, state = self.config.node_id, change.state
        # A replica of partition epoch 0 was made just now. One that a reassignment adds is in neither list.
        may_have_log = state.partition_epoch > 0 and node_id in (*state.isr, *state.elr)
        key, wanted = (change.topic, change.partition), state.directory_of(node_id)
        return self._directories.is_lost(key, wanted, may_have_log=may_have_log)

    def _open_log(self, change: PartitionChange, effective: TopicConfig) -> PartitionLog:
        topic, partition, topic_id = change.topic, change.partition, str(change.topic_id)
        wanted = change.state.directory_of(self.config.node_id)
        log = self._recovery.take(topic, partition, topic_id, effective.log)
        try:
            log = log or self._directories.open_log(
                (topic, partition), topic_id=topic_id, config=effective.log, wanted=wanted
            )
        except TopicIdMismatchError as error:  # only for this error: a damaged log must not be deleted
            # The log belongs to a topic of the same name that was deleted while this broker was down.
            self._logger.warning("stale_log_removed", topic=topic, partition=partition, cause=repr(str(error)))
            self._recovery.forget(topic, partition)
            self._recovery.discard(topic, partition)
            self._partitions.high_watermarks.pop((topic, partition), None)
            log = self._directories.open_log((topic, partition), topic_id=topic_id, config=effective.log, wanted=wanted)
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
                self._partitions.storage_failed(hosted, error)
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
        self._cores.perform(hosted, BrokersChanged(eligible_epochs=self._eligible_epochs))
        self._cores.perform(hosted, event)
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
            # If this broker led in an epoch and appended nothing, that epoch would hide the epochs of the records that
            # it fetches now.
            hosted.log.epochs.truncate_to(hosted.log.log_end_offset)
        except OSError as error:
            self._partitions.storage_failed(hosted, error)
            return
        event = BecomeFollower(
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=state.isr,
            replicas=state.replicas,
            log_end_offset=hosted.log.log_end_offset,
        )
        self._cores.perform(hosted, event)
        if is_new:
            self._journal.became_follower(
                topic=hosted.topic, partition=hosted.index, leader_epoch=state.leader_epoch, leader=state.leader
            )
            hosted.readers.role_changed()

    def _reconfigure(self, topic: str, image: MetadataImage) -> None:
        for hosted in self._partitions.all():
            if hosted.topic == topic:
                hosted.config = topic_config(self.config.topics, image, topic)
                hosted.log.config = hosted.config.log
                hosted.replica.min_insync_replicas = hosted.config.min_insync_replicas
                self._cores.timed[hosted] = None  # flush.ms may have changed

    def _remove(self, topic: str, partition: int) -> None:
        hosted = self._partitions.drop(topic, partition)
        if hosted is None and not self._partitions.is_offline(topic, partition):
            return
        if hosted is not None:
            self._cores.perform(hosted, StopReplica())
            hosted.readers.role_changed()
            self._cores.timed.pop(hosted, None)
            hosted.log.abandon()  # a deleted log need not be flushed
        self._partitions.high_watermarks.pop((topic, partition), None)
        self._recovery.discard_soon(topic, partition)


def _eligible_epochs(image: MetadataImage) -> dict[int, int]:
    return {
        broker_id: registration.broker_epoch
        for broker_id, registration in image.brokers.items()
        if not registration.fenced and not registration.in_controlled_shutdown
    }
