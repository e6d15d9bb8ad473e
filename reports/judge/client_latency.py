"""Whether a latency to the acknowledgement is the client's own: noted after a reader already has the record. Pure.

A reader gets a record once all in-sync replicas have it, and not before an acknowledgement with acks=all is on its
way. So if acknowledgements are noted later than polls, the time between them passed in the client. It says nothing of
the brokers. Shown by tests/reports/test_reports_host_room.py.
"""

from __future__ import annotations

import math
from typing import Final

from reports.evidence.configuration import is_acknowledged
from reports.read.model import CORRECTED, END_TO_END, CellFacts
from runlog.records.hosts import clock_error_between_us

_BIN: Final = 1.02  # two figures nearer than that are the same: bins are 0.8 % wide
_LEVEL: Final = "p99"


def noted_late(facts: CellFacts) -> str:
    """In words; empty if the p99 is not known to be the client's."""
    own = facts.latency[CORRECTED].us_of(_LEVEL) if CORRECTED in facts.latency else None
    read = _read_us(facts)
    if facts.cell.record.workload.commit_interval_ms:
        return ""  # what is acknowledged is the commit, and the records may be read before
    if own is None or read is None or math.isinf(own) or own <= read * _BIN or not is_acknowledged(facts.cell):
        return ""
    if clock_error_between_us(facts.cell.record.outcome.load_hosts):
        return ""
    return (
        f"its p99 is the client's: {own / 1000:.1f} ms until an acknowledgement was noted, and {read / 1000:.1f} ms "
        "until a reader had the record"
    )


def _read_us(facts: CellFacts) -> float | None:
    """Of the fastest group of readers."""
    of_groups = [latency.us_of(_LEVEL) for latency in facts.reader_latency.values()]
    whole = facts.latency[END_TO_END].us_of(_LEVEL) if END_TO_END in facts.latency else None
    return min((us for us in (*of_groups, whole) if us is not None), default=None)
