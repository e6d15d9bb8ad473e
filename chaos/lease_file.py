"""The layout of lease files, and how they are read. A file is trusted only if nobody else could write it.

The directory has mode 0700 and the file 0600. Both belong to our user. Symbolic links are not followed, and pipes are
not opened. Anything that is not a lease raises LeaseProblem. Shown by tests/chaos/test_chaos_lease_file.py.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.process_identity import ProcessIdentity
from runlog.files.place import Place

FORMAT: Final = 2  # format 1 did not hold the place of its owner
FILE_BYTES_MAX: Final = 4 << 20  # about 10,000 entries
_PID_MAX: Final = 1 << 22  # the kernel's own limit
_TICKS_MAX: Final = 1 << 62
_TEXT_MAX: Final = 4096
KINDS: Final = ("process", "stopped", "proxy", "proxy_disabled", "toxic", "cgroup", "topic", "group")
ON_CLUSTERS: Final = ("topic", "group")  # on clusters that outlive us: undone only by a client of the cluster


class LeaseProblem(Exception):
    """The file is not a lease of ours, or cannot be trusted. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that was started or broken. The kind decides which fields are set. All fields are checked."""

    kind: str
    label: str = ""
    token: str = ""
    pid: int | None = None
    start_ticks: int | None = None
    url: str = ""
    proxy: str = ""
    upstream: str = ""
    toxic: str = ""
    path: str = ""
    inode: int | None = None
    bootstrap_servers: str = ""
    topic: str = ""
    topic_id: str = ""
    group: str = ""
    settings: tuple[str, ...] = ()  # names of those that a group got

    @property
    def identity(self) -> ProcessIdentity | None:
        if self.pid is None or self.start_ticks is None:
            return None
        return ProcessIdentity(pid=self.pid, start_ticks=self.start_ticks)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFile:
    owner: ProcessIdentity
    place: Place | None  # None: written by an older harness
    entries: tuple[Entry, ...]
    document: Mapping[str, object]  # the file as it was read

    def with_entries(self, entries: Sequence[Entry]) -> dict[str, object]:
        """The document with only these entries."""
        listed = self.document["entries"]
        assert isinstance(listed, list)
        kept = [fields for fields, entry in zip(listed, self.entries, strict=True) if entry in entries]
        return {**self.document, "entries": kept}


def own_directory(root: Path) -> Path:
    """`root`, which only our user may use. It is created if it does not exist. Raises PermissionError if it belongs to
    another user or is a link."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        whose = "a symbolic link" if stat.S_ISLNK(found.st_mode) else f"of user {found.st_uid}, not of {os.getuid()}"
        raise PermissionError(
            errno.EACCES, f"the state directory is {whose}: set XDG_STATE_HOME to a directory of your own", str(root)
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        root.chmod(0o700)
    return root


def read_own_file(path: Path) -> bytes:
    """Read a file. Raises FileNotFoundError, and LeaseProblem unless it is a plain file that only our user may
    write."""
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LeaseProblem("it is a symbolic link" if error.errno == errno.ELOOP else str(error)) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise LeaseProblem("it is no plain file")
        if found.st_uid != os.getuid():
            raise LeaseProblem(f"it belongs to user {found.st_uid}, not to {os.getuid()}")
        if found.st_mode & 0o022:
            raise LeaseProblem(f"others may write it: mode {stat.S_IMODE(found.st_mode):04o}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    finally:
        os.close(descriptor)
    if len(data) > FILE_BYTES_MAX:
        raise LeaseProblem(f"it is larger than {FILE_BYTES_MAX} bytes")
    return data


def read_lease(path: Path) -> LeaseFile:
    try:
        return parse_lease(read_own_file(path))
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise LeaseProblem(str(error)) from error


def parse_lease(data: bytes) -> LeaseFile:
    """Parse a lease. Raises LeaseProblem for any other bytes."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise LeaseProblem(f"it is no JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("entries"), list):
        raise LeaseProblem("it is no object with a list of entries")
    owner = document.get("owner")
    if not isinstance(owner, dict):
        raise LeaseProblem("it names no owner")
    version = document.get("format", 1)
    if version not in (1, FORMAT) or isinstance(version, bool):
        raise LeaseProblem(f"its format is {str(version)[:20]}, expected {FORMAT}")
    try:
        place = None if version == 1 else Place.from_json(document.get("place"))
    except ValueError as error:
        raise LeaseProblem(str(error)) from error
    return LeaseFile(
        owner=ProcessIdentity(
            pid=_number(owner, "pid", 1, _PID_MAX), start_ticks=_number(owner, "start_ticks", 0, _TICKS_MAX)
        ),
        place=place,
        entries=tuple(_entry(fields) for fields in document["entries"]),
        document=document,
    )


def _entry(fields: object) -> Entry:
    if not isinstance(fields, dict):
        raise LeaseProblem("an entry is no object")
    kind = _text(fields, "kind")
    if kind not in KINDS:
        return Entry(kind=kind)
    has_pid = fields.get("pid") is not None and fields.get("start_ticks") != -1
    entry = Entry(
        kind=kind,
        label=_text(fields, "label"),
        token=_text(fields, "token"),
        pid=_number(fields, "pid", 2, _PID_MAX) if has_pid else None,
        start_ticks=_number(fields, "start_ticks", 0, _TICKS_MAX) if has_pid else None,
        url=_text(fields, "url"),
        proxy=_text(fields, "proxy"),
        upstream=_text(fields, "upstream"),
        toxic=_text(fields, "toxic"),
        path=_text(fields, "path"),
        inode=None if fields.get("inode") is None else _number(fields, "inode", 1, _TICKS_MAX),
        bootstrap_servers=_text(fields, "bootstrap_servers"),
        topic=_text(fields, "topic"),
        topic_id=_text(fields, "topic_id"),
        group=_text(fields, "group"),
        settings=tuple(filter(None, _text(fields, "settings").split(","))),
    )
    if entry.url and not re.fullmatch(r"https?://[!-~]+", entry.url):
        raise LeaseProblem("the url of an entry is no http address")
    return entry


def _number(fields: Mapping[str, object], name: str, low: int, high: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise LeaseProblem(f"{name} is no number from {low} to {high}")
    return value


def _text(fields: Mapping[str, object], name: str) -> str:
    """The text of a field. Empty if there is none. It contains only printable characters."""
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _TEXT_MAX or not value.isprintable():
        raise LeaseProblem(f"{name} is no printable text of at most {_TEXT_MAX} characters")
    return value
