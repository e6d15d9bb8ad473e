"""What an anomaly is, and the words and pieces of SQL that several rules share. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["durability", "duplication", "order", "transactions", "replication", "groups", "liveness", "meta"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """`sql` is empty if the anomaly concerns no single record, or needs the brokers' journals."""

    name: str
    family: Family
    title: str
    rule: str
    sql: str = ""
    evidence: str = "acknowledgements and final read"


RECV = "deliveries"
JOURNAL = "brokers' journals"
EVENTS = "brokers' journals and the harness's probes"
HISTORY = "clients' history of groups and transactions"
SHARES = "history of the members of share groups, and where the group stood at the end"
READER = "coalesce(reader, 0)"


def readers_of(stream: str) -> str:
    """A table expression: the offsets of each partition that each reader of `stream` must have got, `first` to `last`.

    `early_readers` (cell, reader, end_partition) begin at the log's start. They must have got everything before their
    first offset too.
    """
    return f"""(SELECT r.cell, r.reader, partition, IF(e.reader IS NULL, first, 0) AS first, last
  FROM (SELECT cell, {READER} AS reader, partition, min("offset") AS first, max("offset") AS last FROM {stream}
        GROUP BY ALL) r LEFT JOIN early_readers e ON r.cell = e.cell AND r.reader = e.reader)"""


def out_of_order(rows: str) -> str:
    """A rule: records whose first offset comes after that of a record that the same producer sent later to the same
    partition. `rows` is a stream, with a condition if only a part of it counts."""
    return f"""WITH firsts AS (SELECT cell, partition, producer, incarnation, seq, min("offset") AS first_offset
  FROM {rows} GROUP BY cell, partition, producer, incarnation, seq),
running AS (SELECT *, max(seq) OVER (PARTITION BY cell, partition, producer, incarnation ORDER BY first_offset) AS top
  FROM firsts)
SELECT DISTINCT cell, producer, incarnation, seq FROM running WHERE seq < top"""


def delivered_again(stream: str, row: str) -> str:
    """A rule: records at offsets that one reader of `stream` got more than once. `row` is a short name of a row."""
    return f"""SELECT DISTINCT {row}.cell, {row}.producer, {row}.incarnation, {row}.seq FROM {stream} {row} JOIN (
  SELECT cell, {READER} AS reader, partition, "offset" FROM {stream} GROUP BY ALL HAVING count(*) > 1
) twice ON {row}.cell = twice.cell AND coalesce({row}.reader, 0) = twice.reader AND {row}.partition = twice.partition
  AND {row}."offset" = twice."offset" """
