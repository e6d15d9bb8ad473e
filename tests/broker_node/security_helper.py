"""A broker with one listener of each security protocol, the certificates for it, and connections to it in bytes.

The brokers' own listeners stay as they are in cluster_helper, unless a test says otherwise.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster_helper import Cluster

from broker.security.scram import MECHANISM_NUMBERS, salted_password
from broker.wire.apis import ApiKey
from broker.wire.codec import decode_response, encode_request
from broker.wire.messages import request as make_request
from harness.clusters.secured.authority import Authority

TIMEOUT_S = 60.0
PROTOCOLS = ("SSL", "MTLS", "SASL_PLAINTEXT", "SASL_SSL")  # MTLS: SSL with a certificate of the client
SALT = b"salt of the tests"
USERS = {"alice": "alice-secret", "bob": "bob-secret", "admin": "admin-secret"}
PLAIN_ENTRY = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
    [f'username="admin" password="{USERS["admin"]}"', *(f'user_{name}="{word}"' for name, word in USERS.items())]
)


@dataclass(frozen=True, slots=True)
class Files:
    """PEM files: the authority's certificate, the brokers' store, and a store of a client named alice."""

    authority: Path
    broker: Path
    alice: Path


def make_files(directory: Path) -> Files:
    authority = Authority(directory / "certificates")
    broker = authority.issue("broker", ("127.0.0.1", "localhost"))
    return Files(authority.certificate, broker.store, authority.issue("alice").store)


class SecuredCluster(Cluster):
    """`bootstrap("SASL_SSL")` and so on."""

    def __init__(self, directory: Path, *, brokers: int = 1, settings: Mapping[str, object] | None = None) -> None:
        self.files = make_files(directory)
        super().__init__(directory, brokers=brokers, settings={**self._secured(), **(settings or {})})
        for broker in self.ids:
            self.ports[broker] |= {name: self.allocator.take() for name in PROTOCOLS}

    def _secured(self) -> dict[str, object]:
        named = {name: "PLAINTEXT" for name in ("EXTERNAL", "DIRECT", "INTERNAL", "CONTROLLER")}
        named |= {name: "SSL" if name == "MTLS" else name for name in PROTOCOLS}
        return {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in named.items()),
            "ssl.keystore.location": self.files.broker,
            "ssl.truststore.location": self.files.authority,
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN_ENTRY};",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{PLAIN_ENTRY};",
            "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/,DEFAULT",
        }

    def make_scram_users(self) -> None:
        """USERS with both mechanisms, by AlterUserScramCredentials. Returns when the broker knows them."""
        wire = dial(self.ports[self.ids[0]]["DIRECT"])
        for mechanism, number in MECHANISM_NUMBERS.items():
            changes = [
                {
                    "name": user,
                    "mechanism": number,
                    "iterations": 4096,
                    "salt": SALT,
                    "salted_password": salted_password(mechanism, word, SALT, 4096),
                }
                for user, word in USERS.items()
            ]
            answer = wire.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=changes)
            assert {int(each.error_code) for each in answer.results} == {0}, answer
        wire.close()

    def client_context(self, *, with_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.files.authority))
        if with_certificate:
            context.load_cert_chain(self.files.alice)
        return context


class Wire:
    """One connection, one request at a time, by any socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket, self._correlation_id = connection, 0

    def ask(self, api_key: int, version: int, /, **fields: object) -> Any:
        """Raises OSError when the broker closes the connection instead."""
        self._correlation_id += 1
        message = make_request(api_key, version, **fields)
        self.socket.sendall(b"".join(encode_request(api_key, version, self._correlation_id, "test", message)))
        correlation_id, answer = decode_response(api_key, version, self.frame())
        assert correlation_id == self._correlation_id
        return answer

    def frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def send_frame(self, data: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(data)) + data)

    def is_closed_by_the_broker(self) -> bool:
        """Waits for it, TIMEOUT_S at most."""
        try:
            return self.socket.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise OSError(f"the broker closed the connection after {len(data)} of {size} bytes")
            data += piece
        return data

    def close(self) -> None:
        self.socket.close()


def dial(port: int, context: ssl.SSLContext | None = None) -> Wire:
    connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    if context is None:
        return Wire(connection)
    try:
        return Wire(context.wrap_socket(connection, server_hostname="127.0.0.1"))
    except BaseException:
        connection.close()
        raise
