"""Identifies a process by pid and start time, and tells whether a harness of ours has started it.

Another process may get the same pid later. Together pid and start time identify one process, but do not say who started
it. For this there are its user and a token in its environment, which only the lease of the harness that started it
knows. This module reads /proc and changes nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOKEN_VARIABLE: Final = "KAFKA_HARNESS_LEASE"
_ENVIRONMENT_BYTES_MAX: Final = 4 << 20  # the kernel allows a few MiB for arguments and environment together


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Pid and start time together identify one process. A pid alone may be used again."""

    pid: int
    start_ticks: int


def read_identity(pid: int) -> ProcessIdentity | None:
    """The identity of the process with this pid. None if there is none, or if it is a zombie."""
    fields = _stat_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return ProcessIdentity(pid=pid, start_ticks=int(fields[19]))


def read_state(pid: int) -> str | None:
    """The one-letter state in /proc/<pid>/stat: R, S, D, T (stopped), Z and so on. None if there is no such process."""
    fields = _stat_fields(pid)
    return fields[0] if fields else None


def _stat_fields(pid: int) -> list[str] | None:
    """The fields from the state on. The process name before them may contain blanks and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def is_alive(identity: ProcessIdentity) -> bool:
    return read_identity(identity.pid) == identity


def read_token(pid: int) -> str | None:
    """The token that a lease put into the environment of a process of our user. None for any other process."""
    for line in _status_lines(pid) or ():
        if line.startswith("Uid:") and set(line.split()[1:]) != {str(os.getuid())}:
            return None
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as file:
            environment = file.read(_ENVIRONMENT_BYTES_MAX)
    except OSError:
        return None
    prefix = f"{TOKEN_VARIABLE}=".encode()
    tokens = [entry[len(prefix) :] for entry in environment.split(b"\0") if entry.startswith(prefix)]
    return tokens[0].decode("ascii", "replace") if len(tokens) == 1 else None


def _status_lines(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return None


def is_ours(identity: ProcessIdentity, token: str) -> bool:
    """Whether the process is alive, belongs to our user and was started with this token."""
    return is_alive(identity) and read_token(identity.pid) == token and is_alive(identity)


def find_by_token(token: str) -> ProcessIdentity | None:
    """The process of our user that was started with this token. It is the oldest one, because children inherit the
    token."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and read_token(int(directory.name)) == token:
            identity = read_identity(int(directory.name))
            if identity is not None:
                found.append(identity)
    return min(found, key=lambda identity: (identity.start_ticks, identity.pid), default=None)
