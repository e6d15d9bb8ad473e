"""The public keys of a JWK set (RFC 7517), which check the signatures of tokens: RS256 and ES256 (RFC 7518).

The package `cryptography` checks them (docs/decisions/0020-cryptography.md). It is slow to import, so only who reads
keys imports this module. Shown by tests/broker_security/test_security_tokens.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from broker.security.tokens import Key, from_base64url

RSA_BITS_MIN, RSA_BITS_MAX = 2048, 8192  # fewer bits can be broken, more block the event loop
RSA_EXPONENT_MAX = 2**32
ES256_BYTES: Final = 64  # r and s, 32 bytes each


@dataclass(frozen=True, slots=True)
class RsaKey:
    algorithm: ClassVar[str] = "RS256"
    public: RSAPublicKey

    def verifies(self, signed: bytes, signature: bytes) -> bool:
        try:
            self.public.verify(signature, signed, PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class EcKey:
    """A key on the curve P-256."""

    algorithm: ClassVar[str] = "ES256"
    public: EllipticCurvePublicKey

    def verifies(self, signed: bytes, signature: bytes) -> bool:
        if len(signature) != ES256_BYTES:
            return False
        half = ES256_BYTES // 2
        r, s = int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
        try:
            self.public.verify(encode_dss_signature(r, s), signed, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


def parse_jwks(text: bytes) -> dict[str, Key]:
    """The keys by key id. Keys for another use, or without an id, are left out. Raises ValueError."""
    try:
        keys = json.loads(text)["keys"]
        found = {str(each["kid"]): key for each in keys if "kid" in each and (key := _key(each)) is not None}
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"expected a JWK set, got something else: {error!r}") from None
    if not found:
        raise ValueError("it has no key of type RSA, or EC with the curve P-256, with a key id")
    return found


def _key(fields: Mapping[str, Any]) -> Key | None:
    """None for a key of another kind, or one that is not sound."""
    if fields.get("use", "sig") != "sig":
        return None
    if fields.get("kty") == "RSA":
        modulus, exponent = _number(fields["n"]), _number(fields["e"])
        if not (RSA_BITS_MIN <= modulus.bit_length() <= RSA_BITS_MAX and 2 < exponent < RSA_EXPONENT_MAX):
            return None
        return _sound(lambda: RsaKey(RSAPublicNumbers(exponent, modulus).public_key()))
    if fields.get("kty") == "EC" and fields.get("crv") == "P-256":
        x, y = _number(fields["x"]), _number(fields["y"])
        return _sound(lambda: EcKey(EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()))
    return None


def _sound(make: Callable[[], Key]) -> Key | None:
    """The package refuses an even exponent, and a point that is not on the curve."""
    try:
        return make()
    except ValueError:
        return None


def _number(text: str) -> int:
    return int.from_bytes(from_base64url(text), "big")
