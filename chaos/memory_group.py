"""A control group of our own around one process of this host: what it takes from now on is counted, and limited.

Memory that the process has already stays with its old group (Linux no longer moves charges): the limit is one on
growth, page cache of what it writes included. Version 1 of control groups, or version 2 where the root group hands the
memory controller on; both take a privilege, `problem()` says which is missing. Containers have groups of their own.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from chaos.cgroup import ROOT

PREFIX: Final = "kafka-harness-"
_REMOVE_WITHIN_S: Final = 2.0


def problem() -> str:
    """Why this host does not let us make such a group; empty if it does."""
    try:
        with _trial():
            return ""
    except OSError as error:
        return f"no memory control group can be made on this host ({error}): it takes root and the memory controller"


@contextlib.contextmanager
def _trial() -> Iterator[Path]:
    path = create(f"{PREFIX}trial-{os.getpid()}", 1 << 30)
    try:
        yield path
    finally:
        path.rmdir()


def create(name: str, limit_bytes: int) -> Path:
    """Raises OSError."""
    parent, file = _parent()
    path = parent / name
    path.mkdir()
    try:
        (path / file).write_text(str(limit_bytes))
    except OSError:
        path.rmdir()
        raise
    return path


def _parent() -> tuple[Path, str]:
    """Where groups are made, and the name of the file with their limit."""
    if (ROOT / "memory" / "memory.limit_in_bytes").exists():
        return ROOT / "memory", "memory.limit_in_bytes"
    if "memory" in (ROOT / "cgroup.controllers").read_text().split():
        (ROOT / "cgroup.subtree_control").write_text("+memory")
        return ROOT, "memory.max"
    raise OSError("the kernel offers no memory controller")


def is_own(path: Path, inode: int | None) -> bool:
    """One that `create` made and nobody since: at its place, by its name and its inode, of our user."""
    try:
        parent, _ = _parent()
        found = path.lstat()
    except OSError:
        return False
    is_named = path.parent == parent and re.fullmatch(rf"{PREFIX}[0-9]+", path.name) is not None
    return is_named and stat.S_ISDIR(found.st_mode) and found.st_ino == inode and found.st_uid == os.getuid()


def add(path: Path, pid: int) -> None:
    (path / "cgroup.procs").write_text(str(pid))


def remove(path: Path) -> None:
    """Its processes go back to the group above; a group that is gone is no error."""
    deadline = time.monotonic() + _REMOVE_WITHIN_S
    while path.is_dir():
        with contextlib.suppress(OSError):
            for pid in (path / "cgroup.procs").read_text().split():
                add(path.parent, int(pid))
        try:
            path.rmdir()
        except OSError:  # a process that is just ending
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
