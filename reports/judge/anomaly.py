"""What an anomaly is, and the words and pieces of SQL that several rules share. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

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
REMOVALS = "acknowledgements, deliveries and final read, with settings and brokers' journals"
JOURNAL = "brokers' journals"
EVENTS = "brokers' journals and the harness's probes"
HISTORY = "clients' history of groups and transactions"
SHARES = "history of the members of share groups, and where the group stood at the end"
READER = "coalesce(reader, 0)"


def has_newer(row: str) -> str:
    """A condition: the log has an undamaged record with the key of this row's at a higher offset of its partition."""
    return f"""EXISTS (SELECT 1 FROM record_keys a JOIN record_keys b ON a.cell = b.cell AND a.key = b.key
    JOIN log l ON l.cell = b.cell AND l.seq % 65536 = b.turn AND l.crc_ok = 1
    WHERE a.cell = {row}.cell AND a.turn = {row}.seq % 65536 AND l.partition = {row}.partition
    AND l."offset" > {row}."offset")"""


# The small tables that rules ask beside the streams: their columns of integers, after `cell`. The analysis fills them.
RULE_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    # Load hosts, and the most by which a producer's clock can be wrong.
    "clock_errors": ("producer", "host", "error_us"),
    "commit_limits": ("reader", "limit_us"),
    "committed_readers": ("reader",),  # those with isolation.level=read_committed, of a load in transactions
    "copying": (),  # the cells with copiers
    "early_readers": ("reader", "end_partition"),  # readers that begin at the log's start
    "record_keys": ("turn", "key"),  # the key of record `seq`, by seq % 65536
    # Offsets that retention, DeleteRecords or compaction may have taken. What compaction took must have a newer record
    # of its key.
    "removals": ("partition", "from_offset", "end_offset", "sent_before_us", "is_known", "needs_newer"),
    # The cells in which records take turns between topics: record seq of producer p belongs into topic
    # (seq + p) mod topics, which has the partitions from its number * partitions on.
    "several_topics": ("topics", "partitions"),
    "taken": ("partition", "from_offset", "end_offset", "after_us", "before_us"),  # truncations took them
    "transacting": (),  # the cells whose load is sent in transactions
    "transactions": ("copier", "copier_incarnation", "txn", "is_committed", "asked_us"),
}

_PLACES = """places AS (
  SELECT cell, partition, "offset", sent_us, producer, incarnation, seq FROM send WHERE status = 0 AND "offset" >= 0
  UNION ALL SELECT cell, partition, "offset", intended_us, producer, incarnation, seq FROM recv WHERE crc_ok = 1)"""
_MISSING = """missing AS (
  SELECT cell, producer, incarnation, seq FROM send WHERE status = 0 OR (status = 2 AND error = 0)
  EXCEPT SELECT cell, producer, incarnation, seq FROM log
  EXCEPT SELECT s.cell, s.producer, s.incarnation, s.seq FROM send s
    JOIN taken t ON s.cell = t.cell AND s.partition = t.partition AND s.status = 0 AND s."offset" >= t.from_offset
      AND s."offset" < t.end_offset LEFT JOIN clock_errors c ON s.cell = c.cell AND s.producer = c.producer
    WHERE s."offset" >= 0 AND s.acked_us + coalesce(c.error_us, 0) >= t.after_us
      AND s.acked_us + coalesce(c.error_us, 0) < t.before_us)"""
_REMOVED = f"""removed AS (SELECT p.cell, p.producer, p.incarnation, p.seq, i.is_known FROM places p JOIN removals i
  ON p.cell = i.cell AND p.partition = i.partition AND p."offset" >= i.from_offset AND p."offset" < i.end_offset
  AND p.sent_us < i.sent_before_us
  WHERE i.needs_newer = 0 OR {has_newer("p")}
  UNION ALL SELECT cell, producer, incarnation, seq, 0 FROM send
  WHERE "offset" < 0 AND (status = 0 OR (status = 2 AND error = 0)) AND cell IN (SELECT cell FROM removals))"""
REMOVED = f"WITH {_PLACES}, {_MISSING}, {_REMOVED}"
ANY_REMOVED = f"""SELECT * FROM ({REMOVED}
SELECT cell, producer, incarnation, seq FROM removed INTERSECT SELECT * FROM missing)"""


_MISROUTED = """SELECT l.cell, l.producer, l.incarnation, l.seq FROM log l JOIN several_topics t ON l.cell = t.cell
  WHERE l.partition // t.partitions <> (l.seq + l.producer) % t.topics
  UNION SELECT cell, producer, incarnation, seq FROM log GROUP BY cell, producer, incarnation, seq
  HAVING count(DISTINCT partition) > 1
  UNION SELECT s.cell, s.producer, s.incarnation, s.seq FROM send s WHERE s.partition >= 0
    AND EXISTS (SELECT 1 FROM log l WHERE l.cell = s.cell AND l.producer = s.producer
      AND l.incarnation = s.incarnation AND l.seq = s.seq)
    AND NOT EXISTS (SELECT 1 FROM log l WHERE l.cell = s.cell AND l.producer = s.producer
      AND l.incarnation = s.incarnation AND l.seq = s.seq AND l.partition = s.partition)"""
MISROUTED = f"SELECT * FROM ({_MISROUTED})"
# Sends whose acknowledgement names a place of their own: where a misrouted record is, its offset says nothing.
PLACED = f"""misrouted AS ({_MISROUTED}),
placed AS (SELECT s.* FROM send s ANTI JOIN misrouted m USING (cell, producer, incarnation, seq))"""


def is_removed(row: str) -> str:
    """A condition: something may have been removed at the partition and offset of this row."""
    return f"""EXISTS (SELECT 1 FROM removals i WHERE i.cell = {row}.cell AND i.partition = {row}.partition
  AND {row}."offset" >= i.from_offset AND {row}."offset" < i.end_offset AND (i.needs_newer = 0 OR {has_newer(row)}))"""


def readers_of(stream: str) -> str:
    """A table expression: the offsets of each partition that each reader of `stream` must have got, `first` to `last`.

    `early_readers` must have got everything before their first offset too.
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
