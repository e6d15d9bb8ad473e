"""SASL PLAIN (RFC 4616), SCRAM (RFC 5802) and OAUTHBEARER (RFC 7628) as a client speaks them inside Kafka's
SaslAuthenticate (KIP-152).

It is pure: it takes tokens and gives tokens. The caller passes a nonce. The server's signature is checked, so a server
that does not know the password is detected. Shown by tests/broker_client/test_client_sasl.py.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
BEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("PLAIN", *HASHES, BEARER)
ITERATIONS_MIN: Final = 4096  # the RFC and Kafka require it; with fewer iterations it is cheap to guess the password
ITERATIONS_MAX: Final = 1_000_000  # more would keep the client busy for minutes


class SaslError(Exception):
    """The server's part of the exchange breaks the rules of the mechanism."""


class SaslClient(Protocol):
    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None:
        """The next token. None if the exchange has succeeded. Raises SaslError if it has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The identity of the client and its proof. `bearer` returns the token for OAUTHBEARER and may take a bounded time.
    It raises SaslError or OSError if it has no token."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    bearer: Callable[[], str] | None = field(default=None, repr=False)


def sasl_client(credentials: Credentials, *, nonce: str) -> SaslClient:
    assert credentials.mechanism in MECHANISMS
    username, password = credentials.username, credentials.password
    if credentials.mechanism == "PLAIN":
        return Plain(username=username, password=password)
    if credentials.mechanism == BEARER:
        assert credentials.bearer is not None, "security_config.py gives every OAUTHBEARER a source of tokens"
        return Bearer(token=credentials.bearer())
    return Scram(
        hash_name=HASHES[credentials.mechanism],
        username=username,
        password=password,
        nonce=nonce,
    )


@dataclass(slots=True, kw_only=True)
class Plain:
    username: str
    password: str = field(repr=False)

    def first(self) -> bytes:
        return b"\0".join((b"", self.username.encode(), self.password.encode()))

    def answer(self, challenge: bytes) -> bytes | None:
        return None


@dataclass(slots=True, kw_only=True)
class Bearer:
    token: str = field(repr=False)
    _problem: str = ""

    def first(self) -> bytes:
        return f"n,,\x01auth=Bearer {self.token}\x01\x01".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """A challenge says why the server refuses the token. The client answers with one byte (RFC 7628, 3.2.3). The
        server then ends the exchange with a failure."""
        if self._problem:
            raise SaslError(f"the server refused the token: {self._problem}")
        if not challenge:
            return None
        self._problem = challenge.decode("utf-8", errors="replace")[:200]
        return b"\x01"


@dataclass(slots=True, kw_only=True)
class Scram:
    hash_name: str
    username: str
    password: str = field(repr=False)
    nonce: str
    _auth_message: bytes = b""
    _salted: bytes = field(default=b"", repr=False)

    def first(self) -> bytes:
        return b"n,," + self._first_bare()

    def answer(self, challenge: bytes) -> bytes | None:
        if not self._salted:
            return self._final(challenge)
        self._check(challenge)
        return None

    def _first_bare(self) -> bytes:
        name = self.username.replace("=", "=3D").replace(",", "=2C")
        return f"n={name},r={self.nonce}".encode()

    def _final(self, challenge: bytes) -> bytes:
        fields = _fields(challenge)
        nonce, iterations = fields.get("r", ""), fields.get("i", "")
        if not nonce.startswith(self.nonce) or len(nonce) == len(self.nonce):
            raise SaslError("the server did not add to our nonce")
        if not iterations.isdigit() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise SaslError(f"iterations {iterations!r}, expected {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        salt = base64.b64decode(fields.get("s", ""))
        self._salted = hashlib.pbkdf2_hmac(self.hash_name, self.password.encode(), salt, int(iterations))
        without_proof = f"c=biws,r={nonce}"
        self._auth_message = b",".join((self._first_bare(), challenge, without_proof.encode()))
        client_key = self._hmac(self._salted, b"Client Key")
        signature = self._hmac(hashlib.new(self.hash_name, client_key).digest(), self._auth_message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _check(self, challenge: bytes) -> None:
        fields = _fields(challenge)
        if "e" in fields:
            raise SaslError(f"the server refused: {fields['e']}")
        expected = self._hmac(self._hmac(self._salted, b"Server Key"), self._auth_message)
        if not hmac.compare_digest(expected, base64.b64decode(fields.get("v", ""))):
            raise SaslError("the server does not know the password either: its signature is wrong")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self.hash_name).digest()


def _fields(message: bytes) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.decode("utf-8", errors="replace").split(",") if part[1:2] == "="}
