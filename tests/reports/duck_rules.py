"""The rules of `reports/anomalies.py` as they are written, in DuckDB: what Spark's statements are compared with."""

from __future__ import annotations

from pathlib import Path

import duckdb

from reports.anomalies import ANOMALIES
from reports.history import commit_limits, has_copiers, transactions
from reports.model import Run
from runlog.schema import STREAMS

Identity = tuple[int, int, int]
_TYPES = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "float64": "DOUBLE"}


def sets_by_rule(run: Run) -> dict[str, dict[str, set[Identity]]]:
    """Anomaly -> cell -> identities, for every anomaly that has SQL."""
    connection = duckdb.connect()
    for stream in STREAMS.values():
        files = [str(path) for path in sorted(Path(run.directory).glob(f"{stream.name}/*/*.parquet"))]
        if files:
            connection.execute(
                f"CREATE VIEW {stream.name} AS SELECT * FROM read_parquet({files!r}, hive_partitioning = true, "
                "hive_types = {'cell': 'VARCHAR'})"
            )
        else:
            columns = ", ".join(f'"{column.name}" {_TYPES[column.arrow_type]}' for column in stream.columns)
            connection.execute(f"CREATE TABLE {stream.name} ({columns}, cell VARCHAR)")
    connection.execute("CREATE TABLE commit_limits (cell VARCHAR, reader BIGINT, limit_us BIGINT)")
    connection.execute("CREATE TABLE copying (cell VARCHAR)")
    connection.execute(
        "CREATE TABLE transactions (cell VARCHAR, copier BIGINT, copier_incarnation BIGINT, txn BIGINT, "
        "is_committed BIGINT, asked_us BIGINT)"
    )
    for cell in run.cells:
        for limit in commit_limits(cell):
            connection.execute("INSERT INTO commit_limits VALUES (?, ?, ?)", [cell.cell_id, *limit])
        if has_copiers(cell):
            connection.execute("INSERT INTO copying VALUES (?)", [cell.cell_id])
        for row in transactions(cell):
            connection.execute("INSERT INTO transactions VALUES (?, ?, ?, ?, ?, ?)", list(row))
    result: dict[str, dict[str, set[Identity]]] = {}
    for anomaly in ANOMALIES:
        if anomaly.sql:
            by_cell = result.setdefault(anomaly.name, {})
            for name, producer, incarnation, seq in connection.execute(anomaly.sql).fetchall():
                by_cell.setdefault(name, set()).add((producer, incarnation, seq))
    return result
