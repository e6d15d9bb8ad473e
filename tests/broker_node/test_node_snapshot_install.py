"""Real processes: a broker that was away gets the snapshot of its leader, and a cold start needs no old log."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from broker.door.questions import settings_of

sys.path.insert(0, str(Path(__file__).parent))
from cluster_helper import Cluster

from broker.client.core.errors import KafkaError
from broker.door.clients import Admin, NewTopic
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

pytestmark = pytest.mark.slow
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": 1_000,
    "metadata.max.retention.bytes": 0,
    "controller.quorum.fetch.snapshot.max.bytes": 300,
}


def names_of(cluster: Cluster, broker: int) -> set[str]:
    """As this broker knows them."""
    with Admin({"bootstrap.servers": f"127.0.0.1:{cluster.ports[broker]['DIRECT']}"}) as admin:
        return set(admin.describe_topics())


def installed(cluster: Cluster, broker: int) -> int:
    """How many snapshots it took from leaders; a voter that starts late or is starved may have taken one before."""
    return sum(event["broker"] == broker for event in cluster.events("metadata_snapshot_installed"))


def create(admin: Admin, name: str) -> None:
    """A request that was repeated because its answer was lost finds the topic made."""
    try:
        admin.create_topics([NewTopic(name, 1, 2, {"retention.ms": "123456"})])
    except KafkaError as error:
        if error.code != ErrorCode.topic_already_exists:
            raise


@pytest.mark.long
def test_a_broker_that_was_away_installs_the_snapshot_and_all_come_back_from_theirs(tmp_path: Path) -> None:
    with Cluster(tmp_path, settings=SETTINGS) as cluster:
        away = next(broker for broker in cluster.ids if broker != cluster.controller())
        others = [broker for broker in cluster.ids if broker != away]
        cluster.kill(away)
        before = installed(cluster, away)
        expected = {f"topic-{number}" for number in range(12)}
        with Admin({"bootstrap.servers": cluster.bootstrap()}) as admin:
            for name in sorted(expected):
                create(admin, name)
        for broker in others:
            directory = cluster.log_dir(broker) / "__cluster_metadata-0"
            wait_until(lambda d=directory: list(d.glob("*.checkpoint")), f"broker {broker} has a snapshot")
            log = directory / "00000000000000000000.log"
            wait_until(lambda log=log: not log.exists(), f"broker {broker} has dropped what the snapshot has")
        cluster.start(away)
        wait_until(lambda: installed(cluster, away) > before, "it installs the snapshot")
        wait_until(lambda: names_of(cluster, away) == expected, "it knows all topics")
        for broker in cluster.ids:
            cluster.kill(broker)
        cluster.start_all()
        cluster.wait_until_all_are_known()
        for broker in cluster.ids:
            assert names_of(cluster, broker) == expected
        with Admin({"bootstrap.servers": cluster.bootstrap()}) as admin:
            assert admin.ask(settings_of("topic", "topic-3"))["retention.ms"].value == "123456"
