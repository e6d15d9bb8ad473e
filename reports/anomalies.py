"""The exact rule of each anomaly: in words for the page, in plain SQL for the oracle of the tests.

The SQL is the definition, written for clearness; `queries.py` computes the same much faster. Each statement gives
(cell, producer, incarnation, seq), once per record. The tests run it in DuckDB and demand the same sets of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    name: str
    title: str
    rule: str
    sql: str


ANOMALIES: tuple[Anomaly, ...] = (
    Anomaly(
        name="lost",
        title="Lost after acknowledgement",
        rule="The client got a success for the record, and the final read of the log finds it at no offset.",
        sql="""SELECT DISTINCT cell, producer, incarnation, seq FROM send WHERE status = 0
EXCEPT SELECT cell, producer, incarnation, seq FROM log""",
    ),
    Anomaly(
        name="duplicated",
        title="Duplicated in the log",
        rule="The final read finds the record at two offsets or more.",
        sql="""SELECT cell, producer, incarnation, seq FROM log
GROUP BY cell, producer, incarnation, seq HAVING count(*) > 1""",
    ),
    Anomaly(
        name="reordered",
        title="Reordered in the log",
        rule="The record's first offset comes after the first offset of a record that the same producer sent later "
        "to the same partition.",
        sql="""WITH firsts AS (SELECT cell, partition, producer, incarnation, seq, min("offset") AS first_offset
  FROM log GROUP BY cell, partition, producer, incarnation, seq),
running AS (SELECT *, max(seq) OVER (PARTITION BY cell, partition, producer, incarnation ORDER BY first_offset) AS top
  FROM firsts)
SELECT DISTINCT cell, producer, incarnation, seq FROM running WHERE seq < top""",
    ),
    Anomaly(
        name="recovered",
        title="Recovered",
        rule="The client reported a failure or could not know, and the final read finds the record. No damage: "
        "neither lost nor promised.",
        sql="""SELECT cell, producer, incarnation, seq FROM send WHERE status <> 0
INTERSECT SELECT cell, producer, incarnation, seq FROM log
EXCEPT SELECT cell, producer, incarnation, seq FROM send WHERE status = 0""",
    ),
    Anomaly(
        name="unexpected",
        title="Never sent",
        rule="The final read finds a record that no producer of this cell sent.",
        sql="""SELECT cell, producer, incarnation, seq FROM log
EXCEPT SELECT cell, producer, incarnation, seq FROM send""",
    ),
    Anomaly(
        name="corrupt",
        title="Corrupt",
        rule="The final read finds the record with content that does not match its own checksum.",
        sql="SELECT DISTINCT cell, producer, incarnation, seq FROM log WHERE crc_ok = 0",
    ),
    Anomaly(
        name="dup_delivered",
        title="Delivered twice",
        rule="One consumer received the same offset of the same partition more than once.",
        sql="""SELECT DISTINCT r.cell, r.producer, r.incarnation, r.seq FROM recv r JOIN (
  SELECT cell, consumer, partition, "offset" FROM recv GROUP BY cell, consumer, partition, "offset" HAVING count(*) > 1
) twice ON r.cell = twice.cell AND r.consumer = twice.consumer AND r.partition = twice.partition
  AND r."offset" = twice."offset" """,
    ),
)
BY_NAME: dict[str, Anomaly] = {anomaly.name: anomaly for anomaly in ANOMALIES}
