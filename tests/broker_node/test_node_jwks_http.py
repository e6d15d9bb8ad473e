"""A broker that reads the keys of tokens by http and https, while the provider of the tokens replaces its key."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from security_helper import SecuredCluster, dial

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from harness.clusters.secured.authority import Authority
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.long]


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def part(fields: Mapping[str, Any]) -> str:
    return encoded(json.dumps(fields).encode())


def openssl(*arguments: object, data: bytes = b"") -> bytes:
    return subprocess.run(
        ["openssl", *map(str, arguments)], input=data, capture_output=True, check=True, timeout=60
    ).stdout


class Provider:
    """Signs tokens with its newest key, and publishes that key at `url`. `reads` counts who asked. With a store of
    certificates it speaks https."""

    def __init__(self, directory: Path, store: Path | None = None) -> None:
        self._directory, self._published, self.reads = directory, b"", 0
        self.replace_key("first")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if store is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(store)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if store is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def replace_key(self, key_id: str) -> None:
        self._key_id, self._key = key_id, self._directory / f"{key_id}.pem"
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self._key)
        modulus = openssl("rsa", "-in", self._key, "-noout", "-modulus").decode().strip().partition("=")[2]
        key = {"kty": "RSA", "kid": key_id, "n": encoded(bytes.fromhex(modulus)), "e": "AQAB", "use": "sig"}
        self._published = json.dumps({"keys": [key]}).encode()

    def token(self) -> bytes:
        """The client's first message, with a token that is good for ten minutes."""
        head = {"alg": "RS256", "kid": self._key_id, "typ": "JWT"}
        text = f"{part(head)}.{part({'sub': 'alice', 'exp': int(time.time()) + 600})}"
        signature = openssl("dgst", "-sha256", "-sign", self._key, data=text.encode())
        return b"n,,\1auth=Bearer " + f"{text}.{encoded(signature)}".encode() + b"\1\1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(20)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.reads += 1
                self.send_response(200)
                self.send_header("Content-Length", str(len(provider._published)))
                self.end_headers()
                self.wfile.write(provider._published)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing on stderr."""

        return Handler


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture(params=["http", "https"])
def provider(request: pytest.FixtureRequest, tmp_path: Path, authority: Authority) -> Iterator[Provider]:
    is_secured = request.param == "https"
    found = Provider(tmp_path, authority.issue("provider", ("127.0.0.1",)).store if is_secured else None)
    yield found
    found.close()


def is_let_in(cluster: SecuredCluster, token: bytes) -> bool:
    wire = dial(cluster.ports[1]["SASL_PLAINTEXT"])
    assert wire.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER").error_code == ErrorCode.none
    answer = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
    if answer.auth_bytes:  # RFC 7628: the reason, which the client must acknowledge
        assert json.loads(answer.auth_bytes)["status"] == "invalid_token"
        answer = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\1")
    wire.close()
    return bool(answer.error_code == ErrorCode.none)


def test_a_new_key_is_read_when_a_token_names_it_and_the_old_one_is_worth_nothing(
    provider: Provider, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))  # the host's authorities, as OpenSSL finds them
    settings = {"sasl.oauthbearer.jwks.endpoint.url": provider.url}  # read again after an hour, or when it is needed
    with SecuredCluster(tmp_path / "brokers", settings=settings) as cluster:
        old = provider.token()
        wait_until(lambda: is_let_in(cluster, old), "the keys are read")
        provider.replace_key("second")
        assert is_let_in(cluster, old), "nobody told the broker yet"
        reads, new = provider.reads, provider.token()
        assert not is_let_in(cluster, new), "it does not wait for the keys"
        wait_until(lambda: is_let_in(cluster, new), "the new key is read")
        # Once more at most, because tokens were refused while it read; not for each of them.
        assert provider.reads <= reads + 2
        assert not is_let_in(cluster, old)
        assert not is_let_in(cluster, new[:-10] + b"AAAAAAAA\1\1"), "another signature"


@pytest.mark.parametrize("provider", ["https"], indirect=True)
def test_keys_of_a_provider_that_the_host_does_not_trust_are_not_read(provider: Provider, tmp_path: Path) -> None:
    settings = {"sasl.oauthbearer.jwks.endpoint.url": provider.url}
    with SecuredCluster(tmp_path / "brokers", settings=settings) as cluster:
        wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in cluster.stderr(1), "the provider is refused")
        assert "keys_not_read" in cluster.stderr(1)
        assert not is_let_in(cluster, provider.token())
        assert provider.reads == 0
