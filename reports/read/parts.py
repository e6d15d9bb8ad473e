"""Where the Parquet of a run lies, and how much it is: in the run directory, or in the run's store.

Shown by tests/harness/test_harness_store_report.py.
"""

from __future__ import annotations

from pathlib import Path

from reports.read.cell import Run
from reports.read.errors import UsageProblem
from runlog.files.store import BucketStore, DirectoryStore, StoreError, open_store
from runlog.records.run import RunRecord
from runlog.streams.place import InBucket, InDirectory, PartsPlace


def stored_at(url: str, record: RunRecord) -> PartsPlace:
    """UsageProblem if the store cannot be opened, or if nothing in it can be of this run."""
    if not record.mark:
        raise UsageProblem("the manifest of the run does not say under which name a store would have it")
    try:
        store = open_store(url)
        there = store.places(f"{record.mark}/cells")
    except StoreError as error:
        raise UsageProblem(f"the store cannot be read: {error}") from error
    if not there:
        raise UsageProblem(f"{store.url} has no cell of this run ({record.mark})")
    if isinstance(store, DirectoryStore):
        return InDirectory(store.root / record.mark)
    assert isinstance(store, BucketStore)
    return InBucket(store, record.mark)


def parts_of(run: Run) -> PartsPlace:
    return run.stored or InDirectory(Path(run.directory))


def directory_bytes(directory: Path) -> int:
    """What is in a run directory now, perhaps while its run still goes on."""
    return sum(path.stat().st_size for path in directory.glob("*/cell=*/*.parquet"))


def parquet_bytes(run: Run) -> int:
    """What the cells list. Of a run from before there were lists: what is there."""
    if run.stored is None:
        return directory_bytes(Path(run.directory))
    return sum(_listed_bytes(cell.listed_files) for cell in run.cells)


def _listed_bytes(listed: object) -> int:
    streams = listed.get("streams") if isinstance(listed, dict) else None
    if not isinstance(streams, dict):
        return 0
    entries = [each for of_stream in streams.values() if isinstance(of_stream, list) for each in of_stream]
    sizes = (each.get("bytes") for each in entries if isinstance(each, dict))
    return sum(size for size in sizes if isinstance(size, int))
