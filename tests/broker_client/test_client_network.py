"""The network of the reference client: every request that was sent ends as answered or as lost, whatever comes back."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from broker.client.core.config import parse_consumer
from broker.client.network import Answered, Connected, Lost, Network, NetworkEvent
from broker.client.protocol import metadata_request
from broker.wire.apis import ApiKey
from broker.wire.codec import RequestHeader
from tests.harness.hostile_broker import Answer, HostileBroker, Manner, frame

GREETS = frozenset({int(ApiKey.API_VERSIONS)})
VERSION = 9
WAIT_S = 30.0


def now_ms() -> int:
    return int(time.monotonic() * 1000)


def good_then(second: bytes) -> Manner:
    """Answers nothing before the second request; then a proper answer to the first and `second`, in one piece."""
    held = b""

    def manner(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
        nonlocal held
        if held:
            yield held + (second or frame(header.correlation_id, b"\xff" * 20))
        held = held or broker.proper(header, message)

    return manner


def events_of(broker: HostileBroker, contexts: list[str]) -> list[NetworkEvent]:
    """All that the network tells of these requests, sent at once, until the connection is lost."""
    config = parse_consumer({"bootstrap.servers": broker.address, "request.timeout.ms": str(int(WAIT_S * 1000))})
    network = Network(config, random.Random(1), now_ms)
    told: list[NetworkEvent] = []
    deadline_s = time.monotonic() + WAIT_S
    try:
        while not any(isinstance(event, Lost) for event in told):
            assert time.monotonic() < deadline_s, told
            network.any_ready()
            for event in network.poll(100):
                told.append(event)
                if isinstance(event, Connected):
                    for context in contexts:
                        message = metadata_request(VERSION, ["t"], auto_create=False)
                        network.send(event.node, ApiKey.METADATA, VERSION, message, context)
    finally:
        network.close()
    return told


@pytest.mark.parametrize("second", [b"", frame(0x5555, b""), b"\xff" * 8], ids=["undecodable", "unasked", "no frame"])
def test_what_came_before_garbage_counts_and_what_waits_behind_is_lost(second: bytes) -> None:
    with HostileBroker(good_then(second), polite=GREETS) as broker:
        told = events_of(broker, ["first", "second", "third"])
    assert [event.context for event in told if isinstance(event, Answered)] == ["first"]
    lost = next(event for event in told if isinstance(event, Lost))
    assert sorted(map(str, (*lost.unanswered, *lost.unsent))) == ["second", "third"]
