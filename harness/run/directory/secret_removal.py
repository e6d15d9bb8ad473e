"""Removes known secrets from the text files of a cell before its files are listed with their checksums, and from those
of a run after its processes have ended. It is the last safety net.

Texts of the harness have gone through `runlog.files.redaction` already. Texts that a JVM, librdkafka or a traceback of
a load process wrote to stderr have not. A weak secret (redaction.py) is looked for only in such texts: documents and
events are data, and have it in other places too. Shown by tests/harness/test_harness_secrets.py."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runlog.files.redaction import Redactor

# Parquet and the brokers' logs hold records, whose bodies the harness has made.
_OF_OTHERS: Final = frozenset({".log", ".properties", ".txt"})  # what other programs wrote, and settings for them
_OF_OURS: Final = frozenset({".json", ".jsonl", ".csv", ".md", ".xml", ".html", ".yaml"})
_ENTRIES_MAX: Final = 1_000_000  # a run directory has thousands; this only limits the walk


def scrub(directory: Path, redactor: Redactor) -> list[Path]:
    """Returns the files in which a secret was found. The secret is no longer there. Symbolic links are not followed."""
    if not redactor.encoded and not redactor.encoded_words:
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
                elif entry.is_file(follow_symlinks=False) and Path(entry.name).suffix in _OF_OTHERS | _OF_OURS:
                    yield Path(entry.path)


def _scrub_file(path: Path, redactor: Redactor) -> bool:
    """Line by line into a file beside it, which then takes its place, because a log may be larger than the memory."""
    words = redactor.encoded_words if path.suffix in _OF_OTHERS else ()
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as source:
        if os.fstat(descriptor).st_size == 0:
            return False
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as content:
            if not any(content.find(secret) >= 0 for secret in (*redactor.encoded, *words)):
                return False
        is_changed = False
        temporary = path.with_name(f".{path.name}.{os.getpid()}.scrub")
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        try:
            target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            with os.fdopen(target, "wb") as out:
                for line in source:
                    text = line.decode("utf-8", "surrogateescape")
                    has_word = any(word in line for word in words)
                    clean = redactor.foreign_text(text) if has_word else redactor.values_out(text)
                    is_changed = is_changed or clean != text
                    out.write(clean.encode("utf-8", "surrogateescape"))
            if is_changed:
                os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    return is_changed
