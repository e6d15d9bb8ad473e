"""A run in the store that it shares with its load hosts: what the harness puts there, and what it fetches.

The harness puts its plan first: the manifest, and for each cell who has which share. So a run can be read from the
store alone if the harness's host is lost. Load hosts put their run logs (workloads/hosts/depot.py). When a cell has
ended, all of its files are kept there, as they lie in the run directory. Then the segments of the load hosts are
removed whose run logs are in these files. Before anything is removed, what takes its place is read back from the store.
A store that fails in the middle of a run costs nothing but that copy. Layout: runlog/files/stored.py. Shown by
tests/harness/test_harness_store_copy.py.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFault, UsageError
from runlog.files.documents import write_json
from runlog.files.paths import cell_directory, events_path, live_directory, manifest_path
from runlog.files.store import Store, StoreError, open_store
from runlog.files.stored import (
    FILES_MAX,
    StoredFile,
    StoredList,
    cell_name,
    check_stored,
    fetch,
    host_prefix,
    index_name,
    kept_name,
    manifest_name,
    put_checked,
    read_list,
    token_name,
)
from runlog.records.documents import CELL_FILE, SEARCH_FILE, read_cell
from runlog.records.run import RunRecord
from runlog.streams.parquet import partition_directory
from runlog.streams.schema import STREAMS
from workloads.hosts.wire import SEGMENT_NAME

TOKEN_BYTES: Final = 16
CLOSE_S: Final = 60.0
KEEP_MAX_S: Final = 3_600.0
STATS: Final = "stats"
Say = Callable[[str], None]


def store_of(url: str) -> Store:
    """UsageError for a URL that is none, or for a library that is missing."""
    try:
        return open_store(url)
    except StoreError as error:
        raise UsageError(f"the store cannot be used: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What was received of one load host's run log. `problem` is empty if everything that is listed was received."""

    files: int = 0
    bytes: int = 0  # that were moved
    is_whole: bool = False  # the list is of a share that has ended
    problem: str = ""


class RunCopy:
    """The copy of the running run in the store. `*_soon` puts in the background, in order, and never waits."""

    def __init__(self, store: Store, run: str, run_dir: Path, say: Say) -> None:
        self._store, self._run, self._run_dir, self._say = store, run, run_dir, say
        self.token = secrets.token_hex(TOKEN_BYTES)
        self._due: dict[str, Path] = {}  # name -> file: a later copy of the same file takes the place of an earlier
        self._changed = threading.Condition()
        self._is_closing = False
        self._is_broken = False
        self._thread = threading.Thread(target=self._put_due, daemon=True, name="store")

    @property
    def store(self) -> Store:
        return self._store

    def begin(self, record: RunRecord) -> None:
        """The manifest is written. EnvironmentFault if the store does not take it: better now than after the load."""
        document = {"token": self.token, "run_id": record.run_id, "suite": record.suite}
        try:
            write_json(self._run_dir / "store.json", document)
            self._store.put_file(token_name(self._run), self._run_dir / "store.json")
            self._store.put_file(manifest_name(self._run), manifest_path(self._run_dir))
        except OSError as error:
            raise EnvironmentFault(f"the store does not take the plan of the run: {error}") from error
        finally:
            (self._run_dir / "store.json").unlink(missing_ok=True)
        self._thread.start()

    def manifest_written(self) -> None:
        self._put_soon(manifest_name(self._run), manifest_path(self._run_dir))

    def cell_written(self, cell_id: str) -> None:
        """It is known who has which share, or a phase of the load began."""
        self._put_soon(cell_name(self._run, cell_id), cell_directory(self._run_dir, cell_id) / CELL_FILE)
        stats = events_path(self._run_dir, cell_id, STATS)
        self._put_soon(f"{self._run}/cells/{cell_id}/{stats.name}", stats)

    def fetch(self, cell_id: str, host: str) -> Fetched:
        return fetch_host(self._store, self._run, self._run_dir, cell_id, host)

    def keep(self, cell_id: str, should_stop: Callable[[], bool]) -> None:
        """A cell that has ended, as a whole. Never raises: the run directory has it all."""
        try:
            keep_cell(self._store, self._run, self._run_dir, cell_id, should_stop)
        except OSError as error:
            self._say(f"{cell_id}: the store does not keep it: {error}; it is in the run directory")

    def close(self) -> None:
        """The last manifest and the trace of a search; waits for what was due, for a while."""
        self.manifest_written()
        if (self._run_dir / SEARCH_FILE).is_file():
            self._put_soon(f"{self._run}/{SEARCH_FILE}", self._run_dir / SEARCH_FILE)
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _put_soon(self, name: str, path: Path) -> None:
        with self._changed:
            self._due[name] = path
            self._changed.notify_all()

    def _put_due(self) -> None:
        while True:
            with self._changed:
                while not self._due and not self._is_closing:
                    self._changed.wait()
                if not self._due:
                    return
                name = next(iter(self._due))
                path = self._due.pop(name)
            self._put(name, path)

    def _put(self, name: str, path: Path) -> None:
        try:
            self._store.put_file(name, path)
            self._is_broken = False
        except FileNotFoundError:
            return  # the attempt was put aside in the meantime
        except OSError as error:
            if not self._is_broken:  # said once, until it works again
                self._say(f"the store does not take the plan of the run: {error}")
            self._is_broken = True


# --- a cell ---------------------------------------------------------------------------------------------------------


def fetch_host(store: Store, run: str, run_dir: Path, cell_id: str, host: str) -> Fetched:
    """What the store has of one load host's run log, into the cell's `live`. Never raises for what the store does."""
    try:
        listed = read_list(store, index_name(run, cell_id, host))
    except OSError as error:
        return Fetched(problem=str(error))
    if listed is None:
        return Fetched(problem=f"{store.url} has no list of its run log")
    live, files, moved = live_directory(run_dir, cell_id), 0, 0
    for name, expected in listed.files.items():
        if not SEGMENT_NAME.fullmatch(name):
            return Fetched(files=files, bytes=moved, problem=f"{name[:100]!r} in its list is no file of a run log")
        try:
            moved += fetch(store, f"{host_prefix(run, cell_id, host)}/{name}", live / name, expected)
        except OSError as error:
            return Fetched(files=files, bytes=moved, problem=str(error))
        files += 1
    return Fetched(files=files, bytes=moved, is_whole=listed.is_whole)


def keep_cell(store: Store, run: str, run_dir: Path, cell_id: str, should_stop: Callable[[], bool]) -> None:
    """Put all files of an ended cell, then their list, then remove what the load hosts have put that were gathered:
    those of others are nowhere else. StoreError."""
    kept: dict[str, StoredFile] = {}
    deadline_s = time.monotonic() + KEEP_MAX_S
    for path in _files_of(run_dir, cell_id):
        if len(kept) >= FILES_MAX:
            raise StoreError(f"{cell_id} has more than {FILES_MAX:,} files")
        if should_stop() or time.monotonic() > deadline_s:
            raise StoreError("the run was stopped" if should_stop() else f"it took longer than {KEEP_MAX_S:.0f} s")
        name = path.relative_to(run_dir).as_posix()
        kept[name] = put_checked(store, f"{run}/{name}", path)
        check_stored(store, f"{run}/{name}", kept[name])
    store.put_bytes(kept_name(run, cell_id), StoredList(is_whole=True, files=kept).to_bytes())
    for host in read_cell(run_dir, cell_id).outcome.load_hosts:
        if host.is_gathered:
            for name in store.names(host_prefix(run, cell_id, host.name)):
                store.remove(name)


def _files_of(run_dir: Path, cell_id: str) -> Iterator[Path]:
    """The files of a cell, without live files of load processes: these are compacted, or no longer belong to the
    cell."""
    live = live_directory(run_dir, cell_id)
    places = [
        cell_directory(run_dir, cell_id),
        *(partition_directory(run_dir, each, cell_id) for each in STREAMS.values()),
    ]
    for place in places:
        for path in sorted(place.rglob("*")):
            if path.is_file() and not path.is_symlink() and live not in path.parents and not path.name.startswith("."):
                yield path
