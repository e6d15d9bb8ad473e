"""A client's properties file as the harness reads it: SASL by the RFCs' own examples, stores, and clear refusals."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from harness.clusters.sasl import SaslError, Scram, sasl_client
from harness.clusters.security import read_security
from harness.errors import UsageError
from runlog.redaction import hidden_settings

JAAS = (
    "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
    r'username="al\"ice" password="p w;1";'
)


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "client.properties"
    path.write_text("\n".join(lines) + "\n")
    return path


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
    client = sasl_client("PLAIN", "tim", "tanstaaftanstaaf", nonce="")
    assert client.first() == b"\0tim\0tanstaaftanstaaf"
    assert client.answer(b"") is None


def test_a_file_is_read_as_java_reads_it_and_shows_no_password(tmp_path: Path) -> None:
    path = written(tmp_path, "# mine", "security.protocol = SASL_PLAINTEXT", "sasl.mechanism=PLAIN", JAAS)
    security = read_security(path, tmp_path)
    assert (security.username, security.password, security.is_tls) == ('al"ice', "p w;1", False)
    assert "p w;1" not in repr(security)
    assert security.behind_proxies()["security.protocol"] == "SASL_PLAINTEXT"
    assert security.proxy_tls() is None
    shown = hidden_settings(security.properties)
    assert shown["sasl.jaas.config"] == "(not shown)"
    assert shown["sasl.mechanism"] == "PLAIN"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["security.protocol=SASL_TLS"], "did you mean 'SASL_SSL'"),
        (["just words"], ":1: expected name=value"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=GSSAPI"], "speaks PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN"], "has no username"),
        (["ssl.truststore.location=x"], "has no effect with security.protocol=PLAINTEXT"),
        (["security.protocol=SSL", "ssl.truststore.location=none.pem"], "is no file"),
        (["security.protocol=SSL", "ssl.keystore.location=x.jks"], "the harness reads PEM"),
        (["security.protocol=SSL", "ssl.truststore.type=PEM", "ssl.truststore.location=client.properties"],
         "certificates cannot be used"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_its_place(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_security(written(tmp_path, *lines), tmp_path)
