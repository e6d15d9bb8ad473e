"""A control group of our own for one process of this host. Memory that the process takes from now on is counted and
limited.

Memory that the process has already stays with its old group, because Linux no longer moves it. So this limits growth,
including the page cache of what the process writes. It needs control groups of version 1, or of version 2 if the root
group delegates the memory controller. Both need a privilege. `problem()` says what is missing. Containers have groups
of their own.
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
    """Why we cannot create such a group on this host. Empty if we can."""
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
    """Create a group with this limit. Raises OSError."""
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
    """The directory where groups are created, and the name of the file with their limit."""
    if (ROOT / "memory" / "memory.limit_in_bytes").exists():
        return ROOT / "memory", "memory.limit_in_bytes"
    if "memory" in (ROOT / "cgroup.controllers").read_text().split():
        (ROOT / "cgroup.subtree_control").write_text("+memory")
        return ROOT, "memory.max"
    raise OSError("the kernel offers no memory controller")


def is_own(path: Path, inode: int | None) -> bool:
    """Whether `create` made this group and nobody has replaced it. Its directory, its name, its inode and its user must
    fit."""
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
    """Remove a group. Its processes move to the parent group. If the group does not exist any more, this is no
    error."""
    deadline = time.monotonic() + _REMOVE_WITHIN_S
    while path.is_dir():
        with contextlib.suppress(OSError):
            for pid in (path / "cgroup.procs").read_text().split():
                add(path.parent, int(pid))
        try:
            path.rmdir()
        except OSError:  # a process is just ending
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
