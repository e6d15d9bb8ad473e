"""What a name like `confluent==2.4.0` says. Pure. Shown by tests/workloads/test_workloads_versions.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

SEPARATOR: Final = "=="
# A version becomes a part of a path and of a command: no slash, no blank, and no dash at its beginning.
_VERSION: Final = re.compile(r"\d[A-Za-z0-9.+-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned:
    client: str  # the name without the version
    version: str

    def __str__(self) -> str:
        return f"{self.client}{SEPARATOR}{self.version}"


def versioned(name: str) -> Versioned | None:
    """None if the name has no version, or is a command."""
    client, separator, version = name.partition(SEPARATOR)
    if not separator or "/" in name or ":" in name:
        return None
    return Versioned(client=client, version=version)


def is_version(text: str) -> bool:
    """Whether it can be one. Only the registry knows whether there is such a version."""
    return _VERSION.fullmatch(text) is not None


def client_of(name: str) -> str:
    """`confluent` of `confluent==2.4.0`; any other name as it is."""
    found = versioned(name)
    return name if found is None else found.client
