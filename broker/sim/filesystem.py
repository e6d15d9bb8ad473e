"""The view of one life of a broker on its host's disk: broker.log.FileSystem, until the process is dead."""

from __future__ import annotations

from broker.log.filesystem import Buffer
from broker.sim.disk import SimDisk
from broker.sim.file_contents import FileContents, Truncate, Write
from broker.sim.loop import spend_us

CREATE_US = 2_000  # extra time for a call that creates a file or a directory


class SimFileSystem:
    """broker.log.FileSystem over a SimDisk. Once its process is dead, it is detached and ignores changes."""

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
        if not self.is_detached and path not in self._disk.by_path:
            spend_us(CREATE_US)
            self._disk.put(path, FileContents())
            self._disk.touch(path, "create")
        return SimFile(self, path, self._disk.by_path.get(path) or FileContents())

    def exists(self, path: str) -> bool:
        return path in self._disk.by_path or path in self._disk.directories

    def list_directory(self, path: str) -> list[str]:
        prefix = f"{path}/"
        everything = (*self._disk.by_path, *self._disk.directories)
        return sorted({each[len(prefix) :].split("/")[0] for each in everything if each.startswith(prefix)})

    def make_directory(self, path: str) -> None:
        if not self.is_detached:
            spend_us(CREATE_US)
            self._disk.make(path)

    def read_bytes(self, path: str) -> bytes:
        node = self._disk.by_path.get(path)
        self._check("read", path, 0 if node is None else len(node.content))
        if node is None:
            raise FileNotFoundError(path)
        return bytes(node.content)

    def write_atomically(self, path: str, data: bytes) -> None:
        if self.is_detached:
            return
        self._check("replace", path, len(data))
        self._disk.put(path, FileContents(content=bytearray(data), durable=bytearray(data)))
        self._disk.touch(path, "replace", data)

    def sync_directory(self, path: str) -> None:
        if self.is_detached:
            return
        self._check("syncdir", f"{path}/")
        disk = self._disk
        if disk.fails_at_next_operation():
            disk.touch(path, "dies at syncdir")
            return
        disk.commit_entries(path)
        disk.touch(path, "syncdir")

    def remove(self, path: str) -> None:
        if not self.is_detached and path in self._disk.by_path:
            self._disk.take(path)
            self._disk.touch(path, "remove")

    def rename(self, source: str, target: str) -> None:
        """Rename a file, or a directory with its content. All renames stay within one directory."""
        if self.is_detached:
            return
        self._check("rename", target)
        if source in self._disk.directories:
            self._disk.move_tree(source, target)
        else:
            self._disk.move(source, target)
        self._disk.touch(target, "rename")

    def remove_tree(self, path: str) -> None:
        if self.is_detached:
            return
        prefix = f"{path}/"
        for each in sorted(each for each in self._disk.by_path if each.startswith(prefix)):
            self._disk.take(each)
        for each in [each for each in self._disk.directories if each == path or each.startswith(prefix)]:
            del self._disk.directories[each]
        self._disk.touch(path, "removetree")


class SimFile:
    """An open file of one life."""

    __slots__ = ("_filesystem", "_node", "_path")

    def __init__(self, filesystem: SimFileSystem, path: str, node: FileContents) -> None:
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
        except OSError:  # half of the data was written, and it stays
            self._node.change(Write(position=position, data=content[: len(content) // 2]))
            disk.touch(self._path, "failed write", content)
            raise
        self._node.change(Write(position=position, data=content))
        disk.touch(self._path, "write", content)

    def truncate(self, size: int) -> None:
        if self._filesystem.is_detached:
            return
        self._filesystem._check("truncate", self._path)
        self._node.change(Truncate(size=size))
        self._filesystem._disk.touch(self._path, f"truncate to {size}")

    def sync(self) -> None:
        if self._filesystem.is_detached:
            return
        # The process may die before the sync has done anything, or after.
        disk = self._filesystem._disk
        disk.check("sync", self._path)
        if disk.fails_at_next_operation():
            disk.touch(self._path, "dies at sync")
            return
        self._node.sync()
        disk.touch(self._path, "sync")

    def close(self) -> None:
        return
