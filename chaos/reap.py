"""Undoes what is in the leases of owners that have ended, and nothing else.

- An owner has ended if its process does not exist any more. This can be seen only from the same host, boot and PID
  namespace, or on the same machine after a restart.
- Leases of other places are never acted on, because their owners cannot be seen from here.
- A process is ended only if it belongs to our user, has the start time of the lease, and has the token of the lease in
  its environment.
- No lease prevents a start, whatever it contains. A lease that cannot be read is renamed.

Shown by tests/chaos/test_chaos_lease.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from chaos import memory_group
from chaos.lease_file import KINDS, ON_CLUSTERS, Entry, LeaseFile, LeaseProblem, own_directory, read_lease
from chaos.process_identity import (
    ProcessIdentity,
    find_by_token,
    is_alive,
    is_ours,
    read_state,
)
from chaos.toxiproxy.calls import NotFound, ToxiproxyError, Unreachable
from chaos.toxiproxy.client import ToxiproxyClient
from runlog.files.documents import remove_halves, write_json
from runlog.files.place import Where, here

TERM_GRACE_MS: Final = 2_000
KILL_WAIT_MS: Final = 5_000
CALL_TIMEOUT_MS: Final = 2_000
LEASES_MAX: Final = 1_000  # leases that are read at one start
REAP_MAX_MS: Final = 60_000  # after this time the rest waits for the next start
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")


def reap(root: Path) -> list[str]:
    """Undo what ended owners have left. Returns one line for each thing done. It takes a limited time."""
    done: list[str] = []
    deadline = time.monotonic() + REAP_MAX_MS / 1000
    for path, lease in _leases(root, done):
        where = _where(lease)
        if _has_owner(lease, where):
            continue
        dead_servers: set[str] = set()
        for entry in reversed(lease.entries):
            if time.monotonic() > deadline:
                return [*done, f"not all that crashed runs have left was undone within {REAP_MAX_MS // 1000} s"]
            done += _undo(entry, where, dead_servers)
        _keep(path, [entry for entry in lease.entries if entry.kind in ON_CLUSTERS], lease)
    remove_halves(root)
    return done


def _where(lease: LeaseFile) -> Where:
    """Where the owner of the lease is. A lease of an older harness does not say it."""
    return "elsewhere" if lease.place is None else lease.place.seen_from(here())


def _has_owner(lease: LeaseFile, where: Where) -> bool:
    """Whether somebody may still use what is in the lease. The owner is alive, or cannot be seen from here."""
    return where == "elsewhere" or (where == "here" and is_alive(lease.owner))


def _keep(path: Path, entries: Sequence[Entry], lease: LeaseFile) -> None:
    """Keep only these entries in the file. Without entries the file is removed. An error does no harm, because the
    other entries are undone already, and undoing them again finds nothing."""
    with contextlib.suppress(OSError):
        if not entries:
            path.unlink(missing_ok=True)
        elif len(entries) < len(lease.entries):
            write_json(path, lease.with_entries(entries))


def left_on_clusters(root: Path) -> list[str]:
    """Topics and groups that ended runs have left on clusters of others. One line for each lease."""
    lines: list[str] = []
    for _, lease in _leases(root, lines):
        found = [entry for entry in lease.entries if entry.kind in ON_CLUSTERS]
        if found and not _has_owner(lease, _where(lease)):
            at = ", ".join(sorted({entry.bootstrap_servers for entry in found}))
            counts = [(kind, sum(entry.kind == kind for entry in found)) for kind in ON_CLUSTERS]
            what = " and ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts if count)
            lines.append(f"{what} of an ended run on {at}: `harness clean` deletes what is still there")
    return lines


def left_alone(root: Path) -> list[str]:
    """Leases that `reap` does not act on, because their owners cannot be seen from here. One line for each."""
    lines: list[str] = []
    for path, lease in _leases(root, lines):
        if lease.place is None:
            if not is_alive(lease.owner):
                lines.append(f"left alone {path}: an older harness wrote it; remove it when no run of that one goes on")
        elif _where(lease) == "elsewhere":
            place = lease.place
            lines.append(
                f"left alone {path}: its owner is pid {lease.owner.pid} on {place.host}, {place.pid_namespace}, which "
                "cannot be seen from here; remove it when that run is over"
            )
    return lines


def settle(root: Path, delete: Callable[[Entry], str]) -> list[str]:
    """Delete the topics and groups of ended owners. `delete` returns why one could not be deleted, or an empty text.
    Returns one line for each."""
    lines: list[str] = []
    for path, lease in _leases(root, lines):
        if _has_owner(lease, _where(lease)):
            continue
        kept: list[Entry] = []
        # A group that reads a topic is deleted before it.
        for entry in sorted(lease.entries, key=lambda each: each.kind != "group"):
            if entry.kind not in ON_CLUSTERS:
                kept.append(entry)  # `reap` ran out of time; these wait for the next start
                continue
            problem, name = delete(entry), f"{entry.kind} {entry.topic or entry.group} at {entry.bootstrap_servers}"
            lines.append(f"{name} stays: {problem}" if problem else f"deleted {name}")
            if problem:
                kept.append(entry)
        _keep(path, kept, lease)
    return lines


def _leases(root: Path, problems: list[str]) -> Iterator[tuple[Path, LeaseFile]]:
    """The leases that can be trusted. The others are renamed, and `problems` gets a line for each."""
    if not os.path.lexists(root):
        return
    try:
        paths = sorted(own_directory(root).glob("*.json"))[:LEASES_MAX]
    except OSError as error:
        problems.append(f"leases were not looked at: {error}")
        return
    for path in paths:
        try:
            lease = read_lease(path)
        except FileNotFoundError:
            continue  # its owner has just closed it
        except LeaseProblem as error:
            problems.append(f"set aside unreadable lease {path.name}: {error}")
            with contextlib.suppress(OSError):
                path.rename(path.with_suffix(".broken"))
            continue
        yield path, lease


def _undo(entry: Entry, where: Where, dead_servers: set[str]) -> list[str]:
    """Undo one entry. Processes and control groups end when their host restarts. A Toxiproxy server may be on another
    host, so its faults may still exist."""
    if entry.kind in ON_CLUSTERS:
        return []
    if entry.kind in _ON_PROXY_SERVERS:
        return [] if entry.url in dead_servers else _heal_proxy(entry, dead_servers)
    if (undo := _ON_THIS_HOST.get(entry.kind)) is None:
        return [f"left alone an entry of unknown kind {entry.kind!r}"]
    return undo(entry) if where == "here" else []


def _end_process(entry: Entry) -> list[str]:
    if not _TOKEN.fullmatch(entry.token):
        return []
    found = entry.identity if entry.pid is not None else find_by_token(entry.token)
    if found is None or not is_ours(found, entry.token):
        return []
    # A stopped process handles SIGTERM only after SIGCONT.
    for number, wait_ms in ((signal.SIGTERM, TERM_GRACE_MS), (signal.SIGKILL, KILL_WAIT_MS)):
        if not is_alive(found):
            break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(found.pid, number)
            os.kill(found.pid, signal.SIGCONT)
        _wait_gone(found, wait_ms)
    if is_alive(found):
        return [f"could not end {entry.label} (pid {found.pid})"]
    return [f"ended {entry.label} (pid {found.pid})"]


def _continue_process(entry: Entry) -> list[str]:
    identity = entry.identity
    if identity is None or not _TOKEN.fullmatch(entry.token):
        return []
    if not is_ours(identity, entry.token) or read_state(identity.pid) != "T":
        return []
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(identity.pid, signal.SIGCONT)
        return [f"continued pid {identity.pid}"]
    return []


def _remove_cgroup(entry: Entry) -> list[str]:
    path = Path(entry.path)
    if not memory_group.is_own(path, entry.inode):
        return [] if not path.is_dir() else [f"left alone {path}: it is no control group that a run has made"]
    try:
        memory_group.remove(path)
    except OSError as error:
        return [f"could not remove control group {path}: {error}"]
    return [f"removed control group {path}"]


# How each kind is undone that ends with its host. Each function returns one line for what it did.
_ON_THIS_HOST: Final[Mapping[str, Callable[[Entry], list[str]]]] = {
    "process": _end_process, "stopped": _continue_process, "cgroup": _remove_cgroup,
}  # fmt: skip
_ON_PROXY_SERVERS: Final = ("toxic", "proxy_disabled", "proxy")
assert {*_ON_THIS_HOST, *_ON_PROXY_SERVERS, *ON_CLUSTERS} == set(KINDS)


def _heal_proxy(entry: Entry, dead_servers: set[str]) -> list[str]:
    url, proxy = entry.url, entry.proxy
    if not url or not proxy:
        return []
    client = ToxiproxyClient(url, timeout_ms=CALL_TIMEOUT_MS)
    try:
        # The server of a later run may have the same address and a proxy with the same name.
        if client.proxy(proxy).upstream != entry.upstream:
            return [f"left alone proxy {proxy} at {url}: it leads elsewhere than the one that the run made"]
        if entry.kind == "proxy":
            client.delete(proxy)
            return [f"deleted proxy {proxy} at {url}"]
        if entry.kind == "proxy_disabled":
            client.enable(proxy)
            return [f"enabled proxy {proxy} at {url}"]
        client.remove_toxic(proxy, entry.toxic)
        return [f"removed toxic {entry.toxic} of {proxy} at {url}"]
    except NotFound:
        return []
    except Unreachable:  # usually the server has ended too, and the fault with it
        dead_servers.add(url)
        return []
    except ToxiproxyError as error:
        if not error.status:  # the process that answers is not a Toxiproxy server
            dead_servers.add(url)
        return [f"proxy {proxy} at {url} was not healed: {error}"]
    finally:
        client.close()


def _wait_gone(identity: ProcessIdentity, wait_ms: int) -> None:
    deadline = time.monotonic() + wait_ms / 1000
    while is_alive(identity) and time.monotonic() < deadline:
        time.sleep(0.02)
