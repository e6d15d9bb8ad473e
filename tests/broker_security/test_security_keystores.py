"""PKCS12 stores that openssl and keytool made, read by broker and client, and stores that cannot be read."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.client.core.errors import ConfigurationError
from broker.client.core.security_config import parse_security
from broker.client.tls import client_context
from broker.node.net.tls import server_context
from broker.node.settings.config import config_of
from broker.node.settings.security import SecurityError, TlsSettings, security_of
from broker.node.settings.values import Address
from broker.security.keystores import StoreError, kind_of, read_pkcs12
from harness.clusters.secured.authority import Authority

pytestmark = pytest.mark.slow  # each store is made by a JVM
PASSWORD = "a pass word"
TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Stores:
    pem: Path
    key: Path  # PKCS12 by openssl
    trust: Path  # PKCS12 by keytool, with one trusted certificate
    jks: Path


def run(*command: str | Path) -> None:
    subprocess.run([str(each) for each in command], check=True, capture_output=True, timeout=TIMEOUT_S)


def keytool(store: Path, kind: str, certificate: Path) -> None:
    program = shutil.which("keytool")
    assert program, "keytool comes with the JDK"
    run(program, "-importcert", "-noprompt", "-alias", "ca", "-file", certificate, "-keystore", store,
        "-storetype", kind, "-storepass", PASSWORD)  # fmt: skip


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    directory = tmp_path_factory.mktemp("stores")
    authority = Authority(directory / "authority")
    pem = authority.issue("broker", ("127.0.0.1", "localhost")).store
    made = Stores(pem, directory / "key.p12", directory / "trust.jks", directory / "old.jks")
    run("openssl", "pkcs12", "-export", "-in", pem, "-certfile", authority.certificate, "-out", made.key, "-passout",
        f"pass:{PASSWORD}")  # fmt: skip
    keytool(made.trust, "PKCS12", authority.certificate)
    keytool(made.jks, "JKS", authority.certificate)
    return made


def tls_of(stores: Stores, **settings: str) -> TlsSettings:
    config = config_of(
        node_id=1, controller_quorum_voters={}, listeners={"SSL": Address(host="127.0.0.1", port=1)},
        advertised_listeners={}, log_dirs=(Path("x"),), ssl_keystore_type="PKCS12",
        **{"ssl_keystore_location": str(stores.key), "ssl_keystore_password": PASSWORD, **settings},
    )  # fmt: skip
    found = security_of(config, "SSL").tls
    assert found is not None
    return found


def client_of(stores: Stores, **settings: str) -> ssl.SSLContext:
    return client_context(
        parse_security(
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "JKS",  # Kafka's default; the file is PKCS12 all the same
                "ssl.truststore.location": str(stores.trust),
                "ssl.truststore.password": PASSWORD,
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(stores.key),
                "ssl.keystore.password": PASSWORD,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
    )


def names_after_a_handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[object, object]:
    """(what the client sees of the server, and the server of the client)."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    waiting = [theirs, ours]
    for _ in range(20):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
        if not waiting:
            return theirs.getpeercert(), ours.getpeercert()
    raise AssertionError("the handshake does not end")


def test_both_sides_prove_themselves_with_pkcs12(stores: Stores) -> None:
    required = {"ssl_truststore_type": "PKCS12", "ssl_truststore_location": str(stores.trust),
                "ssl_truststore_password": PASSWORD, "ssl_client_auth": "required"}  # fmt: skip
    seen = names_after_a_handshake(server_context(tls_of(stores, **required)), client_of(stores))
    assert all(each for each in seen)
    assert "broker" in str(seen[0])
    assert "broker" in str(seen[1])


def test_the_chain_begins_with_the_own_certificate_and_ends_with_the_authority(stores: Stores) -> None:
    found = read_pkcs12(stores.key.read_bytes(), PASSWORD)
    assert found.chain.count("-----BEGIN CERTIFICATE-----") == found.trusted.count("-----BEGIN CERTIFICATE-----") == 2
    assert found.chain.split("-----END")[0].split("\n", 1)[1] in stores.pem.read_text()
    assert found.key not in repr(found)
    trusted = read_pkcs12(stores.trust.read_bytes(), PASSWORD)
    assert (trusted.key, trusted.chain) == ("", "")
    assert trusted.trusted.count("-----BEGIN CERTIFICATE-----") == 1


def test_a_key_that_keytool_made_is_read(stores: Stores, tmp_path: Path) -> None:
    store, program = tmp_path / "made.p12", shutil.which("keytool")
    assert program
    run(program, "-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=broker", "-alias", "b",
        "-keystore", store, "-storetype", "PKCS12", "-storepass", PASSWORD)  # fmt: skip
    server_context(tls_of(stores, ssl_keystore_location=str(store)))


@pytest.mark.parametrize("password", ["wrong", ""])
def test_a_wrong_password_is_told_without_any(stores: Stores, password: str) -> None:
    with pytest.raises(SecurityError, match=r"ssl\.keystore\.location.*key\.p12: the store cannot be read") as caught:
        server_context(tls_of(stores, ssl_keystore_password=password))
    assert PASSWORD not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"ssl\.truststore\.location.*cannot be read"):
        client_of(stores, ssl_truststore_password=password or "no")


def test_jks_is_refused_with_the_way_to_convert_it(stores: Stores) -> None:
    assert kind_of(stores.jks.read_bytes()) == "JKS"
    with pytest.raises(SecurityError, match=r"got JKS; convert it: keytool -importkeystore"):
        server_context(tls_of(stores, ssl_keystore_location=str(stores.jks)))
    with pytest.raises(ConfigurationError, match=r"old\.jks' is JKS, which is not read; convert it: keytool"):
        client_of(stores, ssl_truststore_location=str(stores.jks))


def test_a_trust_store_has_no_key(stores: Stores) -> None:
    with pytest.raises(SecurityError, match="expected a private key"):
        server_context(tls_of(stores, ssl_keystore_location=str(stores.trust)))
    with pytest.raises(ConfigurationError, match="there is no key in it"):
        client_of(stores, ssl_keystore_location=str(stores.trust))


def test_nonsense_is_no_store() -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        read_pkcs12(b"\x30\x03abc", "x")
    assert [kind_of(each) for each in (b"", b"x", b"\x30", b"a\n-----BEGIN X")] == [
        "no store",
        "no store",
        "PKCS12",
        "PEM",
    ]
