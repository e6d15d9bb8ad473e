"""Which files a finished cell has, how large each is, how many rows it holds, and its checksum.

The list is written into cell.json when the cell ends, and compared with the disk before anything is read. So a part
that is lost, cut or changed is noticed and named. A run of before schema version 3 has no such list. Its parts are
decoded instead, which finds damaged parts but not missing ones. Shown by tests/runlog/test_runlog_inventory.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from runlog.files.paths import cell_directory
from runlog.records.cell import FilesRecord, ListedFile
from runlog.records.codec import RecordError, from_line
from runlog.streams.parquet import arrow_schema
from runlog.streams.place import InDirectory, PartsPlace
from runlog.streams.schema import STREAMS, Stream

INVENTORY_SINCE: Final = 3  # schema version of the manifest
PARTS_MAX: Final = 100_000  # One stream of one cell never has more. A broken list must not eat the memory.
_READ_BYTES: Final = 1 << 20
_ROWS_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFiles:
    """Which files of a cell can be read, and what is wrong with the others."""

    parts: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # stream -> sound parts, by their paths in the run
    rows: Mapping[str, int] = field(default_factory=dict)  # stream -> rows in them
    problems: tuple[str, ...] = ()  # each names its file


def take_inventory(run_dir: Path, cell_id: str) -> FilesRecord:
    """What cell.json gets as `files`. Call it after the last write."""
    streams = {}
    for stream in STREAMS.values():
        found = sorted((run_dir / stream.name / f"cell={cell_id}").glob("*.parquet"))
        streams[stream.name] = tuple(_measured(path, rows=pq.read_metadata(path).num_rows) for path in found)
    events = tuple(_measured(path) for path in sorted(cell_directory(run_dir, cell_id).glob("*.jsonl")))
    return FilesRecord(streams=streams, events=events)


def check_files(run_dir: Path, cell_id: str, listed: object, place: PartsPlace | None = None) -> CellFiles:
    """`listed` is `files` of cell.json, or None where the cell is older than that. `place`: where the parts are, if
    not in the run directory. Never raises for what is there."""
    problems: list[str] = []
    place = place or InDirectory(run_dir)
    by_stream = _listed_parts(listed, problems)
    parts: dict[str, tuple[str, ...]] = {}
    rows: dict[str, int] = {}
    for stream in STREAMS.values():
        directory = f"{stream.name}/cell={cell_id}"
        listed_parts = None if by_stream is None else by_stream.get(stream.name, [])
        parts[stream.name], rows[stream.name] = _sound_parts(place, directory, stream, listed_parts, problems)
    if isinstance(listed, dict):
        _check_events(cell_directory(run_dir, cell_id), listed.get("events"), problems)
    if any(cell_directory(run_dir, cell_id).glob("live/*.seg")):
        problems.append("live: segments are not in Parquet: what they hold is missing; `harness report` tries it again")
    return CellFiles(parts=parts, rows=rows, problems=tuple(problems))


def _listed_parts(listed: object, problems: list[str]) -> dict[str, list[ListedFile]] | None:
    """Stream -> its files; None where the cell has no list at all."""
    if listed is None:
        return None
    streams = listed.get("streams") if isinstance(listed, dict) else None
    if not isinstance(streams, dict):
        problems.append("cell.json: the list of its files cannot be read")
        return None
    found: dict[str, list[ListedFile]] = {}
    for name, entries in streams.items():
        sound = [item for one in entries if (item := _listed_file(one))] if isinstance(entries, list) else []
        if not isinstance(entries, list) or len(sound) < len(entries) or len(entries) > PARTS_MAX:
            problems.append(f"cell.json: the list of the files of {name} cannot be read")
        found[str(name)] = sound[:PARTS_MAX]
    return found


def _listed_file(item: object) -> ListedFile | None:
    """The entry of a file. None if it cannot be read, or is outside of the cell."""
    try:
        found = from_line(ListedFile, item) if isinstance(item, dict) else None
    except RecordError:
        return None
    return found if found is not None and Path(found.file).name == found.file else None


def _sound_parts(
    place: PartsPlace, directory: str, stream: Stream, listed: list[ListedFile] | None, problems: list[str]
) -> tuple[tuple[str, ...], int]:
    """The parts that can be read, and the number of their rows."""
    try:
        found = place.names(directory)
    except OSError as error:  # a store that is away
        problems.append(f"{stream.name}: {error}")
        return (), 0
    wanted = dict.fromkeys(found) if listed is None else {item.file: item for item in listed}
    sound: list[str] = []
    rows = 0
    for name, item in wanted.items():
        count, problem = read_part(place, f"{directory}/{name}", stream, item)
        if problem:
            problems.append(f"{stream.name}/{name}: {problem}")
        else:
            sound.append(f"{directory}/{name}")
            rows += count
    problems += [f"{stream.name}/{name}: is no file of this run" for name in found if name not in wanted]
    return tuple(sound), rows


def read_part(place: PartsPlace, path: str, stream: Stream, listed: ListedFile | None) -> tuple[int, str]:
    """Its rows, and why it cannot be used: empty when it can."""
    try:
        file, size = place.open(path)
        # Opened here, so that no reader takes it for a data set or follows anything in it.
        with file:
            if problem := _differs(file, size, listed):
                return 0, problem
            file.seek(0)
            return _rows_of(file, stream, listed)
    except FileNotFoundError:
        return 0, "missing"
    except (OSError, pa.ArrowException, ValueError, OverflowError, MemoryError) as error:
        first = next(iter(str(error).splitlines()), "")
        return 0, f"unreadable: {type(error).__name__}: {first[:200]}"


def _rows_of(file: BinaryIO, stream: Stream, listed: ListedFile | None) -> tuple[int, str]:
    with pq.ParquetFile(file) as parquet:
        if problem := _schema_problem(parquet.schema_arrow, stream):
            return 0, problem
        rows = parquet.metadata.num_rows
        if listed is not None:
            return rows, "" if rows == listed.rows else f"unreadable: {rows} rows, {listed.rows} were written"
        decoded = sum(batch.num_rows for batch in parquet.iter_batches(batch_size=_ROWS_AT_ONCE))
        return rows, "" if decoded == rows else f"unreadable: {decoded} of {rows} rows could be decoded"


def _differs(file: BinaryIO, size: int, listed: ListedFile | None) -> str:
    """How the file differs from what was written."""
    if listed is None:
        return ""
    if size != listed.bytes:
        return f"unreadable: {size} bytes, {listed.bytes} were written"
    return "" if _crc32(file) == listed.crc32 else "unreadable: its bytes are not those that were written"


def _schema_problem(found: pa.Schema, stream: Stream) -> str:
    for column in arrow_schema(stream):
        place = found.get_field_index(column.name)
        if place < 0:
            default = next(known.default for known in stream.columns if known.name == column.name)
            if default is None:  # else it is a part of an older version
                return f"unreadable: column {column.name} is missing"
        elif found.field(place).type != column.type:
            return f"unreadable: column {column.name} is {found.field(place).type}, expected {column.type}"
    return ""


def _check_events(directory: Path, listed: object, problems: list[str]) -> None:
    found = [_listed_file(item) for item in listed] if isinstance(listed, list) else [None]
    if None in found:
        problems.append("cell.json: the list of its event files cannot be read")
        return
    for item in filter(None, found):
        try:
            file, size = InDirectory(directory).open(item.file)
            with file:
                problem = _differs(file, size, item)
        except FileNotFoundError:
            problem = "missing"
        except OSError as error:
            problem = f"unreadable: {error}"
        if problem:
            problems.append(f"{item.file}: {problem}")


def _measured(path: Path, *, rows: int | None = None) -> ListedFile:
    return ListedFile(file=path.name, bytes=path.stat().st_size, crc32=crc32_of(path), rows=rows)


def crc32_of(path: Path) -> int:
    """The CRC-32 of a whole file; a link is an OSError."""
    file, _ = InDirectory(path.parent).open(path.name)
    with file:
        return _crc32(file)


def _crc32(file: BinaryIO) -> int:
    value = 0
    while block := file.read(_READ_BYTES):
        value = zlib.crc32(block, value)
    return value
