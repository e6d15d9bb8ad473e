"""Computes by DuckDB what the analysis computes, over the same Parquet files, and says where the two differ.

- Sets follow the rules of reports/judge/anomalies.py as they are written. Two of these rules compare all rows of a
  partition with one another. They are rewritten here so that their time grows with the number of rows (the tests show
  that the result is the same).
- Counts, rates, buckets, batches and latencies come from plain SQL written for this module.
- Quantiles of the job come from bins 0.8 % wide. All other figures must be equal.
"""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path
from typing import Any, Final

import duckdb

from reports.analyse.cell_facts import UNTIL_ACKNOWLEDGED
from reports.judge.anomalies import ANOMALIES
from reports.judge.anomaly import RULE_TABLES
from reports.read.model import QUANTILES
from runlog.streams.schema import BATCHES, LOG, RECV, SEND, STREAMS

MEMORY_LIMIT: Final = "4GB"
THREADS: Final = 2
BIN_WIDTH: Final = 0.01  # relative
_ENDLESS_US: Final = 10**15
_LATENCIES: Final = {
    "corrected": ("send", "acked_us - intended_us", "status = 0"),
    "uncorrected": ("send", "acked_us - sent_us", "status = 0"),
    "end_to_end": ("recv", "polled_us - intended_us", "true"),
    "schedule_lag": ("send", "sent_us - intended_us", "sent_us >= 0"),
}

# A made run has these streams. It has no copiers, members and transactions, but the rules ask for their streams too.
_MADE: Final = (SEND, RECV, LOG, BATCHES)

ARRANGED: Final = {
    "poll_skip": """WITH polls AS (SELECT cell, consumer, partition, polled_us, min("offset") AS low,
  lag(max("offset")) OVER (PARTITION BY cell, consumer, partition ORDER BY polled_us) AS before
  FROM recv GROUP BY cell, consumer, partition, polled_us),
reach AS (SELECT cell, partition, before, max(max(low)) OVER (PARTITION BY cell, partition ORDER BY before) AS top
  FROM polls WHERE low > before + 1 GROUP BY cell, partition, before)
SELECT DISTINCT l.cell, l.producer, l.incarnation, l.seq FROM log l ASOF JOIN reach r
ON l.cell = r.cell AND l.partition = r.partition AND l."offset" > r.before WHERE l."offset" < r.top""",
    "send_realtime_violation": """WITH sent AS (SELECT cell, partition, producer, incarnation, seq, "offset",
  sent_us // 10000 AS sent_bin, acked_us // 10000 AS acked_bin FROM send
  WHERE status = 0 AND "offset" >= 0 AND sent_us >= 0),
highest AS (SELECT cell, partition, acked_bin, max(max("offset")) OVER (PARTITION BY cell, partition ORDER BY acked_bin)
  AS top FROM sent GROUP BY cell, partition, acked_bin)
SELECT DISTINCT s.cell, s.producer, s.incarnation, s.seq FROM sent s ASOF JOIN highest h
ON s.cell = h.cell AND s.partition = h.partition AND s.sent_bin > h.acked_bin WHERE h.top >= s."offset" """,
}


class Oracle:
    """`seconds` is what DuckDB took for all of it."""

    def __init__(self, directory: Path, cell: str) -> None:
        self._directory, self._cell = directory, cell
        self.seconds = 0.0
        self.agreed = 0
        self._differences: list[str] = []
        self._connection = duckdb.connect()
        scratch = directory / "duckdb-scratch"
        self._connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'; SET threads = {THREADS}")
        self._connection.execute(f"SET temp_directory = '{scratch}'; SET preserve_insertion_order = false")
        for made in _MADE:
            files = f"{directory}/{made.name}/*/*.parquet"
            self._connection.execute(
                f"CREATE VIEW {made.name} AS SELECT * FROM read_parquet('{files}', hive_partitioning = true, "
                "hive_types = {'cell': 'VARCHAR'})"
            )
        absent = {
            stream.name: tuple(column.name for column in stream.columns)
            for stream in STREAMS.values()
            if stream not in _MADE
        }
        for name, columns in {**RULE_TABLES, **absent}.items():
            fields = "".join(f', "{column}" BIGINT' for column in columns)
            self._connection.execute(f"CREATE TABLE {name} (cell VARCHAR{fields})")

    def differences(self, cell: dict[str, Any]) -> list[str]:
        """Every figure of the cell's entry in verdicts.json, and its time buckets, against DuckDB's."""
        self._sets(cell)
        self._counts(cell)
        self._latencies(cell)
        self._buckets()
        return self._differences

    def _ask(self, sql: str) -> tuple[Any, ...]:
        began_s = time.monotonic()
        row = self._connection.execute(sql).fetchone()
        self.seconds += time.monotonic() - began_s
        assert row is not None
        return tuple(row)

    def _same(self, name: str, found: object, expected: object, tolerance: float = 0.0) -> None:
        close = (
            isinstance(found, int | float)
            and isinstance(expected, int | float)
            and abs(found - expected) <= tolerance * abs(expected)
        )
        if found == expected or close:
            self.agreed += 1
        else:
            self._differences.append(f"{name}: the job says {found}, DuckDB {expected}")

    def _sets(self, cell: dict[str, Any]) -> None:
        for anomaly in ANOMALIES:
            if anomaly.sql:
                count = self.set_count(ARRANGED.get(anomaly.name, anomaly.sql))
                self._same(anomaly.name, cell["observed_sets"][anomaly.name]["count"], count)

    def set_count(self, rule: str) -> int:
        """How many records a rule names."""
        (count,) = self._ask(f"SELECT count(*) FROM ({rule})")
        return int(count)

    def _counts(self, cell: dict[str, Any]) -> None:
        names = ("sent", "acked", "failed", "unknown")
        sql = "SELECT count(*), count_if(status = 0), count_if(status = 1), count_if(status = 2) FROM send"
        for name, count in zip(names, self._ask(sql), strict=True):
            self._same(name, cell[name], count)
        self._same("in_log", cell["in_log"], self._ask("SELECT count(*) FROM log")[0])
        self._same("received", cell["received"], self._ask("SELECT count(*) FROM recv")[0])
        batches, records, size, plain = self._ask(
            "SELECT count(*), sum(records), sum(size_bytes), sum(uncompressed_bytes) FROM batches"
        )
        self._same("batches", cell["batches"], batches)
        self._same("records per batch", cell["records_per_batch"], round(int(records) / batches, 2))
        self._same("compression", cell["compression_ratio"], round(int(plain) / int(size), 3))
        start, end = self._window()
        acks = self._ask(f"SELECT count(*) FROM send WHERE status = 0 AND acked_us >= {start} AND acked_us < {end}")[0]
        self._same("throughput", cell["throughput_records_per_s"], round(acks / ((end - start) / 1e6), 1))

    def _latencies(self, cell: dict[str, Any]) -> None:
        start, end = self._window()
        shares = ", ".join(str(share) for _, share in QUANTILES)
        for kind, (stream, value, condition) in _LATENCIES.items():
            inside = f"intended_us >= {start} AND intended_us < {end}"
            n, largest, mean, quantiles = self._ask(
                f"SELECT count(*), max(us), avg(us), quantile_disc(us, [{shares}]) FROM (SELECT {value} AS us "
                f"FROM {stream} WHERE {condition} AND {inside})"
            )
            if kind in UNTIL_ACKNOWLEDGED:  # what never was acknowledged ranks above all that was
                (quantiles,) = self._ask(
                    f"SELECT quantile_disc(us, [{shares}]) FROM (SELECT IF({condition}, {value}, {_ENDLESS_US}) AS us "
                    f"FROM {stream} WHERE {inside})"
                )
            found = cell["latency_us"][kind]
            self._same(f"{kind} n", found["n"], n)
            self._same(f"{kind} max", found["max"], largest)
            self._same(f"{kind} mean", found["mean"], mean, tolerance=1e-3)
            for (name, _), expected in zip(QUANTILES, quantiles, strict=True):
                if found[name] is not None:
                    self._same(f"{kind} {name}", found[name], expected, tolerance=BIN_WIDTH)

    def _buckets(self) -> None:
        """Sums over the time buckets, and the fullest one, of results/time.csv."""
        with (self._directory / "results" / "time.csv").open() as lines:
            rows = list(csv.DictReader(lines))
        width = int(rows[1]["t_us"]) - int(rows[0]["t_us"])
        first, end = int(rows[0]["t_us"]), self._outcome()["ended_us"]  # the last bucket may be cut
        columns = (("send", "intended", "intended_us", "true"), ("send", "sent", "sent_us", "true"),
                   ("send", "acked", "acked_us", "status = 0"), ("recv", "received", "polled_us", "true"))  # fmt: skip
        for stream, name, column, condition in columns:
            total, fullest = self._ask(
                f"SELECT sum(n), max(n) FROM (SELECT count(*) AS n FROM {stream} WHERE {condition} "
                f"AND {column} >= {first} AND {column} < {end} GROUP BY ({column} - {first}) // {width})"
            )
            self._same(f"buckets of {name}", sum(int(row[name]) for row in rows), int(total))
            self._same(f"fullest bucket of {name}", max(int(row[name]) for row in rows), int(fullest))

    def _window(self) -> tuple[int, int]:
        outcome = self._outcome()
        return outcome["measure_start_us"], outcome["measure_end_us"]

    def _outcome(self) -> dict[str, int]:
        document = json.loads((self._directory / "cells" / self._cell / "cell.json").read_text())
        outcome: dict[str, int] = document["outcome"]
        return outcome
