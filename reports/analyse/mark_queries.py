"""The Spark SQL that marks records: which ones an anomaly was observed on, and which ones a fault must have damaged.

Each part says from which views its rows come. A part whose views are empty has no rows, and is left out of the
statement, because planning a query costs more than reading a small run. A run without damage leaves out nearly all.
tests/reports/test_reports_exactness.py shows that the remaining parts find every record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from reports.analyse import (
    copy_queries,
    delivery_queries,
    identity_queries,
    log_queries,
    set_queries,
    transaction_queries,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows `cell, kind, producer, incarnation, seq`. If any of the views `of` is empty, there are none."""

    sql: str
    of: tuple[str, ...] = ()


def _kind(kind: str, source: str, *of: str) -> Part:
    """Records of one kind, from a query or with `FROM ...` from a view. A record may come several times."""
    return Part(sql=f"SELECT cell, '{kind}' AS kind, producer, incarnation, seq {source}", of=of)


def _kinds(query: str, *of: str) -> Part:
    """Records whose kind is a column of the query."""
    return Part(sql=f"SELECT cell, kind, producer, incarnation, seq FROM ({query})", of=of)


OBSERVED: Final = (
    _kinds(identity_queries.STRAYS_THAT_STAY, "bad_words"),
    _kinds("SELECT * FROM removed", "removed"),
    _kind("duplicated", "FROM duplicates WHERE copies > 1", "duplicates"),
    _kind("misrouted", "FROM misrouted", "misrouted"),
    _kind("reordered", f"FROM ({log_queries.REORDERED})", "late_runs"),
    _kind("dup_delivered", f"FROM ({delivery_queries.DELIVERED_TWICE})", "twice_words"),
    _kind("corrupt", "FROM log WHERE crc_ok = 0"),
    _kind("ack_misplaced", f"FROM ({log_queries.ACK_MISPLACED})", "misplaced"),
    _kind("answered_twice", "FROM answers WHERE outcomes > 1", "answers"),
    _kind("unread", f"FROM ({delivery_queries.UNREAD})", "unread_partitions"),
    _kind("offset_reused", f"FROM ({log_queries.OFFSET_REUSED})", "astray"),
    _kind("offset_reused", f"FROM ({log_queries.OFFSET_SHARED})", "crowded_blocks"),
    _kind("send_realtime_violation", f"FROM ({log_queries.SEND_REALTIME_VIOLATION})", "realtime_bins"),
    _kinds(delivery_queries.NOT_DELIVERED, "undelivered"),
    _kind("read_above_hw", f"FROM ({delivery_queries.READ_ABOVE_HW})", "gone"),
    _kind("nonmonotonic_poll", f"FROM ({delivery_queries.NONMONOTONIC_POLL})", "odd_polls"),
    _kind("poll_skip", f"FROM ({delivery_queries.POLL_SKIP})", "gap_ends", "gap_blocks"),
    _kinds(set_queries.FROM_INTERVALS, "intervals"),
    _kind("redelivered", "FROM redeliveries", "redeliveries"),
    _kind("redelivered_overdue", f"FROM ({delivery_queries.REDELIVERED_OVERDUE})", "redeliveries", "commit_limits"),
    _kind("aborted_read", f"FROM ({transaction_queries.ABORTED_READ})", "committed_readers", "uncommitted"),
    _kind("precommitted_read", f"FROM ({transaction_queries.PRECOMMITTED_READ})", "committed_readers", "transacting"),
    _kind("torn_txn", f"FROM ({transaction_queries.TORN})", "transacting"),
    _kinds(copy_queries.MISSING, "copying"),
    _kinds(copy_queries.OF_COPIES, "copies"),
    _kinds(copy_queries.OF_AUDIT, "audit"),
    _kinds(copy_queries.OF_BOTH, "copies", "audit"),
)

PREDICTED: Final = (
    _kinds(set_queries.PREDICTED_LOST, "intervals"),
    _kinds(set_queries.PREDICTED_IN_LOG, "intervals"),
)


def marks(is_empty: Callable[[str], bool]) -> str | None:
    """Marked records in words of 64 sequence numbers, of a cell and kind: bits that were `observed`, and bits that were
    `predicted`. So damage to every record makes no more rows than the run log has words. None if no part has a row."""
    told = [
        *(f"SELECT *, 1 AS is_observed FROM ({part.sql})" for part in _asked(OBSERVED, is_empty)),
        *(f"SELECT *, 0 AS is_observed FROM ({part.sql})" for part in _asked(PREDICTED, is_empty)),
    ]
    if not told:
        return None
    return f"""
SELECT cell, kind, producer, incarnation, shiftright(seq, 6) AS word,
       bit_or(IF(is_observed = 1, shiftleft(1L, CAST(seq & 63 AS INT)), 0L)) AS observed,
       bit_or(IF(is_observed = 0, shiftleft(1L, CAST(seq & 63 AS INT)), 0L)) AS predicted
FROM ({" UNION ALL ".join(told)})
GROUP BY cell, kind, producer, incarnation, shiftright(seq, 6)
"""


def _asked(parts: Iterable[Part], is_empty: Callable[[str], bool]) -> list[Part]:
    return [part for part in parts if not any(is_empty(view) for view in part.of)]
