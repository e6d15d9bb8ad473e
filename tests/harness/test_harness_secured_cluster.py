"""`cluster.security` on a real reference cluster: who has the password or the certificate gets in, others do not.

No secret stays.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness.cluster_security import BEARER, ClusterSecurity
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.clusters.kafka.jars import ensure_jars, java_command
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.requests.admin import Admin
from harness.clusters.secured.token_endpoint import LIFETIME_S
from runlog.streams.schema import SendStatus
from workloads.clients import BUILTIN, make_producer
from workloads.clients.java import build
from workloads.clients.protocol import ClientSetup

pytestmark = pytest.mark.slow

TIMEOUT_S = 60.0


@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param("PLAIN", marks=pytest.mark.long),
        pytest.param("SCRAM-SHA-256", marks=pytest.mark.long),
        "SCRAM-SHA-512",
    ],
)
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
        deadline = time.monotonic() + TIMEOUT_S
        while not any("uthentication failed" in text for text in said):  # other errors may be told before
            assert time.monotonic() < deadline, said
            client.poll(0.1)
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


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the client `java` needs."""
    return build.build(ensure_jars(), tmp_path_factory.mktemp("classes"), java_command())


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    yield from _running(ClusterSecurity(protocol="ssl", is_mutual=True), tmp_path_factory.mktemp("mutual"))


def _running(security: ClusterSecurity, directory: Path) -> Iterator[ProcessCluster]:
    key = ClusterKey(engine="reference", proxied=True, brokers=1, settings=(), security=security)
    cluster = build_cluster(key, directory, proxy_choice="embedded", lease=None, seed=1)
    try:
        cluster.start()
        direct = [node.direct for node in cluster.layout.nodes]
        assert Admin(lambda: direct).create_topic("t", partitions=1, replication_factor=1, config={}) is not None
        yield cluster
    finally:
        cluster.stop()


class Outcomes:
    """What became of each send."""

    def __init__(self) -> None:
        self.statuses: list[int] = []

    def one(self, seq: int, status: SendStatus, *more: int) -> None:
        self.statuses.append(status)

    def many(self, seqs: Sequence[int], status: SendStatus, *more: int) -> None:
        self.statuses += [status] * len(seqs)

    def timed(self, outcomes: Any) -> None:
        self.statuses += outcomes["status"].tolist()


def _acknowledged(
    cluster: ProcessCluster,
    client: str,
    properties: Mapping[str, str],
    runtime: dict[str, str],
    *,
    for_s: float = 0.0,
) -> int:
    """How many records: three, and one a second for so long. Each must be."""
    sink: Any = Outcomes()
    extra = {"max.in.flight.requests.per.connection": "1"} if client == "aiokafka" else {}
    setup = ClientSetup(
        bootstrap_servers=cluster.bootstrap_servers,
        topics=("t",),
        properties={"acks": "all", **extra, **properties},
        runtime=runtime,
    )
    producer = make_producer(client, setup, sink)
    try:
        producer.connect(TIMEOUT_S)
        sent, until = 0, time.monotonic() + for_s
        while sent < 3 or time.monotonic() < until:
            assert producer.send("t", b"v" * 40, None, sent)
            sent += 1
            next_s = time.monotonic() + (1.0 if for_s else 0.0)
            while time.monotonic() < next_s:
                producer.poll(0.1)
        deadline = time.monotonic() + TIMEOUT_S
        while len(sink.statuses) < sent and time.monotonic() < deadline:
            producer.poll(0.1)
    finally:
        producer.close(5)
    assert [SendStatus(status) for status in sink.statuses] == [SendStatus.ACKED] * sent
    return sent


@pytest.mark.kafka
@pytest.mark.parametrize(
    "client", [pytest.param(name, marks=pytest.mark.long) if name == "java" else name for name in BUILTIN]
)
def test_every_client_gets_in_with_its_certificate(
    mutual: ProcessCluster, runtime: dict[str, str], client: str
) -> None:
    """Through the proxy, which asks for one too."""
    assert _acknowledged(mutual, client, mutual.client_properties, runtime) == 3


def test_who_has_no_certificate_is_refused_by_proxy_and_broker(mutual: ProcessCluster) -> None:
    trusted = mutual.client_properties["ssl.truststore.location"]
    own = mutual.client_properties["ssl.keystore.location"]
    host, _, port = mutual.bootstrap_servers.partition(",")[0].rpartition(":")
    direct = mutual.layout.nodes[0].direct
    for place in ((host, int(port)), (direct.host, direct.port)):
        assert _answers(place, trusted, None) is False
        assert _answers(place, trusted, own) is True


def _answers(place: tuple[str, int], trusted: str, own: str | None) -> bool:
    """ApiVersions, version 0. With TLS 1.3 who is refused learns it when it reads."""
    context = ssl.create_default_context(cafile=trusted)
    if own is not None:
        context.load_cert_chain(own)
    try:
        with socket.create_connection(place, timeout=TIMEOUT_S) as plain:
            with context.wrap_socket(plain, server_hostname=place[0]) as secured:
                secured.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
                return secured.recv(4) != b""
    except (ssl.SSLError, ConnectionError):
        return False


@pytest.fixture(scope="module")
def bearer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    yield from _running(ClusterSecurity(protocol="sasl_ssl", mechanism=BEARER), tmp_path_factory.mktemp("bearer"))


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("client", BUILTIN)
def test_every_client_is_told_of_the_token_endpoint(
    bearer: ProcessCluster, runtime: dict[str, str], client: str
) -> None:
    """And goes on when its session has ended with its token."""
    assert _acknowledged(bearer, client, bearer.client_properties, runtime, for_s=1.5 * LIFETIME_S) > 3
