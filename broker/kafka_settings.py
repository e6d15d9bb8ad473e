"""Name, type and default of every setting of Kafka 4.3, from Kafka's own documentation of itself.

The broker needs the names, because it documents what it does with each setting. Code that writes the properties of a
broker needs them too. The client has a file of the same form for its own settings. `python -m broker.node.settings_page
--jars DIR` reads the names again from Apache Kafka's jars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_WHOLE = ("short", "int", "long")
NAMES_FILE = Path(__file__).with_name("kafka_settings.tsv")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSetting:
    """A setting as Apache Kafka documents it."""

    name: str
    kind: str
    default: str

    def accepts(self, text: str) -> bool:
        """Whether `text` can be read as this setting's type. Any text is a valid string, list, class or password."""
        if self.kind == "boolean":
            return text.lower() in ("true", "false")
        try:
            if self.kind in _WHOLE:
                int(text)
            elif self.kind == "double":
                float(text)
        except ValueError:
            return False
        return True


@cache
def kafka_settings(scope: str) -> Mapping[str, KafkaSetting]:
    """The settings of a scope (`broker` or `topic`) by name."""
    return read_settings(NAMES_FILE, scope)


def read_settings(path: Path, scope: str) -> Mapping[str, KafkaSetting]:
    """The settings of a scope by name. Each line of the file is `scope, name, type, default`, separated by tabs."""
    found: dict[str, KafkaSetting] = {}
    for line in path.read_text().splitlines():
        of_scope, name, kind, default = line.split("\t")
        if of_scope == scope:
            found[name] = KafkaSetting(name=name, kind=kind, default=default)
    return found
