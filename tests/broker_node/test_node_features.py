"""Levels of features on a real cluster: every broker tells them, clients act on them, and they outlive brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_helper import Cluster, make_topics
from wire_helper import ask

from broker.controller.feature_types import SAFE_DOWNGRADE, UPGRADE
from broker.door.clients import Admin, NewTopic, Producer
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

pytestmark = pytest.mark.slow
SETTINGS = {"transaction.state.log.num.partitions": 1, "replica.lag.time.max.ms": 2_000}
TRANSACTIONAL_ID = "x"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, settings=SETTINGS) as cluster:
        cluster.wait_until_all_are_known()
        yield cluster


def levels(cluster: Cluster, broker: int) -> dict[str, int]:
    port = cluster.ports[broker]["DIRECT"]
    answer = ask(port, ApiKey.API_VERSIONS, 4, client_software_name="test", client_software_version="1")
    return {each.name: each.max_version_level for each in answer.finalized_features}


def change(cluster: Cluster, broker: int, name: str, level: int, kind: int) -> None:
    """Through any broker: it forwards to the controller."""
    updates = [{"feature": name, "max_version_level": level, "upgrade_type": kind}]
    port = cluster.ports[broker]["DIRECT"]
    answer = ask(port, ApiKey.UPDATE_FEATURES, 2, timeout=30_000, validate_only=False, feature_updates=updates)
    assert answer.error_code is ErrorCode.none, answer
    assert levels(cluster, broker).get(name, 0) == level, "whoever changed it sees it at once"
    others = [each for each in cluster.processes if each != broker]
    wait_until(lambda: all(levels(cluster, each).get(name, 0) == level for each in others), "the others tell it too")


def epochs_of_two_transactions(cluster: Cluster) -> list[int]:
    """The producer epoch that each of two transactions of one producer ended with."""
    found = []
    settings = {"bootstrap.servers": cluster.bootstrap(), "transactional.id": TRANSACTIONAL_ID}
    with Producer(settings) as producer:
        producer.init_transactions()
        for _ in range(2):
            producer.begin_transaction()
            producer.send("t", value=b"v")
            producer.commit_transaction()
            found.append(wait_until(lambda: _completed_epoch(cluster), "the transaction is complete"))
    return [int(each) - int(found[0]) for each in found]


def _completed_epoch(cluster: Cluster) -> str | None:
    """As text, because epoch 0 is an epoch."""
    for broker in cluster.processes:
        port = cluster.ports[broker]["DIRECT"]
        answer = ask(port, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[TRANSACTIONAL_ID])
        (state,) = answer.transaction_states
        if state.error_code is ErrorCode.none and state.transaction_state == "CompleteCommit":
            return str(state.producer_epoch)
    return None


def test_levels_are_told_by_all_and_outlive_the_controller_and_restarts(cluster: Cluster) -> None:
    change(cluster, 1, "group.version", 0, SAFE_DOWNGRADE)
    change(cluster, 2, "transaction.version", 1, SAFE_DOWNGRADE)
    kept = {
        "metadata.version": 30,
        "share.version": 1,
        "transaction.version": 1,
        "eligible.leader.replicas.version": 1,
    }
    controller = cluster.controller()
    assert controller is not None
    cluster.kill(controller)
    cluster.start(controller)
    cluster.wait_until_all_are_known()
    assert [levels(cluster, broker) for broker in cluster.ids] == [kept] * 3
    for broker in cluster.ids:
        cluster.kill(broker)
    cluster.start_all()
    cluster.wait_until_all_are_known()
    assert [levels(cluster, broker) for broker in cluster.ids] == [kept] * 3
    change(cluster, 3, "group.version", 1, UPGRADE)


@pytest.mark.long
def test_the_level_of_transactions_decides_whether_each_end_raises_the_epoch(cluster: Cluster) -> None:
    with Admin({"bootstrap.servers": cluster.bootstrap()}) as admin:
        make_topics(admin, NewTopic("t", 1, 3))
    assert epochs_of_two_transactions(cluster) == [0, 1], "level 2: KIP-890"
    for level in (1, 0):
        change(cluster, 1, "transaction.version", level, SAFE_DOWNGRADE)
        assert epochs_of_two_transactions(cluster) == [0, 0]
    change(cluster, 1, "transaction.version", 2, UPGRADE)
    assert epochs_of_two_transactions(cluster) == [0, 1]
