"""`python -m workloads --depot`: puts the run logs of a load host into the store that its operator gave it.

The agent starts it beside itself, so that nothing of this can delay an answer for the clock. While a cell runs, closed
segments are put; the rest follows when the share has ended. The list of them is put last. A cell that was not stored
whole when its worker ended is stored when the next one begins, because a file in the spool says what is due. If the
store keeps the cell as a whole, with this host's run log in it, the cell is removed from the spool.

The master says *that* a run log goes into the store, never where that is: the URL is the operator's. A token that the
master's side has put there shows that both mean the same store.
Shown by tests/workloads/test_workloads_hosts_depot.py.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runlog.files.documents import read_json, write_json
from runlog.files.store import Store, StoreError, open_store
from runlog.files.stored import (
    StoredFile,
    StoredList,
    check_stored,
    host_prefix,
    index_name,
    kept_name,
    put_checked,
    read_document,
    read_list,
    token_name,
)
from runlog.records.cell import CellRecord
from runlog.records.codec import from_document
from runlog.records.documents import CELL_FILE
from runlog.streams.schema import RECV, SEND
from workloads.hosts.spool import Spool
from workloads.hosts.wire import FilesOfCell, Name, OfCell, Place, StoreToken

LOOK_S: Final = 1.0
SPOOL_S: Final = 60.0  # between two looks for what earlier cells have left
SETTLE_S: Final = (
    15.0  # before the first: a share whose agent was killed ends by itself, and closes its files, in this time
)
LEFT_MAX: Final = 1_000  # cells that one look takes from the spool
DUE: Final = "store.json"  # beside the cell's `live`: that it goes into the store


class DepotConfig(BaseModel):
    """The first line of stdin."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    spool: Path
    host: Name


class Due(BaseModel):
    """A cell that goes into the store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: Place
    cell_id: Place
    token: StoreToken = Field(min_length=1)

    @property
    def cell(self) -> OfCell:
        return OfCell(run_id=self.run_id, cell_id=self.cell_id)


class CellDepot:
    """One cell of one load host on its way into the store. Each call may take as long as the store does."""

    def __init__(self, store: Store, spool: Spool, host: str, due: Due) -> None:
        self._store, self._spool, self._host, self._cell, self._due = store, spool, host, due.cell, due
        self._files: dict[str, StoredFile] = {}
        self.is_whole = False

    @property
    def stored(self) -> list[str]:
        return sorted(self._files)

    def begin(self, *, is_new: bool) -> None:
        """StoreError if this is not the store of the run's master. What an earlier attempt at the cell has put counts
        no more; what an earlier process has put of the same one does."""
        try:
            found = read_document(self._store, token_name(self._cell.run_id))
        except FileNotFoundError:
            found = {}
        if found.get("token") != self._due.token:
            raise StoreError(f"{self._store.url} is not the store of this run's master: nothing of it is there")
        index = index_name(self._cell.run_id, self._cell.cell_id, self._host)
        if is_new:
            self._store.remove(index)
            return
        listed = read_list(self._store, index)
        if listed is not None:
            self._files, self.is_whole = dict(listed.files), listed.is_whole

    def is_kept(self) -> bool:
        """The harness has gathered this host's run log, and the store has what became of it, as its checksums say. So
        the segments are no longer needed. StoreError if something is damaged there."""
        run, cell_id = self._cell.run_id, self._cell.cell_id
        listed = read_list(self._store, kept_name(run, cell_id))
        document = f"cells/{cell_id}/{CELL_FILE}"
        if listed is None or document not in listed.files:
            return False
        hosts = from_document(CellRecord, read_document(self._store, f"{run}/{document}")).outcome.load_hosts
        if not any(host.name == self._host and host.is_gathered for host in hosts):
            return False
        rows = tuple(f"{stream.name}/cell={cell_id}/" for stream in (SEND, RECV))
        for name, expected in listed.files.items():
            if name == document or name.startswith(rows):
                check_stored(self._store, f"{run}/{name}", expected)
        return True

    def step(self, *, is_running: bool) -> bool:
        """Put what can be put now. True if that was anything."""
        if self.is_whole:
            return False
        found = self._spool.files(self._cell, is_running=is_running)
        if found.problem:
            raise StoreError(found.problem)
        live, put = self._spool.live(self._cell), 0
        if not live.is_dir():  # an empty list would say that there was nothing
            raise StoreError(f"{live} is gone: what is not in the store cannot be put there any more")
        for listed in found.files:
            if listed.is_closed and listed.name not in self._files:
                name = f"{host_prefix(self._cell.run_id, self._cell.cell_id, self._host)}/{listed.name}"
                self._files[listed.name] = put_checked(self._store, name, live / listed.name)
                put += 1
        self.is_whole = not is_running
        if put or self.is_whole:
            self._store.put_bytes(
                index_name(self._cell.run_id, self._cell.cell_id, self._host),
                StoredList(is_whole=self.is_whole, files=self._files).to_bytes(),
            )
        return bool(put) or self.is_whole


class _Depot:
    """Commands in, what is stored out; between them, the cell that runs and what earlier ones left."""

    def __init__(self, config: DepotConfig, store: Store, say: Callable[[dict[str, Any]], None]) -> None:
        self._store, self._host, self._say = store, config.host, say
        self._root = config.spool
        self._spool = Spool(config.spool)
        self._commands: deque[dict[str, Any]] = deque()
        self._wake = threading.Event()
        self._current: CellDepot | None = None
        self._cell: OfCell | None = None
        self._is_running = False  # its share: then nobody else may take its files for finished
        self._is_over = False
        self._next_spool_s = time.monotonic() + SETTLE_S

    def run(self) -> None:
        threading.Thread(target=self._read_commands, daemon=True).start()
        while not self._is_over or self._commands:
            while self._commands:
                self._carry_out(self._commands.popleft())
            self._step()
            if self._may_look_at_spool():
                self._next_spool_s = time.monotonic() + SPOOL_S
                self._look_at_spool()
            self._wake.wait(LOOK_S)
            self._wake.clear()

    def _may_look_at_spool(self) -> bool:
        is_idle = self._current is None and not self._is_running and not self._commands and not self._is_over
        return is_idle and time.monotonic() >= self._next_spool_s

    def _read_commands(self) -> None:
        for line in sys.stdin:
            self._commands.append(json.loads(line))
            self._wake.set()
        self._is_over = True
        self._wake.set()

    def _carry_out(self, command: dict[str, Any]) -> None:
        if command["do"] == "begin":
            due = Due.model_validate(command["due"])
            self._cell, self._is_running = due.cell, True
            self._current = CellDepot(self._store, self._spool, self._host, due)
            self._try(lambda depot: depot.begin(is_new=True))
        elif command["do"] == "end":
            self._is_running = False

    def _step(self) -> None:
        if self._current is None:
            return
        is_running = self._is_running
        self._try(lambda depot: self._tell(depot) if depot.step(is_running=is_running) else None)
        if self._current is not None and self._current.is_whole:
            self._current = None

    def _tell(self, depot: CellDepot) -> None:
        assert self._cell is not None
        self._say({**self._cell.model_dump(), "stored": depot.stored, "is_whole": depot.is_whole})

    def _try(self, do: Callable[[CellDepot], object]) -> None:
        """After an error the run log goes over the link, and what is left is tried again when no cell runs."""
        assert self._current is not None
        assert self._cell is not None
        try:
            do(self._current)
        except (OSError, ValueError) as error:
            self._say({**self._cell.model_dump(), "problem": str(error)})
            self._current = None

    def _look_at_spool(self) -> None:
        """What is due of cells that no longer run."""
        for path in sorted(self._root.glob(f"*/cells/*/{DUE}"))[:LEFT_MAX]:
            if self._commands or self._is_over:
                return
            try:
                self._take_left(Due.model_validate(read_json(path)))
            except FileNotFoundError:
                continue  # the harness has it, and said so meanwhile
            except (OSError, ValueError) as error:
                self._say({"note": f"{path.parent.name}: not in the store yet: {error}"})

    def _take_left(self, due: Due) -> None:
        depot = CellDepot(self._store, self._spool, self._host, due)
        if not self._spool.live(due.cell).is_dir():
            return
        depot.begin(is_new=False)
        if depot.is_kept():
            self._spool.forget(due.cell)
            self._say({"note": f"{due.cell_id}: the store keeps the whole cell, so it was removed here"})
        elif depot.step(is_running=False):
            self._say({"note": f"{due.cell_id}: {len(depot.stored)} files are in the store now"})


def note_due(spool: Spool, cell: OfCell, token: str) -> Due:
    """On disk before the share begins, so that a worker that is started anew knows of it."""
    due = Due(run_id=cell.run_id, cell_id=cell.cell_id, token=token)
    write_json(spool.live(cell).parent / DUE, due.model_dump())
    return due


def marked(found: FilesOfCell, stored: frozenset[str], *, is_storing: bool) -> FilesOfCell:
    """The list for the master with what is in the store, and whether the rest will be."""
    files = tuple(each.model_copy(update={"is_stored": each.name in stored}) for each in found.files)
    return found.model_copy(update={"files": files, "is_storing": is_storing})


def run_depot(line: str) -> int:
    def say(document: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(document, separators=(",", ":")) + "\n")
        sys.stdout.flush()

    try:
        config = DepotConfig.model_validate_json(line)
        store = open_store(config.url)
    except (StoreError, ValidationError) as error:
        say({"note": f"no store: {error}"})
        return 1
    _Depot(config, store, say).run()
    return 0
