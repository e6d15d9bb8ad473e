"""Streams at rest: Parquet parts below RUN/<stream>/cell=<cell_id>/, integers delta encoded, zstd.

Delta encoding and zstd level 1 take 1.8 bytes for a `send` row. Plain dictionaries take 10 to 20. A part appears by
rename, so a reader sees whole parts only. Knows the schema and Arrow, nothing of where rows come from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from runlog.streams.schema import SCHEMA_VERSION, STREAMS, Stream

ROWS_PER_PART = 2_000_000
ROWS_PER_CHUNK = 1 << 18  # With six columns these are 12 MiB.
_ARROW_TYPES = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
}


def arrow_schema(stream: Stream) -> pa.Schema:
    """The stream's columns as an Arrow schema; no column is nullable. Each carries its description and its unit. So
    does the file its description, so that whoever finds one alone can read it."""
    fields = [
        pa.field(
            column.name,
            _ARROW_TYPES[column.arrow_type],
            nullable=False,
            metadata={"description": column.meaning, **({"unit": column.unit} if column.unit else {})},
        )
        for column in stream.columns
    ]
    about = {"description": f"kafka-harness run log, stream {stream.name}", "schema_version": str(SCHEMA_VERSION)}
    return pa.schema(fields, metadata=about)


def partition_directory(run_dir: Path, stream: Stream, cell_id: str) -> Path:
    if not cell_id or "/" in cell_id or "=" in cell_id:
        raise ValueError(f"cell id {cell_id!r} must not be empty nor hold '/' or '='")
    return run_dir / stream.name / f"cell={cell_id}"


def table_of(stream: Stream, columns: Mapping[str, ArrayLike]) -> pa.Table:
    """Columns by name to a table of the stream's schema. ValueError names what is missing, extra or unequal."""
    expected = [column.name for column in stream.columns]
    columns = {**_defaults(stream, columns), **columns}
    if set(columns) != set(expected):
        raise ValueError(
            f"stream {stream.name}: missing columns {sorted(set(expected) - set(columns))}, "
            f"unknown columns {sorted(set(columns) - set(expected))}"
        )
    arrays: list[Any] = []
    for column in stream.columns:
        values = np.ascontiguousarray(np.asarray(columns[column.name]))
        arrays.append(pa.array(values).cast(_ARROW_TYPES[column.arrow_type]))
    lengths = {len(array) for array in arrays}
    if len(lengths) > 1:
        raise ValueError(f"stream {stream.name}: columns of unequal length {sorted(lengths)}")
    return pa.Table.from_arrays(arrays, schema=arrow_schema(stream))


def _defaults(stream: Stream, columns: Mapping[str, ArrayLike]) -> dict[str, ArrayLike]:
    length = max((len(np.asarray(values)) for values in columns.values()), default=0)
    return {
        column.name: np.full(length, column.default)
        for column in stream.columns
        if column.default is not None and column.name not in columns
    }


def write_table(path: Path, table: pa.Table) -> None:
    """Write one part beside its final name, sync it and rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    integers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    pq.write_table(
        table,
        temporary,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        column_encoding={name: "DELTA_BINARY_PACKED" for name in integers},
        write_statistics=True,
    )
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)


def write_part(
    run_dir: Path, stream: Stream | str, cell_id: str, columns: Mapping[str, ArrayLike], *, part: str = "000000"
) -> Path:
    """Write columns (numpy arrays or lists) as RUN/<stream>/cell=<cell_id>/part-<part>.parquet and return its path.

    The way in for `log` and `batches`. Writing the same part again replaces it.
    """
    known = STREAMS[stream] if isinstance(stream, str) else stream
    path = partition_directory(run_dir, known, cell_id) / f"part-{part}.parquet"
    write_table(path, table_of(known, columns))
    return path


def column_chunks(
    run_dir: Path,
    stream: Stream | str,
    cell_id: str,
    names: Sequence[str],
    *,
    seqs: tuple[int, int] | None = None,
) -> Iterator[dict[str, npt.NDArray[np.int64]]]:
    """These integer columns of one stream of one cell, in the order in which they were written, at most ROWS_PER_CHUNK
    rows at a time. So a cell of any length takes the memory of one chunk. With `seqs` (first, end) row groups are left
    out that have no record with such a sequence number. What is read has others too."""
    for path in _parts(run_dir, stream, cell_id):
        with pq.ParquetFile(path) as part:
            groups = _groups_with(part.metadata, seqs)
            for batch in part.iter_batches(batch_size=ROWS_PER_CHUNK, row_groups=groups, columns=list(names)):
                yield {name: batch.column(name).to_numpy().astype(np.int64) for name in names}


def _groups_with(part: pq.FileMetaData, seqs: tuple[int, int] | None) -> list[int]:
    groups = list(range(part.num_row_groups))
    if seqs is None:
        return groups
    column = part.schema.to_arrow_schema().get_field_index("seq")
    assert column >= 0, "only streams of records are asked for some of them"
    told = [part.row_group(group).column(column).statistics for group in groups]
    return [
        group
        for group, statistics in zip(groups, told, strict=True)
        if statistics is None or not statistics.has_min_max or (statistics.min < seqs[1] and statistics.max >= seqs[0])
    ]


def row_count(run_dir: Path, stream: Stream | str, cell_id: str) -> int:
    """From the footers of the parts; no row is read."""
    return sum(pq.read_metadata(path).num_rows for path in _parts(run_dir, stream, cell_id))


def _parts(run_dir: Path, stream: Stream | str, cell_id: str) -> list[Path]:
    known = STREAMS[stream] if isinstance(stream, str) else stream
    return sorted(partition_directory(run_dir, known, cell_id).glob("part-*.parquet"))


def read_stream(run_dir: Path, stream: Stream | str, cell_id: str) -> pa.Table:
    """All parts of one stream of one cell; an empty table when there is none. For tests and small tools."""
    known = STREAMS[stream] if isinstance(stream, str) else stream
    paths = _parts(run_dir, known, cell_id)
    if not paths:
        return arrow_schema(known).empty_table()
    return pa.concat_tables([_completed(known, pq.ParquetFile(path).read()) for path in paths])


def _completed(stream: Stream, table: pa.Table) -> pa.Table:
    """A part as written, with the columns that its version did not have yet."""
    return table_of(stream, {name: table.column(name).to_numpy() for name in table.column_names})
