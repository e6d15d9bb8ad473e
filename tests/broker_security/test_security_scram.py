"""SCRAM of our server: the RFC's own example, against our client, and against those who do not know the password."""

from __future__ import annotations

import base64
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.sasl import SaslRefusedError
from broker.security.sasl_client import SaslError, Scram
from broker.security.scram import HASHES, ScramCredential, ScramServer, credential_of, salted_password


def credential(mechanism: str, password: str, salt: bytes = b"salt", iterations: int = 4096) -> ScramCredential:
    return credential_of(
        mechanism, salted_password(mechanism, password, salt, iterations), salt=salt, iterations=iterations
    )


PENCIL = credential("SCRAM-SHA-256", "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
KNOWN = {name: credential(name, "pencil") for name in HASHES}


def server(mechanism: str = "SCRAM-SHA-256", *, user: str = "user", nonce: str = "server") -> ScramServer:
    return ScramServer(mechanism, lambda asked, name: KNOWN[asked] if name == user else None, nonce=nonce)


def test_an_exchange_is_that_of_rfc_7677() -> None:
    made = ScramServer(
        "SCRAM-SHA-256",
        lambda mechanism, user: PENCIL if (mechanism, user) == ("SCRAM-SHA-256", "user") else None,
        nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    )
    first = made.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first.user is None
    assert first.token == (b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    final = made.evaluate(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert (final.token, final.user) == (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "user")


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("user", ["user", "a,b=c", "Jürgen", "=2C"])
def test_our_client_and_our_server_understand_each_other(mechanism: str, user: str) -> None:
    client = Scram(hash_name=HASHES[mechanism], username=user, password="pencil", nonce="client")
    made = server(mechanism, user=user)
    challenge = made.evaluate(client.first()).token
    answer = client.answer(challenge)
    assert answer is not None
    final = made.evaluate(answer)
    assert final.user == user
    assert client.answer(final.token) is None


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_wrong_password_is_refused_without_a_word_about_it(mechanism: str) -> None:
    client = Scram(hash_name=HASHES[mechanism], username="user", password="pen", nonce="client")
    made = server(mechanism)
    answer = client.answer(made.evaluate(client.first()).token)
    assert answer is not None
    with pytest.raises(SaslRefusedError, match="invalid credentials") as wrong:
        made.evaluate(answer)
    with pytest.raises(SaslRefusedError) as unknown:
        server(mechanism).evaluate(b"n,,n=nobody,r=client")
    assert str(wrong.value) == str(unknown.value), "who tries must not learn which users there are"


def test_a_server_without_the_password_is_found_out_by_our_client() -> None:
    client = Scram(hash_name="sha256", username="user", password="pencil", nonce="client")
    impostor = dataclasses.replace(KNOWN["SCRAM-SHA-256"], server_key=b"\0" * 32)
    made = ScramServer("SCRAM-SHA-256", lambda mechanism, user: impostor, nonce="server")
    answer = client.answer(made.evaluate(client.first()).token)
    assert answer is not None
    with pytest.raises(SaslError, match="does not know the password"):
        client.answer(made.evaluate(answer).token)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"n,,r=client,n=user",
        b"n,,n=user,r=",
        b"p=tls-unique,,n=user,r=client",
        b"n,x=user,n=user,r=client",
        b"n,,n=us=er,r=client",
        b"n,a=other,n=user,r=client",
        b"\xff\xfe",
        b"n,,n=user,r=client,junk",
        b"n,,n=user,r=client,tokenauth=true",  # the id of a delegation token (KIP-48), not a user of this name
    ],
)
def test_a_first_message_that_is_none_is_refused(token: bytes) -> None:
    with pytest.raises(SaslRefusedError):
        server().evaluate(token)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"c=biws,r=clientserver",
        b"c=biws,r=client,p=AAAA",
        b"c=eSws,r=clientserver,p=AAAA",
        b"c=biws,r=clientserver,p=***",
        b"c=biws,r=clientserver,p=AAAA",
        b"p=AAAA",
        b"\xff,p=AAAA",
    ],
)
def test_a_final_message_that_is_none_is_refused(token: bytes) -> None:
    made = server()
    made.evaluate(b"n,,n=user,r=client")
    with pytest.raises(SaslRefusedError):
        made.evaluate(token)


@given(st.lists(st.binary(max_size=60), max_size=3))
def test_no_bytes_end_in_anything_but_a_refusal(tokens: list[bytes]) -> None:
    made = server()
    made.evaluate(b"n,,n=user,r=client")
    for token in tokens:
        with pytest.raises(SaslRefusedError):
            made.evaluate(token)


def test_a_credential_does_not_print_its_keys() -> None:
    text = repr(KNOWN["SCRAM-SHA-256"])
    assert "stored_key" not in text
    assert "server_key" not in text
