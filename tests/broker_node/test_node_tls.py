"""TLS listeners of a real broker: versions, certificates of clients, hostile handshakes, renewal while clients live."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from security_helper import SecuredCluster, Wire, dial

from broker.node.net.tls_listener import HANDSHAKES_MAX
from broker.wire.apis import ApiKey
from broker.wire.codec import encode_request
from broker.wire.messages import request as make_request
from harness.clusters.secured.authority import Authority
from tests.patience import wait_until

pytestmark = pytest.mark.slow
PER_ADDRESS = 5
SILENT = 500  # connections that never finish a handshake


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("tls")) as running:
        yield running


def port(cluster: SecuredCluster, listener: str) -> int:
    return cluster.ports[1][listener]


def is_served(wire: Wire) -> bool:
    return len(wire.ask(ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False).brokers) == 1


@pytest.mark.parametrize(
    ("version", "name"), [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")]
)
def test_both_versions_are_spoken(cluster: SecuredCluster, version: ssl.TLSVersion, name: str) -> None:
    context = cluster.client_context()
    context.minimum_version = context.maximum_version = version
    wire = dial(port(cluster, "SSL"), context)
    assert isinstance(wire.socket, ssl.SSLSocket)
    assert wire.socket.version() == name
    assert is_served(wire)
    wire.close()


def test_metadata_names_the_port_of_the_listener_that_was_asked(cluster: SecuredCluster) -> None:
    wire = dial(port(cluster, "SSL"), cluster.client_context())
    answer = wire.ask(ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False)
    assert [each.port for each in answer.brokers] == [port(cluster, "SSL")]
    wire.close()


def test_a_client_without_a_certificate_is_not_let_in_where_one_is_required(cluster: SecuredCluster) -> None:
    with pytest.raises(OSError):  # with TLS 1.3 the client learns it when it reads
        is_served(dial(port(cluster, "MTLS"), cluster.client_context()))
    wire = dial(port(cluster, "MTLS"), cluster.client_context(with_certificate=True))
    assert is_served(wire)
    wire.close()
    wait_until(lambda: "handshake_failed" in cluster.stderr(1), "a line about the handshake")


def test_a_certificate_of_another_authority_is_refused(cluster: SecuredCluster, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other").issue("alice")
    context = cluster.client_context()
    context.load_cert_chain(other.store)
    with pytest.raises(OSError):
        is_served(dial(port(cluster, "MTLS"), context))


@pytest.mark.parametrize(
    "garbage",
    [b"", b"GET / HTTP/1.0\r\n\r\n", b"\0" * 5_000, os.urandom(3_000), b"\x16\x03\x01\xff\xff" + b"\x01" * 40_000],
    ids=["nothing", "http", "zeros", "random", "half-a-hello"],
)
def test_garbage_instead_of_a_handshake_costs_nobody_else(cluster: SecuredCluster, garbage: bytes) -> None:
    strangers = [socket.create_connection(("127.0.0.1", port(cluster, "SSL")), timeout=30) for _ in range(20)]
    for stranger in strangers:
        with contextlib.suppress(OSError):
            stranger.sendall(garbage)
    wire = dial(port(cluster, "SSL"), cluster.client_context())
    assert is_served(wire)
    for stranger in strangers:
        stranger.close()
    assert is_served(wire)
    wire.close()


def descriptors(cluster: SecuredCluster) -> int:
    return len(os.listdir(f"/proc/{cluster.processes[1].pid}/fd"))


def test_clients_that_never_finish_a_handshake_keep_nobody_out(cluster: SecuredCluster) -> None:
    before = descriptors(cluster)
    silent = [socket.create_connection(("127.0.0.1", port(cluster, "SSL")), timeout=30) for _ in range(SILENT)]
    wait_until(lambda: descriptors(cluster) >= before + HANDSHAKES_MAX // 2, "they are accepted")
    for _ in range(3):
        wire = dial(port(cluster, "SSL"), cluster.client_context())
        assert is_served(wire)
        wire.close()
    assert descriptors(cluster) <= before + HANDSHAKES_MAX + 10
    # They stay silent, and their time ends.
    wait_until(lambda: descriptors(cluster) <= before + 5, "their descriptors are given back")
    for each in silent:
        each.close()


def test_handshakes_under_way_count_among_the_connections_of_an_address(cluster: SecuredCluster) -> None:
    admin = dial(port(cluster, "DIRECT"))  # from now on: later it could be one too many itself

    def limit(value: str | None) -> None:
        config = {"name": "max.connections.per.ip", "config_operation": int(value is None), "value": value}
        resource = {"resource_type": 4, "resource_name": "1", "configs": [config]}
        answer = admin.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        assert int(answer.responses[0].error_code) == 0

    refused = "limit=max.connections.per.ip"
    assert refused not in cluster.stderr(1)
    limit(str(PER_ADDRESS))
    address = ("127.0.0.1", port(cluster, "SSL"))
    held: list[socket.socket] = []
    try:

        def is_refused() -> bool:
            """One of these is one too many, although none of them is through its handshake."""
            held.extend(socket.create_connection(address, timeout=60) for _ in range(PER_ADDRESS + 1))
            return refused in cluster.stderr(1)

        wait_until(is_refused, "a connection is refused while others are in their handshake")
    finally:
        for each in held:
            each.close()
        limit(None)
        admin.close()


def test_a_reader_that_stops_does_not_fill_the_memory(cluster: SecuredCluster) -> None:
    """The broker stops taking the requests of a client that reads no answer."""
    wire = dial(port(cluster, "SSL"), cluster.client_context())
    wire.socket.settimeout(3)
    question = b"".join(encode_request(ApiKey.API_VERSIONS, 0, 1, "test", make_request(ApiKey.API_VERSIONS, 0)))
    questions = question * 2_000
    # The kernel keeps what the broker does not take, up to the limits of both sides.
    kept = [int(Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[2]) for name in ("tcp_rmem", "tcp_wmem")]
    sent_bytes, whole_bytes = 0, 2 * sum(kept)
    with contextlib.suppress(TimeoutError):
        while sent_bytes < whole_bytes:
            wire.socket.sendall(questions)
            sent_bytes += len(questions)
    assert sent_bytes < whole_bytes, "it took everything from a client that reads nothing"
    resident_kib = int(Path(f"/proc/{cluster.processes[1].pid}/statm").read_text().split()[1]) * 4
    assert resident_kib < 400 * 1024
    other = dial(port(cluster, "SSL"), cluster.client_context())
    assert is_served(other)
    other.close()
    wire.close()


def subject_of(port_number: int) -> bytes | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    wire = dial(port_number, context)
    assert isinstance(wire.socket, ssl.SSLSocket)
    try:
        return wire.socket.getpeercert(binary_form=True)
    finally:
        wire.close()


def test_a_renewed_certificate_counts_for_new_connections_and_old_ones_live(cluster: SecuredCluster) -> None:
    store = cluster.files.broker
    saved = store.with_suffix(".saved")
    shutil.copy(store, saved)
    old = dial(port(cluster, "SSL"), cluster.client_context())
    before = subject_of(port(cluster, "SSL"))
    fresh = Authority(store.parent / "again", name="again").issue("broker", ("127.0.0.1",)).store
    fresh.replace(store)
    wait_until(lambda: subject_of(port(cluster, "SSL")) != before, "the new certificate is shown")
    assert is_served(old)
    store.write_text("no store")
    assert subject_of(port(cluster, "SSL")) != before, "a file that cannot be used changes nothing"
    saved.replace(store)
    wait_until(lambda: subject_of(port(cluster, "SSL")) == before, "the first certificate is shown again")
    assert is_served(old)
    assert "certificates_kept" in cluster.stderr(1)
    old.close()


def alter(cluster: SecuredCluster, **changes: str | None) -> tuple[int, str | None]:
    """Of the SSL listener of broker 1: error code and message."""
    configs = [
        {
            "name": f"listener.name.ssl.ssl.{key.replace('_', '.')}",
            "config_operation": int(value is None),
            "value": value,
        }
        for key, value in changes.items()
    ]
    resource = {"resource_type": 4, "resource_name": "1", "configs": configs}
    wire = dial(port(cluster, "DIRECT"))
    (answer,) = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
    wire.close()
    return int(answer.error_code), answer.error_message


def test_a_certificate_is_set_at_run_time_and_a_wrong_one_is_refused(cluster: SecuredCluster) -> None:
    old = dial(port(cluster, "SSL"), cluster.client_context())
    before = subject_of(port(cluster, "SSL"))
    fresh = Authority(cluster.directory / "at-run-time", name="late").issue("broker", ("127.0.0.1",)).store
    assert alter(cluster, keystore_location=str(fresh)) == (0, None)
    wait_until(lambda: subject_of(port(cluster, "SSL")) != before, "the new certificate is shown")
    code, message = alter(cluster, keystore_location="/nowhere.pem")
    assert (code, "/nowhere.pem cannot be read" in str(message)) == (42, True)
    code, message = alter(cluster, keystore_location=None, client_auth="maybe")
    assert (code, "none, requested, required" in str(message)) == (42, True)
    assert alter(cluster, keystore_location=None) == (0, None)
    wait_until(lambda: subject_of(port(cluster, "SSL")) == before, "the certificate of the file is shown again")
    assert is_served(old)
    old.close()


def suite_of(cluster: SecuredCluster, offered: str) -> str | None:
    """What the broker chooses of what a client of TLS 1.2 or 1.3 offers. None: nothing."""
    context = cluster.client_context()
    context.set_ciphers(offered)
    try:
        wire = dial(port(cluster, "SSL"), context)
    except ssl.SSLError:
        return None
    try:
        assert isinstance(wire.socket, ssl.SSLSocket)
        chosen = wire.socket.cipher()
        return None if chosen is None else chosen[0]
    finally:
        wire.close()


def test_only_the_named_suites_are_spoken_and_with_them_their_version(cluster: SecuredCluster) -> None:
    ours, other = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"
    assert (suite_of(cluster, other) or "").startswith("TLS_"), "TLS 1.3 before"
    assert alter(cluster, cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256") == (0, None)
    try:
        wait_until(lambda: suite_of(cluster, f"{other}:{ours}") == ours, "the suite is chosen")
        assert suite_of(cluster, other) is None
        code, told = alter(cluster, cipher_suites="TLS_AES_128_GCM_SHA256")
        assert code != 0
        assert "cannot be chosen one by one" in (told or "")
    finally:
        assert alter(cluster, cipher_suites=None)[0] == 0
    wait_until(lambda: (suite_of(cluster, other) or "").startswith("TLS_"), "TLS 1.3 again")


def test_secrets_are_not_described(cluster: SecuredCluster) -> None:
    wire = dial(port(cluster, "DIRECT"))
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    (result,) = wire.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True).results
    wire.close()
    found = {each.name: each for each in result.configs}
    jaas = found["listener.name.sasl_ssl.plain.sasl.jaas.config"]
    assert (jaas.value, jaas.is_sensitive) == (None, True)
    assert found["ssl.keystore.location"].value == str(cluster.files.broker)
    assert not [
        each.name
        for each in result.configs
        for text in (each.value, *(s.value for s in each.synonyms))
        if "alice-secret" in str(text)
    ]
