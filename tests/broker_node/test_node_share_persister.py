"""Requests to a share coordinator whose broker has died: they outlast its session, and end before their client's."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from broker.node.features.share_groups import persister as module
from broker.node.features.share_groups.persister import Persister, StateToWrite
from broker.node.net.channel import ChannelError
from broker.wire.errors import ErrorCode

PLACE = (UUID(int=1), 0)
STATE = StateToWrite(state_epoch=1, leader_epoch=1, start_offset=0, delivery_complete_count=0, batches=())
SESSION_MS = 9_000  # broker.session.timeout.ms, as Apache Kafka has it by default
CLIENT_MS = 30_000  # request.timeout.ms of clients
DEAD, NEXT = 3, 2


class World:
    """A coordinator that is dead from time 0, and another one from `elected_ms` on."""

    def __init__(self, elected_ms: int) -> None:
        self.now_ms, self._elected_ms, self.asked = 0, elected_ms, 0
        self.host = self

    async def ensure_topic(self) -> None:
        return None

    def coordinator_of(self, _: object) -> int:
        return DEAD if self.now_ms < self._elected_ms else NEXT

    async def call(self, broker: int, *_: object, **__: object) -> Any:
        self.asked += 1
        if broker == DEAD:
            raise ChannelError("connection refused")
        part = SimpleNamespace(partition=PLACE[1], error_code=ErrorCode.none, error_message=None)
        return SimpleNamespace(results=[SimpleNamespace(topic_id=PLACE[0], partitions=[part])])

    async def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1_000)


def written(world: World, monkeypatch: pytest.MonkeyPatch) -> ErrorCode:
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=world.sleep, gather=asyncio.gather))
    monkeypatch.setattr(module, "monotonic_ms", lambda: world.now_ms)
    logger: Any = SimpleNamespace(warning=lambda *_, **__: None)
    found = Persister(states=cast(Any, world), peers=cast(Any, world), logger=logger)
    return asyncio.run(found.write("g", PLACE, STATE)).error_code


@pytest.mark.parametrize("elected_ms", [0, 50, SESSION_MS, 2 * SESSION_MS])
def test_a_write_comes_to_the_next_coordinator(elected_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(elected_ms)
    assert written(world, monkeypatch) is ErrorCode.none
    assert elected_ms <= world.now_ms <= elected_ms + module.BACKOFF_MAX_MS


def test_without_a_coordinator_the_client_hears_of_it_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(CLIENT_MS)
    assert written(world, monkeypatch) is ErrorCode.network_exception
    assert 2 * SESSION_MS < world.now_ms < CLIENT_MS - module.BACKOFF_MAX_MS
    assert world.asked < 50
