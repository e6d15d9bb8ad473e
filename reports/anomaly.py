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
