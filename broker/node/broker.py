"""One broker: builds its parts, connects them, starts and stops them in order.

Start: storage, listeners (Metadata can be answered as soon as an image is there), quorum, registration, heartbeats.
Stop (SIGTERM): controlled shutdown with a time limit, logs, quorum, listeners.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from broker.controller.delta import diff
from broker.controller.image import MetadataImage
from broker.log.errors import LogError
from broker.log.filesystem import LOCAL, FileSystem
from broker.node.clock import monotonic_ms, monotonic_ns
from broker.node.config import NodeConfig, with_dynamic
from broker.node.connection import Request
from broker.node.control import ControllerClient, LocalRequest
from broker.node.coordinators import CoordinatorHost
from broker.node.fetch_sessions import FetchSessions
from broker.node.fetcher import Fetchers
from broker.node.groups import KEY_TYPE as GROUPS
from broker.node.groups import Groups
from broker.node.handlers import HANDLERS
from broker.node.isr import IsrSender
from broker.node.journal import Journal
from broker.node.lifecycle import Lifecycle
from broker.node.logs import Logger
from broker.node.metadata import MetadataHost
from broker.node.metadata_store import check_meta_properties
from broker.node.partitions import Partitions
from broker.node.peers import Peers
from broker.node.producer_ids import ProducerIds
from broker.node.quotas import ClientQuotas
from broker.node.server import Server
from broker.node.topic_config import broker_overrides
from broker.node.transactions import KEY_TYPE as TRANSACTIONS
from broker.node.transactions import Transactions
from broker.node.verification import TransactionVerifier
from broker.wire import apis
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ProtocolError
from broker.wire.messages import Message

END_TASKS_S = 2.0


async def end_tasks(tasks: Sequence[asyncio.Task[None]], logger: Logger) -> None:
    """Cancel them and wait until they have ended, but not for ever: what must reach the disk does not wait for them."""
    for task in tasks:
        task.cancel()
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=END_TASKS_S)
        for name in sorted(getattr(task.get_coro(), "__qualname__", "unnamed") for task in left):
            logger.warning("task_left", name=name, cause=f"it did not end within {END_TASKS_S:g} s of its cancellation")


class Broker:
    """What a handler gets as its context. Construct it within a running event loop."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        logger: Logger,
        filesystem: FileSystem = LOCAL,
        rng: random.Random | None = None,  # of elections and ids; None: seeded by the operating system
        journal: Journal | None = None,
        boot_id: str | None = None,  # None: the machine's
    ) -> None:
        self.config, self.logger = config, logger
        rng = rng or random.Random()
        filesystem.make_directory(str(config.log_dirs))
        check_meta_properties(
            config.log_dirs, node_id=config.node_id, cluster_id=config.harness_cluster_id, filesystem=filesystem
        )
        self.journal = journal or Journal(
            config.harness_journal_path, broker_id=config.node_id, with_appends=config.harness_journal_appends
        )
        self.metadata = MetadataHost(
            config=config,
            logger=logger,
            journal=self.journal,
            on_image=self._image_changed,
            rng=rng,
            filesystem=filesystem,
        )
        self.control = ControllerClient(
            config=config, metadata=self.metadata, logger=logger, handle_locally=self._handle_local
        )
        self.lifecycle = Lifecycle(config=config, control=self.control, metadata=self.metadata, logger=logger, rng=rng)
        self._isr_sender = IsrSender(config=config, control=self.control, logger=logger)
        self.partitions = Partitions(
            config=config,
            logger=logger,
            journal=self.journal,
            propose_isr=self._isr_sender.propose,
            on_roles_changed=self._roles_changed,
            filesystem=filesystem,
            on_storage_failure=self._storage_failed,
            boot_id=boot_id,
        )
        self._fetchers = Fetchers(
            config=config,
            logger=logger,
            partitions=self.partitions,
            image=lambda: self.metadata.image,
            broker_epoch=self.broker_epoch,
            spawn=self.spawn,
        )
        self.producer_ids = ProducerIds(config=config, control=self.control, broker_epoch=self.broker_epoch)
        # By FindCoordinator's key type. Any: each host has its own shards, this file knows none of them.
        self.groups = Groups(self, rng=rng)
        self.coordinators: dict[int, CoordinatorHost[Any]] = {GROUPS: self.groups.host}
        self.fetch_sessions = FetchSessions(slots=config.max_incremental_fetch_session_cache_slots, rng=rng)
        self.quotas = ClientQuotas(
            window_count=config.quota_window_num, window_size_ms=config.quota_window_size_seconds * 1000
        )
        self.peers = Peers(
            config=config, image=lambda: self.metadata.image, logger=logger, handle_locally=self._handle_local
        )
        self.transactions = Transactions(
            config=config,
            partitions=self.partitions,
            control=self.control,
            peers=self.peers,
            image=lambda: self.metadata.image,
            journal=self.journal,
            logger=logger,
            spawn=self.spawn,
        )
        self.coordinators[TRANSACTIONS] = self.transactions.host
        self.verifier = TransactionVerifier(
            config=config,
            coordinator_of=self._transaction_coordinator_of,
            peers=self.peers,
            logger=logger,
            spawn=self.spawn,
        )
        self._told_image: MetadataImage | None = None  # what the partitions know; None: nothing yet
        self._server = Server(config=config, logger=logger, dispatch=self.dispatch)
        self._tasks: dict[asyncio.Task[None], None] = {}  # in order of their start
        self._image_waiters: list[asyncio.Future[None]] = []
        self.failed: asyncio.Future[None] = (
            asyncio.get_running_loop().create_future()
        )  # a background task died: the process must end

    def broker_epoch(self) -> int:
        epoch = self.lifecycle.broker_epoch
        return epoch.result() if epoch.done() else -1

    # -- start and stop ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        await self._server.open(set(self.config.listeners))
        self.metadata.start()
        self.spawn(self.lifecycle.run())
        self.spawn(self._isr_sender.run(self.partitions, self.lifecycle))
        self.spawn(self.partitions.run_timers())
        self.spawn(self.partitions.cleaner.run())
        self.spawn(self._server.run_idle_sweeps())
        self.spawn(self.groups.run_retention())
        self.journal.write("started")
        self.logger.info("started", log_dirs=self.config.log_dirs)
        if self.config.harness_discard:
            self.logger.warning("discarding", cause="harness.discard=true: acknowledged records are not stored")

    async def stop(self) -> None:
        """Bounded by controlled.shutdown.max.wait.ms; everything is on disk afterwards."""
        is_agreed = self.config.controlled_shutdown_enable and await self.lifecycle.shut_down()
        self.logger.info("stopping", controlled=is_agreed)
        await end_tasks(list(self._tasks), self.logger)
        self._fetchers.close()
        for coordinator in self.coordinators.values():
            coordinator.close()
        self.transactions.close()
        self.partitions.close()
        await asyncio.sleep(0)  # the answers of what waited go out
        self.metadata.stop()
        await asyncio.sleep(0.05)  # the farewell to the voters goes out
        await self._server.close()
        self.control.close()
        self.peers.close()
        self.metadata.close()
        self.journal.write("stopped", controlled=is_agreed)
        self.journal.close()

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run in the background; an unexpected exception ends the broker rather than leave it half alive."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)

    def _storage_failed(self, error: OSError | LogError) -> None:
        """A broker that cannot write must not lead: it ends, and the controller elects among those that can."""
        if not self.failed.done():
            self.failed.set_exception(error)

    # -- requests ----------------------------------------------------------------------------------------------------

    def dispatch(self, request: Request) -> None:
        header = request.header
        handler = HANDLERS.get(header.api_key)  # type: ignore[call-overload]  # an int finds its IntEnum key
        if handler is None or not apis.is_supported(header.api_key, header.api_version, request.listener):
            raise ProtocolError(f"api key {header.api_key} version {header.api_version} is not offered here")
        is_charged = self.quotas.is_active and request.listener is Listener.CLIENT
        handled = self._charge(request) if is_charged else None
        try:
            handler(self, request)
            if handled is not None:
                handled()
        except ProtocolError:
            raise
        except Exception:  # one request must not end the broker; the peer sees a closed connection: outcome unknown
            self.logger.error("handler_failed", api_key=header.api_key, cause=repr(traceback.format_exc()))
            request.close_connection()

    def _charge(self, request: Request) -> Callable[[], None]:
        """Have the quotas of this client count the request when it is answered. Call the result after the handler."""
        began_ns, client_id, api_key = monotonic_ns(), request.client_id, request.header.api_key
        busy_ns: list[int] = []  # how long the handler kept the loop, once it has returned

        def charge(answer: Message | None) -> int:
            now_ms = monotonic_ms()
            wait_ms = self.quotas.handled(client_id, busy_ns[0] if busy_ns else monotonic_ns() - began_ns, now_ms)
            if api_key == ApiKey.PRODUCE:
                wait_ms = max(wait_ms, self.quotas.produced(client_id, request.size_bytes, now_ms))
            elif api_key == ApiKey.FETCH and answer is not None:
                size_bytes = sum(len(each.records or b"") for topic in answer.responses for each in topic.partitions)
                wait_ms = max(wait_ms, self.quotas.fetched(client_id, size_bytes, now_ms))
            return wait_ms

        request.charge = charge
        return lambda: busy_ns.append(monotonic_ns() - began_ns)

    def _handle_local(self, api_key: ApiKey, request: LocalRequest) -> None:
        handler: object = HANDLERS[api_key]
        assert callable(handler)
        handler(self, request)

    def _transaction_coordinator_of(self, transactional_id: str) -> int:
        state = self.transactions.host.partition_state(transactional_id)
        return -1 if state is None else state.leader

    # -- metadata ----------------------------------------------------------------------------------------------------

    def _image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        self._tell_partitions(new)
        if old.client_quotas != new.client_quotas:
            self.quotas.set_limits(new.client_quotas)
        if old.broker_configs != new.broker_configs:
            self._server.reconfigure(with_dynamic(self.config, broker_overrides(new, self.config.node_id)))
        if self.metadata.controller.is_active:
            delta = diff(old, new, broker_id=self.config.node_id)
            for broker_id in delta.fenced:
                self.journal.write("broker_fenced", broker=broker_id, by=self.config.node_id)
            for broker_id in delta.unfenced:
                self.journal.write("broker_unfenced", broker=broker_id, by=self.config.node_id)
        self.lifecycle.image_changed()
        self.groups.image_changed(new)
        for coordinator in self.coordinators.values():
            coordinator.image_changed()
        waiters, self._image_waiters = self._image_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _tell_partitions(self, image: MetadataImage) -> None:
        """Partitions hear nothing before the image holds the registration of this very process.

        Until then the image is what this node's own log held, perhaps from long ago: by it we might lead a partition
        alone, that is, acknowledge records that the true leader will never have. The registration comes after all that
        was decided without us, and with it we lead nothing (found by the simulation: tests/broker_sim, seed 7).
        The only voter needs not wait: nothing can have been decided without it.
        """
        registration = image.brokers.get(self.config.node_id)
        is_ours = registration is not None and registration.incarnation_id == self.lifecycle.incarnation_id
        is_alone = len(self.config.controller_quorum_voters) == 1
        if is_ours or is_alone or self._told_image is not None:
            try:
                self.partitions.apply_image(self._told_image or MetadataImage(), image)
            except LogError as error:
                self._storage_failed(error)  # a damaged file, named: neither guess what it held nor delete it
            self._told_image = image

    def _roles_changed(self) -> None:
        self._fetchers.roles_changed()

    async def image_moves(self, timeout_ms: int) -> bool:
        """Wait for the next image. False if none came in time."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._image_waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter
        except TimeoutError:
            return False
        return True
