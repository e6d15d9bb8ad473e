"""SASL as a client speaks it, by the RFCs' own examples."""

from __future__ import annotations

import base64

import pytest

from broker.client.core.oauth import expiry_s, unsecured_token
from broker.security.sasl_client import Bearer, Credentials, SaslError, Scram, sasl_client


def test_scram_sha_256_is_that_of_rfc_7677() -> None:
    client = Scram(hash_name="sha256", username="user", password="pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert client.answer(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_a_server_that_cannot_know_the_password_is_found_out() -> None:
    def client() -> Scram:
        made = Scram(hash_name="sha256", username="user", password="pencil", nonce="abc")
        made.first()
        return made

    with pytest.raises(SaslError, match="did not add to our nonce"):
        client().answer(b"r=abc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(SaslError, match="iterations '1'"):
        client().answer(b"r=abcd,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1")
    impostor = client()
    impostor.answer(b"r=abcd,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(SaslError, match="does not know the password"):
        impostor.answer(b"v=" + base64.b64encode(b"\0" * 32))


def test_plain_is_that_of_rfc_4616() -> None:
    client = sasl_client(Credentials(mechanism="PLAIN", username="tim", password="tanstaaftanstaaf"), nonce="")
    assert client.first() == b"\0tim\0tanstaaftanstaaf"
    assert client.answer(b"") is None


def test_a_delegation_token_says_that_it_is_one() -> None:
    """KIP-48: the extension stands behind the nonce, and is part of what both sides sign."""
    credentials = Credentials(mechanism="SCRAM-SHA-256", username="id", password="hmac", is_delegated=True)
    assert sasl_client(credentials, nonce="abc").first() == b"n,,n=id,r=abc,tokenauth=true"


def test_a_bearer_sends_its_token_and_ends_a_refused_exchange_as_the_rfc_says() -> None:
    client = sasl_client(Credentials(mechanism="OAUTHBEARER", bearer=lambda: "a.b.c"), nonce="")
    assert client.first() == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    assert client.answer(b"") is None
    refused = Bearer(token="a.b.c")
    assert refused.answer(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(SaslError, match="invalid_token"):
        refused.answer(b"")


def test_an_unsecured_token_is_a_jwt_that_tells_its_end() -> None:
    token = unsecured_token({"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginLifetimeSeconds": "90"}, 1000.0)
    assert token is not None
    header, _, signature = token.split(".")
    assert base64.urlsafe_b64decode(header + "==") == b'{"alg":"none"}'
    assert signature == ""
    assert expiry_s(token) == 1090.0
    assert unsecured_token({}, 0.0) is None
    for text in ("", "a.b", "a.!!.c", "a.W10.c", f"a.{base64.b64encode(b'[' * 99_999).decode()}.c"):
        assert expiry_s(text) is None
