"""How late was each second of each cell? `python with_duckdb.py RUN_DIR`; asks the run log itself, in SQL.

As in the report, what was due in the measured window counts, and what was never acknowledged is infinitely late (inf).
"""

import json
import sys
from glob import escape
from pathlib import Path

import duckdb

SQL = """
SELECT cell, (intended_us - measure_start_us) // 1000000 AS second, count(*) AS sends,
       sum(CAST(status = 0 AS INT)) AS acked,
       round(quantile_disc(CASE WHEN status = 0 THEN acked_us - intended_us ELSE 'inf'::DOUBLE END, 0.99) / 1000, 1)
         AS p99_ms
FROM read_parquet($files, hive_partitioning = true, hive_types = {'cell': 'VARCHAR'}) JOIN windows USING (cell)
WHERE intended_us >= measure_start_us AND intended_us < measure_end_us
GROUP BY cell, second ORDER BY cell, second
"""
run = Path(sys.argv[1])
connection = duckdb.connect()
connection.execute("CREATE TABLE windows (cell VARCHAR, measure_start_us BIGINT, measure_end_us BIGINT)")
for document in sorted(run.glob("cells/*/cell.json")):
    outcome = json.loads(document.read_text())["outcome"]
    if outcome.get("measure_end_us") is not None:  # a cell that was cut short before has no window
        window = [document.parent.name, outcome["measure_start_us"], outcome["measure_end_us"]]
        connection.execute("INSERT INTO windows VALUES (?, ?, ?)", window)
connection.sql(SQL, params={"files": f"{escape(str(run))}/send/*/*.parquet"}).show(max_rows=1000)
