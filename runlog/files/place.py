"""Where a process lives: host, boot and PID namespace. In any other place its pid has no meaning.

A state directory may be shared: by containers with their own namespaces, by hosts, and by one host before and after a
restart. Shown by tests/chaos/test_chaos_lease.py.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Where = Literal["here", "before a restart", "elsewhere"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    host: str
    machine: str  # /etc/machine-id; empty where there is none, as in many containers
    boot_id: str
    pid_namespace: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)

    @property
    def key(self) -> str:
        """Eight hexadecimal digits for names of files. Two places rarely have the same."""
        return hashlib.sha256("\0".join(self.as_json().values()).encode()).hexdigest()[:8]

    @classmethod
    def from_json(cls, document: object) -> Place:
        """ValueError for anything but four texts."""
        names = ("host", "machine", "boot_id", "pid_namespace")
        if not isinstance(document, Mapping):
            raise ValueError("a place is an object")
        values = {name: document.get(name) for name in names}
        if not all(isinstance(value, str) and len(value) <= 300 for value in values.values()):
            raise ValueError(f"a place has {', '.join(names)}, each a text")
        return cls(**{name: str(value) for name, value in values.items()})

    def seen_from(self, other: Place) -> Where:
        """`before a restart` means: the same machine, which has been restarted since, so no process is left. If this is
        not certain (no machine id, another host name), the place is elsewhere."""
        if not (self.boot_id and self.pid_namespace):
            return "elsewhere"
        if (self.boot_id, self.pid_namespace, self.host) == (other.boot_id, other.pid_namespace, other.host):
            return "here"
        is_same_machine = bool(self.machine) and (self.machine, self.host) == (other.machine, other.host)
        return "before a restart" if is_same_machine and self.boot_id != other.boot_id else "elsewhere"


@cache
def here() -> Place:
    return Place(
        host=platform.node(),
        machine=_text("/etc/machine-id"),
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
        pid_namespace=_pid_namespace(),
    )


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()[:300]
    except (OSError, ValueError):
        return ""
