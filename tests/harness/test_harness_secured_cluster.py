"""`cluster.security` on a real reference cluster: who has the password gets in, others do not, no secret stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness.cluster_security import ClusterSecurity
from harness.clusters.admin import Admin
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster

pytestmark = pytest.mark.slow

TIMEOUT_S = 60.0


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_who_has_the_password_gets_in(mechanism: str, tmp_path: Path) -> None:
    security = ClusterSecurity(protocol="sasl_ssl", mechanism=mechanism)
    key = ClusterKey(engine="reference", proxied=False, brokers=1, settings=(), security=security)
    cluster = build_cluster(key, tmp_path, proxy_choice="none", lease=None, seed=1)
    try:
        cluster.start()
        direct = [node.direct for node in cluster.layout.nodes]
        assert Admin(lambda: direct).create_topic("t", partitions=1, replication_factor=1, config={}) is not None
        right = _client(cluster.bootstrap_servers, dict(cluster.client_properties))
        assert "t" in AdminClient(right).list_topics(timeout=TIMEOUT_S).topics
        said: list[str] = []
        wrong = {**right, "sasl.password": "guessed", "error_cb": lambda error: said.append(str(error)), "log_level": 0}
        client = AdminClient(wrong)
        with pytest.raises(KafkaException):
            client.list_topics(timeout=5)
        client.poll(TIMEOUT_S)  # until the callback was called
        assert any("uthentication failed" in text for text in said), said
    finally:
        cluster.stop()
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert str(right["sasl.password"]).encode() not in kept


def _client(bootstrap_servers: str, properties: dict[str, str]) -> dict[str, object]:
    """What librdkafka wants, which knows no JAAS."""
    options = dict(each.split("=", 1) for each in properties["sasl.jaas.config"].rstrip(";").split()[2:])
    return {
        "bootstrap.servers": bootstrap_servers,
        "security.protocol": properties["security.protocol"],
        "sasl.mechanism": properties["sasl.mechanism"],
        "sasl.username": options["username"].strip('"'),
        "sasl.password": options["password"].strip('"'),
        "ssl.ca.location": properties["ssl.truststore.location"],
    }
