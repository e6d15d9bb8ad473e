"""Tokens: signatures made by openssl are checked, and what is not signed, expired or for others is refused."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from broker.security.oauthbearer import OAuthBearerServer
from broker.security.sasl import SaslRefusedError
from broker.security.signatures import EcKey, RsaKey, parse_jwks
from broker.security.tokens import Key, Rules, TokenError, UnknownKeyError, accept
from tests.patience import run_command

NOW_MS = 1_700_000_000_000
CLAIMS = {"sub": "alice", "exp": NOW_MS // 1000 + 60, "iss": "us", "aud": ["kafka", "x"]}


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def part(fields: Mapping[str, Any]) -> str:
    return encoded(json.dumps(fields).encode())


def unsigned(**claims: Any) -> str:
    return f"{part({'alg': 'none'})}.{part({**CLAIMS, **claims})}."


def openssl(*arguments: object, data: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *map(str, arguments)], input=data, capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("keys")
    paths = {name: directory / f"{name}.pem" for name in ("RS256", "ES256")}
    openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", paths["RS256"])
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", paths["ES256"])
    return paths


@pytest.fixture(scope="module")
def keys(private: dict[str, Path]) -> dict[str, Key]:
    """By way of a JWK set, as an identity provider publishes it."""
    modulus = openssl("rsa", "-in", private["RS256"], "-noout", "-modulus").decode().strip().partition("=")[2]
    point = openssl("ec", "-in", private["ES256"], "-pubout", "-outform", "DER")[-64:]
    rsa = {"kty": "RSA", "kid": "RS256", "n": encoded(bytes.fromhex(modulus)), "e": "AQAB", "use": "sig"}
    curve = {"kty": "EC", "crv": "P-256", "kid": "ES256", "x": encoded(point[:32]), "y": encoded(point[32:])}
    other = {"kty": "oct", "kid": "HS256", "k": "AAAA"}
    found = parse_jwks(json.dumps({"keys": [rsa, curve, other]}).encode())
    assert {name: type(key) for name, key in found.items()} == {"RS256": RsaKey, "ES256": EcKey}
    return found


def signed(private: dict[str, Path], algorithm: str, *, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
    head = part({"alg": algorithm, "kid": algorithm, **(header or {})})
    text = f"{head}.{part({**CLAIMS, **claims})}"
    signature = openssl("dgst", "-sha256", "-sign", private[algorithm], data=text.encode())
    return f"{text}.{encoded(_bare(signature) if algorithm == 'ES256' else signature)}"


def _bare(der: bytes) -> bytes:
    """r and s, 32 bytes each, from the sequence of two integers that openssl writes."""
    r_size = der[3]
    r, s = der[4 : 4 + r_size], der[6 + r_size :]
    return b"".join(each.lstrip(b"\0").rjust(32, b"\0") for each in (r, s))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_signature_of_openssl_is_right_and_a_changed_one_is_not(
    private: dict[str, Path], keys: dict[str, Key], algorithm: str
) -> None:
    for number in range(5):
        token = signed(private, algorithm, jti=number)
        accepted = accept(token, Rules(), keys, NOW_MS)
        assert (accepted.user, accepted.expires_ms) == ("alice", NOW_MS + 60_000)
        head, claims, signature = token.split(".")
        forged = part({**CLAIMS, "sub": "admin"})
        for wrong in (f"{head}.{forged}.{signature}", f"{head}.{claims}.{signature[:-4]}", f"{head}.{claims}."):
            with pytest.raises(TokenError, match="signature is wrong"):
                accept(wrong, Rules(), keys, NOW_MS)


@pytest.mark.slow
def test_an_algorithm_that_does_not_prove_the_key_is_refused(private: dict[str, Path], keys: dict[str, Key]) -> None:
    with pytest.raises(TokenError, match="RS256 or ES256"):
        accept(unsigned(), Rules(), keys, NOW_MS)
    with pytest.raises(TokenError, match="RS256 or ES256"):
        accept(signed(private, "RS256", header={"alg": "HS256"}), Rules(), keys, NOW_MS)
    with pytest.raises(TokenError, match="signature is wrong"):
        accept(signed(private, "RS256", header={"kid": "ES256"}), Rules(), keys, NOW_MS)
    with pytest.raises(UnknownKeyError):
        accept(signed(private, "RS256", header={"kid": "new"}), Rules(), keys, NOW_MS)
    with pytest.raises(TokenError, match="it is signed"):
        accept(signed(private, "RS256"), Rules(), None, NOW_MS)


@pytest.mark.slow
def test_a_signature_of_zeros_is_none(keys: dict[str, Key]) -> None:
    assert not keys["ES256"].verifies(b"x", bytes(64))
    assert not keys["RS256"].verifies(b"x", bytes(256))
    assert not keys["RS256"].verifies(b"x", b"\xff" * 256)


def test_of_p_256_the_point_of_a_known_private_key_verifies() -> None:
    """RFC 6979, A.2.5: the message "sample" with SHA-256."""
    x = bytes.fromhex("60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6")
    y = bytes.fromhex("7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299")
    r = "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
    s = "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"
    key = {"kty": "EC", "crv": "P-256", "kid": "a", "x": encoded(x), "y": encoded(y)}
    found = parse_jwks(json.dumps({"keys": [key]}).encode())["a"]
    assert found.verifies(b"sample", bytes.fromhex(r + s))
    assert not found.verifies(b"Sample", bytes.fromhex(r + s))
    assert not found.verifies(b"sample", bytes.fromhex(r + s) + b"\0")


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"exp": NOW_MS // 1000 - 31}, "has expired"),
        ({"exp": None}, "no claim exp"),
        ({"exp": "soon"}, "not a time"),
        ({"nbf": NOW_MS // 1000 + 31}, "not valid yet"),
        ({"iss": "them"}, "another issuer"),
        ({"aud": "them"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"sub": ""}, "no claim sub"),
        ({"sub": 7}, "no claim sub"),
        ({"scope": 7}, "neither a text nor a list"),
    ],
)
def test_claims_that_do_not_fit_are_refused(claims: dict[str, Any], told: str) -> None:
    rules = Rules(issuer="us", audiences=("kafka",))
    assert accept(unsigned(), rules, None, NOW_MS).user == "alice"
    with pytest.raises(TokenError, match=told):
        accept(unsigned(**claims), rules, None, NOW_MS)


@pytest.mark.parametrize("text", ["", ".", "a.b.c.d", "..", "!.!.!", "bnVsbA.bnVsbA.", "W1s.e30.", "e30.e30."])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(TokenError):
        accept(text, Rules(), None, NOW_MS)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "7", '{"keys": 7}', '{"keys": []}', '{"keys": [{"kid": "a", "kty": "RSA"}]}', "[" * 99_999]
)
def test_what_is_no_set_of_keys_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_jwks(text.encode())


def test_a_point_that_is_not_on_the_curve_is_no_key() -> None:
    keys = [{"kty": "EC", "crv": "P-256", "kid": "a", "x": encoded(b"\1" * 32), "y": encoded(b"\2" * 32)}]
    with pytest.raises(ValueError, match="no key"):
        parse_jwks(json.dumps({"keys": keys}).encode())


@pytest.mark.parametrize(
    ("bits", "exponent"), [(1024, 65_537), (9_000, 65_537), (2048, 1), (2048, 4), (2048, 2**32 + 1)]
)
def test_a_key_of_rsa_that_proves_too_little_or_costs_too_much_is_no_key(bits: int, exponent: int) -> None:
    modulus = (2**bits - 1).to_bytes((bits + 7) // 8, "big")
    key = {"kty": "RSA", "kid": "a", "n": encoded(modulus), "e": encoded(exponent.to_bytes(5, "big"))}
    with pytest.raises(ValueError, match="no key"):
        parse_jwks(json.dumps({"keys": [key]}).encode())


@pytest.mark.slow
def test_a_broker_that_reads_no_keys_does_not_import_the_package_behind_them() -> None:
    code = "import broker.node.broker, broker.client, sys; print('cryptography' in sys.modules)"
    done = run_command([sys.executable, "-c", code])
    assert done.stdout.strip() == "False", done.stdout + done.stderr


def server() -> OAuthBearerServer:
    return OAuthBearerServer(lambda token: accept(token, Rules(), None, NOW_MS))


def first(token: str, authorization: str = "") -> bytes:
    return f"n,{authorization},\1auth=Bearer {token}\1traceId=1\1\1".encode()


def test_a_token_makes_a_user_and_says_how_long() -> None:
    outcome = server().evaluate(first(unsigned()))
    assert (outcome.token, outcome.user, outcome.expires_ms) == (b"", "alice", NOW_MS + 60_000)
    assert server().evaluate(first(unsigned(), "a=alice")).user == "alice"


def test_a_refused_token_has_a_challenge_first() -> None:
    made = server()
    outcome = made.evaluate(first(unsigned(exp=1)))
    assert (json.loads(outcome.token), outcome.user) == ({"status": "invalid_token"}, None)
    with pytest.raises(SaslRefusedError, match="has expired"):
        made.evaluate(b"\1")


@pytest.mark.parametrize(
    "token", [b"", b"n,,\1\1", b"n,,\1auth=Basic x\1\1", b"y,,\1auth=Bearer x\1\1", b"\xff", b"n,,\1auth=Bearer x\1"]
)
def test_a_first_message_that_is_none_is_refused(token: bytes) -> None:
    with pytest.raises(SaslRefusedError, match="first message"):
        server().evaluate(token)


def test_nobody_acts_for_another() -> None:
    with pytest.raises(SaslRefusedError, match="authorization id"):
        server().evaluate(first(unsigned(), "a=bob"))
