"""A little room on the disk of a run, kept for its last documents.

A disk that gets full takes the words with it that would say so. So a file keeps some room from the beginning. If
cell.json or manifest.json find the disk full, the file goes and they are written once more. Others may be quicker and
take the room; then the older document stays, and `harness report` completes the cell later. A harness that is killed
leaves the file, which harms nothing. Shown by tests/harness/test_harness_last_room.py and
test_harness_full_disk_at_end.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.errors import is_full

ROOM_BYTES: Final = 1 << 20  # The documents of a cell and of a run have some ten KiB.
_NAME: Final = ".room"


def try_keep_room(run_dir: Path) -> bool:
    """False if the disk does not have it. On a file system that cannot set room apart none is kept, and that is
    True."""
    path = run_dir / _NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, ROOM_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        give_room(run_dir)
        return not is_full(error)
    return True


def give_room(run_dir: Path) -> None:
    """Nothing is kept any more."""
    (run_dir / _NAME).unlink(missing_ok=True)


def is_room_gone(run_dir: Path) -> bool:
    """Whether the disk has less free space than is kept, so that whoever writes there fails or soon will."""
    try:
        found = os.statvfs(run_dir)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < ROOM_BYTES


def write_last(run_dir: Path, write: Callable[[], object]) -> None:
    """Calls `write`, which replaces a document; once more, with the room that was kept, if the disk is full. OSError if
    that was not enough."""
    try:
        write()
    except OSError as error:
        if not is_full(error):
            raise
        give_room(run_dir)
        write()
