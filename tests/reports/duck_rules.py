"""The rules of `reports/judge/anomalies.py` as they are written, in DuckDB: what Spark's statements must agree with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pandas as pd

from reports.evidence.history import (
    clock_errors,
    commit_limits,
    committed_readers,
    early_readers,
    several_topics,
    transactions,
)
from reports.evidence.predict import predict
from reports.evidence.record_keys import key_rows, record_keys
from reports.evidence.removals import Removal, removals
from reports.evidence.topic_events import Interval
from reports.judge.anomalies import ANOMALIES
from reports.judge.anomaly import RULE_TABLES
from reports.read.cell import Run
from runlog.streams.schema import STREAMS, Stream

Identity = tuple[int, int, int]
ByRule = dict[str, dict[str, set[Identity]]]  # anomaly -> cell -> identities
_TYPES = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "float64": "DOUBLE"}


Row = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """What rules ask beside the streams, as rows of small tables; `copying` and `transacting` are ids of cells."""

    limits: list[Row]
    told: list[Row]
    early: list[Row]
    committed: list[Row]
    transacting: list[str]
    copying: list[str]
    clocks: list[Row]
    removals: list[Row]
    keys: list[Row]
    taken: list[Row]
    topics: list[Row]


def sets_by_rule(run: Run) -> ByRule:
    """For every anomaly that has SQL, over the Parquet files of the run's cells."""
    connection = duckdb.connect()
    for stream in STREAMS.values():
        cells = [Path(run.directory) / stream.name / f"cell={cell.cell_id}" for cell in run.cells]
        files = [str(path) for cell in cells for path in sorted(cell.glob("*.parquet"))]
        if files:
            connection.execute(
                f"CREATE VIEW {stream.name} AS SELECT * FROM read_parquet({files!r}, hive_partitioning = true, "
                "hive_types = {'cell': 'VARCHAR'})"
            )
        else:
            connection.execute(f"CREATE TABLE {stream.name} ({_columns(stream)})")
    small = Small(
        limits=[(cell.cell_id, *limit) for cell in run.cells for limit in commit_limits(cell)],
        committed=[(cell.cell_id, reader) for cell in run.cells for reader in committed_readers(cell)],
        transacting=[cell.cell_id for cell in run.cells if cell.record.workload.commit_interval_ms],
        copying=[cell.cell_id for cell in run.cells if cell.record.workload.has_copiers],
        told=[row for cell in run.cells for row in transactions(cell)],
        early=[(cell.cell_id, *reader) for cell in run.cells for reader in early_readers(cell)],
        clocks=[(cell.cell_id, *clock) for cell in run.cells for clock in clock_errors(cell)],
        removals=[(cell.cell_id, *removal_row(item)) for cell in run.cells for item in removals(cell).found],
        keys=[row for cell in run.cells for row in key_rows(cell.cell_id, record_keys(cell))],
        taken=[
            (cell.cell_id, *taken_row(item))
            for cell in run.cells
            for item in predict(cell).intervals
            if item.kind == "lost"
        ],
        topics=[(cell.cell_id, *row) for cell in run.cells for row in several_topics(cell)],
    )
    _small_tables(connection, small)
    return _ask(connection)


def removal_row(item: Removal) -> Row:
    return (
        item.partition,
        item.from_offset,
        item.end_offset,
        item.sent_before_us,
        int(item.is_known),
        int(item.needs_newer),
    )


def taken_row(item: Interval) -> Row:
    return item.partition, item.from_offset, item.end_offset, item.after_us, item.before_us


def sets_in_frames(frames: Mapping[str, pd.DataFrame], small: Small) -> ByRule:
    """The same over tables in memory."""
    connection = duckdb.connect()
    for stream in STREAMS.values():
        frame = frames[stream.name]
        connection.execute(f"CREATE TABLE {stream.name} ({_columns(stream)})")
        if len(frame):
            connection.register("given", frame)
            connection.execute(f"INSERT INTO {stream.name} SELECT * FROM given")
            connection.unregister("given")
    _small_tables(connection, small)
    return _ask(connection)


def _columns(stream: Stream) -> str:
    columns = ", ".join(f'"{column.name}" {_TYPES[column.arrow_type]}' for column in stream.columns)
    return f"{columns}, cell VARCHAR"


def _small_tables(connection: duckdb.DuckDBPyConnection, small: Small) -> None:
    tables: dict[str, Sequence[Row]] = {
        "commit_limits": small.limits,
        "early_readers": small.early,
        "clock_errors": small.clocks,
        "removals": small.removals,
        "record_keys": small.keys,
        "taken": small.taken,
        "several_topics": small.topics,
        "committed_readers": small.committed,
        "copying": [(cell,) for cell in small.copying],
        "transacting": [(cell,) for cell in small.transacting],
        "transactions": small.told,
    }
    for name, columns in RULE_TABLES.items():
        connection.execute(f"CREATE TABLE {name} (cell VARCHAR{''.join(f', {column} BIGINT' for column in columns)})")
        for row in tables[name]:
            connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))


def _ask(connection: duckdb.DuckDBPyConnection) -> ByRule:
    result: ByRule = {}
    for anomaly in ANOMALIES:
        if anomaly.sql:
            by_cell = result.setdefault(anomaly.name, {})
            for name, producer, incarnation, seq in connection.execute(anomaly.sql).fetchall():
                by_cell.setdefault(name, set()).add((producer, incarnation, seq))
    return result
