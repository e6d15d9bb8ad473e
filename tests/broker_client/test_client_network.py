"""The network of the reference client: every request that was sent ends as answered or as lost, whatever comes back."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from broker.client.core.config import parse_consumer
from broker.client.core.metadata import BrokerAddress
from broker.client.network import Answered, Connected, Lost, Network, NetworkEvent
from broker.client.protocol import metadata_request
from broker.wire.apis import ApiKey
from broker.wire.codec import RequestHeader
from harness.clusters.ports import free_port
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


def silent(_broker: HostileBroker, _header: RequestHeader, _message: Any) -> Answer:
    return iter(())


@contextmanager
def network_of(*bootstrap: HostileBroker, seed: int = 1) -> Iterator[Network]:
    servers = ",".join(broker.address for broker in bootstrap)
    network = Network(parse_consumer({"bootstrap.servers": servers}), random.Random(seed), now_ms)
    try:
        yield network
    finally:
        network.close()


def tell_of(network: Network, *ports: int) -> None:
    """As a Metadata answer does: node 1 is the first of them."""
    network.update_nodes(
        BrokerAddress(broker_id=number, host="127.0.0.1", port=port) for number, port in enumerate(ports, start=1)
    )


def asked(network: Network) -> int:
    """The node that a question to any node goes to."""
    deadline_s = time.monotonic() + WAIT_S
    while (node := network.any_ready()) is None:
        assert time.monotonic() < deadline_s
        network.poll(20)
    return node


def connected(network: Network, node: int) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not network.is_ready(node):
        assert time.monotonic() < deadline_s
        network.connect(node)
        network.poll(20)


def leave_unanswered(network: Network, node: int) -> None:
    """A request that gets no answer, until the connection is given up for it."""
    message = metadata_request(VERSION, ["t"], auto_create=False)
    network.send(node, ApiKey.METADATA, VERSION, message, "unanswered", timeout_ms=50)
    deadline_s = time.monotonic() + WAIT_S
    while not any(isinstance(event, Lost) for event in network.poll(20)):
        assert time.monotonic() < deadline_s


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_a_broker_that_left_a_request_unanswered_is_asked_last(seed: int) -> None:
    """It may be cut off from the others, and tell for ever that it leads. A leader of Apache Kafka does so that has
    lost the controller."""
    with (
        HostileBroker(silent, polite=GREETS) as cut_off,
        HostileBroker(silent, polite=GREETS) as well,
        network_of(cut_off, well, seed=seed) as network,
    ):
        asked(network)  # at an address of the bootstrap list
        tell_of(network, cut_off.port, well.port)
        connected(network, 1)
        leave_unanswered(network, 1)
        connected(network, 1)
        assert asked(network) == 2
        connected(network, 1)
        assert asked(network) == 2


def test_once_the_brokers_are_known_none_is_asked_at_an_address_of_the_bootstrap_list() -> None:
    with HostileBroker(silent, polite=GREETS) as broker, network_of(broker) as network:
        assert asked(network) < 0
        tell_of(network, broker.port)
        assert asked(network) == 1


def test_the_bootstrap_list_is_asked_again_when_no_known_broker_can_be_reached() -> None:
    with HostileBroker(silent, polite=GREETS) as broker, network_of(broker) as network:
        asked(network)
        tell_of(network, free_port())
        assert asked(network) < 0


def test_a_broker_that_asks_the_client_to_wait_gets_no_request_until_then() -> None:
    """KIP-219. The broker does not read meanwhile either: a request would only meet its time limit."""
    seen: list[int] = []

    def throttling(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
        seen.append(header.correlation_id)
        yield broker.proper(header, message, throttle_time=timedelta(days=20))

    late_ms = 0
    with (
        HostileBroker(throttling, polite=GREETS) as broker,
        HostileBroker(silent, polite=GREETS) as other,
        network_of(broker, other) as network,
    ):
        network._now_ms = lambda: now_ms() + late_ms
        tell_of(network, broker.port, other.port)

        def answer() -> Answered:
            deadline_s = time.monotonic() + WAIT_S
            while True:
                assert time.monotonic() < deadline_s
                for event in network.poll(20):
                    assert not isinstance(event, Lost)
                    if isinstance(event, Answered):
                        return event

        def send(context: str) -> None:
            message = metadata_request(VERSION, ["t"], auto_create=False)
            network.send(1, ApiKey.METADATA, VERSION, message, context, timeout_ms=10_000)

        connected(network, 1)
        connected(network, 2)
        send("first")
        assert answer().context == "first"
        send("second")
        assert network.any_ready() == 2, "a broker that is not throttled is asked first"
        late_ms = 29_000  # past the time limit of the request, which does not run yet
        for _ in range(5):
            assert not network.poll(5)
        assert len(seen) == 1
        late_ms = 30_001  # request.timeout.ms: no broker silences a client for longer
        assert answer().context == "second"
        send("third")
        network.close_node(1, "test")
        (lost,) = [event for event in network.poll(5) if isinstance(event, Lost)]
        assert (lost.unanswered, lost.unsent) == ((), ("third",))
