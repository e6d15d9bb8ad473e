"""A proxy that ends TLS and begins it anew: what passes can be read in between, and both sides check certificates."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.door.clients import Producer
from chaos.faults.probes import Door, probe_link
from chaos.ports.security import ProbeAccess
from chaos.toxiproxy.errors import ApiError
from chaos.toxiproxy.states import ProxySpec
from chaos.toxiproxy.tls import ListenTls
from harness.clusters.ports import free_port
from harness.clusters.secured.authority import Authority
from tests.broker_client.tiny_broker import TinyBroker

pytestmark = pytest.mark.slow  # OpenSSL makes the certificates

HERE = ["127.0.0.1"]
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)  # version 0, no client id


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def broker(authority: Authority) -> Iterator[TinyBroker]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("broker", HERE).store)
    with TinyBroker(tls=context) as running:
        yield running


def test_kafka_toxics_act_between_two_tls_connections(
    embedded_server, authority: Authority, broker: TinyBroker
) -> None:  # type: ignore[no-untyped-def]
    proxies = authority.issue("proxies", HERE).store
    listen = f"127.0.0.1:{free_port()}"
    spec = ProxySpec(
        name="secured", listen=listen, upstream=broker.bootstrap, kafka_addresses={broker.bootstrap: listen},
        upstream_tls={"ca_file": str(authority.certificate)}, listen_tls={"certificate_file": str(proxies)},
    )  # fmt: skip
    client = embedded_server.client()
    client.create(spec)
    trusting = {"bootstrap.servers": listen, "security.protocol": "SSL", "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.certificate), "retries": "5", "linger.ms": "0",
                "enable.idempotence": "false", "request.timeout.ms": "60000"}  # fmt: skip
    try:
        with Producer(trusting) as producer:
            producer.send("t", b"first").get(60)
            client.add_toxic("secured", "kafka_drop_response", {"count": 1}, name="drop")
            producer.send("t", b"twice").get(60)
        assert broker.values() == [b"first", b"twice", b"twice"], "the answer was dropped inside TLS, so it came again"
        host, _, port = listen.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as plain:
            plain.sendall(b"\0\0\0\x10 plain text here")
            assert plain.recv(100)[:1] in (b"", b"\x15"), "an alert or an end, and no Kafka"
    finally:
        client.delete("secured")
        client.close()


def test_probes_of_faults_speak_tls_where_clients_do(  # type: ignore[no-untyped-def]
    embedded_server, authority: Authority, broker: TinyBroker
) -> None:
    proxies = authority.issue("proxies", HERE).store
    client = embedded_server.client()
    listen = client.create(
        ProxySpec(
            name="probed", upstream=broker.bootstrap, upstream_tls={"ca_file": str(authority.certificate)},
            listen_tls={"certificate_file": str(proxies)},
        )
    ).listen  # fmt: skip
    door = Door(address=listen, access=ProbeAccess(is_tls=True))
    try:
        assert probe_link(door, timeout_ms=30_000).outcome == "answered"
        client.add_toxic("probed", "latency", {"latency": 300}, stream="downstream")
        slowed = probe_link(door, timeout_ms=30_000)
        assert (slowed.outcome, slowed.elapsed_us >= 240_000) == ("answered", True)
        client.disable("probed")
        assert probe_link(door, timeout_ms=30_000).outcome == "refused"
        client.enable("probed")
        client.add_toxic("probed", "timeout", {"timeout": 0}, stream="upstream")
        assert probe_link(door, timeout_ms=1000).outcome == "silent"
    finally:
        client.delete("probed")
        client.close()


def test_a_new_certificate_counts_for_new_connections_and_open_ones_go_on(  # type: ignore[no-untyped-def]
    embedded_server, authority: Authority, broker: TinyBroker
) -> None:
    def store(number: int) -> dict[str, object]:
        return {"certificate_file": str(authority.issue("proxies", HERE, file_name=f"proxies-{number}").store)}

    client = embedded_server.client()
    upstream: dict[str, object] = {"ca_file": str(authority.certificate)}
    spec = ProxySpec(name="renewed", upstream=broker.bootstrap, upstream_tls=upstream, listen_tls=store(1))
    listen = client.create(spec).listen
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    host, _, port = listen.rpartition(":")

    def opened() -> ssl.SSLSocket:
        plain = socket.create_connection((host, int(port)), timeout=60)
        return trusting.wrap_socket(plain, server_hostname=host)

    try:
        with opened() as old:
            client.secure("renewed", listen_tls=store(2), upstream_tls=None)
            with opened() as new:
                assert new.getpeercert(binary_form=True) != old.getpeercert(binary_form=True)
                for connection in (old, new):
                    connection.sendall(API_VERSIONS)
                    assert connection.recv(4), "both are answered"
        other = Authority(authority.certificate.parent / "other", "other")
        trusts_nobody_here: dict[str, object] = {"ca_file": str(other.certificate)}
        client.secure("renewed", listen_tls=None, upstream_tls=trusts_nobody_here)
        assert probe_link(Door(address=listen, access=ProbeAccess(is_tls=True)), timeout_ms=30_000).outcome in (
            "closed",
            "reset",
        )
        client.secure("renewed", listen_tls=None, upstream_tls=upstream)
        assert (
            probe_link(Door(address=listen, access=ProbeAccess(is_tls=True)), timeout_ms=30_000).outcome == "answered"
        )
    finally:
        client.delete("renewed")
        client.close()


def test_a_certificate_that_cannot_be_used_is_refused(authority: Authority, tmp_path: Path) -> None:
    for fields, words in (
        ({}, "expected a file"),
        ({"certificate": "x"}, "has no field 'certificate'"),
        ({"certificate_file": 1}, "expected str"),
        ({"certificate_file": str(tmp_path / "none.pem")}, "No such file"),
        ({"certificate_file": str(authority.certificate)}, "listen_tls: "),
    ):
        with pytest.raises(ApiError, match=words):
            ListenTls.from_json(fields)  # type: ignore[arg-type]
