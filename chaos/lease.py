"""Leases: what this process started or broke is on disk before it acts, so that a later start can undo it.

One JSON file per owner process, replaced atomically and fsynced at each change. An entry is a process (known by pid and
start time, and until its pid is known by a token in its environment) or an undo step of a fault. `reap` undoes what
owners that are gone have left. Known to nobody else: the layout of the files.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos import memory_group
from chaos.toxiproxy.client import NotFound, ToxiproxyClient, ToxiproxyError

TOKEN_VARIABLE = "KAFKA_HARNESS_LEASE"
TERM_GRACE_MS = 2_000
KILL_WAIT_MS = 5_000
CALL_TIMEOUT_MS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A pid alone may be reused; with the start time it names one process."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Start the process with `environment` added, then call `Lease.record_process`."""

    entry_id: str
    environment: dict[str, str]


def default_root(environment: Mapping[str, str]) -> Path:
    """Entry points pass os.environ."""
    state = environment.get("XDG_STATE_HOME") or str(Path(environment.get("HOME", "/tmp")) / ".local" / "state")
    return Path(state) / "kafka-harness" / "leases"


def read_identity(pid: int) -> ProcessIdentity | None:
    """None if there is no such process, or only its zombie is left."""
    fields = _stat_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return ProcessIdentity(pid=pid, start_ticks=int(fields[19]))


def read_state(pid: int) -> str | None:
    """The one-letter state of /proc/<pid>/stat: R, S, D, T (stopped), Z ...; None if there is no such process."""
    fields = _stat_fields(pid)
    return fields[0] if fields else None


def _stat_fields(pid: int) -> list[str] | None:
    """Fields from the state on: the name before it may itself hold blanks and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def is_alive(identity: ProcessIdentity) -> bool:
    return read_identity(identity.pid) == identity


class Lease:
    """All entries of this process. Safe to share between threads."""

    def __init__(self, root: Path) -> None:
        owner = read_identity(os.getpid())
        assert owner is not None
        root.mkdir(parents=True, exist_ok=True)
        self._path = root / f"{owner.pid}-{owner.start_ticks}-{secrets.token_hex(4)}.json"
        self._owner = owner
        self._entries: dict[str, dict[str, object]] = {}
        self._lock = threading.Lock()

    def reserve_process(self, label: str) -> Reservation:
        """On disk before the process exists."""
        token = secrets.token_hex(16)
        entry_id = self._add({"kind": "process", "label": label, "token": token})
        return Reservation(entry_id=entry_id, environment={TOKEN_VARIABLE: token})

    def record_process(self, entry_id: str, pid: int) -> None:
        identity = read_identity(pid)
        with self._lock:
            entry = self._entries[entry_id]
            entry["pid"] = pid
            entry["start_ticks"] = identity.start_ticks if identity else -1
            self._write()

    def add_proxy(self, url: str, proxy: str) -> str:
        """A proxy on a server that is not ours: undone by deleting it."""
        return self._add({"kind": "proxy", "url": url, "proxy": proxy})

    def add_proxy_disabled(self, url: str, proxy: str) -> str:
        """Undone by enabling the proxy."""
        return self._add({"kind": "proxy_disabled", "url": url, "proxy": proxy})

    def add_toxic(self, url: str, proxy: str, toxic: str) -> str:
        """Undone by removing the toxic."""
        return self._add({"kind": "toxic", "url": url, "proxy": proxy, "toxic": toxic})

    def add_stopped_process(self, pid: int) -> str:
        """A SIGSTOP: undone by SIGCONT."""
        identity = read_identity(pid)
        return self._add({"kind": "stopped", "pid": pid, "start_ticks": identity.start_ticks if identity else -1})

    def add_cgroup(self, path: Path) -> str:
        """A control group of our own: undone by removing it, its processes go to the group above."""
        return self._add({"kind": "cgroup", "path": str(path)})

    def remove(self, entry_id: str) -> None:
        """It has been undone, or the process has ended. Unknown ids are ignored: healing twice is no error."""
        with self._lock:
            if self._entries.pop(entry_id, None) is not None:
                self._write()

    def close(self) -> None:
        """Forget everything; call it when all is undone."""
        with self._lock:
            self._entries.clear()
            self._path.unlink(missing_ok=True)

    def _add(self, entry: dict[str, object]) -> str:
        entry_id = secrets.token_hex(8)
        with self._lock:
            self._entries[entry_id] = entry
            self._write()
        return entry_id

    def _write(self) -> None:
        content = {
            "owner": {"pid": self._owner.pid, "start_ticks": self._owner.start_ticks},
            "entries": list(self._entries.values()),
        }
        temporary = self._path.with_suffix(".tmp")
        with temporary.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def reap(root: Path) -> list[str]:
    """Undo what owners that are gone have left; returns a line for each thing done. Bounded in time."""
    done: list[str] = []
    for path in sorted(root.glob("*.json")) if root.is_dir() else []:
        try:
            content = json.loads(path.read_text())
            owner = ProcessIdentity(pid=content["owner"]["pid"], start_ticks=content["owner"]["start_ticks"])
            entries: list[dict[str, object]] = content["entries"]
        except FileNotFoundError:
            continue  # its owner has just closed it
        except (OSError, ValueError, KeyError, TypeError) as error:
            path.rename(path.with_suffix(".broken"))
            done.append(f"set aside unreadable lease {path.name}: {error}")
            continue
        if is_alive(owner):
            continue
        for entry in reversed(entries):
            done += _undo(entry)
        path.unlink(missing_ok=True)
    for temporary in root.glob("*.tmp") if root.is_dir() else []:
        pid_text, _, _ = temporary.name.partition("-")
        if pid_text.isdigit() and read_identity(int(pid_text)) is None:
            temporary.unlink(missing_ok=True)
    return done


def _undo(entry: dict[str, object]) -> list[str]:
    kind = entry.get("kind")
    if kind == "process":
        return _end_process(entry)
    if kind == "stopped":
        return _continue_process(entry)
    if kind in ("toxic", "proxy_disabled", "proxy"):
        return _heal_proxy(entry)
    if kind == "cgroup":
        return _remove_cgroup(Path(str(entry.get("path"))))
    return [f"left alone an entry of unknown kind {kind!r}"]


def _end_process(entry: dict[str, object]) -> list[str]:
    found = _find_process(entry)
    if found is None:
        return []
    # A stopped process must be continued to see SIGTERM.
    for number, wait_ms in ((signal.SIGTERM, TERM_GRACE_MS), (signal.SIGKILL, KILL_WAIT_MS)):
        if not is_alive(found):
            break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(found.pid, number)
            os.kill(found.pid, signal.SIGCONT)
        _wait_gone(found, wait_ms)
    if is_alive(found):
        return [f"could not end {entry.get('label')} (pid {found.pid})"]
    return [f"ended {entry.get('label')} (pid {found.pid})"]


def _find_process(entry: dict[str, object]) -> ProcessIdentity | None:
    pid, start_ticks = entry.get("pid"), entry.get("start_ticks")
    if isinstance(pid, int) and isinstance(start_ticks, int):
        identity = ProcessIdentity(pid=pid, start_ticks=start_ticks)
        return identity if is_alive(identity) else None
    token = f"{TOKEN_VARIABLE}={entry.get('token')}".encode()
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if token in (directory / "environ").read_bytes().split(b"\0"):
                return read_identity(int(directory.name))
    return None


def _continue_process(entry: dict[str, object]) -> list[str]:
    pid, start_ticks = entry.get("pid"), entry.get("start_ticks")
    if not isinstance(pid, int) or not isinstance(start_ticks, int):
        return []
    if not is_alive(ProcessIdentity(pid=pid, start_ticks=start_ticks)) or read_state(pid) != "T":
        return []
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGCONT)
        return [f"continued pid {pid}"]
    return []


def _remove_cgroup(path: Path) -> list[str]:
    if not path.is_dir():
        return []
    try:
        memory_group.remove(path)
    except OSError as error:
        return [f"could not remove control group {path}: {error}"]
    return [f"removed control group {path}"]


def _heal_proxy(entry: dict[str, object]) -> list[str]:
    url, proxy = str(entry.get("url")), str(entry.get("proxy"))
    client = ToxiproxyClient(url, timeout_ms=CALL_TIMEOUT_MS)
    try:
        if entry["kind"] == "proxy":
            client.delete(proxy)
            return [f"deleted proxy {proxy} at {url}"]
        if entry["kind"] == "proxy_disabled":
            client.enable(proxy)
            return [f"enabled proxy {proxy} at {url}"]
        client.remove_toxic(proxy, str(entry.get("toxic")))
        return [f"removed toxic {entry.get('toxic')} of {proxy} at {url}"]
    except NotFound:
        return []
    except ToxiproxyError as error:
        # Mostly the server is gone too, and with it the fault.
        return [f"proxy {proxy} at {url} not reached: {error}"] if error.status else []
    finally:
        client.close()


def _wait_gone(identity: ProcessIdentity, wait_ms: int) -> None:
    deadline = time.monotonic() + wait_ms / 1000
    while is_alive(identity) and time.monotonic() < deadline:
        time.sleep(0.02)
