"""Internal topics of streams groups: they are asked for once, and a refusal is told for a while, then tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

from broker.controller.topics import PARTITIONS_MAX
from broker.coordinator.groups.streams.configured import InternalTopic
from broker.node.coordination.streams_topics import ERRORS_MAX, StreamsTopics
from broker.node.net.channel import ChannelError
from broker.wire.errors import ErrorCode

TOPIC = InternalTopic(name="g-changelog", partitions=3, replication_factor=0, configs=(("cleanup.policy", "compact"),))
KEEP_MS = 10_000


class Controller:
    """Answers CreateTopics: with an error for each topic that it refuses, or not at all."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.refuses: dict[str, tuple[ErrorCode, str | None]] = {}
        self.is_gone = False

    async def call(self, key: int, version: int, message: Any, *, timeout_ms: int) -> Any:
        self.asked.append(message)
        if self.is_gone:
            raise ChannelError("the connection is lost")
        none = (ErrorCode.none, None)
        answers = [(each.name, *self.refuses.get(each.name, none)) for each in message.topics]
        return SimpleNamespace(
            topics=[SimpleNamespace(name=name, error_code=code, error_message=text) for name, code, text in answers]
        )


class World:
    def __init__(self) -> None:
        self.now_ms, self.controller = 0, Controller()
        self._work: list[Coroutine[object, object, None]] = []
        logger: Any = SimpleNamespace(warning=lambda event, **facts: None)
        self.topics = StreamsTopics(logger=logger, spawn=self._work.append, now_ms=lambda: self.now_ms)

    def create(self, *topics: InternalTopic) -> None:
        self.topics.create({topic.name: topic for topic in topics}, ask=self.controller.call, keep_errors_ms=KEEP_MS)

    def work(self) -> None:
        waiting, self._work[:] = list(self._work), []
        for each in waiting:
            asyncio.run(each)


def test_a_topic_is_asked_for_once_while_it_is_under_way() -> None:
    world = World()
    world.create(TOPIC)
    world.create(TOPIC)
    world.work()
    (message,) = world.controller.asked
    (topic,) = message.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("g-changelog", 3, -1)
    assert [(config.name, config.value) for config in topic.configs] == [("cleanup.policy", "compact")]
    world.create(TOPIC)  # this broker has not heard of it yet
    world.work()
    assert len(world.controller.asked) == 2
    assert world.topics.errors([TOPIC.name]) == {}


def test_a_refusal_is_told_for_a_while_and_then_tried_again() -> None:
    world = World()
    world.controller.refuses[TOPIC.name] = ErrorCode.invalid_replication_factor, "too many"
    world.create(TOPIC)
    world.work()
    assert world.topics.errors([TOPIC.name, "other"]) == {TOPIC.name: "too many"}
    world.now_ms = KEEP_MS - 1
    world.create(TOPIC)
    world.work()
    assert len(world.controller.asked) == 1
    world.now_ms = KEEP_MS
    assert world.topics.errors([TOPIC.name]) == {}
    world.controller.refuses.clear()
    world.create(TOPIC)
    world.work()
    assert len(world.controller.asked) == 2
    assert world.topics.errors([TOPIC.name]) == {}


def test_a_refusal_without_a_text_and_a_lost_connection_are_told_too() -> None:
    world = World()
    world.controller.refuses[TOPIC.name] = ErrorCode.policy_violation, None
    world.create(TOPIC)
    world.work()
    assert world.topics.errors([TOPIC.name]) == {TOPIC.name: "POLICY_VIOLATION"}
    world.controller.is_gone, other = True, InternalTopic(name="other", partitions=1, replication_factor=1)
    world.create(TOPIC, other)
    world.work()
    assert world.topics.errors(["other"]) == {"other": "the connection is lost"}
    assert [topic.name for topic in world.controller.asked[-1].topics] == ["other"]


def test_only_so_many_refusals_are_kept() -> None:
    world = World()
    topics = [InternalTopic(name=f"t{number}", partitions=1, replication_factor=1) for number in range(ERRORS_MAX + 5)]
    world.controller.is_gone = True
    world.create(*topics)
    world.work()
    assert len(world.topics.errors(topic.name for topic in topics)) == ERRORS_MAX


def test_more_partitions_than_one_request_may_have_are_asked_for_in_parts() -> None:
    world = World()
    counts = (PARTITIONS_MAX - 1, 1, 1, PARTITIONS_MAX + 1, 5)
    world.create(
        *(InternalTopic(name=f"t{at}", partitions=count, replication_factor=1) for at, count in enumerate(counts))
    )
    world.work()
    asked = [[topic.name for topic in message.topics] for message in world.controller.asked]
    assert asked == [["t0", "t1"], ["t2"], ["t3"], ["t4"]]
