"""Leases: what this process starts or breaks is on disk before it acts, so that a later start can undo it.

There is one JSON file for each owner process. Each change replaces it atomically, with fsync. It names its owner and
the owner's place (host, boot, PID namespace). An entry is a process (known by pid, start time and a token in its
environment), an undo step of a fault, or a topic or group on a cluster that outlives us. If an owner has ended, reap.py
undoes what it left. lease_file.py knows the layout. Shown by tests/chaos/test_chaos_lease.py.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.lease_file import FORMAT, ON_CLUSTERS, own_directory
from chaos.process_identity import (
    TOKEN_VARIABLE,
    ProcessIdentity,
    is_alive,
    read_identity,
    read_state,
    read_token,
)
from runlog.files.documents import write_json
from runlog.files.place import here


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A reserved entry for a process. Start the process with `environment` added, then call
    `Lease.record_process`."""

    entry_id: str
    environment: dict[str, str]


def state_root(environment: Mapping[str, str]) -> Path:
    """The directory for everything on disk that must outlive a process. Entry points pass os.environ."""
    home = environment.get("HOME")
    if environment.get("XDG_STATE_HOME"):
        return Path(environment["XDG_STATE_HOME"]) / "kafka-harness"
    if home:
        return Path(home) / ".local" / "state" / "kafka-harness"
    # The name contains our user id, because everybody may write in this directory.
    return Path(tempfile.gettempdir()) / f"kafka-harness-{os.getuid()}"


def default_root(environment: Mapping[str, str]) -> Path:
    """The directory of the leases."""
    return state_root(environment) / "leases"


class Lease:
    """The entries of this process. Threads may share it.

    The disk is written before memory changes. If an entry could not be written (OSError), it does not exist, and the
    action that it stands for must not be done. Only `remove` never fails.
    """

    def __init__(self, root: Path) -> None:
        """Raises PermissionError if the directory does not belong to our user."""
        owner = read_identity(os.getpid())
        assert owner is not None
        self._path = own_directory(root) / f"{owner.pid}-{owner.start_ticks}-{secrets.token_hex(4)}.json"
        self._owner = owner
        self._entries: dict[str, dict[str, object]] = {}
        self._lock = threading.Lock()

    def reserve_process(self, label: str) -> Reservation:
        """Reserve an entry, which is on disk before the process exists."""
        token = secrets.token_hex(16)
        entry_id = self._add({"kind": "process", "label": label, "token": token})
        return Reservation(entry_id=entry_id, environment={TOKEN_VARIABLE: token})

    def record_process(self, entry_id: str, pid: int) -> None:
        identity = read_identity(pid)
        with self._lock:
            found = {"pid": pid, "start_ticks": identity.start_ticks if identity else -1}
            self._replace({**self._entries, entry_id: {**self._entries[entry_id], **found}})

    def add_proxy(self, url: str, proxy: str, upstream: str) -> str:
        """Note a proxy on a server that is not ours. It is undone by deleting the proxy, if its upstream is still
        `upstream`."""
        return self._add({"kind": "proxy", "url": url, "proxy": proxy, "upstream": upstream})

    def add_proxy_disabled(self, url: str, proxy: str, upstream: str) -> str:
        """Note a proxy that is switched off. It is undone by enabling it, if its upstream is still `upstream`."""
        return self._add({"kind": "proxy_disabled", "url": url, "proxy": proxy, "upstream": upstream})

    def add_toxic(self, url: str, proxy: str, upstream: str, toxic: str) -> str:
        """Note a toxic. It is undone by removing it, if the upstream of the proxy is still `upstream`."""
        return self._add({"kind": "toxic", "url": url, "proxy": proxy, "upstream": upstream, "toxic": toxic})

    def add_stopped_process(self, pid: int) -> str:
        """Note a SIGSTOP. It is undone by SIGCONT, if the process was started with a lease."""
        identity = read_identity(pid)
        ticks = identity.start_ticks if identity else -1
        return self._add({"kind": "stopped", "pid": pid, "start_ticks": ticks, "token": read_token(pid)})

    def add_cgroup(self, path: Path) -> str:
        """Note a control group of our own. It is undone by removing it. Its processes move to the parent group."""
        return self._add({"kind": "cgroup", "path": str(path), "inode": path.stat().st_ino})

    def reserve_topic(self, bootstrap_servers: str, topic: str) -> str:
        """Note a topic before it is created on a cluster that outlives us. It is undone by deleting it, and only by its
        id."""
        return self._add({"kind": "topic", "bootstrap_servers": bootstrap_servers, "topic": topic})

    def record_topic(self, entry_id: str, topic_id: str | None) -> None:
        with self._lock:
            self._replace({**self._entries, entry_id: {**self._entries[entry_id], "topic_id": topic_id}})

    def reserve_group(self, bootstrap_servers: str, group: str, settings: Sequence[str]) -> str:
        """Note a group before it is used on a cluster that outlives us. It is undone by removing these settings and
        deleting it."""
        noted = {"bootstrap_servers": bootstrap_servers, "group": group, "settings": ",".join(settings)}
        return self._add({"kind": "group", **noted})

    def remove(self, entry_id: str) -> None:
        """The entry has been undone, or its process has ended. Unknown ids are ignored, so healing twice is no error.

        A full disk is no error here, so that the other faults are healed all the same. The entry then stays on disk
        until the next write succeeds. This does no harm, because it is undone already, and undoing it again finds
        nothing.
        """
        with self._lock:
            left = {key: entry for key, entry in self._entries.items() if key != entry_id}
            if len(left) == len(self._entries):
                return
            try:
                self._replace(left)
            except OSError:
                self._entries = left

    def close(self) -> None:
        """Call this when everything is undone. Topics and groups that could not be deleted stay in the file, for
        `harness clean`."""
        with self._lock:
            left = {key: entry for key, entry in self._entries.items() if entry["kind"] in ON_CLUSTERS}
            if left:
                self._replace(left)
            else:
                self._entries = left
                self._path.unlink(missing_ok=True)

    def _add(self, entry: dict[str, object]) -> str:
        entry_id = secrets.token_hex(8)
        with self._lock:
            self._replace({**self._entries, entry_id: entry})
        return entry_id

    def _replace(self, entries: dict[str, dict[str, object]]) -> None:
        document = {
            "format": FORMAT,
            "owner": {"pid": self._owner.pid, "start_ticks": self._owner.start_ticks},
            "place": here().as_json(),
            "entries": list(entries.values()),
        }
        write_json(self._path, document)
        self._entries = entries


__all__ = [
    "TOKEN_VARIABLE",
    "Lease",
    "ProcessIdentity",
    "Reservation",
    "default_root",
    "is_alive",
    "read_identity",
    "read_state",
    "state_root",
]
