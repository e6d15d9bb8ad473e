"""JSON documents that are replaced as a whole: those of a run directory, leases, and the state files of clusters.

A document appears by rename, so a reader sees the old one or the new one. This module does not know what a document
means. Shown by tests/runlog/test_runlog_events.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from runlog.files.json_lines import Event
from runlog.files.place import here

# A half is the new document before its rename. Its name says who writes it: place, pid, and a number of its own.
_HALF: Final = re.compile(r"\..+\.(?P<place>[0-9a-f]{8})-(?P<pid>[0-9]{1,10})-[0-9a-f]{8}\.tmp")
HALF_UNSEEN_S: Final = 3_600  # no writer needs so long, wherever it runs


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Replace a JSON document in one step, readable only by its user. It is on disk when this returns.

    After an error the old document is unchanged, and nothing is left beside it. Two writers do not disturb each other:
    the later one wins.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{here().key}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            json.dump(document, out, indent=2, default=str)
            out.write("\n")
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def remove_halves(directory: Path) -> None:
    """Remove what killed writers of documents in this directory have left. A half stays while its writer may be alive:
    its process exists, or it runs where it cannot be seen from here and wrote within the last hour."""
    with contextlib.suppress(OSError):
        for half in directory.glob(".*.tmp"):
            writer = _HALF.fullmatch(half.name)
            if writer is not None and not _may_live(half, place=writer["place"], pid=int(writer["pid"])):
                half.unlink(missing_ok=True)


def _may_live(half: Path, *, place: str, pid: int) -> bool:
    if place == here().key and here().pid_namespace:
        return Path(f"/proc/{pid}").exists()
    return time.time() - half.lstat().st_mtime <= HALF_UNSEEN_S


def sync_directory(path: Path) -> None:
    """Returns when the names in it are on disk. OSError for what is no directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> Event:
    """A JSON object. FileNotFoundError when absent, ValueError naming the file when it is not an object."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path} holds no JSON object")
    return document
