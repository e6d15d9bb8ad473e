"""The rules of `reports/judge/anomalies.py` as they are written, in DuckDB: what Spark's statements must agree with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import duckdb
import pandas as pd

from reports.evidence.history import commit_limits, early_readers, transactions
from reports.judge.anomalies import ANOMALIES
from reports.read.cell import Run
from runlog.streams.schema import STREAMS, Stream

Identity = tuple[int, int, int]
ByRule = dict[str, dict[str, set[Identity]]]  # anomaly -> cell -> identities
_TYPES = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "float64": "DOUBLE"}


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
    _small_tables(
        connection,
        limits=[(cell.cell_id, *limit) for cell in run.cells for limit in commit_limits(cell)],
        copying=[cell.cell_id for cell in run.cells if cell.record.workload.has_copiers],
        told=[row for cell in run.cells for row in transactions(cell)],
        early=[(cell.cell_id, *reader) for cell in run.cells for reader in early_readers(cell)],
    )
    return _ask(connection)


def sets_in_frames(
    frames: Mapping[str, pd.DataFrame],
    limits: Iterable[Sequence[object]],
    copying: Iterable[str] = (),
    told: Iterable[Sequence[object]] = (),
    early: Iterable[Sequence[object]] = (),
) -> ByRule:
    """The same over tables in memory."""
    connection = duckdb.connect()
    for stream in STREAMS.values():
        frame = frames[stream.name]
        connection.execute(f"CREATE TABLE {stream.name} ({_columns(stream)})")
        if len(frame):
            connection.register("given", frame)
            connection.execute(f"INSERT INTO {stream.name} SELECT * FROM given")
            connection.unregister("given")
    _small_tables(connection, limits=limits, copying=copying, told=told, early=early)
    return _ask(connection)


def _columns(stream: Stream) -> str:
    columns = ", ".join(f'"{column.name}" {_TYPES[column.arrow_type]}' for column in stream.columns)
    return f"{columns}, cell VARCHAR"


def _small_tables(
    connection: duckdb.DuckDBPyConnection,
    *,
    limits: Iterable[Sequence[object]],
    copying: Iterable[str],
    told: Iterable[Sequence[object]],
    early: Iterable[Sequence[object]],
) -> None:
    connection.execute("CREATE TABLE commit_limits (cell VARCHAR, reader BIGINT, limit_us BIGINT)")
    connection.execute("CREATE TABLE early_readers (cell VARCHAR, reader BIGINT, end_partition BIGINT)")
    connection.execute("CREATE TABLE copying (cell VARCHAR)")
    for reader in early:
        connection.execute("INSERT INTO early_readers VALUES (?, ?, ?)", list(reader))
    connection.execute(
        "CREATE TABLE transactions (cell VARCHAR, copier BIGINT, copier_incarnation BIGINT, txn BIGINT, "
        "is_committed BIGINT, asked_us BIGINT)"
    )
    for limit in limits:
        connection.execute("INSERT INTO commit_limits VALUES (?, ?, ?)", list(limit))
    for cell in copying:
        connection.execute("INSERT INTO copying VALUES (?)", [cell])
    for row in told:
        connection.execute("INSERT INTO transactions VALUES (?, ?, ?, ?, ?, ?)", list(row))


def _ask(connection: duckdb.DuckDBPyConnection) -> ByRule:
    result: ByRule = {}
    for anomaly in ANOMALIES:
        if anomaly.sql:
            by_cell = result.setdefault(anomaly.name, {})
            for name, producer, incarnation, seq in connection.execute(anomaly.sql).fetchall():
                by_cell.setdefault(name, set()).add((producer, incarnation, seq))
    return result
