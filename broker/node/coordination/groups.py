"""Consumer groups on this broker: the coordinator's host over `__consumer_offsets`, its settings, and the news that its
shards need.

The handlers of the group APIs call `ask`. This file tells the shards three things: which topics are created and
deleted, which transactions end in their partitions, and when to look for expired offsets. The rules are in
broker/coordinator/groups.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from broker.controller.features import GROUP_VERSION, level_of
from broker.controller.group_configs import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from broker.controller.image import MetadataImage
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.events import (
    CompleteTransaction,
    ExpireOffsets,
    GroupSettingsChanged,
    Topic,
    TopicsChanged,
)
from broker.coordinator.groups.shard import GroupShard
from broker.node.cluster.controller_client import ControllerClient
from broker.node.coordination.coordinators import CoordinatorHost
from broker.node.coordination.group_kinds import GroupKind
from broker.node.coordination.topic_maker import InternalTopic
from broker.node.process.clock import monotonic_ms, wall_ms
from broker.node.process.logs import Logger
from broker.node.replicas.replicas import Replicas
from broker.node.settings.config import NodeConfig
from broker.node.settings.properties import with_dynamic
from broker.node.settings.sections.coordinators import GroupCoordinatorSettings
from broker.node.settings.topic_config import broker_overrides
from broker.wire.errors import ErrorCode
from broker.wire.records import CodecId

R = TypeVar("R")

KEY_TYPE = 0  # the key type in FindCoordinator
OFFSETS_TOPIC = "__consumer_offsets"
# Ids may be so long. The keys of Kafka's records hold at most 32767 bytes, and a UUID is added to member ids.
STRING_BYTES_MAX = 30_000
_MINUTE_MS = 60_000


def group_config(settings: GroupCoordinatorSettings) -> GroupConfig:
    protocols = {each.strip().lower() for each in settings.group_coordinator_rebalance_protocols.split(",")}
    return GroupConfig(
        group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
        group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        group_max_size=settings.group_max_size,
        group_consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        group_consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        group_consumer_assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
        group_consumer_max_size=settings.group_consumer_max_size,
        group_consumer_assignors=tuple(each.strip() for each in settings.group_consumer_assignors.split(",")),
        is_consumer_protocol_on="consumer" in protocols,
        group_consumer_regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * _MINUTE_MS,
    )


class Groups:
    def __init__(
        self,
        *,
        config: NodeConfig,
        replicas: Replicas,
        control: ControllerClient,
        image: Callable[[], MetadataImage],
        logger: Logger,
        spawn: Callable[..., object],
        rng: random.Random,
        kinds: Sequence[GroupKind] = (),
    ) -> None:
        settings = config.groups
        self.config, self._image = group_config(settings), image
        self.kinds: Mapping[str, GroupKind] = {kind.group_type: kind for kind in kinds}
        self._static_config = self._config = config  # the second has what was changed at run time
        self._broker_configs: Mapping[str, Mapping[str, str]] = {}
        self._retention_ms, self._rng = settings.offsets_retention_check_interval_ms, rng
        self._topics: Mapping[str, Topic] = {}
        self._metadata_version = 0
        self._knows_all = False  # whether an image has been current: since then a topic that is missing does not exist
        self._group_configs: Mapping[str, Mapping[str, str]] = {}
        self.host: CoordinatorHost[GroupShard] = CoordinatorHost(
            topic=InternalTopic(
                name=OFFSETS_TOPIC,
                partitions=settings.offsets_topic_num_partitions,
                replication_factor=settings.offsets_topic_replication_factor,
                configs={
                    "cleanup.policy": "compact",
                    "segment.bytes": str(settings.offsets_topic_segment_bytes),
                    "compression.type": "producer",
                },
            ),
            broker_id=config.node_id,
            commit_timeout_ms=settings.offsets_commit_timeout_ms,
            load_buffer_bytes=settings.offsets_load_buffer_size,
            codec=CodecId(settings.offsets_topic_compression_codec),
            replicas=replicas,
            control=control,
            image=image,
            logger=logger,
            spawn=spawn,
            make_shard=self._make_shard,
            perform=_no_effects,
            first_events=self._first_events,
        )

    @property
    def is_consumer_protocol_on(self) -> bool:
        """Whether the consumer protocol is on, by this broker's settings and by the cluster's level of
        `group.version`."""
        return self.config.is_consumer_protocol_on and level_of(self._image(), GROUP_VERSION) >= 1

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """The interval for members of the consumer protocol: the group's own, else that of this broker."""
        own = self._image().group_configs.get(group_id, {}).get(HEARTBEAT_INTERVAL)
        return self.config.group_consumer_heartbeat_interval_ms if own is None else int(own)

    def _settings(self) -> tuple[object, ...]:
        """The events that tell the shards the settings of each kind of group."""
        of_consumers = GroupSettingsChanged(
            session_timeouts_ms=self._own(SESSION_TIMEOUT),
            assignment_intervals_ms=self._own(ASSIGNMENT_INTERVAL),
            assignment_interval_ms=self._config.groups.group_consumer_assignment_interval_ms,
        )
        return of_consumers, *(kind.settings(self._config, self._own) for kind in self.kinds.values())

    def _own(self, name: str) -> dict[str, int]:
        """The values of the groups that have their own."""
        return {group_id: int(configs[name]) for group_id, configs in self._group_configs.items() if name in configs}

    def _first_events(self) -> tuple[object, ...]:
        return (*self._settings(), self._topics_changed())

    def _topics_changed(self, deleted: frozenset[str] = frozenset()) -> TopicsChanged:
        return TopicsChanged(
            topics=self._topics,
            deleted=deleted,
            is_complete=self._knows_all,
            metadata_version=self._metadata_version,
        )

    def _make_shard(self, index: int) -> GroupShard:
        rng = random.Random(self._rng.getrandbits(64))
        return GroupShard(
            config=self.config,
            rng=rng,
            wall_offset_ms=wall_ms() - monotonic_ms(),
            session_timeouts_ms=self._own(SESSION_TIMEOUT),
            kinds=[kind.make_groups for kind in self.kinds.values()],
        )

    # -- events for the shards ---------------------------------------------------------------------------------------

    def image_changed(self, image: MetadataImage, *, is_current: bool) -> None:
        """It is called before the host gets the image, so that a shard that begins to serve knows its topics. An image
        that is not current may lack topics that exist."""
        self._take_settings(image)
        topics = {
            name: Topic(topic_id=state.topic_id, partitions=len(state.partitions))
            for name, state in image.topics.items()
        }
        self._metadata_version = image.offset
        is_first_current = is_current and not self._knows_all
        self._knows_all = self._knows_all or is_current
        if topics == self._topics and not is_first_current:
            return
        is_gone = {name for name, topic in self._topics.items() if name not in topics}
        is_new = {
            name for name, topic in self._topics.items() if name in topics and topics[name].topic_id != topic.topic_id
        }
        self._topics = topics
        for index, _ in self.host.active_shards():
            self.host.submit(index, self._topics_changed(frozenset(is_gone | is_new)))

    def _take_settings(self, image: MetadataImage) -> None:
        if image.group_configs == self._group_configs and image.broker_configs == self._broker_configs:
            return
        before = self._settings()
        self._group_configs, self._broker_configs = image.group_configs, image.broker_configs
        self._config = with_dynamic(self._static_config, broker_overrides(image, self._static_config.node_id))
        for old, new in zip(before, self._settings(), strict=True):
            if new != old:
                for index, _ in self.host.active_shards():
                    self.host.submit(index, new)

    def transaction_ended(self, index: int, *, producer_id: int, producer_epoch: int, is_commit: bool) -> ErrorCode:
        """The marker of a producer is committed in a partition of `__consumer_offsets`. If this returns an error, the
        marker must be sent again."""
        event = CompleteTransaction(producer_id=producer_id, producer_epoch=producer_epoch, is_commit=is_commit)
        return self.host.submit(index, event)

    async def run_retention(self) -> None:
        """Looks for expired offsets until cancelled."""
        while True:
            await asyncio.sleep(self._retention_ms / 1000)
            for index, _ in self.host.active_shards():
                self.host.submit(index, ExpireOffsets(wall_ms=wall_ms()))

    # -- requests of the handlers ------------------------------------------------------------------------------------

    def ask(
        self,
        group_id: str,
        make_event: Callable[[int], object],
        kind: type[R],
        *,
        done: Callable[[R], None],
        refused: Callable[[ErrorCode], None],
    ) -> None:
        """Exactly one of two functions is called: `done` with a result of type `kind`, or `refused`."""

        def typed(result: object) -> None:
            assert isinstance(result, kind), f"expected a {kind.__name__}, got {result!r}"
            done(result)

        def mapped(error: ErrorCode) -> None:
            # A group client does not know REQUEST_TIMED_OUT. It must look for the coordinator and ask again.
            late = error is ErrorCode.request_timed_out
            refused(ErrorCode.coordinator_not_available if late else error)

        problem = group_id_problem(group_id)
        if problem is not ErrorCode.none:
            refused(problem)
            return
        self.host.call(group_id, make_event, done=typed, refused=mapped)


def group_id_problem(group_id: str) -> ErrorCode:
    return ErrorCode.invalid_group_id if len(group_id.encode()) > STRING_BYTES_MAX else ErrorCode.none


def are_too_long(*texts: str | None) -> bool:
    return any(text is not None and len(text.encode()) > STRING_BYTES_MAX for text in texts)


def _no_effects(index: int, effect: object) -> None:
    raise AssertionError(f"a group shard has no effects: {effect!r} of partition {index}")
