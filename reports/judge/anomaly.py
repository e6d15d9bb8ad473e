"""What an anomaly is, and the words and pieces of SQL that several rules share. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["durability", "duplication", "order", "transactions", "replication", "groups", "liveness", "meta"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """`sql` is empty for what strikes no single record, or needs the brokers' journals."""

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
READER = "coalesce(reader, 0)"


def readers_of(stream: str) -> str:
    """A table expression: what each reader of `stream` can be asked about, from `first` to `last` of each partition.

    `early_readers` (cell, reader, end_partition) begin at the log's start: all before their first offset is theirs too.
    """
    return f"""(SELECT r.cell, r.reader, partition, IF(e.reader IS NULL, first, 0) AS first, last
  FROM (SELECT cell, {READER} AS reader, partition, min("offset") AS first, max("offset") AS last FROM {stream}
        GROUP BY ALL) r LEFT JOIN early_readers e ON r.cell = e.cell AND r.reader = e.reader)"""
