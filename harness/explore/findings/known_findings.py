"""Known findings, from a file of the user's: they are named in the output and do not fail the search.

The file is YAML, a list. Each entry has `signature`, `reason` and, if there is one, `link`. A signature is a finding's
or a cause's as the search prints it; `*` stands for any text, so a whole class can be allowed.
Shown by tests/harness/test_harness_explore_allowances.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from harness.errors import UsageError
from harness.suite_source import nearest
from runlog.files.user_files import UserFileError, load_yaml, read_text

ENTRIES_MAX: Final = 1_000
_FIELDS: Final = ("signature", "reason", "link")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    signature: str
    reason: str
    link: str = ""

    def covers(self, *signatures: str) -> bool:
        pattern = self.signature.replace("[", "[[]").replace("?", "[?]")  # only the star is special
        return any(fnmatchcase(signature, pattern) for signature in signatures)

    def __str__(self) -> str:
        return f"{self.reason}{f' ({self.link})' if self.link else ''}"


def read_allowances(path: Path) -> list[Allowance]:
    """UsageError that names the entry and what is wrong with it."""
    try:
        found = load_yaml(read_text(path), YAML(typ="safe"))
    except UserFileError as error:
        raise UsageError(f"--known {error.at(path)}") from error
    if not isinstance(found, list) or len(found) > ENTRIES_MAX:
        raise UsageError(f"--known {path}: expected a list of at most {ENTRIES_MAX} entries with {', '.join(_FIELDS)}")
    return [_allowance(path, number, entry) for number, entry in enumerate(found, 1)]


def _allowance(path: Path, number: int, entry: Any) -> Allowance:
    where = f"--known {path}, entry {number}"
    if not isinstance(entry, dict):
        raise UsageError(f"{where}: expected {', '.join(_FIELDS)}, got {entry!r}")
    for name, value in entry.items():
        if name not in _FIELDS:
            raise UsageError(f"{where}: there is no field {name!r}{nearest(str(name), _FIELDS)}")
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{where}: {name}: expected a text, got {value!r}")
    for name in _FIELDS[:2]:
        if name not in entry:
            raise UsageError(f"{where}: {name} is missing")
    return Allowance(**entry)


def allowance_of(allowances: Sequence[Allowance], *signatures: str) -> Allowance | None:
    """The first that covers one of these."""
    return next((one for one in allowances if one.covers(*signatures)), None)
