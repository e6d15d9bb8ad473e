"""Removes known secrets from the text files of a run after its processes have ended. It is the last safety net.

Texts of the harness have gone through `runlog.files.redaction` already. Texts that a JVM, librdkafka or a traceback of
a load process wrote to stderr have not. Shown by tests/harness/test_harness_secrets.py."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runlog.files.redaction import Redactor

# Parquet and the brokers' logs hold records, whose bodies the harness has made.
_TEXTS: Final = frozenset({".log", ".json", ".jsonl", ".properties", ".txt", ".csv", ".md", ".xml", ".html", ".yaml"})
_ENTRIES_MAX: Final = 1_000_000  # a run directory has thousands; this only limits the walk


def scrub(directory: Path, redactor: Redactor) -> list[Path]:
    """Returns the files in which a secret was found. The secret is no longer there. Symbolic links are not followed."""
    if not redactor.encoded:
        return []
    return [path for path in _texts(directory) if _scrub_file(path, redactor)]


def _texts(directory: Path) -> Iterator[Path]:
    waiting, seen = [directory], 0
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                seen += 1
                if seen > _ENTRIES_MAX:
                    return
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False) and Path(entry.name).suffix in _TEXTS:
                    yield Path(entry.path)


def _scrub_file(path: Path, redactor: Redactor) -> bool:
    """Line by line into a file beside it, which then takes its place, because a log may be larger than the memory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as source:
        if os.fstat(descriptor).st_size == 0:
            return False
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as content:
            if not any(content.find(secret) >= 0 for secret in redactor.encoded):
                return False
        temporary = path.with_name(f".{path.name}.{os.getpid()}.scrub")
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        try:
            target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            with os.fdopen(target, "wb") as out:
                for line in source:
                    text = line.decode("utf-8", "surrogateescape")
                    out.write(redactor.values_out(text).encode("utf-8", "surrogateescape"))
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    return True
