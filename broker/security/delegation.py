"""Delegation tokens (KIP-48): what a cluster stores of a token, and what its nodes compute from their shared key.

The secret of a token is HMAC-SHA-512 of its id with `delegation.token.secret.key`. It is not stored, because every node
can compute it from the id. A client logs in by SCRAM: the user name is the id, the password is the secret in base64,
and the client sends `tokenauth=true`. Pure. Shown by tests/broker_security/test_security_delegation.py.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.security.scram import HASHES, ITERATIONS_MIN, ScramCredential, TokenLogin, credential_of, salted_password

USER_TYPE: Final = "User"  # the only type of a principal who may own or renew a token
SALT_BYTES: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """Principals are texts such as `User:alice`. Times are those of the wall clock."""

    token_id: str
    owner: str
    requester: str  # who asked for the token; it may be for another owner (KIP-373)
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int  # a renewal moves this time, at most to `ends_ms`
    ends_ms: int

    def is_expired(self, wall_ms: int) -> bool:
        return self.expires_ms < wall_ms or self.ends_ms < wall_ms

    def may_be_changed_by(self, principal: str) -> bool:
        """Whether this principal may renew or expire the token. Its owner and its renewers may."""
        return principal == self.owner or principal in self.renewers


def principal_text(kind: str, name: str) -> str:
    return f"{kind}:{name}"


def principal_parts(text: str) -> tuple[str, str]:
    """(type, name). A name may hold colons, a type may not."""
    kind, _, name = text.partition(":")
    return kind, name


class TokenKeys:
    """The secrets and SCRAM credentials that follow from the key. An empty key: there are no delegation tokens."""

    def __init__(self, secret_key: str) -> None:
        self._key = secret_key.encode()
        self._tokens: Mapping[str, DelegationToken] = {}  # the tokens for which the two maps below were made
        self._by_hmac: dict[bytes, str] = {}
        self._hmacs: dict[str, bytes] = {}
        self._credentials: dict[tuple[str, str], ScramCredential] = {}  # by mechanism and token id

    @property
    def is_enabled(self) -> bool:
        return bool(self._key)

    def hmac_of(self, token_id: str) -> bytes:
        """The token's secret."""
        return hmac.digest(self._key, token_id.encode(), "sha512")

    def find(self, tokens: Mapping[str, DelegationToken], secret: bytes) -> DelegationToken | None:
        """The token with this secret. It walks over all tokens only after `tokens` has changed."""
        self._follow(tokens)
        token_id = self._by_hmac.get(secret)
        return None if token_id is None else tokens[token_id]

    def known_hmac(self, tokens: Mapping[str, DelegationToken], token_id: str) -> bytes:
        """Like `hmac_of`, for one of `tokens`, without computing it again."""
        self._follow(tokens)
        return self._hmacs[token_id]

    def login(
        self, tokens: Mapping[str, DelegationToken], mechanism: str, token_id: str, *, wall_ms: int, salt: bytes
    ) -> TokenLogin | None:
        """`salt` must be new and random. Only the first login with this token and mechanism uses it. That login costs
        some milliseconds. Kafka spends this time for each token on each broker as soon as the token is created."""
        self._follow(tokens)
        token = tokens.get(token_id)
        if token is None or token.is_expired(wall_ms):
            return None
        key = (mechanism, token_id)
        if key not in self._credentials:
            password = base64.b64encode(self._hmacs[token_id]).decode()
            salted = salted_password(mechanism, password, salt, ITERATIONS_MIN)
            self._credentials[key] = credential_of(mechanism, salted, salt=salt, iterations=ITERATIONS_MIN)
        return TokenLogin(
            credential=self._credentials[key], user=principal_parts(token.owner)[1], expires_ms=token.expires_ms
        )

    def _follow(self, tokens: Mapping[str, DelegationToken]) -> None:
        """Bring the maps up to date. Images share the mapping until it changes, so in most calls there is nothing to
        do."""
        if tokens is self._tokens:
            return
        for token_id in self._hmacs.keys() - tokens.keys():
            del self._by_hmac[self._hmacs.pop(token_id)]
            for mechanism in HASHES:
                self._credentials.pop((mechanism, token_id), None)
        for token_id in tokens.keys() - self._hmacs.keys():
            self._hmacs[token_id] = secret = self.hmac_of(token_id)
            self._by_hmac[secret] = token_id
        self._tokens = tokens
