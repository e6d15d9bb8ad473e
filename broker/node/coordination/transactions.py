"""The transaction coordinator of this broker: its host, and the effects of its decisions outside the shard.

The rules are in broker/coordinator/transactions, loading and waiting in coordinators.py, markers in markers.py.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.controller.features import TRANSACTION_VERSION, level_of
from broker.controller.image import MetadataImage
from broker.coordinator.transactions.shard import TransactionsConfig, TransactionShard
from broker.coordinator.transactions.types import (
    LevelChanged,
    MarkersWritten,
    NeedsProducerId,
    ProducerResult,
    TransactionEnded,
    WriteMarkers,
)
from broker.node.cluster.controller_client import ControllerClient
from broker.node.cluster.links import Links
from broker.node.coordination.coordinators import CoordinatorHost
from broker.node.coordination.markers import MarkerSender
from broker.node.coordination.producer_ids import ProducerIds
from broker.node.coordination.topic_maker import InternalTopic
from broker.node.process.clock import monotonic_ms, wall_ms
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.replicas import Replicas
from broker.node.settings.config import NodeConfig
from broker.node.settings.sections.coordinators import TransactionSettings
from broker.wire.errors import ErrorCode
from broker.wire.records import CodecId

TOPIC = "__transaction_state"
KEY_TYPE = 1  # the key type in FindCoordinator
COMMIT_TIMEOUT_MS = 5_000


class Transactions:
    def __init__(
        self,
        *,
        config: NodeConfig,
        replicas: Replicas,
        control: ControllerClient,
        producer_ids: ProducerIds,
        peers: Links,
        image: Callable[[], MetadataImage],
        journal: Journal,
        logger: Logger,
        spawn: Callable[..., object],
    ) -> None:
        self._settings, self._partitions = config.transactions, replicas.partitions
        self._journal, self._logger = journal, logger
        self._producer_ids, self._spawn = producer_ids, spawn
        self._level = level_of(image(), TRANSACTION_VERSION)
        self.host: CoordinatorHost[TransactionShard] = CoordinatorHost(
            topic=_internal_topic(config.transactions),
            broker_id=config.node_id,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
            load_buffer_bytes=config.transactions.transaction_state_log_load_buffer_size,
            codec=CodecId.NONE,
            replicas=replicas,
            control=control,
            image=image,
            logger=logger,
            spawn=spawn,
            make_shard=self._make_shard,
            perform=self._perform,
            first_events=lambda: (LevelChanged(level=self._level),),
        )
        self._markers = MarkerSender(
            request_timeout_ms=config.replication.replica_socket_timeout_ms,
            image=image,
            peers=peers,
            logger=logger,
            spawn=spawn,
            is_coordinator=self._is_coordinator,
            on_done=self._marked,
        )

    def close(self) -> None:
        self._markers.close()

    def image_changed(self, image: MetadataImage) -> None:
        """It is called before the host gets the image, so that a shard that begins to serve knows the level."""
        level = level_of(image, TRANSACTION_VERSION)
        if level != self._level:
            self._level = level
            for index, _ in self.host.active_shards():
                self.host.submit(index, LevelChanged(level=level))

    def coordinator_of(self, transactional_id: str) -> int:
        """The broker id of the coordinator, -1 while none is known."""
        state = self.host.partition_state(transactional_id)
        return -1 if state is None else state.leader

    def call_with_producer_id(
        self,
        transactional_id: str,
        make_event: Callable[[int, int | None], object],
        answer: Callable[[ProducerResult], None],
    ) -> None:
        """Asks the shard. If the shard needs a new producer id, gets one from the controller and asks again."""

        def refused(error: ErrorCode) -> None:
            answer(ProducerResult(error_code=error))

        def call(fresh_producer_id: int | None) -> None:
            self.host.call(
                transactional_id, lambda token: make_event(token, fresh_producer_id), done=done, refused=refused
            )

        async def call_with_fresh_one() -> None:
            producer_id = await self._producer_ids.take()
            if producer_id is None:
                refused(ErrorCode.coordinator_not_available)
            else:
                call(producer_id)

        def done(result: object) -> None:
            if isinstance(result, NeedsProducerId):
                self._spawn(call_with_fresh_one())
            else:
                assert isinstance(result, ProducerResult)
                answer(result)

        call(None)

    def _make_shard(self, index: int) -> TransactionShard:
        settings = self._settings
        config = TransactionsConfig(
            transaction_max_timeout_ms=settings.transaction_max_timeout_ms,
            transactional_id_expiration_ms=settings.transactional_id_expiration_ms,
            expiration_interval_ms=settings.transaction_remove_expired_transaction_cleanup_interval_ms,
            wall_clock_offset_ms=wall_ms() - monotonic_ms(),
        )
        return TransactionShard(config)

    def _perform(self, index: int, effect: object) -> None:
        match effect:
            case WriteMarkers():
                self._markers.send(index, effect)
            case TransactionEnded():
                facts = {
                    "transactional_id": effect.transactional_id,
                    "producer_id": effect.producer_id,
                    "producer_epoch": effect.producer_epoch,
                    "is_commit": effect.is_commit,
                    "cause": effect.cause,
                }
                self._journal.write(
                    "transaction_decided", **facts, partitions=[list(each) for each in sorted(effect.partitions)]
                )
                if effect.cause != "client":
                    self._logger.info("transaction_aborted", **facts)

    def _is_coordinator(self, index: int, coordinator_epoch: int) -> bool:
        hosted = self._partitions.get(TOPIC, index)
        return hosted is not None and hosted.replica.is_leader and hosted.replica.leader_epoch == coordinator_epoch

    def _marked(self, index: int, effect: WriteMarkers) -> bool:
        event = MarkersWritten(
            transactional_id=effect.transactional_id,
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
        )
        return self.host.submit(index, event) is not ErrorCode.coordinator_not_available


def client_error(error: ErrorCode, *, has_fenced: bool = True) -> ErrorCode:
    """The error in a form that the client's version knows: PRODUCER_FENCED is younger than transactions (KIP-588)."""
    if error is ErrorCode.producer_fenced and not has_fenced:
        return ErrorCode.invalid_producer_epoch
    if error is ErrorCode.request_timed_out:
        # appended, but not committed in time: the client learns the outcome when it asks again
        return ErrorCode.coordinator_not_available
    return error


def _internal_topic(settings: TransactionSettings) -> InternalTopic:
    return InternalTopic(
        name=TOPIC,
        partitions=settings.transaction_state_log_num_partitions,
        replication_factor=settings.transaction_state_log_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )
