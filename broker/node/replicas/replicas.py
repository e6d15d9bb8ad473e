"""The parts of this package, connected: everything that a broker needs for its partitions."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from broker.controller.delta import PartitionChange
from broker.log.checkpoints import NO_EPOCH
from broker.log.filesystem import LOCAL, FileSystem
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.appends import Appends
from broker.node.replicas.cleaner import Cleaner
from broker.node.replicas.cores import Cores
from broker.node.replicas.directories import LogDirectories
from broker.node.replicas.following import Following
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.log_recovery import LogRecovery, RunBlocking, in_thread
from broker.node.replicas.log_starts import LogStarts
from broker.node.replicas.opened_directories import id_maker, open_directories
from broker.node.replicas.partitions import Partitions
from broker.node.replicas.roles import InEffect, Roles
from broker.node.replicas.upkeep import Upkeep
from broker.node.settings.config import NodeConfig
from broker.node.settings.sections.storage import UpkeepSettings
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

    def config_in_effect(self) -> NodeConfig:
        return self.roles.config

    def close(self, *, broker_epoch: int = NO_EPOCH) -> None:
        """Answers waiting requests, flushes everything, and marks the stop as clean. It may be called once. NO_EPOCH
        means that the broker never registered. Raises OSError if a file could not be written. Everything else is done
        then."""
        self.partitions.forget_followed()
        for hosted in list(self.partitions.all()):
            self.cores.perform(hosted, StopReplica())
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
    filesystem: FileSystem = LOCAL,
    on_offline: Callable[[], None] = _nothing,
    on_directory_failure: Callable[[OSError], None] | None = None,  # None: the error is raised
    boot_id: str | None = None,
    run_blocking: RunBlocking = in_thread,
    directories: LogDirectories | None = None,  # None: those of the settings
    # Called for each one that is new or changed in the image, after it is hosted.
    on_replica: Callable[[PartitionChange], None] = _nothing,
) -> Replicas:
    directories = directories or open_directories(
        config, new_id=id_maker(random.Random()), logger=logger, filesystem=filesystem, boot_id=boot_id
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
        in_effect=InEffect(config=config),
        directories=directories,
        cores=cores,
        partitions=partitions,
        run_blocking=run_blocking,
        journal=journal,
        logger=logger,
    )
    return opened.connected(on_replica)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """What all the other parts work on."""

    in_effect: InEffect
    directories: LogDirectories
    cores: Cores
    partitions: Partitions
    run_blocking: RunBlocking
    journal: Journal
    logger: Logger

    def connected(self, on_replica: Callable[[PartitionChange], None]) -> Replicas:
        recovery = self._recovery()
        cleaner = self._cleaner()
        log_starts = LogStarts(
            partitions=self.partitions,
            live=lambda: self.in_effect.live,
            settings=self._upkeep_settings,
            journal=self.journal,
            logger=self.logger,
        )
        upkeep = Upkeep(
            partitions=self.partitions,
            cores=self.cores,
            log_starts=log_starts,
            directories=self.directories,
            settings=self._upkeep_settings,
        )
        return Replicas(
            partitions=self.partitions,
            cores=self.cores,
            roles=self._roles(recovery, on_replica),
            appends=Appends(partitions=self.partitions, cores=self.cores, journal=self.journal),
            following=Following(cores=self.cores, cleaner=cleaner, journal=self.journal, logger=self.logger),
            log_starts=log_starts,
            recovery=recovery,
            cleaner=cleaner,
            upkeep=upkeep,
            directories=self.directories,
        )

    def _upkeep_settings(self) -> UpkeepSettings:
        return self.in_effect.config.upkeep

    def _recovery(self) -> LogRecovery:
        return LogRecovery(
            node_id=self.in_effect.config.node_id,
            directories=self.directories,
            directory_failed=self.partitions.directory_failed,
            log_config=lambda image, topic: topic_config(self.in_effect.config.topics, image, topic).log,
            run_blocking=self.run_blocking,
            journal=self.journal,
            logger=self.logger,
        )

    def _cleaner(self) -> Cleaner:
        return Cleaner(
            directory_of=self.directories.of_log,
            hosted=self.partitions.all,
            settings=self._upkeep_settings,
            storage_failed=self.partitions.storage_failed,
            directory_failed=self.partitions.directory_failed,
            journal=self.journal,
            logger=self.logger,
        )

    def _roles(self, recovery: LogRecovery, on_replica: Callable[[PartitionChange], None]) -> Roles:
        return Roles(
            in_effect=self.in_effect,
            partitions=self.partitions,
            cores=self.cores,
            directories=self.directories,
            recovery=recovery,
            on_replica=on_replica,
            journal=self.journal,
            logger=self.logger,
        )
