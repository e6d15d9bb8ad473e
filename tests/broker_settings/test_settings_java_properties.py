"""Properties are what java.util.Properties makes of the file, told by Java itself where it is there."""

from __future__ import annotations

import shutil
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.java_properties import PropertiesError, parse_java_properties
from tests.patience import run_command

READ = """
import java.io.*; import java.nio.file.*; import java.util.*;
public class Read {
    public static void main(String[] files) throws IOException {
        for (String file : files) {
            Properties found = new Properties();
            try (InputStream in = new FileInputStream(file)) { found.load(in); }
            StringBuilder line = new StringBuilder();
            for (String name : new TreeSet<>(found.stringPropertyNames()))
                line.append(hex(name)).append('=').append(hex(found.getProperty(name).trim())).append(' ');
            System.out.println(line);
        }
    }
    static String hex(String text) {
        StringBuilder out = new StringBuilder();
        for (char each : text.toCharArray()) out.append(String.format("%04x", (int) each));
        return out.toString();
    }
}
"""
FILES = (
    "a=1\n b : 2\nc\\:d = x\\=y\n! no\n# no\\\ne=",
    'sasl.jaas.config=org.apache.kafka.X required \\\n   username="al\\\\"ice" \\\n   password="a\\\\\\\\b";\n',
    "url=https\\://host\\:443/a\\ b\\\\c\nssl.truststore.password=\n",
    "a = one, two ,three \\\n# not a comment\nb==x\nc=:y\nd =\t= z\n",
    "a=\\u00e9\\u0041\\t\\n\\q\\'\nb=x\\\r\n  y\rc=z",
    "k\\ ey=v\na=last\na=wins\n\\#x=1\ne=ends\\",
    "a=\\\n\n b=c\nf=\x0bg\nh=\\\n\\\n i",
)


def told(text: str) -> dict[str, str]:
    return {each.key: each.value for each in parse_java_properties(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"url=https\://host\:443", {"url": "https://host:443"}),
        (r"password=a\\b", {"password": r"a\b"}),
        ("security.protocol: SASL_SSL", {"security.protocol": "SASL_SSL"}),
        ("a = x, y \\\n    , z", {"a": "x, y , z"}),
        ("ssl.endpoint.identification.algorithm=", {"ssl.endpoint.identification.algorithm": ""}),
        ('jaas=user="u" password="p=q";', {"jaas": 'user="u" password="p=q";'}),
    ],
)
def test_what_people_have_in_their_files(text: str, expected: dict[str, str]) -> None:
    assert told(text) == expected


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a=1\n\nsecurity.protocol SSL", 3, "expected name=value, got no = after 'security.protocol'"),
        ("alone", 1, "got no = after 'alone'"),
        ("a=\\\n  C:\\users", 1, "four hexadecimal digits"),
        ("# ü is fine here\npassword=grün", 2, r"got 'ü', which Java reads as Latin-1: write it as \\u00fc"),
    ],
)
def test_what_java_would_take_for_something_else_is_refused_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(PropertiesError, match=problem) as raised:
        parse_java_properties(text)
    assert raised.value.line == line


@given(st.text(alphabet=string.ascii_letters + ' \t=:#!\\\n\r"ué', max_size=60))
def test_any_text_is_read_or_refused_with_a_line_of_it(text: str) -> None:
    try:
        found = parse_java_properties(text)
    except PropertiesError as error:
        lines = error.line
    else:
        lines = max((each.line for each in found), default=1)
    assert 1 <= lines <= text.count("\n") + text.count("\r") + 1


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.skipif(shutil.which("java") is None, reason="needs a JDK")
def test_java_reads_the_same(tmp_path: Path) -> None:
    paths = []
    for number, text in enumerate(FILES):
        paths.append(tmp_path / f"{number}.properties")
        paths[-1].write_bytes(text.encode("latin-1"))
    (tmp_path / "Read.java").write_text(READ)
    done = run_command(["java", str(tmp_path / "Read.java"), *map(str, paths)], check=True)
    java = [dict(pair.split("=") for pair in line.split()) for line in done.stdout.splitlines()]
    ours = [{_hex(name): _hex(value) for name, value in told(text).items()} for text in FILES]
    assert ours == java


def _hex(text: str) -> str:
    return "".join(f"{ord(letter):04x}" for letter in text)
