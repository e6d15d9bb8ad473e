"""Where the Parquet of a run lies: in its directory, or in its store, where it is read in place.

A place gives the bytes of a part, to be checked, and its address for Spark. What a part must be stands in cell.json.
Shown by tests/runlog/test_runlog_place.py.
"""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final, Protocol, cast

from runlog.files.store import BucketStore, Store
from runlog.files.stored import kept_name, read_list

BUFFER_BYTES: Final = 4 << 20


class PartsPlace(Protocol):
    """Parts are named by their paths below the run: send/cell=a/part-000000.parquet."""

    def names(self, directory: str) -> list[str]:
        """File names that end with .parquet, directly in there, sorted."""

    def open(self, path: str) -> tuple[BinaryIO, int]:
        """To be read, with its size. FileNotFoundError; OSError also for what is no plain file."""

    def uri(self, path: str) -> str:
        """For Spark. The signs of a pattern in it are not escaped."""


class InDirectory:
    """A run directory, or the place of a run in a shared one."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, directory: str) -> list[str]:
        found = self._root / directory
        return sorted(path.name for path in found.glob("*.parquet")) if found.is_dir() else []

    def open(self, path: str) -> tuple[BinaryIO, int]:
        """A link is not followed, because its target is not part of this run."""
        place = self._root / path
        if not stat.S_ISREG(place.lstat().st_mode):
            raise OSError("no regular file")
        file = os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
        return file, os.fstat(file.fileno()).st_size

    def uri(self, path: str) -> str:
        return f"file://{(self._root / path).resolve()}"


class InBucket:
    """The ended cells of a run in a bucket. Spark reads them by its own connector (s3a), we by the store's."""

    def __init__(self, store: BucketStore, run: str) -> None:
        self._store, self._run = store, run
        self._sizes: dict[str, dict[str, int]] = {}  # The key is the cell, then the file.

    def names(self, directory: str) -> list[str]:
        inside = f"{directory}/"
        listed = (name for name in self._of_cell(directory) if name.startswith(inside) and name.endswith(".parquet"))
        return sorted(name.removeprefix(inside) for name in listed)

    def open(self, path: str) -> tuple[BinaryIO, int]:
        size = self._of_cell(path).get(path)
        if size is None:
            raise FileNotFoundError(path)
        reader = _StoredPart(self._store, f"{self._run}/{path}", size)
        return cast(BinaryIO, io.BufferedReader(reader, BUFFER_BYTES)), size

    def uri(self, path: str) -> str:
        return f"s3a://{self._store.root}/{self._run}/{path}"

    def server(self) -> tuple[str, str]:
        """Its URL and region. StoreError."""
        return self._store.server()

    def _of_cell(self, path: str) -> dict[str, int]:
        """What the store keeps of the cell, by the list that was put after all of it."""
        cell = path.split("/")[1].removeprefix("cell=")
        if cell not in self._sizes:
            listed = read_list(self._store, kept_name(self._run, cell))
            self._sizes[cell] = {} if listed is None else {name: each.bytes for name, each in listed.files.items()}
        return self._sizes[cell]


class _StoredPart(io.RawIOBase):
    """One file of a store, read piece by piece."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        super().__init__()
        self._store, self._name, self._size, self._position = store, name, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, begin + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # Buffer came with 3.12
        view = memoryview(buffer).cast("B")
        found = self._store.read(self._name, self._position, len(view))
        view[: len(found)] = found
        self._position += len(found)
        return len(found)
