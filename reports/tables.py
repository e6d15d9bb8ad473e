"""Run-log streams as Spark DataFrames with the one schema; files that are no Parquet are left out and named."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from runlog.schema import STREAMS, Stream

_PARQUET_MAGIC = b"PAR1"
_PARQUET_BYTES_MIN = 12
_TYPES: dict[str, DataType] = {
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float64": DoubleType(),
}
TEXT, LONG = StringType(), LongType()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Names of the temporary views, which cells have which stream, and what could not be read."""

    cells_with: Mapping[str, frozenset[str]]
    unreadable: Mapping[str, tuple[str, ...]]  # cell id -> files


def spark_schema(stream: Stream) -> StructType:
    fields = [StructField(column.name, _TYPES[column.arrow_type]) for column in stream.columns]
    return StructType([*fields, StructField("cell", StringType())])


def open_tables(spark: SparkSession, directory: Path, cell_ids: frozenset[str]) -> Tables:
    """Registers the views `send`, `recv`, `log`, `batches` over the readable files of the wanted cells."""
    cells_with: dict[str, frozenset[str]] = {}
    unreadable: dict[str, list[str]] = defaultdict(list)
    for stream in STREAMS.values():
        root = directory / stream.name
        good: list[Path] = []
        present: set[str] = set()
        for path in sorted(root.glob("cell=*/*.parquet")):
            cell = path.parent.name.removeprefix("cell=")
            if cell not in cell_ids:
                continue
            if _is_parquet(path):
                good.append(path)
                present.add(cell)
            else:
                unreadable[cell].append(f"{stream.name}/{path.name}")
        cells_with[stream.name] = frozenset(present)
        _open_stream(spark, stream, root, good).createOrReplaceTempView(stream.name)
    return Tables(cells_with=cells_with, unreadable={cell: tuple(files) for cell, files in unreadable.items()})


def _open_stream(spark: SparkSession, stream: Stream, root: Path, files: list[Path]) -> DataFrame:
    schema = spark_schema(stream)
    if not files:
        return empty_frame(spark, schema)
    reader = spark.read.schema(schema).option("basePath", f"file://{root.resolve()}")
    return reader.parquet(*(f"file://{_without_globs(path.resolve())}" for path in files))


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows, in a way that the optimiser sees: a join with it costs nothing, not a shuffle of all records."""
    nothing = (f"CAST(NULL AS {field.dataType.simpleString()}) AS `{field.name}`" for field in schema.fields)
    return spark.sql(f"SELECT {', '.join(nothing)} WHERE false")


def _without_globs(path: Path) -> str:
    """Spark reads a path as a pattern: signs that mean something in one are escaped."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", str(path))


def _is_parquet(path: Path) -> bool:
    """Whether the file has Parquet's mark at both ends; a file cut short by a crash lacks the last one."""
    if path.stat().st_size < _PARQUET_BYTES_MIN:
        return False
    with path.open("rb") as stream:
        head = stream.read(4)
        stream.seek(-4, 2)
        return head == _PARQUET_MAGIC and stream.read(4) == _PARQUET_MAGIC


def small_table(
    spark: SparkSession, name: str, columns: Mapping[str, DataType], rows: list[tuple[object, ...]]
) -> DataFrame:
    """A table made from Python values as temporary view `name`; it travels as Arrow, so no Python worker starts."""
    schema = StructType([StructField(column, kind) for column, kind in columns.items()])
    if not rows:
        frame = empty_frame(spark, schema)
    else:
        frame = spark.createDataFrame(pd.DataFrame(rows, columns=list(columns)), schema)
    frame.createOrReplaceTempView(name)
    return frame
