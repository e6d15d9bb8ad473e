"""How late was each second of each cell? `python with_duckdb.py RUN_DIR`; asks the run log itself, in SQL."""

import sys
from glob import escape

import duckdb

SQL = """
SELECT cell, sent_us // 1000000 AS second, count(*) AS sends,
       round(quantile_cont(acked_us - intended_us, 0.99) / 1000, 1) AS p99_ms
FROM read_parquet($files, hive_partitioning = true)
WHERE status = 0  -- acknowledged
GROUP BY cell, second ORDER BY cell, second
"""
duckdb.sql(SQL, params={"files": f"{escape(sys.argv[1])}/send/*/*.parquet"}).show(max_rows=1000)
