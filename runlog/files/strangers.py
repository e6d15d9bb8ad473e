"""A run directory, or a text, from somebody else: what is not read, and how texts are made harmless.

A run directory is a tree of regular files. A link in it could make a report read or overwrite a file of the user. A
FIFO would block it for ever. A text of gigabytes would fill the memory. All of that is refused before the first byte is
read. Shown by tests/runlog/test_runlog_strangers.py and tests/reports/test_reports_untrusted.py.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any, Final

ENTRIES_MAX: Final = 1_000_000  # a run of 1,000 cells has some 20,000
DEPTH_MAX: Final = 32  # ours has 6, and a broker's log directory some more
# Of one file. A manifest of 1,000 cells has 3 MB; the events of a cell with all its appends some 100 MB.
_BYTES_MAX: Final = {".json": 64 << 20, ".jsonl": 4 << 30}
LINE_BYTES_MAX: Final = 4 << 20
_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# What neither XML 1.0 nor a terminal takes: control characters, halves of surrogate pairs, and what is no character.
# Tab, line feed and carriage return stay.
_HARMFUL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
# Signs that change the direction of writing. A name can then look like another one.
_TURNING: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_CELL_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,254}")


def strange_entry(directory: Path) -> str:
    """Why this tree is not read, naming the entry; empty if it is made of regular files and directories alone."""
    waiting, seen = [(os.fspath(directory), 0)], 0
    while waiting:
        place, depth = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                seen += 1
                shown = clean_text(os.path.relpath(entry.path, directory))
                if seen > ENTRIES_MAX:
                    return f"more than {ENTRIES_MAX:,} files and directories"
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    if depth >= DEPTH_MAX:
                        return f"{shown}: directories are nested deeper than {DEPTH_MAX}"
                    waiting.append((entry.path, depth + 1))
                elif not stat.S_ISREG(found.st_mode):
                    kind = next((name for is_kind, name in _KINDS if is_kind(found.st_mode)), "no regular file")
                    return f"{shown} is {kind}: a run has regular files only, and nothing outside of it is touched"
                elif found.st_size > (limit := _BYTES_MAX.get(os.path.splitext(entry.name)[1], found.st_size)):
                    return f"{shown} has {found.st_size:,} bytes, expected at most {limit:,}"
    return ""


def is_cell_name(name: str) -> bool:
    """A name as the harness gives it to cells. It is also a directory of Spark's partitioning, so nothing in it may
    need an escape."""
    return _CELL_NAME.fullmatch(name) is not None


def clean_text(text: str) -> str:
    """Fit for a terminal, XML and UTF-8, whatever it was."""
    return _TURNING.sub("\ufffd", _HARMFUL.sub("\ufffd", text))


def clean_document(value: Any, depth: int = 0) -> Any:
    """Cleans every text of a JSON document, keys too. Parts that are nested deeper than in any of our documents are cut
    off."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return (
            {clean_text(str(key)): clean_document(item, depth + 1) for key, item in value.items()} if depth < 64 else {}
        )
    if isinstance(value, list):
        return [clean_document(item, depth + 1) for item in value] if depth < 64 else []
    return value
