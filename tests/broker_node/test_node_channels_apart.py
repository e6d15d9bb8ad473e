"""What a broker asks of the controller does not wait for what its clients ask: each has a connection of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_helper import Cluster
from link_helper import HoldingLink, RawClient

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request
from tests.patience import wait_until

pytestmark = pytest.mark.slow
HEARTBEATS = 5
PATIENT = {
    "broker.heartbeat.interval.ms": 200,
    "controller.quorum.request.timeout.ms": 60_000,  # nobody asks the controller twice
    "controller.quorum.fetch.timeout.ms": 60_000,
    "broker.session.timeout.ms": 30_000,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Cluster, dict[int, HoldingLink]]]:
    """Three brokers that reach each other's controllers through links which hold CreateTopics."""
    made = Cluster(tmp_path, settings=PATIENT)
    links = {each: HoldingLink(made.ports[each]["CONTROLLER"], holds=ApiKey.CREATE_TOPICS) for each in made.ids}
    made.settings["harness.routes.controller"] = ",".join(f"{each}@127.0.0.1:{links[each].port}" for each in made.ids)
    try:
        with made:
            yield made, links
    finally:
        for link in links.values():
            link.close()


@pytest.mark.long
def test_a_request_of_a_client_that_hangs_delays_no_heartbeat_and_is_sent_once(
    cluster: tuple[Cluster, dict[int, HoldingLink]],
) -> None:
    brokers, links = cluster
    controller = wait_until(brokers.controller, "a controller")
    link, broker = links[controller], next(each for each in brokers.ids if each != controller)
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    asked = request(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=60_000, validate_only=False)
    with RawClient(brokers.ports[broker]["DIRECT"]) as client:
        client.send(ApiKey.CREATE_TOPICS, 7, asked)
        wait_until(lambda: link.seen(ApiKey.CREATE_TOPICS), "the request is held")
        earlier = link.seen(ApiKey.BROKER_HEARTBEAT, f"broker-{broker}")
        wait_until(
            lambda: link.seen(ApiKey.BROKER_HEARTBEAT, f"broker-{broker}") >= earlier + HEARTBEATS, "further heartbeats"
        )
        link.release()
        _, answer = client.receive(ApiKey.CREATE_TOPICS, 7)
    assert [each.error_code for each in answer.topics] == [ErrorCode.none]
    assert link.seen(ApiKey.CREATE_TOPICS) == 1
