"""A share partition that cannot be loaded: its leader asks again, and not in a circle without a pause."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from broker.node.features.share_groups import live_share
from broker.node.features.share_groups.live_share import LOAD_RETRY_MS, LiveShare
from broker.node.features.share_groups.states.shard import StateResult
from broker.wire.errors import ErrorCode

READS_MAX = 5


class RefusingPersister:
    """The topic of the states cannot be made, and that is known at once."""

    def __init__(self) -> None:
        self.reads = 0

    async def read(self, *_: object) -> StateResult:
        self.reads += 1
        assert self.reads <= READS_MAX, "asked again and again"
        return StateResult(error_code=ErrorCode.coordinator_not_available)


def test_a_refusal_that_comes_at_once_is_not_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    persister = RefusingPersister()
    replica = SimpleNamespace(is_leader=True, leader_epoch=3)
    share = LiveShare(
        group_id="g",
        place=(UUID(int=1), 0),
        hosted=cast(Any, SimpleNamespace(replica=replica)),
        persister=cast(Any, persister),
        settings=cast(Any, None),
        spawn=cast(Any, None),
        on_fenced=cast(Any, None),
    )
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            replica.is_leader = False

    monkeypatch.setattr(live_share, "asyncio", SimpleNamespace(sleep=sleep))
    assert asyncio.run(share.load()) is ErrorCode.not_leader_or_follower
    assert slept == [LOAD_RETRY_MS / 1000] * 2
    assert persister.reads == 2
