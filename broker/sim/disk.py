"""A simulated disk that forgets: what was not synced may be lost, in part or whole, when the power goes.

Owned by a host, so it outlives processes. Killing a process loses nothing (the page cache is the kernel's). A loss of
power keeps of each file what was synced and, of the writes after that, a random part: each is there, torn at a sector,
or absent, in any order, as with a drive's cache. Replacing a file is atomic; that it was replaced is sure only after
`sync_directory`. Creating and removing files is taken as journaled at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.log.filesystem import Buffer
from broker.sim.scheduler import Scheduler

SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    position: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Truncate:
    size: int


_Change = _Write | _Truncate


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


@dataclass(slots=True)
class _Node:
    """A file. `durable` plus all of `unsynced` is `content`."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[_Change] = field(default_factory=list)
    replaced: bytes | None = None  # what a not yet synced replacement stands for
    is_replacement_unsynced: bool = False

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
        self.changed_paths: dict[str, None] = {}  # since the checker looked last
        self.operations_to_death: int | None = None  # counts down; `on_death` is called instead of reaching 0
        self.may_die: Callable[[], bool] = lambda: True  # asked at that operation; no: at the next one, perhaps
        self.on_death: Callable[[], None] = lambda: None  # ends the process, or the power too
        self.writes_to_failure: int | None = None  # counts down writes of partition logs; that one fails half way
        self.boots = 1
        self.lost_changes = 0
        self.torn_writes = 0

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boots}"

    @property
    def files(self) -> dict[str, bytes]:
        """A copy of all contents."""
        return {path: bytes(node.content) for path, node in self._files.items()}

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
        """Forget what was not synced: nearly all of it, or little, as the kernel has written back much or not yet.

        `at_risk` is the share of the unsynced writes to which something may happen; None: chance decides.
        """
        self.boots += 1
        at_risk = self._rng.choice((1.0, 0.5, 0.04)) if at_risk is None else at_risk
        for path in list(self._files):
            node = self._files[path]
            if node.is_replacement_unsynced and self._rng.random() < 0.5:
                self.lost_changes += 1
                if node.replaced is None:
                    del self._files[path]
                    continue
                node.durable = bytearray(node.replaced)
                node.unsynced.clear()
            for change in node.unsynced:
                survivor = self._survivor(change) if self._rng.random() < at_risk else change
                if survivor is None:
                    self.lost_changes += 1
                else:
                    _apply(node.durable, survivor)
            node.unsynced.clear()
            node.content = bytearray(node.durable)
            node.is_replacement_unsynced = False
            self.changed_paths[path] = None

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
            # The size of the file was journaled, the data was not: zeros, as after a crash of ext4 or XFS.
            return _Write(position=change.position, data=change.data[:keep] + bytes(len(change.data) - keep))
        return _Write(position=change.position, data=change.data[:keep])

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
    """broker.log.FileSystem over a SimDisk. Detached, it takes no changes: its process is dead."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self.is_detached = False

    def detach(self) -> None:
        self.is_detached = True

    def open(self, path: str) -> SimFile:
        if not self.is_detached and path not in self._disk._files:
            self._disk._files[path] = _Node()
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
            self._disk._directories[path] = None

    def read_bytes(self, path: str) -> bytes:
        node = self._disk._files.get(path)
        if node is None:
            raise FileNotFoundError(path)
        return bytes(node.content)

    def write_atomically(self, path: str, data: bytes) -> None:
        if self.is_detached:
            return
        old = self._disk._files.get(path)
        before = None if old is None else bytes(old.content)
        if old is not None and old.is_replacement_unsynced:
            before = old.replaced
        node = _Node(content=bytearray(data), durable=bytearray(data))
        node.replaced, node.is_replacement_unsynced = before, True
        self._disk._files[path] = node
        self._disk._touch(path, "replace", data)

    def sync_directory(self, path: str) -> None:
        if self.is_detached:
            return
        for each, node in self._disk._files.items():
            if each.rpartition("/")[0] == path:
                node.is_replacement_unsynced = False
        self._disk._touch(path, "syncdir")

    def remove(self, path: str) -> None:
        if not self.is_detached and self._disk._files.pop(path, None) is not None:
            self._disk._touch(path, "remove")

    def rename(self, source: str, target: str) -> None:
        if self.is_detached:
            return
        self._disk._files[target] = self._disk._files.pop(source)
        self._disk._touch(target, "rename")

    def remove_tree(self, path: str) -> None:
        if self.is_detached:
            return
        prefix = f"{path}/"
        for each in [each for each in self._disk._files if each.startswith(prefix)]:
            del self._disk._files[each]
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
        return bytes(memoryview(self._node.content)[position : position + size])

    def write_at(self, position: int, data: Buffer) -> None:
        if self._filesystem.is_detached:
            return
        disk = self._filesystem._disk
        content = bytes(data)
        if disk.writes_to_failure is not None and self._path.endswith(".log") and "__cluster" not in self._path:
            disk.writes_to_failure -= 1
            if disk.writes_to_failure <= 0:
                disk.writes_to_failure = None
                self._node.change(_Write(position=position, data=content[: len(content) // 2]))
                disk._touch(self._path, "failed write", content)
                raise OSError("no space left on device")
        self._node.change(_Write(position=position, data=content))
        disk._touch(self._path, "write", content)

    def truncate(self, size: int) -> None:
        if self._filesystem.is_detached:
            return
        self._node.change(_Truncate(size=size))
        self._filesystem._disk._touch(self._path, f"truncate to {size}")

    def sync(self) -> None:
        if self._filesystem.is_detached:
            return
        # The end may come before the sync has done anything, or after.
        disk = self._filesystem._disk
        if disk.fails_at_next_operation():
            disk._touch(self._path, "dies at sync")
            return
        self._node.sync()
        disk._touch(self._path, "sync")

    def close(self) -> None:
        return
