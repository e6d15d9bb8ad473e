"""Sends the end markers of decided transactions to the leaders of their partitions, until every one has its marker.

Owns: one queue per leader. All markers that wait in a queue go into one WriteTxnMarkers. Only one request at a time is
sent to a leader. If the leader of a partition is unknown or refuses, the marker is sent again. A deleted partition
needs no marker. This broker gives up a transaction only when it is no longer the coordinator. The next coordinator sees
that the transaction is decided and sends its markers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.coordinator.transactions.types import TopicPartition, WriteMarkers
from broker.node.cluster.links import Links
from broker.node.net.channel import ChannelError
from broker.node.process.logs import Logger
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes import write_txn_markers as shapes

VERSION = 2
RETRY_MS = 20
RETRY_MS_MAX = 500
MARKERS_MAX = 1_000  # markers in one request
PARTITIONS_MAX = 10_000  # partitions of all markers in one request; limits.py has what a leader accepts
ANSWER_MARGIN_MS = 1_000  # added to the time that the leader waits for its followers
# The partition has a later producer epoch or coordinator epoch. The writer of that epoch has ended this transaction
# too.
_DONE_ELSEWHERE = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced})


@dataclass(slots=True, kw_only=True, eq=False)
class _Job:
    """One transaction whose markers are being sent."""

    shard_index: int
    effect: WriteMarkers
    left: set[TopicPartition]
    retry_ms: int = RETRY_MS


@dataclass(slots=True)
class _Queue:
    waiting: dict[_Job, set[TopicPartition]] = field(default_factory=dict)
    is_sending: bool = False


class MarkerSender:
    def __init__(
        self,
        *,
        request_timeout_ms: int,
        image: Callable[[], MetadataImage],
        peers: Links,
        logger: Logger,
        spawn: Callable[..., object],
        is_coordinator: Callable[[int, int], bool],
        on_done: Callable[[int, WriteMarkers], bool],
    ) -> None:
        """`is_coordinator(shard index, epoch)` tells whether this broker is still the coordinator. If `on_done(shard
        index, effect)` returns False, it must be called again."""
        self._image, self._peers, self._logger, self._spawn = image, peers, logger, spawn
        self._timeout_ms = request_timeout_ms + ANSWER_MARGIN_MS
        self._is_coordinator, self._on_done = is_coordinator, on_done
        self._queues: dict[int, _Queue] = {}
        self._is_closed = False

    def send(self, shard_index: int, effect: WriteMarkers) -> None:
        self._route(_Job(shard_index=shard_index, effect=effect, left=set(effect.partitions)), effect.partitions)

    def close(self) -> None:
        self._is_closed = True
        self._queues.clear()

    # -- one transaction ---------------------------------------------------------------------------------------------

    def _route(self, job: _Job, partitions: frozenset[TopicPartition] | set[TopicPartition]) -> None:
        """Puts these partitions of the job into the queues of their leaders."""
        if self._is_closed or not self._is_coordinator(job.shard_index, job.effect.coordinator_epoch):
            return
        image = self._image()
        again: set[TopicPartition] = set()
        for topic, index in sorted(partitions):
            state = image.partition(topic, index)
            if state is None:
                job.left.discard((topic, index))  # the partition is deleted: it needs no marker
            elif state.leader < 0:
                again.add((topic, index))
            else:
                self._enqueue(state.leader, job, (topic, index))
        if again:
            self._route_later(job, again)
        self._finish_if_done(job)

    def _route_later(self, job: _Job, partitions: set[TopicPartition]) -> None:
        asyncio.get_running_loop().call_later(job.retry_ms / 1000, self._route, job, partitions)
        job.retry_ms = min(2 * job.retry_ms, RETRY_MS_MAX)

    def _finish_if_done(self, job: _Job) -> None:
        if job.left or self._is_closed:
            return
        if not self._is_coordinator(job.shard_index, job.effect.coordinator_epoch):
            return
        if not self._on_done(job.shard_index, job.effect):  # the coordinator's log takes no appends now
            asyncio.get_running_loop().call_later(RETRY_MS_MAX / 1000, self._finish_if_done, job)

    # -- one leader --------------------------------------------------------------------------------------------------

    def _enqueue(self, leader_id: int, job: _Job, partition: TopicPartition) -> None:
        queue = self._queues.setdefault(leader_id, _Queue())
        queue.waiting.setdefault(job, set()).add(partition)
        if not queue.is_sending:
            queue.is_sending = True
            self._spawn(self._drain(leader_id, queue))

    async def _drain(self, leader_id: int, queue: _Queue) -> None:
        await asyncio.sleep(0)  # further decisions of this wake-up go into the same request
        while queue.waiting:
            await self._send(leader_id, _next_batch(queue.waiting))
        queue.is_sending = False

    async def _send(self, leader_id: int, batch: dict[_Job, set[TopicPartition]]) -> None:
        jobs = list(batch)
        message = request(ApiKey.WRITE_TXN_MARKERS, VERSION, markers=[_marker(job, batch[job]) for job in jobs])
        failed: dict[_Job, set[TopicPartition]] = batch
        try:
            answer = await self._peers.call(
                leader_id, ApiKey.WRITE_TXN_MARKERS, VERSION, message, timeout_ms=self._timeout_ms
            )
        except ChannelError as error:
            self._logger.warning("markers_unanswered", broker=leader_id, transactions=len(jobs), cause=repr(str(error)))
        else:
            failed = self._take(batch, answer)
        for job, partitions in failed.items():
            self._route_later(job, partitions)
        for job in jobs:
            self._finish_if_done(job)

    def _take(
        self, batch: dict[_Job, set[TopicPartition]], answer: shapes.WriteTxnMarkersResponse
    ) -> dict[_Job, set[TopicPartition]]:
        """Returns what must be sent again. Results are in the order of the markers, because one producer may have
        several markers."""
        for job, result in zip(batch, answer.markers, strict=False):
            for topic in result.topics:
                for partition in topic.partitions:
                    if partition.error_code is ErrorCode.none or partition.error_code in _DONE_ELSEWHERE:
                        job.left.discard((topic.name, partition.partition_index))
        return {job: left for job, partitions in batch.items() if (left := partitions & job.left)}


def _next_batch(waiting: dict[_Job, set[TopicPartition]]) -> dict[_Job, set[TopicPartition]]:
    """Takes the content of one request out of `waiting`. A transaction with very many partitions may be split into
    several requests, because each marker is valid independently of the others."""
    batch: dict[_Job, set[TopicPartition]] = {}
    left = PARTITIONS_MAX
    while waiting and left and len(batch) < MARKERS_MAX:
        job = next(iter(waiting))
        partitions = waiting[job]
        batch[job] = partitions if len(partitions) <= left else set(islice(partitions, left))
        left -= len(batch[job])
        if batch[job] is partitions:
            del waiting[job]
        else:
            waiting[job] = partitions - batch[job]
    return batch


def _marker(job: _Job, partitions: set[TopicPartition]) -> shapes.WritableTxnMarkerFields:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return {
        "producer_id": job.effect.producer_id,
        "producer_epoch": job.effect.producer_epoch,
        "transaction_result": job.effect.is_commit,
        "topics": [{"name": name, "partition_indexes": indexes} for name, indexes in topics.items()],
        "coordinator_epoch": job.effect.coordinator_epoch,
        "transaction_version": job.effect.transaction_version,
    }
