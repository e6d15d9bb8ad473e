"""manifest.json, cell.json and search.json as records: one way to write each, one way to read it back.

A document replaces the old one in one step (runlog/files/documents.py). `clean` removes secrets before writing. The
readers here trust the writer of the directory: a file that is no JSON object is an error. The readers for directories
from somebody else are in reports/read. Shown by tests/runlog/test_runlog_events.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from runlog.files.documents import read_json, write_json
from runlog.files.paths import cell_directory, manifest_path
from runlog.records.cell import CellRecord
from runlog.records.codec import Json, from_document, to_json
from runlog.records.run import RunRecord
from runlog.records.search import SEARCH_VERSION, SearchRecord

CELL_FILE: Final = "cell.json"
SEARCH_FILE: Final = "search.json"
Clean = Callable[[Json], Json]


def _as_it_is(document: Json) -> Json:
    return document


def write_run(run_dir: Path, record: RunRecord, *, clean: Clean = _as_it_is) -> None:
    write_json(manifest_path(run_dir), clean(to_json(record)))


def read_run_record(run_dir: Path) -> RunRecord:
    """FileNotFoundError when absent, ValueError naming the file when it is no JSON object."""
    return from_document(RunRecord, read_json(manifest_path(run_dir)))


def write_cell(run_dir: Path, record: CellRecord, *, clean: Clean = _as_it_is) -> None:
    write_json(_cell_path(run_dir, record.cell_id), clean(to_json(record)))


def read_cell(run_dir: Path, cell_id: str) -> CellRecord:
    """As read_run_record."""
    return from_document(CellRecord, read_json(_cell_path(run_dir, cell_id)))


def _cell_path(run_dir: Path, cell_id: str) -> Path:
    return cell_directory(run_dir, cell_id) / CELL_FILE


def write_search(run_dir: Path, record: SearchRecord) -> None:
    write_json(run_dir / SEARCH_FILE, to_json(record))


def read_search_record(run_dir: Path) -> SearchRecord | None:
    """The record of the search. None without a rate search, or if its file cannot be read or has another version."""
    try:
        return search_of(read_json(run_dir / SEARCH_FILE))
    except (OSError, ValueError):
        return None


def search_of(document: object) -> SearchRecord | None:
    """None if it is no document of this version, or has no estimate."""
    record = from_document(SearchRecord, document)
    if record.schema_version != SEARCH_VERSION or len(record.searched_per_s) != 2:
        return None
    return record if 0 < record.low_per_s <= record.half_per_s <= record.high_per_s else None
