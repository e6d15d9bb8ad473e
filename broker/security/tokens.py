"""JSON web tokens (RFC 7519) that a broker accepts: signed by a known key, or, for tests, not signed at all.

Without keys a token must say that it is not signed (algorithm `none`), as with Kafka's default handler. With keys such
a token is refused. A signature that anybody could make (HS256 with the public key) is refused too.
Shown by tests/broker_security/test_security_tokens.py.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

ALGORITHMS: Final = ("RS256", "ES256")


class Key(Protocol):
    """A public key that checks signatures of one algorithm. signatures.py makes them."""

    algorithm: ClassVar[str]

    def verifies(self, signed: bytes, signature: bytes) -> bool: ...


class TokenError(Exception):
    """Why a token is not accepted."""


class UnknownKeyError(TokenError):
    """The token's key is not among the known ones. It may be a new key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a token must contain. An empty text or tuple means: not checked."""

    subject_claim: str = "sub"
    scope_claim: str = "scope"
    audiences: tuple[str, ...] = ()
    issuer: str = ""
    clock_skew_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    user: str
    expires_ms: int  # wall clock


def accept(text: str, rules: Rules, keys: Mapping[str, Key] | None, now_ms: int) -> Accepted:
    """Check a token. `keys` are by key id. None: tokens are not signed. Raises TokenError."""
    parts = text.split(".")
    if len(parts) != 3:
        raise TokenError(f"expected header.claims.signature, got {len(parts)} parts")
    header, claims = _json(parts[0], "header"), _json(parts[1], "claims")
    if keys is None:
        if header.get("alg") != "none" or parts[2]:
            raise TokenError("it is signed, and there are no keys to check it with")
    else:
        _check_signature(header, parts, keys)
    return _judged(claims, rules, now_ms)


def _check_signature(header: Mapping[str, Any], parts: list[str], keys: Mapping[str, Key]) -> None:
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise TokenError(f"expected a signature by {' or '.join(ALGORITHMS)}")
    if not isinstance(kid, str) or kid not in keys:
        raise UnknownKeyError("its key is not known")
    try:
        signature = from_base64url(parts[2])
    except ValueError:
        raise TokenError("its signature is not base64url") from None
    key = keys[kid]
    signed = f"{parts[0]}.{parts[1]}".encode()
    if key.algorithm != algorithm or not key.verifies(signed, signature):
        raise TokenError("its signature is wrong")


def _judged(claims: Mapping[str, Any], rules: Rules, now_ms: int) -> Accepted:
    expires_ms = _time_ms(claims, "exp")
    if expires_ms is None:
        raise TokenError("it has no claim exp")
    if now_ms >= expires_ms + rules.clock_skew_ms:
        raise TokenError("it has expired")
    for name in ("nbf", "iat"):
        since_ms = _time_ms(claims, name)
        if since_ms is not None and now_ms + rules.clock_skew_ms < since_ms:
            raise TokenError(f"it is not valid yet ({name})")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise TokenError("it is of another issuer")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if rules.audiences and not any(each in rules.audiences for each in audiences if isinstance(each, str)):
        raise TokenError("it is for another audience")
    scope = claims.get(rules.scope_claim, "")
    if not isinstance(scope, str | list):
        raise TokenError(f"its claim {rules.scope_claim} is neither a text nor a list")
    user = claims.get(rules.subject_claim)
    if not isinstance(user, str) or not user.strip():
        raise TokenError(f"it has no claim {rules.subject_claim}")
    return Accepted(user=user, expires_ms=expires_ms)


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise TokenError(f"its claim {name} is not a time in seconds")
    return round(value * 1000)


def _json(part: str, what: str) -> Mapping[str, Any]:
    try:
        found = json.loads(from_base64url(part))
    except (ValueError, RecursionError):
        raise TokenError(f"its {what} is not JSON in base64url") from None
    if not isinstance(found, dict):
        raise TokenError(f"its {what} is no JSON object")
    return found


def from_base64url(text: str) -> bytes:
    """Decode base64url without padding, as in JSON web tokens. Raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64url: {error}") from None
