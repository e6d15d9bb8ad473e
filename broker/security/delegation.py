"""Delegation tokens (KIP-48): what a cluster keeps of one, and what follows from the key that all its nodes share.

The secret of a token is HMAC-SHA-512 of its id with `delegation.token.secret.key`. It is not kept: every node makes it
anew from the id. A client logs in by SCRAM: its user name is the id, its password the secret in base64, and it says
`tokenauth=true`. Pure. Shown by tests/broker_security/test_security_delegation.py.
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
    """Principals are texts, as in `User:alice`. Times are those of the wall clock."""

    token_id: str
    owner: str
    requester: str  # who asked for it; the owner may be another (KIP-373)
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int  # it can be renewed before that, up to `ends_ms`
    ends_ms: int

    def is_expired(self, wall_ms: int) -> bool:
        return self.expires_ms < wall_ms or self.ends_ms < wall_ms

    def may_be_changed_by(self, principal: str) -> bool:
        """Renewed or expired: by its owner and its renewers."""
        return principal == self.owner or principal in self.renewers


def principal_text(kind: str, name: str) -> str:
    return f"{kind}:{name}"


def principal_parts(text: str) -> tuple[str, str]:
    """(type, name). A name may hold colons, a type may not."""
    kind, _, name = text.partition(":")
    return kind, name


class TokenKeys:
    """What only who knows the key can make. An empty key: there are no delegation tokens."""

    def __init__(self, secret_key: str) -> None:
        self._key = secret_key.encode()
        self._tokens: Mapping[str, DelegationToken] = {}  # those that the two maps below stand for
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
        """The token with this secret. Costs a look at each token only after `tokens` has changed."""
        self._follow(tokens)
        token_id = self._by_hmac.get(secret)
        return None if token_id is None else tokens[token_id]

    def known_hmac(self, tokens: Mapping[str, DelegationToken], token_id: str) -> bytes:
        """As `hmac_of`, for one of `tokens`, without making it again."""
        self._follow(tokens)
        return self._hmacs[token_id]

    def login(
        self, tokens: Mapping[str, DelegationToken], mechanism: str, token_id: str, *, wall_ms: int, salt: bytes
    ) -> TokenLogin | None:
        """`salt`: fresh. It counts at the first login with this token and mechanism, which costs some milliseconds.
        Kafka pays them for each token on each broker as soon as the token is made."""
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
        """Images share the mapping until it changes, so most calls see the one of the last call."""
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
