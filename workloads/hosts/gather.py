"""The run log of one cell, brought from one load host: in pieces, resumed where it broke off, verified by checksum.
What the host has put into a store is not brought: it is fetched from there (harness/run/hosts/store_copy.py).

A file comes as `NAME.part` and gets its name when its SHA-256 is that of the load host. A piece that does not come is
asked for again at the same place. Only what is kept here, or was put into the store, is progress. An error that will
stay, there or here, ends it at once. Shown by tests/workloads/test_workloads_hosts_gather.py and
test_workloads_hosts_spool.py.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from workloads.hosts import wire
from workloads.hosts.spool import PASSING

ASK_AGAIN_S: Final = 3.0
LIST_S: Final = 2.0  # between two questions for the files of a host
LOOK_S: Final = 0.02
GATHER_MAX_S: Final = 3_600.0
FOUND_BROKEN_MAX: Final = 5  # files whose checksum was wrong, before the link is called bad
PART: Final = ".part"


class Gatherer:
    """Give it what the host says (`on_files`, `on_chunk`, `on_no_chunk`), and call `step` often. `ask` sends a
    question. None of them raises for what a disk does: `problem` says it."""

    def __init__(
        self, cell: wire.OfCell, live: Path, ask: Callable[[wire.Message], None], *, uses_store: bool = False
    ) -> None:
        self._cell, self._live, self._ask, self._uses_store = cell, live, ask, uses_store
        self._missing: dict[str, wire.ListedSegment] = {}
        self._done: set[str] = set()
        self.stored: set[str] = set()  # in the store, and not here
        self._current = ""
        self._offset = 0
        self._asked_s = 0.0
        self._is_listed = False  # since the share ended
        self._broken = 0
        self.bytes = 0
        self.problem = ""
        self.progress_s = time.monotonic()  # when something was kept last

    @property
    def files(self) -> int:
        return len(self._done)

    @property
    def stored_only(self) -> int:
        """Files that are in the store and not here."""
        return len(self.stored - self._done)

    def is_whole(self) -> bool:
        """Everything is here, or in the store, that the host listed after its share had ended."""
        return self._is_listed and not self._missing and not self.problem

    def list_anew(self) -> None:
        """Ask for the files; `is_whole` is False until the answer has come."""
        self._is_listed = False
        self._ask(wire.AskFiles(run_id=self._cell.run_id, cell_id=self._cell.cell_id))

    def on_files(self, found: wire.FilesOfCell) -> None:
        if found.problem:
            self.problem = self.problem or found.problem
        if any(self._uses_store and listed.is_stored and listed.name not in self.stored for listed in found.files):
            self.progress_s = time.monotonic()
        waits = self._uses_store and found.is_storing
        for listed in found.files:
            if self._uses_store and listed.is_stored:
                self.stored.add(listed.name)
            elif listed.is_closed and not waits and listed.name not in self._done:
                self._missing[listed.name] = listed
        gone = self._missing.keys() - {listed.name for listed in found.files}
        if gone:
            self.problem = self.problem or f"{min(gone)} is no longer in its spool, which had it before"
        self._is_listed = not waits and all(listed.is_closed for listed in found.files)
        self.step()

    def step(self) -> None:
        """Ask for the next piece, or again for one that did not come."""
        if self.problem:
            return
        if not self._current:
            if self._missing:
                self._here(lambda: self._begin(next(iter(self._missing))))
        elif time.monotonic() - self._asked_s > ASK_AGAIN_S:
            self._ask_chunk()

    def _begin(self, name: str) -> None:
        self._live.mkdir(parents=True, exist_ok=True)
        part, whole = self._live / (name + PART), self._live / name
        if whole.exists() and not part.exists():  # brought by an earlier gatherer: only its checksum is asked for
            whole.rename(part)
        self._offset = part.stat().st_size if part.exists() else 0
        self._current = name
        self._ask_chunk()

    def _ask_chunk(self) -> None:
        self._asked_s = time.monotonic()
        self._ask(
            wire.AskChunk(run_id=self._cell.run_id, cell_id=self._cell.cell_id, name=self._current, offset=self._offset)
        )

    def on_chunk(self, chunk: wire.Chunk) -> None:
        """A piece that comes twice, or that nobody waits for, is left out."""
        if chunk.name == self._current and chunk.offset == self._offset and not self.problem:
            self._here(lambda: self._keep(chunk))

    def on_no_chunk(self, told: wire.NoChunk) -> None:
        if told.name == self._current and told.is_permanent:
            self.problem = self.problem or f"{told.name} cannot be read there: {told.reason}"

    def _here(self, do: Callable[[], None]) -> None:
        """Something with files here. An error that may be over in a moment is met again at the next question."""
        try:
            do()
        except OSError as error:
            if error.errno not in PASSING:
                self.problem = f"it cannot be kept here: {error.strerror or error}"

    def _keep(self, chunk: wire.Chunk) -> None:
        part = self._live / (chunk.name + PART)
        with part.open("ab") as file:
            file.truncate(self._offset)
            file.write(chunk.data)
        if chunk.data or chunk.is_last:
            self.progress_s = time.monotonic()
        self._offset += len(chunk.data)
        self.bytes += len(chunk.data)
        if not chunk.is_last:
            self._ask_chunk()
            return
        self._finish(part, chunk)
        self.step()

    def _finish(self, part: Path, chunk: wire.Chunk) -> None:
        with part.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        self._current = ""
        if found == chunk.sha256:
            part.rename(self._live / chunk.name)
            self._missing.pop(chunk.name, None)
            self._done.add(chunk.name)
            return
        part.unlink()
        self._broken += 1
        if self._broken >= FOUND_BROKEN_MAX:
            self.problem = f"{chunk.name} came with a wrong checksum, as {self._broken - 1} files before"


def gather_all(
    gatherers: Mapping[str, Gatherer],
    *,
    stall_s: Callable[[str], float],
    before_list: Callable[[str], None],
    is_stopped: Callable[[], bool],
    sleep: Callable[[float], None],
) -> None:
    """Until all is here, or each host that has more failed or gave nothing for `stall_s` of its name. `before_list` is
    called before a host is asked for its files, `is_stopped` at each look."""
    began_s, next_list_s = time.monotonic(), time.monotonic()
    while not is_stopped() and time.monotonic() - began_s < GATHER_MAX_S:
        waiting = {
            name: gatherer
            for name, gatherer in gatherers.items()
            if not gatherer.is_whole()
            and not gatherer.problem
            and time.monotonic() - max(gatherer.progress_s, began_s) < stall_s(name)
        }
        if not waiting:
            return
        if time.monotonic() >= next_list_s:
            next_list_s = time.monotonic() + LIST_S
            for name, gatherer in waiting.items():
                before_list(name)
                gatherer.list_anew()
        for gatherer in waiting.values():
            gatherer.step()
        sleep(LOOK_S)
