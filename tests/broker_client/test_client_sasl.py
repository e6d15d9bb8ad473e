"""SASL as a client speaks it, by the RFCs' own examples."""

from __future__ import annotations

import base64

import pytest

from broker.security.sasl_client import Credentials, SaslError, Scram, sasl_client


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
