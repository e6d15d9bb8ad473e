"""Clients in several languages that speak the client protocol: templates for people, and clients of the harness.

The sources are files of this directory, one directory a language. Other clients of a language have one of their own.
Shown by tests/harness/test_harness_init.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """How somebody builds and starts a copy of the directory, for a shell; `{0}` is its path."""

    build: str
    start: str


LANGUAGES: Final[Mapping[str, Language]] = {
    "go": Language(build="(cd {0} && go build -o client .)", start="{0}/client"),
    "java": Language(
        build="(cd {0} && mvn -q dependency:copy-dependencies -DoutputDirectory=libs && javac -d classes -cp 'libs/*' "
        "*.java)",
        start="-- java -cp '{0}/classes:{0}/libs/*' Client",
    ),
    "node": Language(build="(cd {0} && npm ci)", start="-- node {0}/client.js"),
    "python": Language(build="pip install confluent-kafka", start="-- python {0}/client.py"),
    "rust": Language(build="(cd {0} && cargo build --release)", start="{0}/target/release/client"),
}


# Files of another directory that belong to the program too.
_BORROWED: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {"sarama": (("go", "frames.go"), ("go", "lines.go"))}


def sources(language: str) -> dict[str, str]:
    """The files of a language, or of another directory, by name."""
    shipped = resources.files("workloads.clients.process.shipped")
    own = [each for each in (shipped / language).iterdir() if each.is_file()]
    borrowed = [shipped / other / name for other, name in _BORROWED.get(language, ())]
    return {each.name: each.read_text(encoding="utf-8") for each in (*own, *borrowed)}
