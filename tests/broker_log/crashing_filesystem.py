"""A disk that stops the process at its nth change: what was done before stays, the rest never happens. And one whose
calls fail."""

from __future__ import annotations

import errno
import os

from broker.log.filesystem import Buffer, File, LocalFile, LocalFileSystem


class Crash(BaseException):
    """No `except Exception` on the way may stop it: after SIGKILL nothing runs either."""


class CrashingFile:
    def __init__(self, file: File, disk: CrashingFileSystem) -> None:
        self._file, self._disk = file, disk

    def size_bytes(self) -> int:
        return self._file.size_bytes()

    def read_at(self, position: int, size: int) -> bytes:
        return self._file.read_at(position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        if self._disk.is_the_last():
            self._file.write_at(position, memoryview(data)[: len(data) // 2])  # torn
            self._disk.stop()
        self._file.write_at(position, data)

    def truncate(self, size: int) -> None:
        self._disk.change()
        self._file.truncate(size)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


class CrashingFileSystem(LocalFileSystem):
    """Counts changes in `changes`; the one numbered `crash_at` (from 1) does not happen any more, nor any later one."""

    __slots__ = ("changes", "crash_at")

    def __init__(self, crash_at: int | None = None) -> None:
        self.changes = 0
        self.crash_at = crash_at

    def is_the_last(self) -> bool:
        self.changes += 1
        return self.crash_at is not None and self.changes >= self.crash_at

    def stop(self) -> None:
        raise Crash(f"at change {self.changes}")

    def change(self) -> None:
        if self.is_the_last():
            self.stop()

    def open(self, path: str) -> File:
        return CrashingFile(LocalFile(path), self)

    def write_atomically(self, path: str, data: bytes) -> None:
        self.change()
        super().write_atomically(path, data)

    def remove(self, path: str) -> None:
        self.change()
        super().remove(path)

    def rename(self, source: str, target: str) -> None:
        self.change()
        super().rename(source, target)


class FailingFileSystem(LocalFileSystem):
    """One call of a kind fails, after `skip` others, for paths that end as asked; the next ones succeed again."""

    __slots__ = ("_call", "_ends", "_of_missing", "_skip", "failed")

    def __init__(self) -> None:
        self.failed = False
        self.heal()

    def fail(self, call: str, ends: str, *, skip: int = 0, of_missing: bool = True) -> None:
        """`of_missing` False: only for files that exist, so opening them does not create."""
        self._call, self._ends, self._skip, self._of_missing, self.failed = call, ends, skip, of_missing, False

    def heal(self) -> None:
        self._call, self._ends, self._skip, self._of_missing = "", "", 0, True

    def _check(self, call: str, path: str) -> None:
        if call != self._call or self.failed or not path.endswith(self._ends):
            return
        if not self._of_missing and not os.path.exists(path):
            return
        if self._skip:
            self._skip -= 1
            return
        self.failed = True
        raise OSError(errno.EIO, "injected", path)

    def open(self, path: str) -> File:
        self._check("open", path)
        return super().open(path)

    def rename(self, source: str, target: str) -> None:
        self._check("rename", target)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._check("remove", path)
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self._check("sync_directory", path)
        super().sync_directory(path)
