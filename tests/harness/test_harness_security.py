"""A client's properties file as the harness reads it: stores, and clear refusals."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from harness.clusters.security import read_security
from harness.errors import UsageError
from runlog.files.redaction import hidden_settings

MANAGED = Path(__file__).parents[2] / "docs/guide/managed.md"
JAAS = (
    "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
    r'username="al\\"ice" password="p w;1";'
)


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "client.properties"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_file_is_read_as_java_reads_it_and_shows_no_password(tmp_path: Path) -> None:
    path = written(tmp_path, "# mine", "security.protocol = SASL_PLAINTEXT", "sasl.mechanism=PLAIN", JAAS)
    security = read_security(path, tmp_path)
    assert security.credentials is not None
    assert (security.credentials.username, security.credentials.password) == ('al"ice', "p w;1")
    assert not security.is_tls
    assert "p w;1" not in repr(security)
    assert security.behind_proxies()["security.protocol"] == "SASL_PLAINTEXT"
    assert security.proxy_tls() is None
    shown = hidden_settings(security.properties)
    assert shown["sasl.jaas.config"] == "(not shown)"
    assert shown["sasl.mechanism"] == "PLAIN"


def test_escapes_separators_and_continued_lines_are_javas(tmp_path: Path) -> None:
    """A correct file gave a wrong password, and an address with a backslash."""
    jaas = r'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="a\\\\b";'
    lines = ["security.protocol : SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.jaas.config = \\", f"   {jaas}"]
    security = read_security(
        written(tmp_path, *lines, r"sasl.oauthbearer.token.endpoint.url=https\://h\:1/t"), tmp_path
    )
    assert security.credentials is not None
    assert security.credentials.password == r"a\b"
    assert security.properties["sasl.oauthbearer.token.endpoint.url"] == "https://h:1/t"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["security.protocol=SASL_TLS"], "did you mean 'SASL_SSL'"),
        (["just words"], ":1: expected name=value"),
        (["# grün", "password=grün"], r":2: expected ASCII, got 'ü'"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=GSSAPI"], "expected one of PLAIN, SCRAM-SHA-256"),
        (["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN"], "sasl.jaas.config: is needed"),
        (["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.jaas.config=x required;"],
         "has no username"),
        (["ssl.truststore.location=x"], "has no effect with security.protocol=PLAINTEXT"),
        (["security.protocol=SSL", "ssl.truststore.location=none.pem"], "is no file"),
        (["security.protocol=SSL", "ssl.keystore.location=x.jks"], "the harness reads PEM"),
        (["security.protocol=SSL", "ssl.truststore.type=PEM", "ssl.truststore.location=client.properties"],
         "ssl.truststore.location: .*client.properties.*no certificate"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_its_place(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_security(written(tmp_path, *lines), tmp_path)


def test_the_files_of_the_page_about_clouds_are_read_as_they_stand(tmp_path: Path) -> None:
    """Without a trust store the authorities of this host count, as for a public cloud."""
    authority = tmp_path / "ca.pem"
    if (of_host := ssl.get_default_verify_paths().cafile) is None:
        pytest.skip("this host has no authorities in one file")
    authority.write_text(Path(of_host).read_text(encoding="utf-8"), encoding="utf-8")
    examples = re.findall(r'```properties title="client.properties"\n(.*?)```', MANAGED.read_text("utf-8"), re.DOTALL)
    found = [
        read_security(written(tmp_path, example.replace("/etc/kafka/ca.pem", str(authority))), tmp_path)
        for example in examples
    ]
    mechanisms = [each.properties["sasl.mechanism"] for each in found]
    assert mechanisms == ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-512"]
    assert [each.ca_file for each in found] == ["", "", str(authority)]
    assert all(each.is_tls and each.is_hostname_checked and each.credentials is not None for each in found)


def test_a_login_of_amazon_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="got 'AWS_MSK_IAM'"):
        read_security(written(tmp_path, "security.protocol=SASL_SSL", "sasl.mechanism=AWS_MSK_IAM"), tmp_path)
