"""Replica fetchers: one task for each leader broker. It fetches all partitions in which this broker follows that
leader.

Each round is one Fetch with the log end offsets of this broker and the epochs of the records before them. The leader
answers with records, or with the offset where the logs diverge (then this broker truncates and fetches again). With an
incremental session (KIP-227, replica_session.py) requests and answers contain only changes. If the link is silently
broken, the request ends after replica.socket.timeout.ms.

A partition that the leader refuses waits for replica.fetch.backoff.ms, alone: the next requests leave it out. Shown by
tests/broker_node/test_node_fetcher.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from broker.controller.image import MetadataImage
from broker.log.errors import LogError
from broker.node.cluster.links import internal_address
from broker.node.net.channel import Channel, ChannelError
from broker.node.net.dialling import Dialler, internal_dialler
from broker.node.net.peers import FETCHER
from broker.node.process.clock import monotonic_ms
from broker.node.process.logs import Logger
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.replica_session import ReplicaSession
from broker.node.replicas.replicas import Replicas
from broker.node.settings.config import NodeConfig
from broker.node.settings.sections.replication import ReplicationSettings
from broker.node.settings.values import Address
from broker.replication import EpochEnd, truncation_offset
from broker.wire.apis import ApiKey
from broker.wire.codec import decode_response
from broker.wire.errors import CorruptBatchError, ErrorCode
from broker.wire.hot_fetch import (
    Buffer,
    DivergingEpoch,
    FetchPartition,
    FetchResponse,
    FollowedPartition,
    ReplicaState,
    decode_fetch_response,
    encode_follower_fetch,
)
from broker.wire.records import validate_batches

if TYPE_CHECKING:
    from broker.wire.shapes import fetch as shapes

FETCH_VERSION = 17
# Decoded by the fast decoder, or by the general one.
_Response: TypeAlias = "FetchResponse | shapes.FetchResponse"
_Partition: TypeAlias = "FollowedPartition | shapes.PartitionData"
_Hosted: TypeAlias = list[HostedPartition]
_NONE = ErrorCode.none  # looked up once, because each access to a member of an enum costs 70 ns


class Fetchers:
    """Runs one task for each leader that this broker follows in any partition."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        logger: Logger,
        replicas: Replicas,
        image: Callable[[], MetadataImage],
        broker_epoch: Callable[[], int],
        spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]],
    ) -> None:
        self._spawn = spawn
        self._config, self._logger, self._replicas, self._image = config, logger, replicas, image
        self._broker_epoch = broker_epoch
        self._dialler = internal_dialler(config, logger)
        self._fetchers: dict[int, tuple[_Fetcher, asyncio.Task[None]]] = {}

    def reconfigure(self, config: NodeConfig) -> None:
        """Takes new certificates. They hold for new connections."""
        self._dialler.reconfigure(config)

    def roles_changed(self) -> None:
        wanted = {
            hosted.replica.leader_id
            for hosted in self._replicas.partitions.all()
            if not hosted.replica.is_leader and hosted.replica.leader_id >= 0
        } - {self._config.node_id}
        for leader_id in sorted(set(self._fetchers) - wanted):
            self._stop(leader_id)
        for leader_id in sorted(wanted - set(self._fetchers)):
            fetcher = _Fetcher(
                leader_id=leader_id,
                node_id=self._config.node_id,
                settings=self._config.replication,
                logger=self._logger,
                replicas=self._replicas,
                address=partial(self._address, leader_id),
                broker_epoch=self._broker_epoch,
                dialler=self._dialler,
            )
            self._fetchers[leader_id] = (fetcher, self._spawn(fetcher.run()))
        for fetcher, _ in self._fetchers.values():
            fetcher.partitions_changed.set()

    def _address(self, leader_id: int) -> Address | None:
        return internal_address(self._config, self._image(), leader_id)

    def _stop(self, leader_id: int) -> None:
        fetcher, task = self._fetchers.pop(leader_id)
        task.cancel()
        fetcher.channel.close()

    def close(self) -> None:
        for leader_id in list(self._fetchers):
            self._stop(leader_id)


class _Fetcher:
    def __init__(
        self,
        *,
        leader_id: int,
        node_id: int,
        settings: ReplicationSettings,
        logger: Logger,
        replicas: Replicas,
        address: Callable[[], Address | None],
        broker_epoch: Callable[[], int],
        dialler: Dialler,
    ) -> None:
        self._leader_id, self._node_id, self._settings, self._logger = leader_id, node_id, settings, logger
        self._partitions, self._following = replicas.partitions, replicas.following
        self._broker_epoch = broker_epoch
        self.channel = Channel(
            name=f"internal-{node_id}-{leader_id}",
            address=address,
            client_id=f"{FETCHER}{node_id}",
            logger=logger,
            dialler=dialler,
        )
        self.partitions_changed = asyncio.Event()
        self._session = ReplicaSession(self._position)
        self._delayed_ms: dict[HostedPartition, int] = {}  # partitions that failed, and when they are asked for again
        # The last list of followed partitions, those that were delayed, and the others.
        self._able: tuple[_Hosted, frozenset[HostedPartition], _Hosted] = ([], frozenset(), [])
        self._timeout_ms = settings.replica_fetch_wait_max_ms + settings.replica_socket_timeout_ms

    async def run(self) -> None:
        """Fetches until cancelled."""
        while True:
            followed = self._partitions.followed(self._leader_id)
            if not followed:
                self.partitions_changed.clear()
                await self.partitions_changed.wait()
                continue
            wanted = self._not_delayed(followed)
            if not wanted:  # each one has failed
                await asyncio.sleep(self._delay_ms() / 1000)
                continue
            try:
                response = await self.channel.request_encoded(
                    partial(self._encode, wanted), _decode, timeout_ms=self._timeout_ms
                )
                has_failed = not self._handle(response)
            except ChannelError:
                self._session.failed()
                has_failed = True
            if has_failed:
                await asyncio.sleep(self._settings.replica_fetch_backoff_ms / 1000)

    def _not_delayed(self, followed: list[HostedPartition]) -> list[HostedPartition]:
        """The partitions without those that failed just now. It is the same list as long as nothing changes, so that
        the session need not compare it again."""
        if not self._delayed_ms:
            return followed
        now_ms = monotonic_ms()
        for hosted in [each for each, until_ms in self._delayed_ms.items() if until_ms <= now_ms]:
            del self._delayed_ms[hosted]
        if not self._delayed_ms:
            return followed
        before, were_delayed, able = self._able
        if before is not followed or were_delayed != self._delayed_ms.keys():
            able = [each for each in followed if each not in self._delayed_ms]
            self._able = (followed, frozenset(self._delayed_ms), able)
        return able

    def _delay_ms(self) -> int:
        """Until the first partition that failed is asked for again."""
        return max(1, min(self._delayed_ms.values()) - monotonic_ms())

    def _position(self, hosted: HostedPartition) -> FetchPartition:
        log = hosted.log
        end_offset, start_offset = log.log_end_offset, log.log_start_offset
        last_epoch = log.epochs.epoch_at(end_offset - 1) if end_offset > start_offset else -1
        max_bytes = self._settings.replica_fetch_max_bytes
        return FetchPartition(
            hosted.index, hosted.replica.leader_epoch, end_offset, last_epoch, start_offset, max_bytes
        )

    def _encode(self, followed: list[HostedPartition], correlation_id: int, client_id: str) -> list[Buffer]:
        settings, session = self._settings, self._session
        names = session.names(followed)
        wait_max_ms = settings.replica_fetch_wait_max_ms
        if self._delayed_ms:  # who failed is not in this request, and must not wait for its end
            wait_max_ms = min(wait_max_ms, self._delay_ms())
        limits = (wait_max_ms, settings.replica_fetch_min_bytes, settings.replica_fetch_response_max_bytes)
        frame = encode_follower_fetch(
            FETCH_VERSION,
            correlation_id,
            client_id.encode(),
            ReplicaState(self._node_id, self._broker_epoch()),
            limits,
            (session.session_id, session.epoch),
            names.asked.items(),
            names.forgotten.items(),
        )
        return [frame]

    def _handle(self, response: _Response) -> bool:
        """Takes an answer. Returns False if the leader refused the whole request: then there is a backoff before the
        next round."""
        session = self._session
        was_full = session.is_full
        if not session.answered(response.error_code, response.session_id):
            return not was_full  # the leader does not know the session: send a full request at once
        for topic in response.responses:
            for partition in topic.partitions:
                hosted = session.find(topic.topic_id, partition.partition_index)
                asked = None if hosted is None else session.asked_of(hosted)
                if hosted is None or asked is None:
                    continue
                replica = hosted.replica
                if replica.leader_id != self._leader_id or replica.leader_epoch != asked.current_leader_epoch:
                    continue  # the role changed before the answer arrived; fetch again in the new role
                session.moved(hosted)
                if not self._handle_partition(hosted, partition, asked.fetch_offset):
                    # Perhaps only one of the two brokers knows a new leader epoch already.
                    self._delayed_ms[hosted] = monotonic_ms() + self._settings.replica_fetch_backoff_ms
        return True

    def _handle_partition(self, hosted: HostedPartition, answer: _Partition, asked_offset: int) -> bool:
        try:
            if answer.error_code is ErrorCode.offset_out_of_range:
                return self._out_of_range(hosted, answer)
            if answer.error_code is not _NONE:
                return False
            if answer.diverging_epoch.end_offset >= 0:
                self._truncate(hosted, answer.diverging_epoch)
                return True
            self._append(hosted, answer, asked_offset)
            self._following.followed_up(
                hosted, leader_epoch=hosted.replica.leader_epoch, leader_high_watermark=answer.high_watermark
            )
            self._following.follow_log_start(hosted, answer.log_start_offset)
        except OSError as error:  # if one replica cannot write, the others still fetch
            self._partitions.storage_failed(hosted, error)
            return True
        except (CorruptBatchError, LogError) as error:
            self._logger.error(
                "replica_append_failed", topic=hosted.topic, partition=hosted.index, cause=repr(str(error))
            )
            return False
        return True

    def _append(self, hosted: HostedPartition, answer: _Partition, asked_offset: int) -> None:
        if not answer.records:
            return
        view = memoryview(answer.records)
        headers = validate_batches(view, is_stored=True)
        log, base_offset = hosted.log, headers[0].base_offset
        if asked_offset != log.log_end_offset:
            return  # the log was truncated meanwhile; fetch again from its end
        if base_offset < log.log_end_offset:
            if log.log_start_offset < log.log_end_offset:
                raise LogError(f"{log.name}: fetched from {log.log_end_offset}, got a batch at {base_offset}")
            # This log begins in the middle of a batch, where DeleteRecords set the leader's log start offset. Take the
            # whole batch.
            log.truncate_fully_and_start_at(base_offset)
        self._following.append_fetched(hosted, view, headers)

    def _truncate(self, hosted: HostedPartition, diverging: DivergingEpoch | shapes.EpochEndOffset) -> None:
        log = hosted.log

        def lookup(epoch: int) -> EpochEnd | None:
            found, end_offset = log.end_offset_for_epoch(epoch)
            return None if found < 0 else EpochEnd(epoch=found, end_offset=end_offset)

        offset = truncation_offset(
            lookup=lookup,
            diverging=EpochEnd(epoch=diverging.epoch, end_offset=diverging.end_offset),
            log_end_offset=log.log_end_offset,
            high_watermark=hosted.replica.high_watermark,
        )
        self._following.truncate(hosted, max(offset, log.log_start_offset))

    def _out_of_range(self, hosted: HostedPartition, answer: _Partition) -> bool:
        """The leader's log begins after the end of this log (because of retention), or ends before it.

        In the second case the leader was elected uncleanly and has fewer records. The case is handled here only if this
        log is empty, as after DeleteRecords. For any other log the epoch of its last record shows where the logs
        diverge. The follower then begins where the leader's log begins. Kafka's follower begins at the leader's end. If
        it became the leader later, it would lack the records before that offset.
        """
        log = hosted.log
        is_empty = log.log_start_offset == log.log_end_offset
        if answer.log_start_offset > log.log_end_offset or (is_empty and answer.log_start_offset >= 0):
            self._following.restart_at(hosted, answer.log_start_offset)
            return True
        return False


def _decode(frame: memoryview) -> _Response:
    message = decode_fetch_response(frame, FETCH_VERSION)
    return decode_response(ApiKey.FETCH, FETCH_VERSION, frame)[1] if message is None else message
