"""Finds in /proc which process listens on a port of this host.

Shown by tests/chaos/test_chaos_toxiproxy_server.py.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_LISTENING: Final = "0A"  # TCP_LISTEN in the tables of the kernel
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")


def may_listen(pid: int, port: int) -> bool:
    """Whether this process itself listens on this TCP port. True too if /proc does not tell: on another system than
    Linux, or for a process of another user. False if the process is gone."""
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
        listening = {inode for name in ("tcp", "tcp6") for inode in _listening(Path(f"/proc/{pid}/net/{name}"), port)}
    except FileNotFoundError:
        return not Path("/proc/self/fd").exists()
    except OSError:
        return True
    return not listening.isdisjoint(_inodes(descriptors))


def _listening(table: Path, port: int) -> set[str]:
    """The inodes of the sockets that listen on the port. tcp6 is missing on a host without IPv6."""
    if not table.exists():
        return set()
    rows = [line.split() for line in table.read_text().splitlines()[1:]]
    wanted = f":{port:04X}"  # the tables have addresses in hexadecimal digits
    return {row[9] for row in rows if row[3] == _LISTENING and row[1].endswith(wanted)}


def _inodes(descriptors: list[Path]) -> set[str]:
    found = set()
    for descriptor in descriptors:
        try:
            match = _SOCKET.fullmatch(os.readlink(descriptor))
        except FileNotFoundError:
            continue  # it was closed meanwhile
        if match:
            found.add(match[1])
    return found
