"""The share coordinator of this broker: its host over `__share_group_state`, and the pruning of that log (KIP-932).

The rules are in states/. A log of updates cannot be compacted by key. So the records before the last snapshots are
removed, as by DeleteRecords. A partition without changes gets a new snapshot from time to time, so that the records of
the others can be removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from broker.controller.features import SHARE_VERSION, level_of
from broker.controller.image import MetadataImage
from broker.coordinator.runtime import Append
from broker.node.cluster.controller_client import ControllerClient
from broker.node.coordination.coordinators import CoordinatorHost
from broker.node.coordination.topic_maker import InternalTopic
from broker.node.features.share_groups.states.records import StateKey, decode, is_key
from broker.node.features.share_groups.states.shard import (
    Request,
    ShareStateShard,
    SnapshotStale,
    StateResult,
    TopicsKnown,
)
from broker.node.process.clock import monotonic_ms, wall_ms
from broker.node.process.logs import Logger
from broker.node.replicas.replicas import Replicas
from broker.node.settings.sections.shares import ShareSettings
from broker.wire.errors import ErrorCode
from broker.wire.records import CodecId

TOPIC = "__share_group_state"
KEY_TYPE = 2  # the key type in FindCoordinator
KEYS_SINCE_VERSION = 6
PRUNE_INTERVAL_MS = 300_000  # Kafka's share.coordinator.state.topic.prune.interval.ms
REST_MS = 300_000  # after this time without changes a partition gets a new snapshot


class ShareStates:
    def __init__(
        self,
        *,
        broker_id: int,
        settings: ShareSettings,
        replicas: Replicas,
        control: ControllerClient,
        image: Callable[[], MetadataImage],
        logger: Logger,
        spawn: Callable[..., object],
    ) -> None:
        self._settings, self._image = settings, image
        self._partitions, self._log_starts, self._spawn = replicas.partitions, replicas.log_starts, spawn
        # None until the image has every topic from before this process started: an older image lacks topics that exist
        self._topic_ids: frozenset[UUID] | None = None
        self._is_pruning = False
        self.host: CoordinatorHost[ShareStateShard] = CoordinatorHost(
            topic=_internal_topic(settings),
            broker_id=broker_id,
            commit_timeout_ms=settings.share_coordinator_write_timeout_ms,
            load_buffer_bytes=settings.share_coordinator_load_buffer_size,
            codec=CodecId(settings.share_coordinator_state_topic_compression_codec),
            replicas=replicas,
            control=control,
            image=image,
            logger=logger,
            spawn=spawn,
            make_shard=self._make_shard,
            perform=_no_effects,
            stored=_stored,
            first_events=self._first_events,
            key_problem=self._key_problem,
        )

    def _make_shard(self, index: int) -> ShareStateShard:
        if not self._is_pruning:
            self._is_pruning = True
            self._spawn(self._prune())
        updates = self._settings.share_coordinator_snapshot_update_records_per_snapshot
        return ShareStateShard(updates_per_snapshot=updates, wall_offset_ms=wall_ms() - monotonic_ms())

    def _key_problem(self, version: int, keys: Sequence[str]) -> str | None:
        """Keys are GROUP:TOPIC-ID:PARTITION. They are asked for since version 6 of FindCoordinator."""
        is_on = version >= KEYS_SINCE_VERSION and level_of(self._image(), SHARE_VERSION) >= 1
        return None if is_on and all(map(is_key, keys)) else "Share coordinator key is invalid"

    def coordinator_of(self, key: StateKey) -> int:
        """The broker id of the coordinator, -1 while none is known."""
        state = self.host.partition_state(str(key))
        return -1 if state is None else state.leader

    def exists(self, topic_id: UUID, partition: int) -> bool:
        image = self._image()
        name = image.topic_names.get(topic_id)
        return name is not None and image.partition(name, partition) is not None

    def image_changed(self, image: MetadataImage, *, is_current: bool) -> None:
        """Removes the states of topics that were deleted."""
        if self._topic_ids is None and not is_current:
            return
        topic_ids = frozenset(state.topic_id for state in image.topics.values())
        before, self._topic_ids = self._topic_ids, topic_ids
        if before is None or before - topic_ids:
            for index, _ in self.host.active_shards():
                self.host.submit(index, TopicsKnown(topic_ids=topic_ids))

    def _first_events(self) -> tuple[object, ...]:
        """A topic may have been deleted while no shard had its state. Whoever wrote the state knew the topic, and led
        the log before this broker did. So a current image lacks the topic only if it was deleted."""
        return () if self._topic_ids is None else (TopicsKnown(topic_ids=self._topic_ids),)

    def ask(self, key: StateKey, make_event: Callable[[int], Request], done: Callable[[StateResult], None]) -> None:
        """`done` is called exactly once."""

        def answered(result: object) -> None:
            assert isinstance(result, StateResult)
            done(result)

        def refused(error: ErrorCode) -> None:
            late = error is ErrorCode.request_timed_out  # the client learns the outcome when it asks again
            done(StateResult(error_code=ErrorCode.coordinator_not_available if late else error))

        self.host.call(str(key), make_event, done=answered, refused=refused)

    async def _prune(self) -> None:
        """Prunes the log until cancelled."""
        while True:
            await asyncio.sleep(PRUNE_INTERVAL_MS / 1000)
            for index, _ in self.host.active_shards():
                self.prune(index)

    def prune(self, index: int) -> None:
        """Removes records that the shard of this partition does not need, at most up to the high watermark."""
        shard = dict(self.host.active_shards()).get(index)
        hosted = self._partitions.get(TOPIC, index)
        if shard is None or hosted is None or not hosted.replica.is_leader:
            return
        offset = min(shard.redundant_offset(hosted.log.log_end_offset), hosted.replica.high_watermark)
        if offset > hosted.log.log_start_offset:
            self._log_starts.delete_records(hosted, offset)
        self.host.submit(index, SnapshotStale(before_ms=wall_ms() - REST_MS))


def _stored(shard: ShareStateShard, action: Append, base_offset: int) -> None:
    for position, record in enumerate(action.records):
        decoded = decode(record.key, record.value)
        if decoded is not None:
            shard.stored(decoded, base_offset + position)


def _no_effects(index: int, effect: object) -> None:
    raise AssertionError(f"a shard of share states has no effects: {effect!r} of partition {index}")


def _internal_topic(settings: ShareSettings) -> InternalTopic:
    return InternalTopic(
        name=TOPIC,
        partitions=settings.share_coordinator_state_topic_num_partitions,
        replication_factor=settings.share_coordinator_state_topic_replication_factor,
        configs={
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(settings.share_coordinator_state_topic_min_isr),
            "retention.ms": "-1",
            "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
        },
    )
