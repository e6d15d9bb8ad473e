"""The run log of a load host, where it lies until the harness has gathered and verified it.

    SPOOL/<run>/cells/<cell>/live/   segments and rings, written by the load processes as on any host

Serves them in pieces, by name. A name is checked against the names that the run log has, and is looked up in that one
directory: nothing else can be read. Shown by tests/workloads/test_workloads_hosts_spool.py.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from runlog.files.paths import cell_directory, live_directory
from workloads.hosts.wire import (
    CHUNK_BYTES,
    FILES_MAX,
    SEGMENT_NAME,
    AskChunk,
    Chunk,
    FilesOfCell,
    ListedSegment,
    OfCell,
)


class SpoolError(ValueError):
    """There is no such file here; the message is for the user."""


class Spool:
    """`root` belongs to one agent."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def run_directory(self, run_id: str) -> Path:
        """`run_id` was checked to be the name of a directory (wire.Place)."""
        return self._root / run_id

    def prepare(self, cell: OfCell) -> Path:
        """The run directory for a share that is about to begin. What an earlier attempt at the cell left is removed."""
        self.forget(cell)
        directory = self.run_directory(cell.run_id)
        live_directory(directory, cell.cell_id).mkdir(mode=0o700, parents=True)
        return directory

    def live(self, cell: OfCell) -> Path:
        return live_directory(self.run_directory(cell.run_id), cell.cell_id)

    def files(self, cell: OfCell, *, is_running: bool) -> FilesOfCell:
        """Segments and rings. While the share runs, only those that have a successor are closed."""
        live = self.live(cell)
        found = sorted(path for path in live.glob("*") if SEGMENT_NAME.fullmatch(path.name)) if live.is_dir() else []
        names = {path.name for path in found}
        listed = tuple(
            ListedSegment(
                name=path.name,
                bytes=path.stat().st_size,
                is_closed=not is_running or _successor(path.name) in names,
            )
            for path in found[:FILES_MAX]
        )
        problem = f"{len(found)} files, at most {FILES_MAX} are gathered" if len(found) > FILES_MAX else ""
        return FilesOfCell(run_id=cell.run_id, cell_id=cell.cell_id, files=listed, problem=problem)

    def chunk(self, ask: AskChunk) -> Chunk:
        """SpoolError if there is no such file any more."""
        path = self.live(ask) / ask.name
        try:
            with path.open("rb") as file:
                data = os.pread(file.fileno(), CHUNK_BYTES, ask.offset)
                size = os.fstat(file.fileno()).st_size
                is_last = ask.offset + len(data) >= size
                checksum = hashlib.file_digest(file, "sha256").hexdigest() if is_last else ""
        except OSError as error:
            raise SpoolError(f"{ask.name}: {error.strerror}") from error
        return Chunk(
            run_id=ask.run_id, cell_id=ask.cell_id, name=ask.name, offset=ask.offset, data=data, is_last=is_last,
            sha256=checksum,
        )  # fmt: skip

    def forget(self, cell: OfCell) -> None:
        """Remove what was gathered and verified."""
        directory = self.run_directory(cell.run_id)
        shutil.rmtree(cell_directory(directory, cell.cell_id), ignore_errors=True)
        for left in (directory / "cells", directory):
            try:
                left.rmdir()
            except OSError:
                return


def _successor(name: str) -> str:
    """The segment that a writer makes when this one is full; empty for what is no segment."""
    if not name.endswith(".seg"):
        return ""
    writer, _, number = name.removesuffix(".seg").rpartition("-")
    return f"{writer}-{int(number) + 1:06d}.seg"
