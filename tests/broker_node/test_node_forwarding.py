"""What a broker says of a request that it forwards, when the controller's answer to a first attempt was lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.controller.image import MetadataImage
from broker.node.cluster.controller_client import ControllerClient
from broker.node.handlers import api_19_create_topics
from broker.node.handlers.forwarding import forward
from broker.node.net.channel import ChannelError
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, request, response
from tests.broker_node.partitions_helper import node_config

VERSION = api_19_create_topics.FORWARD.version
EXISTS, TIMED_OUT = ErrorCode.topic_already_exists, ErrorCode.request_timed_out


class ScriptedController(ControllerClient):
    """Answers with these error codes, one a call; None: the answer is lost."""

    def __init__(self, codes: list[ErrorCode | None], leader_ids: list[int]) -> None:
        super().__init__(
            settings=node_config(Path("unused")).quorum,
            metadata=cast(Any, self),
            links=cast(Any, None),
        )
        self._codes, self._leader_ids = iter(codes), iter(leader_ids)

    @property
    def leader_id(self) -> int:
        return next(self._leader_ids, 1)

    async def call_once(self, api_key: ApiKey, version: int, message: Message, *, timeout_ms: int) -> Message:
        code = next(self._codes)
        if code is None:
            raise ChannelError("no answer in time")
        failed = api_19_create_topics._failed
        return response(ApiKey.CREATE_TOPICS, version, topics=[failed("t", code, None), failed("other", code, "")])


def answers(codes: list[ErrorCode | None], leader_ids: list[int] | None = None) -> list[ErrorCode]:
    """What the client is told of its two topics."""
    services = SimpleNamespace(
        control=ScriptedController(codes, leader_ids or []),
        metadata=SimpleNamespace(image=MetadataImage()),
    )
    told: list[Message] = []
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
        for name in ("t", "other")
    ]
    asked = SimpleNamespace(
        message=request(ApiKey.CREATE_TOPICS, VERSION, topics=topics, timeout=10_000, validate_only=True),
        version=VERSION, listener=Listener.CLIENT, respond=told.append,
    )  # fmt: skip
    asyncio.run(forward(cast(Any, services), cast(Any, asked), ApiKey.CREATE_TOPICS, api_19_create_topics.FORWARD))
    return [topic.error_code for topic in told[0].topics]


@pytest.mark.parametrize("first", [None, ErrorCode.not_controller])
def test_a_topic_that_exists_after_a_lost_answer_may_be_our_own(first: ErrorCode | None) -> None:
    assert answers([first, EXISTS]) == [TIMED_OUT, TIMED_OUT]


def test_a_topic_that_existed_is_named_so_when_nothing_was_asked_before() -> None:
    assert answers([EXISTS]) == [EXISTS, EXISTS]
    assert answers([None, EXISTS], leader_ids=[-1]) == [EXISTS, EXISTS]  # no controller was known: nobody was asked


def test_other_answers_stay_as_they_are_after_a_lost_one() -> None:
    assert answers([None, ErrorCode.none]) == [ErrorCode.none, ErrorCode.none]
    assert answers([None, ErrorCode.invalid_partitions]) == [ErrorCode.invalid_partitions] * 2
