"""A simulated disk. When the power fails, data that was not synced may be lost, in part or as a whole.

The disk belongs to a host, so it outlives processes. A killed process loses nothing, because the page cache belongs to
the kernel. A loss of power:

- keeps the synced part of each file. Each later write is kept, torn (often at a sector) or lost, independently of the
  others, as with the cache of a drive.
- may undo the last changes of a directory's entries (a file created, removed, renamed or replaced, a directory
  created), the latest first, as with the journal of a file system. They are safe only after `sync_directory`. A sync of
  a file does not make its name safe.

Calls fail by the rules in `failures`. filesystem.py is the process's view of the disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from broker.sim.file_contents import Change, FileContents, Truncate, Write, apply_change
from broker.sim.loop import spend_us
from broker.sim.scheduler import Scheduler

# The time that a call takes: microseconds, and bytes per microsecond. See broker/sim/costs.py.
CALL_US = {
    "write": 20,
    "read": 20,
    "open": 50,
    "truncate": 100,
    "sync": 1_000,
    "syncdir": 500,
    "replace": 1_500,
    "rename": 0,  # its time is included in the sync of the directory
}
BYTES_PER_US = 5  # 5 MB/s
SECTOR_BYTES = 512
JOURNAL_MAX = 50  # this many changes of a directory's entries may be lost; the file system has committed older ones


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


@dataclass(slots=True, kw_only=True)
class Failure:
    """After `skip` calls of one kind on files whose path contains `where`, the following ones fail."""

    # write, sync, truncate, read, open, rename (by the new path), replace (a whole file at once), syncdir
    call: str
    where: str  # a part of the path, e.g. "/t-0/" or "quorum-state"
    error: int = errno.EIO
    skip: int = 0
    is_once: bool = True  # False: calls fail until this is removed from the disk's failures
    met: int = 0  # how many calls have failed by it


@dataclass(slots=True, kw_only=True)
class Death:
    """The end of a process within an operation of its disk."""

    operations: int  # counts down; `die` is called at the last one
    die: Callable[[], None]  # kills the process or takes the power
    is_time: Callable[[], bool] = lambda: True  # asked at that operation, and if False, again at the next one


class SimDisk:
    """`on_failure` is called for each call that fails."""

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        rng: random.Random,
        name: str,
        on_failure: Callable[[Failure, str], None] = lambda failure, path: None,
    ) -> None:
        self._scheduler, self._rng, self._name, self._on_failure = scheduler, rng, name, on_failure
        self.by_path: dict[str, FileContents] = {}
        self.directories: dict[str, None] = {}
        # By directory: functions that undo the changes of its entries, oldest change first.
        self._journals: dict[str, list[Callable[[], None]]] = {}
        self.changed_paths: dict[str, None] = {}  # since the last check
        self.death: Death | None = None
        self.failures: list[Failure] = []
        self.last_failed = ""  # the call that failed last
        self._is_observed = False  # the checker reads: no call fails, no failure is used up, no time passes
        self.boots = 1
        self.lost_changes = 0
        self.lost_entries = 0  # how many of these are changes of a directory
        self.torn_writes = 0

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boots}"

    @property
    def files(self) -> dict[str, bytes]:
        """A copy of all contents."""
        return {path: bytes(node.content) for path, node in self.by_path.items()}

    @contextlib.contextmanager
    def observed(self) -> Iterator[None]:
        """Within this context the checker reads. No call fails, no failure is used up, and no time passes."""
        self._is_observed = True
        try:
            yield
        finally:
            self._is_observed = False

    def holds(self, path: str) -> bool:
        return path in self.by_path

    def has_directory(self, path: str) -> bool:
        return path in self.directories or any(each.startswith(f"{path}/") for each in self.by_path)

    def content(self, path: str) -> bytes:
        """The content of the file, read without failures."""
        return bytes(self.by_path[path].content)

    def overwrite(self, path: str, data: bytes) -> None:
        self.by_path[path] = FileContents(content=bytearray(data), durable=bytearray(data))

    def remove(self, path: str) -> None:
        del self.by_path[path]

    def restore(self, files: dict[str, bytes]) -> None:
        for path, data in files.items():
            self.overwrite(path, data)
            parts = path.split("/")
            for depth in range(2, len(parts)):
                self.directories["/".join(parts[:depth])] = None

    def lose_power(self, at_risk: float | None = None) -> None:
        """Forget what was not synced, nearly all of it or little. This depends on how much the kernel has written back.

        `at_risk` is the share of the unsynced writes that may be affected. None: chance decides.
        """
        self.boots += 1
        at_risk = self._rng.choice((1.0, 0.5, 0.04)) if at_risk is None else at_risk
        self._lose_entries(at_risk)
        for path, node in self.by_path.items():
            for change in node.unsynced:
                survivor = self._survivor(change) if self._rng.random() < at_risk else change
                if survivor is None:
                    self.lost_changes += 1
                else:
                    apply_change(node.durable, survivor)
            node.unsynced.clear()
            node.content = bytearray(node.durable)
            self.changed_paths[path] = None

    def _lose_entries(self, at_risk: float) -> None:
        """Undo the last unsynced changes of each directory: none of them, some, or all."""
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

    def commit_entries(self, directory: str) -> None:
        """The changes of this directory's entries are safe from now on."""
        self._journals.pop(directory, None)

    def put(self, path: str, node: FileContents) -> None:
        """Create or replace the entry."""
        before = self.by_path.get(path)
        self.by_path[path] = node

        def undo() -> None:
            if before is None:
                self.by_path.pop(path, None)
            else:
                self.by_path[path] = before
            self.changed_paths[path] = None

        self._journal(_parent(path), undo)

    def take(self, path: str) -> FileContents:
        """Remove the entry."""
        node, directory = self.by_path.pop(path), _parent(path)

        def undo() -> None:
            self.by_path[path] = node
            self.directories[directory] = None
            self.changed_paths[path] = None

        self._journal(directory, undo)
        return node

    def move(self, source: str, target: str) -> None:
        node, before = self.by_path.pop(source), self.by_path.get(target)
        self.by_path[target] = node

        def undo() -> None:
            self.by_path[source] = node
            if before is None:
                self.by_path.pop(target, None)
            else:
                self.by_path[target] = before
            self.changed_paths[target] = None

        self._journal(_parent(target), undo)

    def move_tree(self, source: str, target: str) -> None:
        def move(old: str, new: str) -> None:
            for path in [path for path in self.by_path if path.startswith(f"{old}/")]:
                self.by_path[new + path[len(old) :]] = self.by_path.pop(path)
                self.changed_paths[path] = None
            self.directories.pop(old, None)
            self.directories[new] = None

        move(source, target)
        self._journals.pop(source, None)  # earlier changes of its entries can no longer be undone
        self._journal(_parent(target), lambda: move(target, source))

    def make(self, directory: str) -> None:
        if directory in self.directories or not _parent(directory):
            self.directories[directory] = None  # the mount point always exists
            return
        self.directories[directory] = None

        def undo() -> None:
            for path in [path for path in self.by_path if path.startswith(f"{directory}/")]:
                del self.by_path[path]
                self.changed_paths[path] = None
            self.directories.pop(directory, None)

        self._journal(_parent(directory), undo)

    def _survivor(self, change: Change) -> Change | None:
        fate = self._rng.random()
        if fate < 0.3:
            return None
        if fate < 0.45 or isinstance(change, Truncate):
            return change
        self.torn_writes += 1
        keep = self._rng.randrange(len(change.data) + 1)
        if self._rng.random() < 0.5:
            keep -= keep % SECTOR_BYTES
        if self._rng.random() < 0.5:
            # The journal had the size of the file but not the data. So there are zeros, as after a crash of ext4 or
            # XFS.
            return Write(position=change.position, data=change.data[:keep] + bytes(len(change.data) - keep))
        return Write(position=change.position, data=change.data[:keep])

    def check(self, call: str, path: str, size_bytes: int = 0) -> None:
        """Let the time of this call pass. Raises OSError if the call must fail."""
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
            self._on_failure(failure, path)
            raise OSError(failure.error, os.strerror(failure.error), path)

    def touch(self, path: str, what: str, data: bytes = b"") -> None:
        self._scheduler.note(f"{self._name} {what} {path}", data)
        self.changed_paths[path] = None
        death = self.death
        if death is not None and self.fails_at_next_operation():
            self.death = None
            death.die()
        elif death is not None and death.operations > 1:
            death.operations -= 1

    def fails_at_next_operation(self) -> bool:
        return self.death is not None and self.death.operations == 1 and self.death.is_time()
