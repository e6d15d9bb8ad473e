"""The live layout, the numpy layout and the Arrow schema of each stream agree column by column."""

from __future__ import annotations

import struct

import pytest

from runlog.streams.parquet import arrow_schema, table_of
from runlog.streams.schema import LOG, STREAMS, Stream
from runlog.streams.segment import row_dtype


@pytest.mark.parametrize("stream", STREAMS.values(), ids=lambda stream: stream.name)
def test_every_layout_of_a_stream_has_the_same_columns_and_widths(stream: Stream) -> None:
    names = [column.name for column in stream.columns]
    assert arrow_schema(stream).names == names
    assert list(row_dtype(stream).names or ()) == names
    assert row_dtype(stream).itemsize == struct.calcsize(stream.struct_format)
    assert len(set(names)) == len(names)


def test_a_missing_and_a_misspelt_column_are_named() -> None:
    columns = {column.name: [1] for column in LOG.columns}
    columns["offsett"] = columns.pop("offset")
    with pytest.raises(ValueError, match=r"missing columns \['offset'\], unknown columns \['offsett'\]"):
        table_of(LOG, columns)


def test_columns_of_unequal_length_are_refused() -> None:
    columns = {column.name: [1] for column in LOG.columns}
    columns["offset"] = [1, 2]
    with pytest.raises(ValueError, match="unequal length"):
        table_of(LOG, columns)
