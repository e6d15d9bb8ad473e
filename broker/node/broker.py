"""One broker: builds its parts, connects them, starts and stops them in order.

Start: storage, listeners (Metadata can be answered as soon as an image is there), quorum, recovery of the logs that a
last life left, registration, heartbeats.
Stop (SIGTERM): controlled shutdown with a time limit, logs, quorum, listeners.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from broker.controller.delta import diff, towards
from broker.controller.image import MetadataImage
from broker.controller.types import ControllerRequest
from broker.log.filesystem import LOCAL, FileSystem
from broker.node.clock import monotonic_ms, monotonic_ns
from broker.node.config import NodeConfig, with_dynamic
from broker.node.connection import Request
from broker.node.control import AnyRequest, ControllerClient, LocalRequest, guarded
from broker.node.coordinators import CoordinatorHost
from broker.node.failures import QuorumFailedError
from broker.node.fetch_sessions import FetchSessions
from broker.node.fetcher import Fetchers
from broker.node.groups import KEY_TYPE as GROUPS
from broker.node.groups import Groups
from broker.node.handlers import HANDLERS
from broker.node.isr import IsrSender
from broker.node.journal import Journal
from broker.node.lifecycle import Lifecycle
from broker.node.log_recovery import RunBlocking, in_thread
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
from broker.wire.errors import ErrorCode, RemoteProtocolError
from broker.wire.messages import Message

END_TASKS_S = 2.0
PARTITIONS_OPENED_MAX = 5  # at a time: a new log is some files and syncs, 1 to 10 ms on a disk that is busy
RECOVERY_POLL_MS = 10


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
        run_blocking: RunBlocking = in_thread,  # what would hold up the loop
    ) -> None:
        self.config, self.logger = config, logger
        # What ended the broker, if anything did: a background task, or the storage that it cannot do without.
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
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
            on_failure=self._quorum_failed,
            rng=rng,
            filesystem=filesystem,
        )
        self.control = ControllerClient(
            config=config, metadata=self.metadata, logger=logger, handle_locally=self._handle_local
        )
        self.lifecycle = Lifecycle(
            config=config,
            control=self.control,
            metadata=self.metadata,
            logger=logger,
            rng=rng,
            offline_directories=lambda: self.partitions.offline_directories(),
        )
        self._isr_sender = IsrSender(config=config, control=self.control, logger=logger)
        self.partitions = Partitions(
            config=config,
            logger=logger,
            journal=self.journal,
            propose_isr=self._isr_sender.propose,
            on_roles_changed=self._roles_changed,
            filesystem=filesystem,
            on_offline=self._went_offline,
            on_directory_failure=self._storage_failed,
            boot_id=boot_id,
            run_blocking=run_blocking,
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
        self._is_offline_told = False  # that some partition is: the others will hear of it in a moment
        self._told_image: MetadataImage | None = None  # what the partitions know; None: nothing yet
        self._telling: asyncio.Handle | None = None  # of what they do not know yet
        self._has_discarded_strays = False
        self._server = Server(config=config, logger=logger, dispatch=self.dispatch)
        self._tasks: dict[asyncio.Task[None], None] = {}  # in order of their start
        self._image_waiters: list[asyncio.Future[None]] = []

    def broker_epoch(self) -> int:
        epoch = self.lifecycle.broker_epoch
        return epoch.result() if epoch.done() else -1

    # -- start and stop ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        await self._server.open(set(self.config.listeners))
        if not self.partitions.recovery.has_work:
            self.lifecycle.may_join.set()
        self.metadata.start()
        if not self.lifecycle.may_join.is_set():
            self.spawn(self._recover_logs())
        self.spawn(self.partitions.recovery.run_removals())
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

    async def _recover_logs(self) -> None:
        """As long as it takes: the broker is not in the cluster yet, and the quorum goes on meanwhile."""
        while not self.metadata.has_what_was_known:
            await asyncio.sleep(RECOVERY_POLL_MS / 1000)
        await self.partitions.recovery.run(self.metadata.image)
        self.lifecycle.may_join.set()
        self._tell_partitions(self.metadata.image)  # the only voter hears of nothing more, perhaps

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
        if self._telling is not None:
            self._telling.cancel()
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

    def _quorum_failed(self, error: QuorumFailedError) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    def _storage_failed(self, error: OSError) -> None:
        """Of the log directory as a whole: a broker without one must not lead."""
        if not self.failed.done():
            self.failed.set_exception(error)

    def _went_offline(self) -> None:
        """A partition's storage failed, somewhere in the midst of things: tell everybody once that is over."""
        if not self._is_offline_told:
            self._is_offline_told = True
            asyncio.get_running_loop().call_soon(self._tell_offline)

    def _tell_offline(self) -> None:
        self._is_offline_told = False
        self._fetchers.roles_changed()
        for coordinator in self.coordinators.values():
            coordinator.image_changed()  # groups and transactions of that partition are another broker's now
        self.lifecycle.storage_failed()

    def absent(self, topic: str, index: int) -> ErrorCode:
        """Why a partition is not hosted here: nobody has it, or others have it, or ours is offline (as in Kafka)."""
        if self.metadata.image.partition(topic, index) is None:
            return ErrorCode.unknown_topic_or_partition
        if self.partitions.is_offline(topic, index):
            return ErrorCode.kafka_storage_error
        return ErrorCode.not_leader_or_follower

    # -- requests ----------------------------------------------------------------------------------------------------

    def dispatch(self, request: Request) -> None:
        header = request.header
        handler = HANDLERS.get(header.api_key)  # type: ignore[call-overload]  # an int finds its IntEnum key
        if handler is None or not apis.is_supported(header.api_key, header.api_version, request.listener):
            raise RemoteProtocolError(f"api key {header.api_key} version {header.api_version} is not offered here")
        is_charged = self.quotas.is_active and request.listener is Listener.CLIENT
        handled = self._charge(request) if is_charged else None
        try:
            handler(self, request)
            if handled is not None:
                handled()
        except RemoteProtocolError:
            raise  # the connection says so and closes
        except Exception:
            request.fail(traceback.format_exc())

    def serve(self, request: AnyRequest, work: Coroutine[object, object, None]) -> None:
        """Answer a request in the background. As in `dispatch`, its exception costs that request only: it never ends
        the broker as one of `spawn` does. The peer sees a closed connection: the outcome is unknown."""

        async def served() -> None:
            try:
                await work
            except Exception:
                request.fail(traceback.format_exc())

        self.spawn(served())

    def ask_controller(
        self,
        request: AnyRequest,
        make: Callable[[int], ControllerRequest],
        answer: Callable[[Any], None],  # Any: the response type of this request
    ) -> None:
        """Have the controller of this node decide; an exception of `answer` costs that request only."""
        self.metadata.controller_request(make, guarded(request, answer))

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
        try:
            handler(self, request)
        except Exception:
            request.fail(traceback.format_exc())

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
        if not self.lifecycle.may_join.is_set():
            return
        if is_ours or is_alone or self._told_image is not None:
            told = self._told_image or MetadataImage()
            step = towards(told, image, broker_id=self.config.node_id, partitions_max=PARTITIONS_OPENED_MAX)
            self.partitions.apply_image(told, step)
            self._told_image = step
            if step is not image and self._telling is None:
                self._telling = asyncio.get_running_loop().call_soon(self._tell_on)
            if is_ours and not self._has_discarded_strays:
                self._has_discarded_strays = True
                self.partitions.recovery.discard_strays(image)

    def _tell_on(self) -> None:
        """The next few of many new partitions, of the newest image; a request for 10,000 keeps nobody waiting."""
        self._telling = None
        try:
            self._tell_partitions(self.metadata.image)
            for coordinator in self.coordinators.values():
                coordinator.image_changed()
        except Exception as error:  # as when the image itself brings them: memory would be behind it for good
            if not self.failed.done():
                self.failed.set_exception(error)

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
