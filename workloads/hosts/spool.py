"""The run log of a load host, where it lies until the harness has gathered and verified it.

    SPOOL/<run>/cells/<cell>/live/   segments and rings, written by the load processes as on any host

Serves them in pieces, by name. A name is checked against the names that the run log has, and is looked up in that one
directory: nothing else can be read. Shown by tests/workloads/test_workloads_hosts_spool.py.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from runlog.files.paths import cell_directory, live_directory
from workloads.hosts.wire import (
    CHUNK_BYTES,
    FILES_MAX,
    SEGMENT_NAME,
    AskChunk,
    Chunk,
    FilesOfCell,
    ListedSegment,
    NoChunk,
    OfCell,
)

# Errors of a file or a disk that may be over in a moment. All others stay: a file that is damaged, gone or not ours.
PASSING: Final = frozenset({
    errno.EINTR, errno.EAGAIN, errno.EBUSY, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETIMEDOUT,
})  # fmt: skip


class SpoolError(ValueError):
    """What is asked for cannot be done here; the message is for the user."""


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
        """Segments and rings. While the share runs, only those that have a successor are closed. A spool that cannot be
        read is a problem, and not an empty list."""
        live = self.live(cell)
        try:
            names = {name for name in os.listdir(live) if SEGMENT_NAME.fullmatch(name)}
            listed = tuple(
                ListedSegment(
                    name=name,
                    bytes=(live / name).stat().st_size,
                    is_closed=not is_running or _successor(name) in names,
                )
                for name in sorted(names)[:FILES_MAX]
            )
        except FileNotFoundError:  # nothing of this cell is here, or it was just forgotten
            names, listed = set(), ()
        except OSError as error:
            return FilesOfCell(
                run_id=cell.run_id,
                cell_id=cell.cell_id,
                files=(),
                problem=f"its spool cannot be read: {error.strerror}",
            )
        problem = f"{len(names)} files, at most {FILES_MAX} are gathered" if len(names) > FILES_MAX else ""
        return FilesOfCell(run_id=cell.run_id, cell_id=cell.cell_id, files=listed, problem=problem)

    def chunk(self, ask: AskChunk) -> Chunk | NoChunk:
        path = self.live(ask) / ask.name
        try:
            with path.open("rb") as file:
                data = os.pread(file.fileno(), CHUNK_BYTES, ask.offset)
                size = os.fstat(file.fileno()).st_size
                is_last = ask.offset + len(data) >= size
                checksum = hashlib.file_digest(file, "sha256").hexdigest() if is_last else ""
        except OSError as error:
            return NoChunk(
                run_id=ask.run_id, cell_id=ask.cell_id, name=ask.name, offset=ask.offset,
                reason=error.strerror or type(error).__name__, is_permanent=error.errno not in PASSING,
            )  # fmt: skip
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
