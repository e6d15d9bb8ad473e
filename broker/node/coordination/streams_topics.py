"""Internal topics of streams groups (KIP-1071): a heartbeat names those that are missing, and the controller creates
them.

The answer to the heartbeat does not wait for that: the member is told that topics are missing, and asks again. If the
controller refused a topic, the next answers say why, for as long as two heartbeat intervals. Then it is tried again.
Shown by tests/broker_node/test_node_streams_topics.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.controller.topics import PARTITIONS_MAX
from broker.coordinator.groups.streams.configured import InternalTopic
from broker.node.net.channel import ChannelError
from broker.node.process.clock import monotonic_ms
from broker.node.process.logs import Logger
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.create_topics import CreatableTopicFields

Ask: TypeAlias = Callable[..., Awaitable[Any]]  # as ControllerClient.call, which serves any API

CREATE_TOPICS_VERSION = 7
CREATE_TIMEOUT_MS = 30_000
ERRORS_MAX = 1_000  # topics whose refusal is kept; further ones are tried again at each heartbeat
DEFAULT = -1  # for numbers that the cluster's settings decide


class StreamsTopics:
    def __init__(
        self,
        *,
        logger: Logger,
        spawn: Callable[..., object],
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._logger, self._spawn, self._now_ms = logger, spawn, now_ms
        self._under_way: set[str] = set()
        self._errors: dict[str, tuple[int, str]] = {}  # by topic: until when, and the controller's reason

    def create(self, topics: Mapping[str, InternalTopic], *, ask: Ask, keep_errors_ms: int) -> None:
        """Asks the controller for topics that nobody has asked for yet, and that were not refused just before. `ask`
        sends the request; it may raise ChannelError."""
        self._drop_old_errors()
        wanted = [topic for name, topic in sorted(topics.items()) if name not in self._under_way | self._errors.keys()]
        if wanted:
            self._under_way.update(topic.name for topic in wanted)
            self._spawn(self._create_all(wanted, ask, keep_errors_ms))

    def errors(self, names: Iterable[str]) -> dict[str, str]:
        """Why topics could not be created lately."""
        self._drop_old_errors()
        return {name: self._errors[name][1] for name in sorted(names) if name in self._errors}

    def _drop_old_errors(self) -> None:
        now_ms = self._now_ms()
        self._errors = {name: error for name, error in self._errors.items() if now_ms < error[0]}

    async def _create_all(self, topics: list[InternalTopic], ask: Ask, keep_errors_ms: int) -> None:
        for part in _parts(topics):
            await self._create(part, ask, keep_errors_ms)

    async def _create(self, topics: list[InternalTopic], ask: Ask, keep_errors_ms: int) -> None:
        names = [topic.name for topic in topics]
        message = request(
            ApiKey.CREATE_TOPICS,
            CREATE_TOPICS_VERSION,
            topics=[_fields(topic) for topic in topics],
            timeout=CREATE_TIMEOUT_MS,
            validate_only=False,
        )
        try:
            answer = await ask(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, message, timeout_ms=CREATE_TIMEOUT_MS)
            refused = {
                made.name: made.error_message or made.error_code.name.upper()
                for made in answer.topics
                if made.error_code is not ErrorCode.none
            }
        except ChannelError as error:
            refused = dict.fromkeys(names, str(error))
        finally:
            self._under_way.difference_update(names)
        until_ms = self._now_ms() + keep_errors_ms
        for name, cause in refused.items():
            if len(self._errors) < ERRORS_MAX:
                self._errors[name] = until_ms, cause
        if refused:
            name, cause = next(iter(refused.items()))
            self._logger.warning("streams_topics_refused", count=len(refused), first=repr(name), cause=repr(cause))


def _parts(topics: list[InternalTopic]) -> Iterator[list[InternalTopic]]:
    """The topics in parts that the controller creates in one request each."""
    part: list[InternalTopic] = []
    partitions = 0
    for topic in topics:
        if part and partitions + topic.partitions > PARTITIONS_MAX:
            yield part
            part, partitions = [], 0
        part.append(topic)
        partitions += topic.partitions
    yield part


def _fields(topic: InternalTopic) -> CreatableTopicFields:
    return {
        "name": topic.name,
        "num_partitions": topic.partitions,
        "replication_factor": topic.replication_factor or DEFAULT,
        "assignments": [],
        "configs": [{"name": name, "value": value} for name, value in topic.configs],
    }
