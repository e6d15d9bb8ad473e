"""One broker: builds its parts, connects them, starts and stops them in order.

Start: storage, listeners for brokers, quorum, recovery of the logs that the previous process left, registration,
heartbeats, listeners for clients.
Stop (SIGTERM): controlled shutdown with a time limit, logs, quorum, listeners.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from broker.controller.delta import PartitionChange, diff
from broker.controller.image import MetadataImage
from broker.log.filesystem import LOCAL, FileSystem
from broker.node.api_table import api_table
from broker.node.cluster.access_lists import authorizer_of, follow
from broker.node.cluster.denials import DenialLog
from broker.node.cluster.image_moves import ImageMoves
from broker.node.cluster.lifecycle import Lifecycle
from broker.node.cluster.metadata import MetadataHost
from broker.node.cluster.outgoing import Outgoing
from broker.node.coordination_parts import open_coordination
from broker.node.feature import Feature, Kernel
from broker.node.features.table import FEATURES
from broker.node.handlers.dispatch import Dispatcher
from broker.node.handlers.services import Services
from broker.node.net.peers import is_broker
from broker.node.net.server import Server
from broker.node.process.clock import call_later, monotonic_ms
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.process.tasks import Tasks
from broker.node.replicas.assignments import Assignments
from broker.node.replicas.fetch_sessions import FetchSessions
from broker.node.replicas.fetcher import Fetchers
from broker.node.replicas.image_feed import ImageFeed
from broker.node.replicas.isr import IsrSender
from broker.node.replicas.log_recovery import RunBlocking, in_thread
from broker.node.replicas.opened_directories import id_maker, open_directories
from broker.node.replicas.replicas import open_replicas
from broker.node.settings.config import NodeConfig
from broker.node.settings.properties import with_dynamic
from broker.node.settings.topic_config import broker_overrides
from broker.node.settings.values import text_of
from broker.security.scram import MECHANISM_NUMBERS, ScramCredential
from broker.wire.apis import Listener

RECOVERY_POLL_MS = 10


class Broker:
    """Construct it within a running event loop."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        logger: Logger,
        filesystem: FileSystem = LOCAL,
        rng: random.Random | None = None,  # Elections and ids are drawn from it. None: the operating system seeds it.
        journal: Journal | None = None,
        boot_id: str | None = None,  # None: the boot id of the host
        run_blocking: RunBlocking = in_thread,  # runs calls that would block the event loop
        features: Sequence[Feature] = FEATURES,
    ) -> None:
        self.config, self.logger = config, logger
        self._tasks = Tasks(logger)
        # The error that ended the broker, if there was one: from a background task, or a failure of storage that the
        # broker needs.
        self.failed = self._tasks.failed
        rng = rng or random.Random()
        self._new_id = id_maker(rng)
        self._directories = open_directories(
            config, new_id=self._new_id, logger=logger, filesystem=filesystem, boot_id=boot_id
        )
        self.journal = journal or Journal(
            config.own.harness_journal_path,
            broker_id=config.node_id,
            with_appends=config.own.harness_journal_appends,
        )
        self._join_cluster(filesystem, rng)
        self._host_partitions(filesystem, run_blocking, rng)
        kernel = Kernel(
            config=config,
            replicas=self._replicas,
            control=self._control,
            outgoing=self._outgoing,
            image=self._image,
            logger=logger,
            spawn=self._tasks.spawn,
            new_id=self._new_id,
            run_blocking=run_blocking,
            directories_changed=self._assignments.check_all,
        )
        self._coordination = open_coordination(
            kernel, broker_epoch=self.broker_epoch, journal=self.journal, rng=rng, features=features
        )
        self._image_feed = ImageFeed(
            settings=config.quorum,
            roles=self._replicas.roles,
            recovery=self._replicas.recovery,
            lifecycle=self.lifecycle,
            image=self._image,
            on_roles_changed=self._fetchers.roles_changed,
            on_step=self._coordination.leaders_changed,
            on_failure=self._tasks.fail,
        )
        self._serve(features, rng)
        self._failed_directories = set(self._directories.failed_ids())  # that log.dir.failure.timeout.ms was applied to
        self._is_offline_told = False  # True: a partition went offline, and a call of `_tell_offline` is scheduled

    def _join_cluster(self, filesystem: FileSystem, rng: random.Random) -> None:
        config, logger = self.config, self.logger
        self.metadata = MetadataHost(
            config=config,
            logger=logger,
            journal=self.journal,
            on_image=self._image_changed,
            on_failure=self._tasks.fail,
            rng=rng,
            filesystem=filesystem,
        )
        self._image_moves = ImageMoves()
        self._outgoing = Outgoing(
            config=config,
            metadata=self.metadata,
            logger=logger,
            handle_locally=lambda request: self._dispatcher.handle_locally(request),
        )
        self._control = self._outgoing.controller("forwarding")

    def _host_partitions(self, filesystem: FileSystem, run_blocking: RunBlocking, rng: random.Random) -> None:
        config, logger = self.config, self.logger
        self._assignments = Assignments(
            settings=config.quorum,
            control=self._outgoing.controller("directory-assignments"),
            image=self._image,
            logger=logger,
        )
        self._isr_sender = IsrSender(
            settings=config.quorum, control=self._outgoing.controller("alter-partition"), logger=logger
        )
        self._replicas = open_replicas(
            config=config,
            logger=logger,
            journal=self.journal,
            propose_isr=self._isr_sender.propose,
            filesystem=filesystem,
            on_offline=self._went_offline,
            on_directory_failure=self._tasks.fail,  # a broker without its log directory must not be a leader
            run_blocking=run_blocking,
            directories=self._directories,
            on_replica=self._replica_changed,
        )
        self.partitions = self._replicas.partitions
        self.lifecycle = Lifecycle(
            config=config,
            control=self._outgoing.controller("heartbeat"),
            metadata=self.metadata,
            logger=logger,
            rng=rng,
            offline_directories=self.partitions.offline_directories,
            previous_broker_epoch=lambda: self._directories.previous_broker_epoch,
            log_directories=self._directories.working_ids,
            cordoned_directories=self._directories.cordoned_ids,
            on_untold=self._tasks.fail,
        )
        self._fetchers = Fetchers(
            config=config,
            logger=logger,
            replicas=self._replicas,
            image=self._image,
            broker_epoch=self.broker_epoch,
            spawn=self._tasks.spawn,
        )

    def _serve(self, features: Sequence[Feature], rng: random.Random) -> None:
        config, coordination, apis = self.config, self._coordination, api_table(features)
        self._authorizer = authorizer_of(config.security)
        denials = None
        if self._authorizer is not None:
            denials = DenialLog(
                logger=self.logger, authorizer=self._authorizer, now_ms=monotonic_ms, call_later=call_later
            )
        services = Services(
            config=config,
            config_in_effect=self._replicas.config_in_effect,
            logger=self.logger,
            metadata=self.metadata,
            image_moves=self._image_moves,
            control=self._control,
            partitions=self.partitions,
            cores=self._replicas.cores,
            appends=self._replicas.appends,
            log_starts=self._replicas.log_starts,
            fetch_sessions=FetchSessions(slots=config.network.max_incremental_fetch_session_cache_slots, rng=rng),
            authorizer=self._authorizer,
            denials=denials,
            groups=coordination.groups,
            transactions=coordination.transactions,
            coordinators=coordination.hosts,
            internal_topics=frozenset(host.topic.name for host in coordination.hosts.values()),
            parts={type(part): part for part in coordination.features},
            producer_ids=coordination.producer_ids,
            verifier=coordination.verifier,
            spawn=self._tasks.spawn,
            offered=apis.offered(config),
        )
        own = apis.handlers()
        handlers = own if self._authorizer is None else apis.authorized_handlers()
        self._dispatcher = Dispatcher(services, handlers, own=own)
        self._server = Server(
            config=config,
            logger=self.logger,
            dispatch=self._dispatcher.dispatch,
            spawn=self._tasks.spawn,
            find_credential=self._find_credential,
            is_broker=lambda request: is_broker(request, self._image(), self._authorizer),
        )

    def _find_credential(self, mechanism: str, user: str) -> ScramCredential | None:
        return self._image().scram_credentials.get(user, {}).get(MECHANISM_NUMBERS[mechanism])

    def _image(self) -> MetadataImage:
        return self.metadata.image

    def broker_epoch(self) -> int:
        epoch = self.lifecycle.broker_epoch
        return epoch.result() if epoch.done() else -1

    # -- start and stop ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        spawn = self._tasks.spawn
        await self._server.open()
        await self._server.serve(Listener.CONTROLLER)
        if not self._replicas.recovery.has_work:
            self.lifecycle.may_join.set()
        self.metadata.start()
        if not self.lifecycle.may_join.is_set():
            spawn(self._recover_logs())
        spawn(self._replicas.recovery.run_removals())
        spawn(self.lifecycle.run())
        spawn(self._serve_clients())
        spawn(self._isr_sender.run(self._replicas.cores, self.lifecycle))
        spawn(self._assignments.run(self.lifecycle))
        spawn(self._replicas.upkeep.run())
        spawn(self._replicas.cleaner.run())
        spawn(self._server.run_idle_sweeps())
        spawn(self._coordination.groups.run_retention())
        self.journal.write("started")
        self.logger.info("started", log_dirs=text_of(self.config.storage.log_dirs))
        if self.config.own.harness_discard:
            self.logger.warning("discarding", cause="harness.discard=true: acknowledged records are not stored")

    async def _serve_clients(self) -> None:
        """Opens the listeners of clients and brokers when the broker is unfenced and its own image shows this. Before
        that, the image is empty or comes from the previous process. Metadata would then deny topics that exist, and
        librdkafka would fail their records (after topic.metadata.propagation.max.ms). Or Metadata would name old
        leaders. Clients may use the listener of the brokers, and brokers have no reason to ask earlier. Apache Kafka
        begins a moment earlier, while it is still fenced. If all its brokers start at once, Metadata may list no broker
        at all, and librdkafka then gives up all its connections."""
        await self.lifecycle.has_joined.wait()
        await self._server.serve(Listener.CLIENT, Listener.INTER_BROKER)

    async def _recover_logs(self) -> None:
        """Recovers the logs of the previous process. It has no time limit: the broker is not in the cluster yet, and
        the quorum works meanwhile."""
        while not self.metadata.has_what_was_known:
            await asyncio.sleep(RECOVERY_POLL_MS / 1000)
        await self._replicas.recovery.run(self.metadata.image)
        self.lifecycle.may_join.set()
        self._image_feed.tell(self.metadata.image)  # if this is the only voter, perhaps no further image follows

    async def stop(self) -> None:
        """It is bounded by controlled.shutdown.max.wait.ms. Afterwards everything is on disk."""
        is_agreed = self.config.cluster.controlled_shutdown_enable and await self.lifecycle.shut_down()
        self.logger.info("stopping", controlled=is_agreed)
        await self._tasks.end()
        self._fetchers.close()
        self._coordination.close()
        self._replicas.close(broker_epoch=self.broker_epoch())
        await asyncio.sleep(0)  # lets the answers to waiting requests be sent
        self.metadata.stop()
        await asyncio.sleep(0.05)  # lets the last message to the voters be sent
        await self._server.close()
        self._outgoing.close()
        self.metadata.close()
        self._image_feed.close()
        self.journal.write("stopped", controlled=is_agreed)
        self.journal.close()

    # -- calls from the parts ----------------------------------------------------------------------------------------

    def _went_offline(self) -> None:
        """A partition's storage failed, perhaps in the middle of another call. The other parts are told after that
        call."""
        if not self._is_offline_told:
            self._is_offline_told = True
            asyncio.get_running_loop().call_soon(self._tell_offline)

    def _tell_offline(self) -> None:
        self._is_offline_told = False
        for directory_id in self._directories.failed_ids():
            if directory_id not in self._failed_directories:
                self._failed_directories.add(directory_id)
                self.lifecycle.directory_failed(directory_id)
        self._assignments.check_all({key: self.partitions.directory_id(*key) for key in self.partitions.offline()})
        self._fetchers.roles_changed()
        self._coordination.leaders_changed()  # another broker will own the groups and transactions of that partition
        self.lifecycle.storage_failed()

    def _replica_changed(self, change: PartitionChange) -> None:
        self._assignments.check(change, self.partitions.directory_id(change.topic, change.partition))
        self._coordination.replica_changed(change)

    def _is_current(self, image: MetadataImage) -> bool:
        """Whether the image contains every decision from before this process started. An image does so if it shows this
        registration as unfenced, or if this node is the active controller."""
        registration = image.brokers.get(self.config.node_id)
        if registration is not None and not registration.fenced and registration.broker_epoch == self.broker_epoch():
            return True
        return self.metadata.controller.is_active

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        self._image_feed.tell(new)
        if self._authorizer is not None:
            follow(self._authorizer, old, new, is_current=self._is_current(new))
        if old.broker_configs != new.broker_configs:
            config = with_dynamic(self.config, broker_overrides(new, self.config.node_id))
            for each in (self._server, self._outgoing, self._fetchers, self.metadata):
                each.reconfigure(config)
            if self._directories.cordon(config.storage.cordoned_paths):
                self.lifecycle.directories_cordoned()
        if self.metadata.controller.is_active:
            delta = diff(old, new, broker_id=self.config.node_id)
            for broker_id in delta.fenced:
                self.journal.write("broker_fenced", broker=broker_id, by=self.config.node_id)
            for broker_id in delta.unfenced:
                self.journal.write("broker_unfenced", broker=broker_id, by=self.config.node_id)
        self.lifecycle.image_changed()
        self._coordination.image_changed(new, is_current=self._is_current(new))
        self._image_moves.moved()
