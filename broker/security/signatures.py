"""Signatures of tokens: RS256 and ES256 (RFC 7518), checked with the public keys of a JWK set (RFC 7517).

This module only checks signatures and makes none. So it uses no secret, and the time that it takes cannot leak one. A
check of RS256 takes some 100 us, one of ES256 3 ms. Shown by tests/broker_security/test_security_tokens.py.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

RSA_BITS_MIN, RSA_BITS_MAX = 2048, 8192  # fewer bits can be broken, more block the event loop
RSA_EXPONENT_MAX = 2**32
# The prefix of a SHA-256 digest in PKCS #1 v1.5 (RFC 8017, section 9.2).
_SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
# The curve P-256 (FIPS 186-4, D.1.2.3): y^2 = x^3 - 3x + b modulo p, of order n.
_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_B: Final = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
_G: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point: TypeAlias = tuple[int, int] | None  # None: the point at infinity
# A point (x / z^2, y / z^3) as x, y, z. Sums of such points need no division, which costs more than all else. z is 0 at
# infinity.
Jacobian: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RsaKey:
    modulus: int
    exponent: int

    def verifies(self, signed: bytes, signature: bytes) -> bool:
        size = (self.modulus.bit_length() + 7) // 8
        if len(signature) != size or int.from_bytes(signature, "big") >= self.modulus:
            return False
        digest = _SHA256_PREFIX + hashlib.sha256(signed).digest()
        expected = b"\0\1" + b"\xff" * (size - 3 - len(digest)) + b"\0" + digest
        found = pow(int.from_bytes(signature, "big"), self.exponent, self.modulus).to_bytes(size, "big")
        return hmac.compare_digest(found, expected)


@dataclass(frozen=True, slots=True)
class EcKey:
    """A public key: a point of P-256."""

    point: tuple[int, int]

    def verifies(self, signed: bytes, signature: bytes) -> bool:
        if len(signature) != 64:
            return False
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        if not (0 < r < _N and 0 < s < _N):
            return False
        inverse = pow(s, -1, _N)
        digest = int.from_bytes(hashlib.sha256(signed).digest(), "big")
        found = _combined(digest * inverse % _N, r * inverse % _N, self.point)
        return found is not None and found[0] % _N == r


Key: TypeAlias = RsaKey | EcKey
ALGORITHMS: Final[Mapping[str, type[RsaKey] | type[EcKey]]] = {"RS256": RsaKey, "ES256": EcKey}


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
    if fields.get("use", "sig") != "sig":
        return None
    if fields.get("kty") == "RSA":
        modulus, exponent = _number(fields["n"]), _number(fields["e"])
        is_sound = RSA_BITS_MIN <= modulus.bit_length() <= RSA_BITS_MAX and 2 < exponent < RSA_EXPONENT_MAX
        return RsaKey(modulus, exponent) if is_sound else None
    if fields.get("kty") == "EC" and fields.get("crv") == "P-256":
        x, y = _number(fields["x"]), _number(fields["y"])
        is_on_curve = x < _P and y < _P and (y * y - x * x * x + 3 * x - _B) % _P == 0
        return EcKey((x, y)) if is_on_curve else None
    return None


def _number(text: str) -> int:
    return int.from_bytes(from_base64url(text), "big")


def from_base64url(text: str) -> bytes:
    """Decode base64url without padding, as in JSON web tokens. Raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64url: {error}") from None


def _combined(first: int, second: int, point: tuple[int, int]) -> Point:
    """first * G + second * point, computed in one walk over the bits of both."""
    own, other = (*_G, 1), (*point, 1)
    table: tuple[Jacobian, ...] = ((0, 1, 0), own, other, _sum(own, other))
    found: Jacobian = (0, 1, 0)
    for index in range(max(first.bit_length(), second.bit_length()) - 1, -1, -1):
        found = _sum(_double(found), table[(first >> index & 1) + 2 * (second >> index & 1)])
    x, y, z = found
    if not z:
        return None
    inverse = pow(z, -1, _P)
    return x * inverse * inverse % _P, y * inverse * inverse * inverse % _P


def _double(point: Jacobian) -> Jacobian:
    x, y, z = point
    square = y * y % _P
    middle = 4 * x * square % _P
    slope = 3 * (x - z * z) * (x + z * z) % _P  # 3 x^2 - 3 z^4, because of the curve's -3 x
    doubled_x = (slope * slope - 2 * middle) % _P
    return doubled_x, (slope * (middle - doubled_x) - 8 * square * square) % _P, 2 * y * z % _P


def _sum(a: Jacobian, b: Jacobian) -> Jacobian:
    if not (a[2] and b[2]):
        return a if a[2] else b
    a_square, b_square = a[2] * a[2] % _P, b[2] * b[2] % _P
    a_x, b_x = a[0] * b_square % _P, b[0] * a_square % _P
    a_y, b_y = a[1] * b_square * b[2] % _P, b[1] * a_square * a[2] % _P
    run, slope = (b_x - a_x) % _P, (b_y - a_y) % _P
    if not run:
        return (0, 1, 0) if slope else _double(a)
    square = run * run % _P
    cube, middle = square * run % _P, a_x * square % _P
    x = (slope * slope - cube - 2 * middle) % _P
    return x, (slope * (middle - x) - a_y * cube) % _P, run * a[2] * b[2] % _P
