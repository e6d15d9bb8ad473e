"""A disk that fails on demand. It is a FileSystem around another one, and a control file switches it while the broker
runs.

Owns two things: which calls on segment files are delayed, refused or silently skipped, and the account of what a loss
of power would leave of these files. Checkpoints and indexes are never affected, because the faults are about the data
of partitions. The files of the quorum (`__cluster_metadata-0`: its log, its vote) are affected only by a fault whose
`path` names that directory.

The control file (`harness.disk.faults`) is JSON and is replaced as a whole. It is read at most every 20 ms:

    {"faults": [{"call": "write", "error": "ENOSPC"}, {"call": "any", "delay_ms": 20}, {"call": "sync", "lost": true}]}

- `call` is write, sync, truncate, read, open or any (one of the first four).
- `path` is a part of the file's path, "" for every segment file.
- `skip` lets this many calls pass first.

`<control file>.seen` counts the calls that each fault affected. `<control file>.durable` notes up to which size each
segment file was written and synced. It has one note per line, `w|s|t monotonic_ms size path` for written, synced and
truncated. The harness computes from it what a loss of power leaves. Shown by tests/broker_log/test_log_disk_faults.py.
"""

from __future__ import annotations

import errno
import json
import os
import time
from dataclasses import dataclass

from broker.log.filesystem import Buffer, File, FileSystem

CONTROL_INTERVAL_S = 0.02
# Time between two notes about a file that is written to. The age of unsynced bytes is known to this precision.
NOTE_INTERVAL_S = 0.02
CALLS = ("write", "sync", "truncate", "read")  # what `any` stands for
OPEN = "open"
SEGMENT_SUFFIX = ".log"
METADATA_DIRECTORY = "__cluster_metadata-0"
SEEN_SUFFIX, DURABLE_SUFFIX = ".seen", ".durable"


@dataclass(slots=True, kw_only=True)
class DiskFault:
    call: str
    error: str = ""  # the name of an errno
    delay_ms: int = 0
    lost: bool = False  # True: a sync that reports success but does nothing
    skip: int = 0
    path: str = ""
    matched: int = 0

    def is_for(self, call: str, path: str) -> bool:
        is_call = self.call == call or (self.call == "any" and call in CALLS)
        is_meant = METADATA_DIRECTORY not in path or METADATA_DIRECTORY in self.path
        return is_call and is_meant and self.path in path


def parse_control(text: str) -> list[DiskFault]:
    """Raises ValueError with a message that says what is wrong."""
    document = json.loads(text)
    if not isinstance(document, dict) or not isinstance(document.get("faults"), list):
        raise ValueError('expected {"faults": [..]}')
    faults = []
    for item in document["faults"]:
        if not isinstance(item, dict):
            raise ValueError(f"expected a mapping, got {item!r}")
        unknown = set(item) - {"call", "error", "delay_ms", "lost", "skip", "path"}
        if unknown:
            raise ValueError(f"unknown key {sorted(unknown)[0]!r}")
        fault = DiskFault(**item)
        if fault.call not in (*CALLS, OPEN, "any"):
            raise ValueError(f"call is {fault.call!r}, expected one of {', '.join((*CALLS, OPEN, 'any'))}")
        if not isinstance(fault.path, str):
            raise ValueError(f"path is {fault.path!r}, expected a part of a file's path")
        if fault.error and not hasattr(errno, fault.error):
            raise ValueError(f"error is {fault.error!r}, expected the name of an errno like EIO, ENOSPC or EROFS")
        if fault.lost and fault.call != "sync":
            raise ValueError("lost belongs to call sync")
        if not (fault.error or fault.delay_ms > 0 or fault.lost):
            raise ValueError("a fault needs error, delay_ms or lost: without them it does nothing")
        faults.append(fault)
    return faults


class DiskControl:
    """The current control file, the counts of what it caused, and the account of durable bytes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._faults: list[DiskFault] = []
        self._version: tuple[int, int] | None = None
        self._next_look_s = 0.0
        self._counts: dict[str, int] = {}
        self._noted: dict[str, float] = {}
        self._durable = os.open(path + DURABLE_SUFFIX, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def apply(self, call: str, path: str) -> bool:
        """Apply the control file to this call. True if the call must only pretend to be done. Raises OSError."""
        self._look()
        is_lost = False
        for fault in self._faults:
            if not fault.is_for(call, path):
                continue
            fault.matched += 1
            if fault.matched <= fault.skip:
                continue
            self._count(call)
            if fault.delay_ms:
                time.sleep(fault.delay_ms / 1000)  # the broker's storage is synchronous, so a slow disk blocks it
            if fault.error:
                number = getattr(errno, fault.error)
                raise OSError(number, f"{os.strerror(number)} (disk fault)", path)
            is_lost |= fault.lost
        return is_lost

    def written(self, path: str, size: int) -> None:
        now_s = time.monotonic()
        if now_s - self._noted.get(path, 0.0) >= NOTE_INTERVAL_S:
            self._noted[path] = now_s
            self._note("w", path, size)

    def synced(self, path: str, size: int) -> None:
        self._note("s", path, size)

    def truncated(self, path: str, size: int) -> None:
        self._note("t", path, size)

    def _note(self, kind: str, path: str, size: int) -> None:
        line = f"{kind} {int(time.monotonic() * 1000)} {size} {path}\n"
        os.write(self._durable, line.encode())

    def _look(self) -> None:
        now_s = time.monotonic()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + CONTROL_INTERVAL_S
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            self._faults, self._version = [], None
            return
        version = (found.st_mtime_ns, found.st_ino)
        if version != self._version:
            with open(self._path, encoding="utf-8") as file:
                self._faults = parse_control(file.read())
            self._version = version
            self._counts = {}

    def _count(self, call: str) -> None:
        self._counts[call] = self._counts.get(call, 0) + 1
        temporary = self._path + SEEN_SUFFIX + ".tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(self._counts, file)
        os.replace(temporary, self._path + SEEN_SUFFIX)  # a reader always finds a whole file


class FaultyFile:
    """One segment file."""

    __slots__ = ("_control", "_file", "_path")

    def __init__(self, file: File, path: str, control: DiskControl) -> None:
        self._file, self._path, self._control = file, path, control

    def size_bytes(self) -> int:
        return self._file.size_bytes()

    def read_at(self, position: int, size: int) -> bytes:
        self._control.apply("read", self._path)
        return self._file.read_at(position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        self._control.apply("write", self._path)
        self._file.write_at(position, data)
        self._control.written(self._path, position + len(data))

    def truncate(self, size: int) -> None:
        self._control.apply("truncate", self._path)
        self._file.truncate(size)
        self._control.truncated(self._path, size)

    def sync(self) -> None:
        if self._control.apply("sync", self._path):
            return
        self._file.sync()
        self._control.synced(self._path, self._file.size_bytes())

    def close(self) -> None:
        self._file.close()


class FaultyFileSystem:
    """Faults act on segment files of partitions and on the files of the quorum. All other files are passed through."""

    def __init__(self, inner: FileSystem, control_path: str) -> None:
        self._inner = inner
        self._control = DiskControl(control_path)

    def open(self, path: str) -> File:
        if not path.endswith(SEGMENT_SUFFIX):
            return self._inner.open(path)
        self._control.apply(OPEN, path)
        return FaultyFile(self._inner.open(path), path, self._control)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def list_directory(self, path: str) -> list[str]:
        return self._inner.list_directory(path)

    def make_directory(self, path: str) -> None:
        self._inner.make_directory(path)

    def read_bytes(self, path: str) -> bytes:
        if METADATA_DIRECTORY in path:
            self._control.apply("read", path)
        return self._inner.read_bytes(path)

    def write_atomically(self, path: str, data: bytes) -> None:
        if METADATA_DIRECTORY in path:
            self._control.apply("write", path)
        self._inner.write_atomically(path, data)

    def sync_directory(self, path: str) -> None:
        if METADATA_DIRECTORY in path:
            self._control.apply("sync", path)
        self._inner.sync_directory(path)

    def remove(self, path: str) -> None:
        self._inner.remove(path)

    def rename(self, source: str, target: str) -> None:
        self._inner.rename(source, target)

    def remove_tree(self, path: str) -> None:
        self._inner.remove_tree(path)
