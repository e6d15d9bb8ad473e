"""AssignReplicasToDirs: tells the controller in which log directory each replica of this broker lies (KIP-858).

The controller knows this already if the broker has a single directory. Otherwise a replica whose directory differs from
the one in the image is told, one request at a time, until the image has it. A replica in a directory that failed is
told too: otherwise the controller would not know that it failed with its directory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import islice
from uuid import UUID

from broker.controller.delta import PartitionChange
from broker.controller.image import MetadataImage
from broker.node.cluster.controller_client import ControllerClient
from broker.node.cluster.lifecycle import Lifecycle
from broker.node.net.channel import ChannelError
from broker.node.process.logs import Logger
from broker.node.settings.sections.cluster import QuorumSettings
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

VERSION = 0
PLACES_MAX = 2_000  # in one request; limits.py has what a controller accepts
RETRY_MS = 50
_FINAL = frozenset(
    {
        ErrorCode.none,
        # The replica is gone, or its directory changes again with the next image.
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
    }
)


class Assignments:
    """`image` returns the newest image."""

    def __init__(
        self,
        *,
        settings: QuorumSettings,
        control: ControllerClient,
        image: Callable[[], MetadataImage],
        logger: Logger,
    ) -> None:
        self._settings, self._control, self._image, self._logger = settings, control, image, logger
        self._wanted: dict[tuple[UUID, int], UUID] = {}  # to be told: the directory, by topic id and partition
        self._has_work = asyncio.Event()

    def check(self, change: PartitionChange, actual: UUID | None) -> None:
        """Call it for each replica of this broker that is new or changed in the image, after it is hosted. `actual` is
        the directory in which it lies."""
        if actual is None or actual == change.state.directory_of(self._settings.node_id):
            self._wanted.pop((change.topic_id, change.partition), None)
        else:
            self._wanted[change.topic_id, change.partition] = actual
            self._has_work.set()

    def check_all(self, directories: Mapping[tuple[str, int], UUID | None]) -> None:
        """Call it for replicas that have moved, and for those whose directory failed: it may have failed before the
        controller knew it as theirs. `directories` says where each lies."""
        image = self._image()
        for (name, partition), actual in directories.items():
            state = image.partition(name, partition)
            if state is not None and self._settings.node_id in state.replicas:
                topic_id = image.topics[name].topic_id
                change = PartitionChange(topic=name, topic_id=topic_id, partition=partition, state=state)
                self.check(change, actual)

    async def run(self, lifecycle: Lifecycle) -> None:
        """Runs until cancelled."""
        while True:
            await self._has_work.wait()
            broker_epoch = await asyncio.shield(lifecycle.broker_epoch)
            batch = dict(islice(self._wanted.items(), PLACES_MAX))
            if batch and not await self.tell(batch, broker_epoch):
                await asyncio.sleep(RETRY_MS / 1000)
            if not self._wanted:
                self._has_work.clear()

    async def tell(self, places: dict[tuple[UUID, int], UUID], broker_epoch: int) -> bool:
        """Whether the controller has taken all of them. Those that it has decided on are not told again."""
        directories: dict[UUID, dict[UUID, list[int]]] = {}
        for (topic_id, partition), directory in places.items():
            directories.setdefault(directory, {}).setdefault(topic_id, []).append(partition)
        message = request(
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            VERSION,
            broker_id=self._settings.node_id,
            broker_epoch=broker_epoch,
            directories=[
                {
                    "id_": directory,
                    "topics": [
                        {"topic_id": topic_id, "partitions": [{"partition_index": each} for each in partitions]}
                        for topic_id, partitions in topics.items()
                    ],
                }
                for directory, topics in directories.items()
            ],
        )
        timeout_ms = self._settings.controller_quorum_request_timeout_ms
        try:
            answer = await self._control.call_once(
                ApiKey.ASSIGN_REPLICAS_TO_DIRS, VERSION, message, timeout_ms=timeout_ms
            )
        except ChannelError as error:
            self._logger.warning("assign_replicas_failed", cause=repr(str(error)))
            return False
        is_whole = answer.error_code is ErrorCode.none
        for answered in answer.directories:
            for topic in answered.topics:
                for each in topic.partitions:
                    if each.error_code not in _FINAL or topic.topic_id is None:
                        is_whole = False
                        continue
                    key = (topic.topic_id, each.partition_index)
                    if self._wanted.get(key) == answered.id_:
                        del self._wanted[key]
        return is_whole
