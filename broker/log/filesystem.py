"""The disk as the log sees it: a small interface and its real implementation.

Owns: system calls. The interface exists so that a simulated disk, which forgets what was not synced, can stand in.
"""

from __future__ import annotations

import os
import shutil
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    """One open file. Positions are byte positions; nothing is buffered in this process."""

    def size_bytes(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of `data`. If it raises OSError, any part of it may have been written."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class FileSystem(Protocol):
    def open(self, path: str) -> File:
        """Open for reading and writing; create it if it is missing."""
        ...

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]: ...

    def make_directory(self, path: str) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace the whole file. After a crash it has either the old or the new content.

        After a loss of power, the new content is certain only once `sync_directory` has returned.
        """
        ...

    def sync_directory(self, path: str) -> None:
        """After this, the files that were replaced in this directory survive a loss of power."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; no error if it is gone."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...


class LocalFile:
    """A file of the machine, by its descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        missing = size - len(data)
        while missing > 0:
            more = os.pread(self._descriptor, missing, position + size - missing)
            if not more:
                break
            parts.append(more)
            missing -= len(more)
        return b"".join(parts)

    def write_at(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._descriptor, data, position)
        while written < len(data):  # a signal came, or the disk has just become full
            more = os.pwrite(self._descriptor, memoryview(data)[written:], position + written)
            if more == 0:
                raise OSError(f"wrote {written} of {len(data)} bytes")
            written += more

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)  # syncs the size but not the times: half of the work of fsync

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class LocalFileSystem:
    """The machine's file system."""

    __slots__ = ()

    def open(self, path: str) -> File:
        return LocalFile(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path, ignore_errors=True)


LOCAL = LocalFileSystem()


def replace_unsynced(filesystem: FileSystem, path: str, data: bytes) -> None:
    """Replace the whole file. A crash of the process leaves the old or the new content. A loss of power may leave any
    part of the new one. So the reader must be able to notice a torn file and to work without it."""
    temporary = path + ".tmp"
    write_unsynced(filesystem, temporary, data)
    filesystem.rename(temporary, path)


def write_unsynced(filesystem: FileSystem, path: str, data: bytes) -> None:
    """Replace the content without waiting for the disk. Only for content that can be made again from other files."""
    file = filesystem.open(path)
    try:
        file.write_at(0, data)
        file.truncate(len(data))
    finally:
        file.close()
