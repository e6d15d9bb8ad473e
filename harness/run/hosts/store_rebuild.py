"""A run from the store alone: which runs it has, the run directory made anew, and load hosts' run logs out of it.

Everybody who can write into the store can change a run in it. Checksums find damage, but not malice. So names and sizes
are checked before anything is written here. Shown by tests/harness/test_harness_store_copy.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFault, UsageError
from harness.run.directory.recover import refuse_while_it_goes_on
from harness.run.hosts.gather_late import Hosts
from harness.run.hosts.store_copy import STATS, Fetched, fetch_host, keep_cell
from runlog.files.documents import write_json
from runlog.files.paths import cell_directory, events_path, manifest_path
from runlog.files.store import Store, StoreError, read_all
from runlog.files.stored import (
    LIST_BYTES_MAX,
    cell_name,
    fetch,
    kept_name,
    manifest_name,
    read_document,
    read_list,
    token_name,
)
from runlog.files.strangers import is_cell_name
from runlog.records.codec import from_document
from runlog.records.documents import CELL_FILE, SEARCH_FILE, write_run
from runlog.records.hosts import NOT_HEARD, HostState, LoadHostRecord
from runlog.records.run import RunRecord
from runlog.streams.schema import STREAMS

RUNS_MAX: Final = 10_000  # in one store, that `find_run` looks at
SHOWN_MAX: Final = 20
MARK: Final = re.compile(r"harness-[0-9a-f]{10}")
Say = Callable[[str], None]


def find_run(store: Store, run_id: str) -> str:
    """The mark of the run of this name. UsageError names those that are there."""
    found: dict[str, list[str]] = {}
    try:
        for mark in [place for place in store.places("") if MARK.fullmatch(place)][:RUNS_MAX]:
            try:
                name = read_document(store, token_name(mark)).get("run_id")
            except FileNotFoundError:
                continue
            found.setdefault(str(name), []).append(mark)
    except OSError as error:
        raise EnvironmentFault(f"the store cannot be read: {error}") from error
    marks = found.get(run_id, [])
    if len(marks) == 1:
        return marks[0]
    if marks:
        raise UsageError(f"{store.url} has {len(marks)} runs called {run_id}: {', '.join(marks)}; give --run MARK")
    if MARK.fullmatch(run_id) and any(run_id in several for several in found.values()):
        return run_id
    there = (
        ", ".join(f"{name} ({', '.join(several)})" for name, several in sorted(found.items())[-SHOWN_MAX:]) or "none"
    )
    raise UsageError(f"{store.url} has no run {run_id}; there is {there}")


def every_file(name: str) -> bool:
    return True


def documents_alone(name: str) -> bool:
    """Without the run log, which is read in the store."""
    return name.startswith("cells/")


def rebuild(store: Store, run: str, run_dir: Path, say: Say, is_wanted: Callable[[str], bool] = every_file) -> None:
    """Manifest and cells as far as the store has them. Cells that had ended come whole, of the others the plan comes.
    What is there already is not brought again. EnvironmentFault; saying it again goes on from there."""
    try:
        record = from_document(RunRecord, read_document(store, manifest_name(run)))
        refuse_while_it_goes_on(run_dir / "not-there", record)  # its owner may be alive on this host
        cells = store.places(f"{run}/cells")
        for cell_id in cells:
            if not is_cell_name(cell_id):
                raise StoreError(f"{cell_id[:100]!r} is no name of a cell")
            if line := _rebuild_cell(store, run, run_dir, cell_id, is_wanted):
                say(line)
        _fetch_document(store, f"{run}/{SEARCH_FILE}", run_dir / SEARCH_FILE)
        # Written last. Without it this is no run directory, so a part is not taken for the whole.
        if not manifest_path(run_dir).is_file():
            write_run(run_dir, replace(record, owner=None))
    except FileNotFoundError as error:
        raise EnvironmentFault(f"{store.url}/{run} has no manifest") from error
    except OSError as error:
        raise EnvironmentFault(f"the run cannot be read from the store: {error}") from error


def _rebuild_cell(store: Store, run: str, run_dir: Path, cell_id: str, is_wanted: Callable[[str], bool]) -> str:
    listed = read_list(store, kept_name(run, cell_id))
    if listed is None:
        document = _fetch_document(store, cell_name(run, cell_id), cell_directory(run_dir, cell_id) / CELL_FILE)
        stats = events_path(run_dir, cell_id, STATS)
        if document and not stats.exists():
            _fetch_text(store, f"{run}/cells/{cell_id}/{stats.name}", stats)
        return f"{cell_id}: its plan was brought, it had not ended" if document else ""
    own = (f"cells/{cell_id}/", *(f"{stream}/cell={cell_id}/" for stream in STREAMS))
    moved = files = 0
    # cell.json comes last, because it says that the cell is whole.
    for name in sorted(listed.files, key=lambda each: each == f"cells/{cell_id}/{CELL_FILE}"):
        if not name.startswith(own):
            raise StoreError(f"{name[:200]!r} is no file of cell {cell_id}")
        if is_wanted(name):
            moved += fetch(store, f"{run}/{name}", run_dir / name, listed.files[name])
            files += 1
    return f"{cell_id}: {files} files, {moved:,} bytes brought, all verified" if moved else ""


def _fetch_document(store: Store, name: str, target: Path) -> bool:
    """False if the store has none. What is there already stays: a later step may have changed it."""
    if target.exists():
        return True
    try:
        document = read_document(store, name)
    except FileNotFoundError:
        return False
    write_json(target, document)
    return True


def _fetch_text(store: Store, name: str, target: Path) -> None:
    """A file that the harness had not finished, so that no list has its checksum."""
    try:
        data = read_all(store, name, bytes_max=LIST_BYTES_MAX)
    except FileNotFoundError:
        return
    target.write_bytes(data)


class StoredHosts:
    """The load hosts of a run whose harness died, with the store before the link. `link` is there if a key was given;
    else the store has to have everything. Another harness.run.hosts.gather_late.Hosts."""

    def __init__(self, store: Store, run: str, link: Callable[[Sequence[str]], Hosts] | None, say: Say) -> None:
        self._store, self._run, self._link, self._say = store, run, link, say
        self._linked: Hosts | None = None
        self._gathered: tuple[Path, str] | None = None
        self._should_stop: Callable[[], bool] = lambda: False

    def gather(
        self, run_dir: Path, cell_id: str, names: Sequence[str], should_stop: Callable[[], bool]
    ) -> tuple[LoadHostRecord, ...]:
        self._gathered, self._should_stop = (run_dir, cell_id), should_stop
        found = {name: fetch_host(self._store, self._run, run_dir, cell_id, name) for name in names}
        missing = [name for name, each in found.items() if not each.is_whole]
        by_link: dict[str, LoadHostRecord] = {}
        if missing and self._link is not None:
            self._linked = self._linked or self._link(missing)
            by_link = {host.name: host for host in self._linked.gather(run_dir, cell_id, missing, should_stop)}
        return tuple(by_link.get(name) or _told(name, found[name]) for name in names)

    def forget(self) -> None:
        """The cell is compacted here. Once the store keeps it whole, load hosts remove what they have by themselves."""
        assert self._gathered is not None
        run_dir, cell_id = self._gathered
        try:
            keep_cell(self._store, self._run, run_dir, cell_id, self._should_stop)
        except OSError as error:
            self._say(f"{cell_id}: the store does not keep it: {error}; it is in the run directory")
        if self._linked is not None:
            self._linked.forget()


def _told(name: str, found: Fetched) -> LoadHostRecord:
    return LoadHostRecord(
        name=name,
        state=HostState.FAILED,
        reason=NOT_HEARD if found.is_whole else found.problem or "its run log is not whole in the store",
        files=found.files,
        files_stored=found.files,
        bytes=found.bytes,
        is_gathered=found.is_whole,
    )
