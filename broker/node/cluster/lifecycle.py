"""This broker's state at the controller: registration, heartbeats, controlled shutdown.

Each process has a new incarnation id. After STALE_BROKER_EPOCH the broker registers again. BROKER_ID_NOT_REGISTERED
means that somebody removed this broker from the cluster (UnregisterBroker). As in Apache Kafka, it then stays out until
it is started again, but continues to send heartbeats.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from broker.controller.image import BrokerRegistration
from broker.node.cluster.controller_client import ControllerClient
from broker.node.cluster.metadata import MetadataHost
from broker.node.net.channel import ChannelError
from broker.node.process.clock import monotonic_ms
from broker.node.process.logs import Logger
from broker.node.settings.config import NodeConfig
from broker.node.settings.security import security_of
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.broker_registration import ListenerFields

REGISTRATION_VERSION = 4
HEARTBEAT_VERSION = 2
RETRY_MS = 50
POLL_MS = 50
# without a controller for this long, all brokers are probably stopping: no controller will allow this one to stop
NO_CONTROLLER_MS = 1_000


def _nothing(_: OSError) -> None:
    return None


class Lifecycle:
    def __init__(
        self,
        *,
        config: NodeConfig,
        control: ControllerClient,
        metadata: MetadataHost,
        logger: Logger,
        rng: random.Random,
        offline_directories: Callable[[], list[UUID]],
        previous_broker_epoch: Callable[[], int],
        log_directories: Callable[[], list[UUID]] = list,
        cordoned_directories: Callable[[], list[UUID]] = list,
        on_untold: Callable[[OSError], None] = _nothing,
    ) -> None:
        """`previous_broker_epoch` returns the epoch of the previous process if that shut down cleanly, else -1.
        `log_directories` returns the ids of those that work, `cordoned_directories` of those that get no new replicas.
        `on_untold` is called if the controller does not learn in time that a log directory failed."""
        self._previous_broker_epoch = previous_broker_epoch
        self._log_directories, self._cordoned_directories = log_directories, cordoned_directories
        self._on_untold = on_untold
        self._told_offline: frozenset[UUID] = frozenset()  # with the last heartbeat that was answered
        self._offline_directories = offline_directories
        self._config, self._control, self._metadata, self._logger = config, control, metadata, logger
        self.incarnation_id = UUID(int=rng.getrandbits(128), version=4)
        self.broker_epoch: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.is_fenced = True
        self.may_join = asyncio.Event()  # set when the logs are recovered
        self.has_joined = asyncio.Event()  # set when this broker's own image shows this registration as unfenced
        self._want_shut_down = False
        self._is_unregistered = False
        self.may_stop = asyncio.Event()
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Registers and sends heartbeats until cancelled."""
        await self.may_join.wait()
        while True:
            await self._register()
            await self._heartbeat_until_refused()

    def image_changed(self) -> None:
        """Sends a heartbeat at once while fenced: the controller waits for this broker's metadata offset before it
        unfences it."""
        if self.is_fenced:
            self._wake.set()
        registration = self._metadata.image.brokers.get(self._config.node_id)
        if registration is not None and self.is_of_this_life(registration) and not registration.fenced:
            self.has_joined.set()

    def is_of_this_life(self, registration: BrokerRegistration) -> bool:
        return registration.incarnation_id == self.incarnation_id

    def storage_failed(self) -> None:
        """Sends a heartbeat at once: the controller then moves leadership away from partitions that are offline
        here."""
        self._wake.set()

    def directories_cordoned(self) -> None:
        """Sends a heartbeat at once: the controller then places new replicas elsewhere."""
        self._wake.set()

    def directory_failed(self, directory_id: UUID) -> None:
        """Applies log.dir.failure.timeout.ms: clients of the replicas in this directory wait for a new leader, which
        only the controller can elect."""

        def expect_told() -> None:
            if directory_id not in self._told_offline:
                self._on_untold(OSError(f"the controller did not learn in {timeout_ms} ms that a log directory failed"))

        timeout_ms = self._config.storage.log_dir_failure_timeout_ms
        asyncio.get_running_loop().call_later(timeout_ms / 1000, expect_told)

    async def shut_down(self) -> bool:
        """Asks the controller to move leadership away. False if the controller did not allow the stop in time."""
        self._want_shut_down = True
        self._wake.set()
        deadline_ms = monotonic_ms() + self._config.cluster.controlled_shutdown_max_wait_ms
        last_leader_ms = monotonic_ms()
        while not self.may_stop.is_set():
            now_ms = monotonic_ms()
            if self._metadata.leader_id >= 0:
                last_leader_ms = now_ms
            if now_ms >= deadline_ms or now_ms - last_leader_ms >= NO_CONTROLLER_MS:
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_MS / 1000):
                    await self.may_stop.wait()
        return True

    async def _register(self) -> None:
        listeners: list[ListenerFields] = [
            {
                "name": name,
                "host": address.host,
                "port": address.port,
                "security_protocol": security_of(self._config, name).protocol.number,
            }
            for name, address in self._config.listening.advertised_listeners.items()
        ]
        message = request(
            ApiKey.BROKER_REGISTRATION,
            REGISTRATION_VERSION,
            broker_id=self._config.node_id,
            cluster_id=self._config.own.harness_cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=listeners,
            features=[],
            rack=self._config.cluster.broker_rack or None,
            previous_broker_epoch=self._previous_broker_epoch(),
            log_dirs=self._log_directories(),
        )
        timeout_ms = self._config.quorum.controller_quorum_request_timeout_ms
        while True:
            try:
                response = await self._control.call_once(
                    ApiKey.BROKER_REGISTRATION, REGISTRATION_VERSION, message, timeout_ms=timeout_ms
                )
            except ChannelError:
                await asyncio.sleep(RETRY_MS / 1000)
                continue
            if response.error_code is ErrorCode.none:
                self._registered(response.broker_epoch)
                return
            if response.error_code is not ErrorCode.not_controller:
                self._logger.warning("registration_refused", error=response.error_code.name)
            await asyncio.sleep(RETRY_MS / 1000)

    def _registered(self, broker_epoch: int) -> None:
        self._logger.info("registered", broker_epoch=broker_epoch)
        if self.broker_epoch.done():
            self.broker_epoch = asyncio.get_running_loop().create_future()
        self.broker_epoch.set_result(broker_epoch)
        self.is_fenced = True

    async def _heartbeat_until_refused(self) -> None:
        interval_ms = self._config.cluster.broker_heartbeat_interval_ms
        while True:
            sent_ms = monotonic_ms()
            self._wake.clear()
            error = await self._heartbeat()
            if error is ErrorCode.stale_broker_epoch:
                return
            self._note_unregistered(error is ErrorCode.broker_id_not_registered)
            is_failed = error not in (ErrorCode.none, ErrorCode.broker_id_not_registered)
            is_hurried = is_failed or (self._want_shut_down and not self.may_stop.is_set())
            wait_ms = RETRY_MS if is_hurried else interval_ms - (monotonic_ms() - sent_ms)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(1, wait_ms) / 1000):
                    await self._wake.wait()

    def _note_unregistered(self, is_unregistered: bool) -> None:
        if is_unregistered and not self._is_unregistered:
            self.is_fenced = True
            cause = "it was taken out of the cluster while it ran, and stays out until it is started again"
            self._logger.warning("not_registered", cause=repr(cause))
        self._is_unregistered = is_unregistered

    async def _heartbeat(self) -> ErrorCode:
        offline = self._offline_directories()
        # Which directories are cordoned may have changed while this broker was away.
        is_caught_up = self._metadata.image.offset >= self.broker_epoch.result()
        message = request(
            ApiKey.BROKER_HEARTBEAT,
            HEARTBEAT_VERSION,
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch.result(),
            current_metadata_offset=self._metadata.image.offset,
            want_fence=False,
            want_shut_down=self._want_shut_down,
            offline_log_dirs=offline,
            cordoned_log_dirs=self._cordoned_directories() if is_caught_up else None,
        )
        # If a heartbeat hangs on a broken link, there must be time for further heartbeats within the session timeout.
        settings = self._config.cluster
        timeout_ms = max(settings.broker_heartbeat_interval_ms, settings.broker_session_timeout_ms // 4)
        try:
            response = await self._control.call_once(
                ApiKey.BROKER_HEARTBEAT, HEARTBEAT_VERSION, message, timeout_ms=timeout_ms
            )
        except ChannelError:
            return ErrorCode.network_exception
        if response.error_code is ErrorCode.none:
            self._told_offline = frozenset(offline)
            if self.is_fenced and not response.is_fenced:
                self._logger.info("unfenced")
            self.is_fenced = response.is_fenced
            if response.should_shut_down:
                self.may_stop.set()
        return response.error_code
