"""What a compaction took is told to the record, by Spark, from planted rows: by the key, the place and the journal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from reports.evidence.topic_events import NEVER_US
from tests.reports.naive_rules import Gone, History, Range, Send, Stored, sets_of
from tests.reports.test_reports_exactness import by_spark

pytestmark = pytest.mark.spark
ACKED = 0
RECORDS = 12
KEYS = 3  # record seq has key seq % KEYS
Sets = dict[str, set[int]]


def history(*gone: int, until: int = RECORDS, is_known: bool = True) -> History:
    """Records 0 to 11, each acknowledged at the offset that is its number. The log lacks `gone`; a compaction went over
    everything below `until`."""
    made = History()
    for seq in range(RECORDS):
        made.send.append(
            Send(
                identity=(0, 0, seq), status=ACKED, partition=0, offset=seq, acked_us=seq * 10 + 5, sent_us=seq * 10,
                error=-1,
            )
        )  # fmt: skip
        if seq not in gone:
            made.log.append(Stored(identity=(0, 0, seq), partition=0, offset=seq))
    made.removals.append(Gone(0, 0, until, NEVER_US, is_known, needs_newer=True))
    made.keys = {turn: turn % KEYS for turn in range(RECORDS)}
    return made


def elsewhere() -> History:
    """The newer records are in another partition."""
    made = history(0, 3)
    made.log = [replace(row, partition=1) if row.identity[2] % KEYS == 0 else row for row in made.log]
    made.send = [
        replace(row, partition=1) if row.identity[2] % KEYS == 0 and row.identity[2] > 3 else row for row in made.send
    ]
    return made


def damaged() -> History:
    """The only newer record of key 0 has a wrong CRC."""
    made = history(0, 3, 6)
    made.log = [replace(row, crc_ok=False) if row.identity[2] == 9 else row for row in made.log]
    return made


def cut() -> History:
    """A truncation took offsets 2 to 5 before."""
    made = history(0, 3, 4)
    made.ranges.append(Range("lost", 0, 2, 6, 0, NEVER_US))
    return made


def nameless() -> History:
    made = history(0, 3)
    del made.keys[3]
    return made


CASES: dict[str, tuple[History, Sets]] = {
    "superseded": (history(0, 3, 6, 1, 4), {"lost": set(), "removed": {0, 1, 3, 4, 6}}),
    "the last one of a key": (history(0, 3, 6, 9), {"lost": {0, 3, 6, 9}, "removed": set()}),
    "beyond the compaction": (history(0, 3, 6, until=5), {"lost": {6}, "removed": {0, 3}}),
    "at its very end": (history(3, 6, until=6), {"lost": {6}, "removed": {3}}),
    "no journal": (history(0, 9, is_known=False), {"lost": {9}, "removed": set(), "removed_in_doubt": {0}}),
    "newer in another partition": (elsewhere(), {"lost": {0, 3}, "removed": set()}),
    "newer and damaged": (damaged(), {"lost": {0, 3, 6}, "removed": set()}),
    "truncated before": (cut(), {"lost": {3, 4}, "removed": {0}, "predicted lost": {2, 3, 4, 5}}),
    "a key that is not known": (nameless(), {"lost": {3}, "removed": {0}}),
}


def test_each_record_that_is_gone_is_lost_or_removed_by_its_key(spark: SparkSession) -> None:
    found = by_spark(spark, {name: made for name, (made, _) in CASES.items()})
    for name, (made, expected) in CASES.items():
        for kind, records in expected.items():
            assert {seq for _, _, seq in found[name].get(kind, set())} == records, (name, kind)
            assert {seq for _, _, seq in sets_of(made).get(kind, set())} == records, (name, kind)
