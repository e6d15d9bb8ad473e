"""The same script of 301 group requests to Apache Kafka and to our broker: the answers are equal.

What differs on purpose, and is therefore not in the script or taken out of the comparison:
- A new KIP-848 group with topics begins at epoch 2 in Kafka 4.3, at 1 here: epochs are compared relative to that.
- A regular expression is resolved in the background by Kafka, with the heartbeat itself here: one heartbeat earlier.
- A group of which a join or every offset was refused is listed by Kafka and not here: nothing of it was written.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_helper import Cluster
from confluent_helper import wait_brokers
from group_script import GroupScript
from kafka_node import kafka_node

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(240)]

SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.migration.policy": "disabled",
}
# Kafka computes a target assignment at most once in this time; we compute it at once.
KAFKA_SETTINGS = {"group.consumer.min.assignment.interval.ms": 0, "group.consumer.assignment.interval.ms": 0}
KAFKA_FIRST_EPOCH, OUR_FIRST_EPOCH = 2, 1


def test_group_requests_are_answered_as_by_apache_kafka(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "ours").mkdir()
    with kafka_node(tmp_path / "kafka", {**SETTINGS, **KAFKA_SETTINGS}) as port:
        theirs = GroupScript(port, first_epoch=KAFKA_FIRST_EPOCH).run()
    with Cluster(tmp_path / "ours", brokers=1, settings=SETTINGS) as cluster:
        wait_brokers(cluster, timeout_s=60)
        ours = GroupScript(cluster.ports[1]["DIRECT"], first_epoch=OUR_FIRST_EPOCH).run()
    assert [label for label, _ in ours] == [label for label, _ in theirs]
    different = [
        f"{label}\n  Apache Kafka: {expected}\n  ours:         {got}"
        for (label, expected), (_, got) in zip(theirs, ours, strict=True)
        if expected != got
    ]
    assert not different, "\n".join(different)
    assert len(ours) == 301
