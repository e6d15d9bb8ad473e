"""What a listener demands, by Kafka's names, and what is said of settings that cannot be had."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from broker.node.net.tls import server_context
from broker.node.settings.config import NodeConfig
from broker.node.settings.properties import ConfigError, load_config, parse_properties
from broker.node.settings.security import Protocol, SecurityError, TlsSettings, security_of
from harness.clusters.secured.authority import Authority

MINIMAL = """\
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=INTERNAL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093,WEB://127.0.0.1:9094,SSL://127.0.0.1:9095
inter.broker.listener.name=INTERNAL
log.dirs=/tmp/unused
ssl.keystore.location=/tmp/store.pem
"""


def loaded(tmp_path: Path, more: str = "") -> tuple[NodeConfig, list[str]]:
    path = tmp_path / "server.properties"
    path.write_text(MINIMAL + more)
    return load_config(path)


def refused(tmp_path: Path, more: str) -> str:
    with pytest.raises(ConfigError, match=r"server\.properties:\d+: ") as raised:
        loaded(tmp_path, more)
    return str(raised.value)


def tls(config: NodeConfig, listener: str) -> TlsSettings:
    found = security_of(config, listener).tls
    assert found is not None
    return found


def test_without_a_map_the_name_of_a_listener_is_its_protocol_or_it_is_plaintext(tmp_path: Path) -> None:
    config, warnings = loaded(tmp_path)
    assert [security_of(config, name).protocol for name in ("WEB", "SSL")] == [Protocol.PLAINTEXT, Protocol.SSL]
    assert warnings == []


def test_a_map_must_name_every_listener(tmp_path: Path) -> None:
    assert "the listener WEB is not in it" in refused(
        tmp_path, "listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL\n"
    )


def test_a_listeners_own_setting_counts_before_the_common_one(tmp_path: Path) -> None:
    trust = "ssl.truststore.location=/tmp/ca.pem\n"
    more = "listener.name.ssl.ssl.client.auth=required\nlistener.name.SSL.ssl.keystore.location=/tmp/own.pem\n"
    more += "listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,WEB:SSL\n"
    config, warnings = loaded(tmp_path, trust + more)
    assert warnings == []
    assert (tls(config, "SSL").client_auth, tls(config, "WEB").client_auth) == ("required", "none")
    assert (tls(config, "SSL").keystore_location, tls(config, "WEB").keystore_location) == (
        "/tmp/own.pem",
        "/tmp/store.pem",
    )
    assert [security_of(config, name).is_authenticated for name in ("SSL", "WEB")] == [True, False]


def test_a_listeners_unknown_setting_is_told(tmp_path: Path) -> None:
    _, warnings = loaded(tmp_path, "listener.name.ssl.ssl.keystore.loaction=x\n")
    assert "unknown key listener.name.ssl.ssl.keystore.loaction" in warnings[0]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("ssl.client.auth=maybe\n", "expected one of none, requested, required"),
        ("ssl.client.auth=required\n", "ssl.truststore.location"),
        ("ssl.enabled.protocols=TLSv1.1\n", "expected TLSv1.2 and TLSv1.3"),
        ("ssl.enabled.protocols=TLSv1.3\nssl.protocol=TLSv1.2\n", "no version is left"),
        ("ssl.cipher.suites=TLS_AES_128_GCM_SHA256\n", "cannot be chosen one by one"),
        (
            "ssl.enabled.protocols=TLSv1.3\nssl.cipher.suites=TLS_RSA_WITH_AES_128_CBC_SHA\n",
            "none of them is of TLSv1.3",
        ),
        ("ssl.keystore.type=BKS\n", "expected one of PEM, PKCS12, JKS"),
        ("ssl.truststore.password=x\n", "a PEM store has no password"),
        ("ssl.keystore.key=x\n", "not both"),
        ("listener.name.ssl.ssl.keystore.location=\n", "needs a certificate"),
        ("ssl.principal.mapping.rules=RULE:x\n", "expected DEFAULT or RULE"),
        ("ssl.keystore.password=x\n", "a PEM store has no password"),
        ("security.inter.broker.protocol=SSL\n", "inter.broker.listener.name is given too"),
    ],
)
def test_what_cannot_be_had_is_told_with_its_line(tmp_path: Path, more: str, told: str) -> None:
    assert told in refused(tmp_path, more)


def test_the_listener_between_brokers_may_be_named_by_its_protocol(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(MINIMAL.replace("inter.broker.listener.name=INTERNAL", "security.inter.broker.protocol=SSL"))
    assert load_config(path)[0].listening.internal_listener == "SSL"


def test_a_listener_for_other_machines_needs_authentication_or_a_word_about_it(tmp_path: Path) -> None:
    remote = "listeners=INTERNAL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093,SSL://0.0.0.0:9095\n"
    assert "there is no authentication" in refused(tmp_path, remote)
    _, warnings = loaded(tmp_path, remote + "harness.allow.remote=true\n")
    assert [("SSL at 0.0.0.0:9095" in each, "ANYBODY" in each) for each in warnings] == [(True, True)]
    safe = "listener.name.ssl.ssl.client.auth=required\nssl.truststore.location=/tmp/ca.pem\n"
    assert loaded(tmp_path, remote + safe)[1] == []


def test_properties_are_read_as_java_reads_them() -> None:
    text = "a=1\\\n  2\\\\\n# c\\\n\nb=x\\ny\\u00e9\\=\\:z\nc=d\\\\\\\n   e"
    assert [(each.key, each.value, each.line) for each in parse_properties(text, source="f")] == [
        ("a", "12\\", 1),
        ("b", "x\nyé=:z", 5),
        ("c", "d\\e", 6),
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xfe\xed\xfe\xed\0\0", "got JKS; convert it: keytool"),
        (b"hello", "expected PEM or PKCS12, got no store"),
        (b"-----BEGIN CERTIFICATE-----\n", "expected a private key and its certificates"),
        (b"-----BEGIN PRIVATE KEY-----\nx\n-----BEGIN CERTIFICATE-----\nx", "cannot be used"),
    ],
)
def test_a_store_that_is_none_is_told(tmp_path: Path, content: bytes, told: str) -> None:
    config, _ = loaded(tmp_path, f"ssl.keystore.location={tmp_path}/store\n")
    (tmp_path / "store").write_bytes(content)
    with pytest.raises(SecurityError, match=r"ssl\.keystore\.location") as raised:
        server_context(tls(config, "SSL"))
    assert told in str(raised.value)


@pytest.mark.slow
def test_a_key_is_used_without_being_written_to_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk must not keep a certificate from being renewed, and no copy of a key may lie about."""
    store = Authority(tmp_path).issue("broker").store
    protocols = "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,WEB:SSL,SSL:SSL"
    more = f"listener.security.protocol.map={protocols}\nlistener.name.web.ssl.keystore.location={store}\n"
    config, _ = loaded(tmp_path, more)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert server_context(tls(config, "WEB")) is not None
