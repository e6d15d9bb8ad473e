"""SCRAM (RFC 5802, RFC 7677), the server's side, and what a server stores instead of a password.

A credential does not contain the password. Somebody who reads it can pose as the server, and can try passwords against
it, but cannot log in with it. Shown by tests/broker_security/test_security_scram.py.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from broker.security.sasl import Outcome, SaslRefusedError

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# in the client's first message: the name is the id of a delegation token (KIP-48)
TOKEN_EXTENSION: Final = "tokenauth"
MECHANISM_NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}  # in Kafka's requests and records
# Kafka's bounds. With fewer iterations, guessing the password is cheap. With more, a login takes clients seconds.
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
REFUSED: Final = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The fields are those of RFC 5802, section 3. `iterations` is the count of PBKDF2."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


# (mechanism, user) -> its credential; None: there is no such user.
FindCredential: TypeAlias = Callable[[str, str], ScramCredential | None]


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2. It is the slow part: some milliseconds for 4096 iterations."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: str, salted: bytes, *, salt: bytes, iterations: int) -> ScramCredential:
    """What a server stores for a salted password. AlterUserScramCredentials sends the salted password, never the
    password itself."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", name),
        iterations=iterations,
    )


class ScramServer:
    """One exchange: `client-first`, our challenge, `client-final`, our proof. Channel binding is not offered."""

    def __init__(self, mechanism: str, find: FindCredential, *, nonce: str) -> None:
        """`nonce` must be new and secret for each exchange, and printable ASCII without a comma."""
        self._mechanism, self._find, self._nonce = mechanism, find, nonce
        self._hash = HASHES[mechanism]
        self._credential: ScramCredential | None = None
        self._user = self._gs2 = ""
        self._so_far = b""  # client-first-bare, server-first: what both sides sign

    def evaluate(self, token: bytes) -> Outcome:
        """Raises SaslRefusedError. After the end it must not be called again."""
        return self._first(token) if self._credential is None else self._final(self._credential, token)

    def _first(self, token: bytes) -> Outcome:
        flag, authorization, bare = _client_first(token)
        fields = _fields(bare)
        names = [name for name, _ in fields[:2]]
        if names != ["n", "r"]:
            raise SaslRefusedError("Invalid SCRAM client first message format")
        user, nonce = _unescaped(fields[0][1]), fields[1][1]
        if authorization and authorization != user:
            raise SaslRefusedError("Authentication failed: Client requested an authorization id that is different")
        if not nonce:
            raise SaslRefusedError("Invalid SCRAM client first message format")
        if dict(fields[2:]).get(TOKEN_EXTENSION, "").lower() == "true":
            raise SaslRefusedError(REFUSED.format(self._mechanism))  # there are no tokens, so the name is no user's
        credential = self._find(self._mechanism, user)
        if credential is None:
            raise SaslRefusedError(REFUSED.format(self._mechanism))
        self._user = user
        self._credential, self._gs2, self._nonce = credential, flag, nonce + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={credential.iterations}".encode()
        self._so_far = bare.encode() + b"," + challenge
        return Outcome(token=challenge)

    def _final(self, credential: ScramCredential, token: bytes) -> Outcome:
        message = _text(token)
        without_proof, separator, proof_text = message.rpartition(",p=")
        fields = dict(_fields(without_proof)) if separator else {}
        if fields.get("r") != self._nonce:
            raise SaslRefusedError("Invalid client nonce in the final client message.")
        if _from_base64(fields.get("c", "")) != self._gs2.encode():
            raise SaslRefusedError("Invalid channel binding in the final client message.")
        signed = self._so_far + b"," + without_proof.encode()
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        proof = _from_base64(proof_text)
        if len(proof) != len(signature):
            raise SaslRefusedError(REFUSED.format(self._mechanism))
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key):
            raise SaslRefusedError(REFUSED.format(self._mechanism))
        ours = hmac.digest(credential.server_key, signed, self._hash)
        return Outcome(token=b"v=" + base64.b64encode(ours), user=self._user)


def _client_first(token: bytes) -> tuple[str, str, str]:
    """(GS2 header, authorization id, the bare message)."""
    message = _text(token)
    parts = message.split(",", 2)
    if len(parts) != 3 or parts[0] not in ("n", "y") or (parts[1] and not parts[1].startswith("a=")):
        raise SaslRefusedError("Invalid SCRAM client first message format")
    return f"{parts[0]},{parts[1]},", _unescaped(parts[1][2:]), parts[2]


def _fields(message: str) -> list[tuple[str, str]]:
    """Names consist of letters. Kafka's extensions have names of several letters."""
    parts = [part.partition("=") for part in message.split(",")]
    if not all(separator and name.isascii() and name.isalpha() for name, separator, _ in parts):
        raise SaslRefusedError("Invalid SCRAM message format")
    return [(name, value) for name, _, value in parts]


def _unescaped(name: str) -> str:
    """In RFC 5802 a name contains =2C for a comma and =3D for =. No other = is allowed in it."""
    if "=" in name.replace("=2C", "").replace("=3D", ""):
        raise SaslRefusedError("Invalid SCRAM user name: = must be followed by 2C or 3D")
    return name.replace("=2C", ",").replace("=3D", "=")


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise SaslRefusedError("Invalid SCRAM message: it is not UTF-8") from None


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslRefusedError("Invalid SCRAM message: a field is not base64") from None
