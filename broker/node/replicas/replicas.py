"""The parts of this package, connected: everything that a broker needs for its partitions."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from broker.controller.delta import PartitionChange
from broker.log.checkpoints import NO_EPOCH
from broker.log.filesystem import LOCAL, FileSystem
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.appends import Appends
from broker.node.replicas.cleaner import Cleaner
from broker.node.replicas.cores import Cores
from broker.node.replicas.directories import Key, LogDirectories
from broker.node.replicas.following import Following
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.log_recovery import LogRecovery, RunBlocking, in_thread
from broker.node.replicas.log_starts import LogStarts
from broker.node.replicas.moves import ReplicaMoves
from broker.node.replicas.opened_directories import id_maker, open_directories
from broker.node.replicas.partitions import Partitions
from broker.node.replicas.replication_quotas import ReplicationQuota, ReplicationQuotas
from broker.node.replicas.roles import Roles
from broker.node.replicas.upkeep import Upkeep
from broker.node.settings.config import NodeConfig
from broker.node.settings.sections.storage import TopicDefaults, UpkeepSettings
from broker.node.settings.topic_config import topic_config
from broker.replication import ProposeIsr, StopReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    partitions: Partitions  # the partitions on this broker, and errors of their storage
    cores: Cores  # the access to their replication cores
    roles: Roles  # what a metadata image changes in them
    appends: Appends  # appends of leaders
    following: Following  # appends and truncations of followers
    log_starts: LogStarts
    recovery: LogRecovery
    cleaner: Cleaner
    upkeep: Upkeep
    directories: LogDirectories
    moves: ReplicaMoves  # between the log directories

    def config_in_effect(self) -> NodeConfig:
        return self.roles.config

    def close(self, *, broker_epoch: int = NO_EPOCH) -> None:
        """Answers waiting requests, flushes everything, and marks the stop as clean. It may be called once. NO_EPOCH
        means that the broker never registered. Raises OSError if a file could not be written. Everything else is done
        then."""
        self.partitions.forget_followed()
        for hosted in list(self.partitions.all()):
            self.cores.perform(hosted, StopReplica())
        self.moves.close()
        failures = self.upkeep.checkpoint()
        self.recovery.finish_discards()
        logs = [*(hosted.log for hosted in self.partitions.all()), *self.recovery.untaken()]
        failures += self.directories.close(
            logs, offline=self.partitions.offline(), broker_epoch=broker_epoch, is_whole=not failures
        )
        if failures:
            raise failures[0][1]


def _nothing(*_: object) -> None:
    return None


def open_replicas(
    *,
    config: NodeConfig,
    logger: Logger,
    journal: Journal,
    propose_isr: Callable[[HostedPartition, ProposeIsr], None],
    on_roles_changed: Callable[[], None],
    filesystem: FileSystem = LOCAL,
    on_offline: Callable[[], None] = _nothing,
    on_directory_failure: Callable[[OSError], None] | None = None,  # None: the error is raised
    boot_id: str | None = None,
    run_blocking: RunBlocking = in_thread,
    directories: LogDirectories | None = None,  # None: those of the settings
    on_replica: Callable[[PartitionChange], None] = _nothing,  # called for each one that an image changes
    # It gives the directory that the image has for a replica of this broker.
    known_directory: Callable[[Key], UUID | None] = _nothing,
    move_quota: ReplicationQuota | None = None,  # None: that of the settings
    new_id: Callable[[], UUID] | None = None,
) -> Replicas:
    new_id = new_id or id_maker(random.Random())
    directories = directories or open_directories(
        config, new_id=new_id, logger=logger, filesystem=filesystem, boot_id=boot_id
    )
    cores = Cores(propose_isr=propose_isr, journal=journal, logger=logger)
    partitions = Partitions(
        cores=cores,
        directories=directories,
        high_watermarks=directories.read_high_watermarks(),
        on_offline=on_offline,
        on_directory_failure=on_directory_failure,
        journal=journal,
        logger=logger,
    )
    opened = _Opened(
        config=config,
        directories=directories,
        cores=cores,
        partitions=partitions,
        run_blocking=run_blocking,
        journal=journal,
        logger=logger,
    )
    return opened.connected(
        on_roles_changed=on_roles_changed,
        on_replica=on_replica,
        known_directory=known_directory,
        move_quota=move_quota or ReplicationQuotas(config.replication).directories,
        new_id=new_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """What all the other parts work on."""

    config: NodeConfig  # The configuration at the start: `Roles.config` is the one in effect.
    directories: LogDirectories
    cores: Cores
    partitions: Partitions
    run_blocking: RunBlocking
    journal: Journal
    logger: Logger

    def connected(
        self,
        *,
        on_roles_changed: Callable[[], None],
        on_replica: Callable[[PartitionChange], None],
        known_directory: Callable[[Key], UUID | None],
        move_quota: ReplicationQuota,
        new_id: Callable[[], UUID],
    ) -> Replicas:
        def upkeep_settings() -> UpkeepSettings:
            return roles.config.upkeep

        def replica_changed(change: PartitionChange) -> None:
            on_replica(change)
            moves.resume(change)

        recovery = self._recovery(lambda: roles.config.topics)
        roles = self._roles(recovery, on_roles_changed, replica_changed)
        cleaner = self._cleaner(upkeep_settings)
        log_starts = LogStarts(
            partitions=self.partitions,
            live=lambda: roles.live,
            settings=upkeep_settings,
            journal=self.journal,
            logger=self.logger,
        )
        upkeep = Upkeep(
            partitions=self.partitions,
            cores=self.cores,
            log_starts=log_starts,
            directories=self.directories,
            settings=upkeep_settings,
        )
        moves = self._moves(recovery, upkeep, known_directory, move_quota, new_id)
        return Replicas(
            partitions=self.partitions,
            cores=self.cores,
            roles=roles,
            appends=Appends(partitions=self.partitions, cores=self.cores, journal=self.journal),
            following=Following(cores=self.cores, cleaner=cleaner, journal=self.journal, logger=self.logger),
            log_starts=log_starts,
            recovery=recovery,
            cleaner=cleaner,
            upkeep=upkeep,
            moves=moves,
            directories=self.directories,
        )

    def _recovery(self, topic_defaults: Callable[[], TopicDefaults]) -> LogRecovery:
        return LogRecovery(
            node_id=self.config.node_id,
            directories=self.directories,
            directory_failed=self.partitions.directory_failed,
            log_config=lambda image, topic: topic_config(topic_defaults(), image, topic).log,
            run_blocking=self.run_blocking,
            journal=self.journal,
            logger=self.logger,
        )

    def _roles(
        self, recovery: LogRecovery, on_changed: Callable[[], None], on_replica: Callable[[PartitionChange], None]
    ) -> Roles:
        return Roles(
            config=self.config,
            partitions=self.partitions,
            cores=self.cores,
            directories=self.directories,
            recovery=recovery,
            on_roles_changed=on_changed,
            on_replica=on_replica,
            journal=self.journal,
            logger=self.logger,
        )

    def _cleaner(self, settings: Callable[[], UpkeepSettings]) -> Cleaner:
        return Cleaner(
            directory_of=self.directories.of_log,
            hosted=self.partitions.all,
            settings=settings,
            storage_failed=self.partitions.storage_failed,
            directory_failed=self.partitions.directory_failed,
            journal=self.journal,
            logger=self.logger,
        )

    def _moves(
        self,
        recovery: LogRecovery,
        upkeep: Upkeep,
        known_directory: Callable[[Key], UUID | None],
        quota: ReplicationQuota,
        new_id: Callable[[], UUID],
    ) -> ReplicaMoves:
        return ReplicaMoves(
            node_id=self.config.node_id,
            directories=self.directories,
            partitions=self.partitions,
            checkpoint=upkeep.checkpoint,
            quota=quota,
            new_id=new_id,
            known_directory=known_directory,
            on_discarded=recovery.remove_soon,
            run_blocking=self.run_blocking,
            logger=self.logger,
        )
