"""Files and directories that a user names for results: whether they can be written, asked before the work begins.

A search of half an hour must not end with "Permission denied". Reads the disk and changes nothing on it. Shown by
tests/harness/test_harness_output_places.py.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import UsageError


def check_output_directory(option: str, directory: Path | None) -> None:
    """UsageError if nothing could be written there. It need not exist yet."""
    if directory is not None:
        _check_place(f"{option} {directory}", directory.absolute())


def check_output_file(option: str, file: Path | None) -> None:
    """UsageError if no such file could be written. The directories above it need not exist yet."""
    if file is None:
        return
    if os.path.isdir(file):  # Path.is_dir() raises where we may not look
        raise UsageError(f"{option} {file}: it is a directory, expected a file")
    _check_place(f"{option} {file}", file.absolute().parent)


def _check_place(asked: str, directory: Path) -> None:
    there = next(path for path in (directory, *directory.parents) if os.path.exists(path))
    if not os.path.isdir(there):
        raise UsageError(f"{asked}: {there} is a file, expected a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{asked}: nothing can be written into {there}")
