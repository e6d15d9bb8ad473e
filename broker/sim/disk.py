"""A simulated disk that forgets. When the power fails, what was not synced may be lost, in part or as a whole.

It belongs to a host, so it outlives processes. Killing a process loses nothing, because the page cache is the kernel's.
A loss of power:

- keeps the synced part of each file. Of the later writes it keeps a random part: each is there, torn at a sector, or
  absent, in any order, as with the cache of a drive.
- may undo the last changes of a directory's entries (a file created, removed, renamed or replaced, a directory made),
  in order, as with the journal of a file system. They are safe only after `sync_directory`. Syncing a file does not
  make its name safe.

Calls fail by the rules in `failures`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from broker.log.filesystem import Buffer
from broker.sim.loop import spend_us
from broker.sim.scheduler import Scheduler

# What a call takes: microseconds, and bytes a microsecond. See broker/sim/costs.py.
CALL_US = {
    "write": 20,
    "read": 20,
    "open": 50,
    "truncate": 100,
    "sync": 1_000,
    "syncdir": 500,
    "replace": 1_500,
    "rename": 0,  # the sync of its directory includes the time of both
}
CREATE_US = 2_000  # of a file or a directory, beside the call
BYTES_PER_US = 5  # 5 MB/s
SECTOR_BYTES = 512
JOURNAL_MAX = 50  # changes of one directory's entries that may be lost; older ones are committed by the file system


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    position: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Truncate:
    size: int


_Change = _Write | _Truncate


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _apply(content: bytearray, change: _Change) -> None:
    if isinstance(change, _Write):
        end = change.position + len(change.data)
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        content[change.position : end] = change.data
    elif change.size <= len(content):
        del content[change.size :]
    else:
        content.extend(bytes(change.size - len(content)))


@dataclass(slots=True, kw_only=True)
class Failure:
    """Calls of one kind on files whose path contains `where` fail, after `skip` of them have passed."""

    # write, sync, truncate, read, open, rename (by the new path), replace (a whole file at once), syncdir
    call: str
    where: str  # a part of the path, e.g. "/t-0/" or "quorum-state"
    error: int = errno.EIO
    skip: int = 0
    is_once: bool = True  # otherwise it goes on until it is removed from the disk's failures
    met: int = 0  # how many calls it has made fail


@dataclass(slots=True)
class _Node:
    """A file. `durable` plus all of `unsynced` is `content`."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[_Change] = field(default_factory=list)

    def change(self, change: _Change) -> None:
        _apply(self.content, change)
        self.unsynced.append(change)

    def sync(self) -> None:
        for change in self.unsynced:
            _apply(self.durable, change)
        self.unsynced.clear()


class SimDisk:
    def __init__(self, *, scheduler: Scheduler, rng: random.Random, name: str) -> None:
        self._scheduler, self._rng, self._name = scheduler, rng, name
        self._files: dict[str, _Node] = {}
        self._directories: dict[str, None] = {}
        # By directory: how to undo what was done to its entries, oldest first.
        self._journals: dict[str, list[Callable[[], None]]] = {}
        self.changed_paths: dict[str, None] = {}  # since the checker looked last
        self.operations_to_death: int | None = None  # counts down; `on_death` is called instead of reaching 0
        self.may_die: Callable[[], bool] = lambda: True  # asked at that operation; if no, perhaps at the next one
        self.on_death: Callable[[], None] = lambda: None  # ends the process, or the power too
        self.failures: list[Failure] = []
        self.on_failure: Callable[[Failure, str], None] = lambda failure, path: None  # told of each failed call
        self.last_failed = ""  # the call that failed last
        self._is_observed = False  # read by the checker: nothing fails for it, no failure is used up, no time passes
        self.boots = 1
        self.lost_changes = 0
        self.lost_entries = 0  # of these, changes of a directory
        self.torn_writes = 0

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boots}"

    @property
    def files(self) -> dict[str, bytes]:
        """A copy of all contents."""
        return {path: bytes(node.content) for path, node in self._files.items()}

    @contextlib.contextmanager
    def observed(self) -> Iterator[None]:
        """Within this context the checker reads: nothing fails for it, and no failure is used up."""
        self._is_observed = True
        try:
            yield
        finally:
            self._is_observed = False

    def holds(self, path: str) -> bool:
        return path in self._files

    def has_directory(self, path: str) -> bool:
        return path in self._directories or any(each.startswith(f"{path}/") for each in self._files)

    def content(self, path: str) -> bytes:
        """The content as it is read if nothing fails."""
        return bytes(self._files[path].content)

    def overwrite(self, path: str, data: bytes) -> None:
        self._files[path] = _Node(content=bytearray(data), durable=bytearray(data))

    def remove(self, path: str) -> None:
        del self._files[path]

    def restore(self, files: dict[str, bytes]) -> None:
        for path, data in files.items():
            self.overwrite(path, data)
            parts = path.split("/")
            for depth in range(2, len(parts)):
                self._directories["/".join(parts[:depth])] = None

    def mount(self) -> SimFileSystem:
        """For one life of a process; `SimFileSystem.detach` ends it."""
        return SimFileSystem(self)

    def lose_power(self, at_risk: float | None = None) -> None:
        """Forget what was not synced: nearly all of it or little, depending on how much the kernel has written back.

        `at_risk` is the share of the unsynced writes that may be affected. None: chance decides.
        """
        self.boots += 1
        at_risk = self._rng.choice((1.0, 0.5, 0.04)) if at_risk is None else at_risk
        self._lose_entries(at_risk)
        for path, node in self._files.items():
            for change in node.unsynced:
                survivor = self._survivor(change) if self._rng.random() < at_risk else change
                if survivor is None:
                    self.lost_changes += 1
                else:
                    _apply(node.durable, survivor)
            node.unsynced.clear()
            node.content = bytearray(node.durable)
            self.changed_paths[path] = None

    def _lose_entries(self, at_risk: float) -> None:
        """The last unsynced changes of each directory: none of them, some, or all."""
        for journal in list(self._journals.values()):
            if self._rng.random() >= at_risk:
                continue
            kept = self._rng.randrange(len(journal) + 1)
            self.lost_changes += len(journal) - kept
            self.lost_entries += len(journal) - kept
            for undo in reversed(journal[kept:]):
                undo()
        self._journals.clear()

    def _journal(self, directory: str, undo: Callable[[], None]) -> None:
        journal = self._journals.setdefault(directory, [])
        journal.append(undo)
        if len(journal) > JOURNAL_MAX:
            del journal[0]

    def _put(self, path: str, node: _Node) -> None:
        """Create or replace the entry."""
        before = self._files.get(path)
        self._files[path] = node

        def undo() -> None:
            if before is None:
                self._files.pop(path, None)
            else:
                self._files[path] = before
            self.changed_paths[path] = None

        self._journal(_parent(path), undo)

    def _take(self, path: str) -> _Node:
        """Remove the entry."""
        node, directory = self._files.pop(path), _parent(path)

        def undo() -> None:
            self._files[path] = node
            self._directories[directory] = None
            self.changed_paths[path] = None

        self._journal(directory, undo)
        return node

    def _move(self, source: str, target: str) -> None:
        node, before = self._files.pop(source), self._files.get(target)
        self._files[target] = node

        def undo() -> None:
            self._files[source] = node
            if before is None:
                self._files.pop(target, None)
            else:
                self._files[target] = before
            self.changed_paths[target] = None

        self._journal(_parent(target), undo)

    def _move_tree(self, source: str, target: str) -> None:
        def move(old: str, new: str) -> None:
            for path in [path for path in self._files if path.startswith(f"{old}/")]:
                self._files[new + path[len(old) :]] = self._files.pop(path)
                self.changed_paths[path] = None
            self._directories.pop(old, None)
            self._directories[new] = None

        move(source, target)
        self._journals.pop(source, None)  # earlier changes of its entries are not undone under the new name
        self._journal(_parent(target), lambda: move(target, source))

    def _make(self, directory: str) -> None:
        if directory in self._directories or not _parent(directory):
            self._directories[directory] = None  # what the disk is mounted at is there
            return
        self._directories[directory] = None

        def undo() -> None:
            for path in [path for path in self._files if path.startswith(f"{directory}/")]:
                del self._files[path]
                self.changed_paths[path] = None
            self._directories.pop(directory, None)

        self._journal(_parent(directory), undo)

    def _survivor(self, change: _Change) -> _Change | None:
        fate = self._rng.random()
        if fate < 0.3:
            return None
        if fate < 0.45 or isinstance(change, _Truncate):
            return change
        self.torn_writes += 1
        keep = self._rng.randrange(len(change.data) + 1)
        if self._rng.random() < 0.5:
            keep -= keep % SECTOR_BYTES
        if self._rng.random() < 0.5:
            # The size of the file was journaled, the data was not. The result is zeros, as after a crash of ext4 or
            # XFS.
            return _Write(position=change.position, data=change.data[:keep] + bytes(len(change.data) - keep))
        return _Write(position=change.position, data=change.data[:keep])

    def check(self, call: str, path: str, size_bytes: int = 0) -> None:
        """Spends the time of this call. Raises OSError if the call must fail."""
        if self._is_observed:
            return
        spend_us(CALL_US[call] + size_bytes // BYTES_PER_US)
        for failure in self.failures:
            if failure.call != call or failure.where not in path or (failure.is_once and failure.met):
                continue
            if failure.skip > 0:
                failure.skip -= 1
                continue
            failure.met += 1
            self.last_failed = call
            self._scheduler.note(f"{self._name} failed {call} {path}")
            self.on_failure(failure, path)
            raise OSError(failure.error, os.strerror(failure.error), path)

    def _touch(self, path: str, what: str, data: bytes = b"") -> None:
        self._scheduler.note(f"{self._name} {what} {path}", data)
        self.changed_paths[path] = None
        if self.fails_at_next_operation():
            self.operations_to_death = None
            self.on_death()
        elif self.operations_to_death is not None and self.operations_to_death > 1:
            self.operations_to_death -= 1

    def fails_at_next_operation(self) -> bool:
        return self.operations_to_death == 1 and self.may_die()


class SimFileSystem:
    """broker.log.FileSystem over a SimDisk. Once detached, it takes no changes, because its process is dead."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self.is_detached = False

    def detach(self) -> None:
        self.is_detached = True

    def _check(self, call: str, path: str, size_bytes: int = 0) -> None:
        if not self.is_detached:
            self._disk.check(call, path, size_bytes)

    def open(self, path: str) -> SimFile:
        self._check("open", path)
        if not self.is_detached and path not in self._disk._files:
            spend_us(CREATE_US)
            self._disk._put(path, _Node())
            self._disk._touch(path, "create")
        return SimFile(self, path, self._disk._files.get(path) or _Node())

    def exists(self, path: str) -> bool:
        return path in self._disk._files or path in self._disk._directories

    def list_directory(self, path: str) -> list[str]:
        prefix = f"{path}/"
        everything = (*self._disk._files, *self._disk._directories)
        return sorted({each[len(prefix) :].split("/")[0] for each in everything if each.startswith(prefix)})

    def make_directory(self, path: str) -> None:
        if not self.is_detached:
            spend_us(CREATE_US)
            self._disk._make(path)

    def read_bytes(self, path: str) -> bytes:
        node = self._disk._files.get(path)
        self._check("read", path, 0 if node is None else len(node.content))
        if node is None:
            raise FileNotFoundError(path)
        return bytes(node.content)

    def write_atomically(self, path: str, data: bytes) -> None:
        if self.is_detached:
            return
        self._check("replace", path, len(data))
        self._disk._put(path, _Node(content=bytearray(data), durable=bytearray(data)))
        self._disk._touch(path, "replace", data)

    def sync_directory(self, path: str) -> None:
        if self.is_detached:
            return
        self._check("syncdir", f"{path}/")
        disk = self._disk
        if disk.fails_at_next_operation():
            disk._touch(path, "dies at syncdir")
            return
        disk._journals.pop(path, None)
        disk._touch(path, "syncdir")

    def remove(self, path: str) -> None:
        if not self.is_detached and path in self._disk._files:
            self._disk._take(path)
            self._disk._touch(path, "remove")

    def rename(self, source: str, target: str) -> None:
        """Within a directory, as all renames are. A file, or a directory with its contents."""
        if self.is_detached:
            return
        self._check("rename", target)
        if source in self._disk._directories:
            self._disk._move_tree(source, target)
        else:
            self._disk._move(source, target)
        self._disk._touch(target, "rename")

    def remove_tree(self, path: str) -> None:
        if self.is_detached:
            return
        prefix = f"{path}/"
        for each in sorted(each for each in self._disk._files if each.startswith(prefix)):
            self._disk._take(each)
        for each in [each for each in self._disk._directories if each == path or each.startswith(prefix)]:
            del self._disk._directories[each]
        self._disk._touch(path, "removetree")


class SimFile:
    """An open file of one life."""

    __slots__ = ("_filesystem", "_node", "_path")

    def __init__(self, filesystem: SimFileSystem, path: str, node: _Node) -> None:
        self._filesystem, self._path, self._node = filesystem, path, node

    def size_bytes(self) -> int:
        return len(self._node.content)

    def read_at(self, position: int, size: int) -> bytes:
        self._filesystem._check("read", self._path, min(size, max(0, len(self._node.content) - position)))
        return bytes(memoryview(self._node.content)[position : position + size])

    def write_at(self, position: int, data: Buffer) -> None:
        if self._filesystem.is_detached:
            return
        disk = self._filesystem._disk
        content = bytes(data)
        try:
            disk.check("write", self._path, len(content))
        except OSError:  # half way: the part that was written stays
            self._node.change(_Write(position=position, data=content[: len(content) // 2]))
            disk._touch(self._path, "failed write", content)
            raise
        self._node.change(_Write(position=position, data=content))
        disk._touch(self._path, "write", content)

    def truncate(self, size: int) -> None:
        if self._filesystem.is_detached:
            return
        self._filesystem._check("truncate", self._path)
        self._node.change(_Truncate(size=size))
        self._filesystem._disk._touch(self._path, f"truncate to {size}")

    def sync(self) -> None:
        if self._filesystem.is_detached:
            return
        # The process may end before the sync has done anything, or after it.
        disk = self._filesystem._disk
        disk.check("sync", self._path)
        if disk.fails_at_next_operation():
            disk._touch(self._path, "dies at sync")
            return
        self._node.sync()
        disk._touch(self._path, "sync")

    def close(self) -> None:
        return
