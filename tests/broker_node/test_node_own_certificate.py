"""Two brokers with certificates for each other: one gets another certificate while it runs, and dials with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_helper import Cluster, make_topics
from security_helper import dial

from broker.client.core.metadata import PartitionState
from broker.door.clients import Admin, NewTopic, Producer
from broker.wire.apis import ApiKey
from harness.clusters.secured.authority import Authority
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.long]
HOSTS = ("127.0.0.1", "localhost")
PREFIX = "listener.name.internal.ssl"


def partition(cluster: Cluster) -> PartitionState:
    with Admin({"bootstrap.servers": cluster.bootstrap()}) as admin:
        return admin.describe_topics(["t"])["t"].partitions[0]


def write(cluster: Cluster) -> None:
    """With acks=all and min.insync.replicas=2, so the follower must have it."""
    with Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all"}) as producer:
        producer.send("t", b"x", partition=0).get(90)


def set_certificate(cluster: Cluster, broker: int, store: Path) -> None:
    config = {"name": f"{PREFIX}.keystore.location", "config_operation": 0, "value": str(store)}
    resource = {"resource_type": 4, "resource_name": str(broker), "configs": [config]}
    wire = dial(cluster.ports[broker]["DIRECT"])
    answer = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    assert [(int(each.error_code), each.error_message) for each in answer.responses] == [(0, None)]
    wire.close()


def test_a_certificate_that_is_set_at_run_time_counts_for_what_a_broker_dials(tmp_path: Path) -> None:
    """The leader comes back and trusts the new authority only. It leads again, and the other one must follow."""
    old, new = (Authority(tmp_path / name, name=name) for name in ("old", "new"))
    both = tmp_path / "both.pem"
    both.write_text(old.certificate.read_text() + new.certificate.read_text())
    settings: dict[str, object] = {
        "listener.security.protocol.map": "EXTERNAL:PLAINTEXT,DIRECT:PLAINTEXT,CONTROLLER:PLAINTEXT,INTERNAL:SSL",
        f"{PREFIX}.client.auth": "required",
        f"{PREFIX}.truststore.location": both,
        f"{PREFIX}.keystore.location": old.issue("broker", HOSTS).store,
        "leader.imbalance.check.interval.seconds": 1,
        "replica.lag.time.max.ms": 2_000,
        "min.insync.replicas": 2,
    }
    (tmp_path / "brokers").mkdir()
    with Cluster(tmp_path / "brokers", brokers=2, settings=settings) as cluster:
        with Admin({"bootstrap.servers": cluster.bootstrap()}) as admin:
            make_topics(admin, NewTopic("t", 1, 2))
        first, second = partition(cluster).replicas
        write(cluster)
        set_certificate(cluster, second, new.issue("broker", HOSTS).store)
        wait_until(lambda: "certificates_renewed" in cluster.stderr(second), "the second has its new certificate")
        cluster.kill(first)
        cluster.own_settings[first] = {f"{PREFIX}.truststore.location": new.certificate}
        cluster.start(first)
        cluster.wait_until_all_are_known()
        wait_until(lambda: partition(cluster).leader == first, "the first leads again")
        write(cluster)
