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
    known_directory: Callable[[Key], UUID | None] = _nothing,  # of a replica of this broker in its image
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
    return _connected(
        config=config,
        directories=directories,
        cores=cores,
        partitions=partitions,
        on_roles_changed=on_roles_changed,
        on_replica=on_replica,
        run_blocking=run_blocking,
        known_directory=known_directory,
        move_quota=move_quota or ReplicationQuotas(config).directories,
        new_id=new_id,
        journal=journal,
        logger=logger,
    )


def _connected(
    *,
    config: NodeConfig,
    directories: LogDirectories,
    cores: Cores,
    partitions: Partitions,
    on_roles_changed: Callable[[], None],
    on_replica: Callable[[PartitionChange], None],
    run_blocking: RunBlocking,
    known_directory: Callable[[Key], UUID | None],
    move_quota: ReplicationQuota,
    new_id: Callable[[], UUID],
    journal: Journal,
    logger: Logger,
) -> Replicas:
    recovery = LogRecovery(
        node_id=config.node_id,
        directories=directories,
        directory_failed=partitions.directory_failed,
        log_config=lambda image, topic: topic_config(roles.config, image, topic).log,
        run_blocking=run_blocking,
        journal=journal,
        logger=logger,
    )

    def replica_changed(change: PartitionChange) -> None:
        on_replica(change)
        moves.resume(change)

    roles = Roles(
        config=config,
        partitions=partitions,
        cores=cores,
        directories=directories,
        recovery=recovery,
        on_roles_changed=on_roles_changed,
        on_replica=replica_changed,
        journal=journal,
        logger=logger,
    )

    def config_in_effect() -> NodeConfig:
        return roles.config

    cleaner = Cleaner(
        directory_of=directories.of_log,
        hosted=partitions.all,
        config=config_in_effect,
        storage_failed=partitions.storage_failed,
        directory_failed=partitions.directory_failed,
        journal=journal,
        logger=logger,
    )
    log_starts = LogStarts(
        partitions=partitions, live=lambda: roles.live, config=config_in_effect, journal=journal, logger=logger
    )
    upkeep = Upkeep(
        partitions=partitions, cores=cores, log_starts=log_starts, directories=directories, config=config_in_effect
    )
    moves = ReplicaMoves(
        node_id=config.node_id,
        directories=directories,
        partitions=partitions,
        checkpoint=upkeep.checkpoint,
        quota=move_quota,
        new_id=new_id,
        known_directory=known_directory,
        on_discarded=recovery.remove_soon,
        run_blocking=run_blocking,
        logger=logger,
    )
    return Replicas(
        partitions=partitions,
        cores=cores,
        roles=roles,
        appends=Appends(partitions=partitions, cores=cores, journal=journal),
        following=Following(cores=cores, cleaner=cleaner, journal=journal, logger=logger),
        log_starts=log_starts,
        recovery=recovery,
        cleaner=cleaner,
        upkeep=upkeep,
        moves=moves,
        directories=directories,
    )
