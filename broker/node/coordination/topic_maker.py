"""The internal topic of a coordinator. The controller creates it when it is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.node.cluster.controller_client import ControllerClient
from broker.node.net.channel import ChannelError
from broker.node.process.clock import monotonic_ms
from broker.node.process.logs import Logger
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.create_topics import CreatableTopicFields

CREATE_TOPIC_VERSION = 7
CREATE_TIMEOUT_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """How the topic is created when it is first needed."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class TopicMaker:
    def __init__(
        self, topic: InternalTopic, *, control: ControllerClient, image: Callable[[], MetadataImage], logger: Logger
    ) -> None:
        self._topic, self._control, self._image, self._logger = topic, control, image, logger
        self._creating: asyncio.Future[str | None] | None = None

    async def ensure(self) -> str | None:
        """Creates the topic unless it exists. Returns when this broker's image has it. If that failed, returns the
        reason."""
        if self._topic.name in self._image().topics:
            return None
        if self._creating is None:
            self._creating = asyncio.ensure_future(self._create())
        try:
            return await asyncio.shield(self._creating)
        finally:
            if self._creating is not None and self._creating.done():
                self._creating = None

    async def _create(self) -> str | None:
        wanted: CreatableTopicFields = {
            "name": self._topic.name,
            "num_partitions": self._topic.partitions,
            "replication_factor": self._topic.replication_factor,
            "assignments": [],
            "configs": [{"name": name, "value": value} for name, value in self._topic.configs.items()],
        }
        message = request(
            ApiKey.CREATE_TOPICS, CREATE_TOPIC_VERSION, topics=[wanted], timeout=CREATE_TIMEOUT_MS, validate_only=False
        )
        deadline_ms = monotonic_ms() + CREATE_TIMEOUT_MS
        try:
            answer = await self._control.call(
                ApiKey.CREATE_TOPICS, CREATE_TOPIC_VERSION, message, timeout_ms=CREATE_TIMEOUT_MS
            )
        except ChannelError as error:
            return f"{self._topic.name} cannot be made: {error}"
        made = answer.topics[0]
        if made.error_code not in (ErrorCode.none, ErrorCode.topic_already_exists):
            problem = f"{self._topic.name} cannot be made: {made.error_code.name}: {made.error_message}"
            self._logger.warning("internal_topic_refused", topic=self._topic.name, cause=repr(problem))
            return problem
        while self._topic.name not in self._image().topics:
            if monotonic_ms() >= deadline_ms:
                return f"{self._topic.name} was made, but this broker has not heard of it yet"
            await asyncio.sleep(0.01)
        return None
