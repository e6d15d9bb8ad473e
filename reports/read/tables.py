"""Run-log streams as Spark DataFrames with the one schema, over parts that `runlog.streams.inventory` found sound."""

from __future__ import annotations

import re
from collections.abc import Mapping

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

from runlog.streams.inventory import CellFiles
from runlog.streams.place import PartsPlace
from runlog.streams.schema import STREAMS, Stream

_TYPES: dict[str, DataType] = {
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float64": DoubleType(),
}
TEXT, LONG = StringType(), LongType()


def spark_schema(stream: Stream) -> StructType:
    fields = [StructField(column.name, _TYPES[column.arrow_type]) for column in stream.columns]
    return StructType([*fields, StructField("cell", StringType())])


def open_tables(spark: SparkSession, place: PartsPlace, files: Mapping[str, CellFiles]) -> None:
    """Registers a view for each stream over the sound parts of the cells."""
    for stream in STREAMS.values():
        good = [path for of_cell in files.values() for path in of_cell.parts.get(stream.name, ())]
        _open_stream(spark, stream, place, good).createOrReplaceTempView(stream.name)


def _open_stream(spark: SparkSession, stream: Stream, place: PartsPlace, files: list[str]) -> DataFrame:
    schema = spark_schema(stream)
    if not files:
        return empty_frame(spark, schema)
    reader = spark.read.schema(schema).option("basePath", place.uri(stream.name))
    return reader.parquet(*(_without_globs(place.uri(path)) for path in files))


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows, in a way that the optimiser sees: a join with it costs nothing, not a shuffle of all records."""
    nothing = (f"CAST(NULL AS {field.dataType.simpleString()}) AS `{field.name}`" for field in schema.fields)
    return spark.sql(f"SELECT {', '.join(nothing)} WHERE false")


def _without_globs(path: str) -> str:
    """Spark reads a path as a pattern: signs that mean something in one are escaped."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


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
