"""The fast statements behind `reports/analyse/record_sets.py` are exact.

Each history is a cell of one generated run, so that some hundred of them cost one pass of Spark. The rules as they are
written (`reports/judge/anomalies.py`, in DuckDB) must give the same for other histories, which are drawn anew each
time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from reports.analyse.record_sets import (
    Kept,
    compare_sets,
    register_intervals,
    register_keys,
    register_removals,
    register_topics,
)
from reports.evidence.removals import Removal
from reports.evidence.topic_events import Interval
from reports.read.model import IdentitySet
from reports.read.tables import LONG, TEXT, small_table, spark_schema
from runlog.streams.schema import STREAMS
from tests.amount import AMOUNT
from tests.reports.duck_rules import Identity, Small, removal_row, sets_in_frames, taken_row
from tests.reports.naive_rules import History, sets_of
from tests.reports.random_histories import random_history

FIRST = int(os.environ.get("EXACT_FIRST", "0"))  # seed of the first history
CELLS = int(os.environ.get("EXACT_CELLS", "60"))  # histories in one pass of Spark; make test-all: 250
DUCK_CELLS = 60  # in one call of DuckDB
NOT_A_RULE = ("acked_below_min_isr", "two_leaders_ack", "predicted lost")  # from intervals: no SQL says them
Frames = dict[str, pd.DataFrame]


def frames_of(histories: Mapping[str, History]) -> Frames:
    """The streams of all cells as tables, with what no rule looks at left at 0."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in STREAMS}
    for cell, history in histories.items():
        for send in history.send:
            rows["send"].append(_row(cell, send.identity, partition=send.partition, status=send.status,
                                     error=send.error, offset=send.offset, sent_us=send.sent_us,
                                     acked_us=send.acked_us))  # fmt: skip
        for stored in history.log:
            rows["log"].append(_row(cell, stored.identity, partition=stored.partition, offset=stored.offset,
                                    crc_ok=stored.crc_ok))  # fmt: skip
        for stored in history.uncommitted:
            rows["uncommitted"].append(_row(cell, stored.identity, partition=stored.partition, offset=stored.offset,
                                            crc_ok=stored.crc_ok))  # fmt: skip
        for name, deliveries in (("recv", history.recv), ("audit", history.audit)):
            for got in deliveries:
                rows[name].append(_row(cell, got.identity, partition=got.partition, offset=got.offset,
                                       consumer=got.consumer, reader=got.reader, polled_us=got.polled_us,
                                       crc_ok=got.crc_ok))  # fmt: skip
        for copy in history.copies:
            copier, incarnation, txn = copy.transaction
            rows["copies"].append(_row(cell, copy.identity, partition=copy.partition, offset=copy.offset,
                                       copier=copier, copier_incarnation=incarnation, txn=txn, outcome=copy.outcome,
                                       crc_ok=copy.crc_ok))  # fmt: skip
    frames: Frames = {}
    for name, stream in STREAMS.items():
        columns = [column.name for column in stream.columns]
        frame = pd.DataFrame(rows[name], columns=[*columns, "cell"])
        for column in columns:
            # A column that older parts lack is null in them; all others hold numbers.
            frame[column] = (
                frame[column].astype("Int64") if column == "reader" else frame[column].fillna(0).astype("int64")
            )
        frames[name] = frame
    return frames


def _row(cell: str, identity: Identity, **values: Any) -> dict[str, Any]:
    producer, incarnation, seq = identity
    return {"cell": cell, "producer": producer, "incarnation": incarnation, "seq": seq, **values}


def small_tables_of(histories: Mapping[str, History]) -> Small:
    """The small tables that go with the streams."""
    return Small(
        limits=[(cell, *limit) for cell, history in histories.items() for limit in history.limits.items()],
        told=[
            (cell, *item.transaction, int(item.is_committed), item.asked_us)
            for cell, history in histories.items()
            for item in history.told
        ],
        early=[(cell, *reader) for cell, history in histories.items() for reader in history.early.items()],
        committed=[
            (cell, reader) for cell, history in histories.items() for reader in sorted(history.committed_readers)
        ],
        transacting=[cell for cell, history in histories.items() if history.is_transactional],
        copying=[cell for cell, history in histories.items() if history.has_copiers],
        clocks=[
            (cell, producer, *clock)
            for cell, history in histories.items()
            for producer, clock in history.clocks.items()
        ],
        removals=[(cell, *removal_row(removal)) for cell, removal in _removals(histories)],
        keys=_keys(histories),
        taken=[(cell, *taken_row(item)) for cell, item in _intervals(histories) if item.kind == "lost"],
        topics=_topics(histories),
    )


def by_spark(spark: SparkSession, histories: Mapping[str, History]) -> dict[str, dict[str, set[Identity]]]:
    """Cell -> anomaly -> identities, as the report computes them."""
    for name, frame in frames_of(histories).items():
        spark.createDataFrame(frame, spark_schema(STREAMS[name])).createOrReplaceTempView(name)
    small = small_tables_of(histories)
    small_table(spark, "commit_limits", {"cell": TEXT, "reader": LONG, "limit_us": LONG}, small.limits)
    columns = ("copier", "copier_incarnation", "txn", "is_committed", "asked_us")
    small_table(spark, "transactions", {"cell": TEXT, **dict.fromkeys(columns, LONG)}, small.told)
    small_table(spark, "early_readers", {"cell": TEXT, "reader": LONG, "end_partition": LONG}, small.early)
    small_table(spark, "copying", {"cell": TEXT}, [(cell,) for cell in small.copying])
    small_table(spark, "committed_readers", {"cell": TEXT, "reader": LONG}, small.committed)
    small_table(spark, "transacting", {"cell": TEXT}, [(cell,) for cell in small.transacting])
    columns = ("producer", "host", "error_us")
    small_table(spark, "clock_errors", {"cell": TEXT, **dict.fromkeys(columns, LONG)}, small.clocks)
    register_intervals(spark, _intervals(histories))
    register_removals(spark, _removals(histories))
    register_keys(spark, _keys(histories))
    register_topics(spark, _topics(histories))
    kept = Kept(spark)
    try:
        found = compare_sets(kept)
    finally:
        kept.release()
    result: dict[str, dict[str, set[Identity]]] = {}
    for cell in histories:
        sets = {kind: identities(comparison.observed) for kind, comparison in found[cell].items()}
        if "lost" in found[cell]:
            sets["predicted lost"] = identities(found[cell]["lost"].predicted)
        result[cell] = sets
    return result


def _intervals(histories: Mapping[str, History]) -> Iterable[tuple[str, Interval]]:
    for cell, history in histories.items():
        for item in history.ranges:
            yield (
                cell,
                Interval(
                    kind=item.kind,
                    partition=item.partition,
                    from_offset=item.first,
                    end_offset=item.end,
                    after_us=item.after_us,
                    before_us=item.before_us,
                ),
            )


def _topics(histories: Mapping[str, History]) -> list[tuple[str, int, int]]:
    return [(cell, *history.topics) for cell, history in histories.items() if history.topics]


def _keys(histories: Mapping[str, History]) -> list[tuple[str, int, int]]:
    return [(cell, *row) for cell, history in histories.items() for row in history.keys.items()]


def _removals(histories: Mapping[str, History]) -> Iterable[tuple[str, Removal]]:
    for cell, history in histories.items():
        for item in history.removals:
            yield (
                cell,
                Removal(
                    partition=item.partition,
                    from_offset=item.first,
                    end_offset=item.end,
                    sent_before_us=item.sent_before_us,
                    is_known=item.is_known,
                    needs_newer=item.needs_newer,
                ),
            )


def identities(found: IdentitySet) -> set[Identity]:
    assert found.complete
    return {
        (item.producer, item.incarnation, seq)
        for item in found.ranges
        for seq in range(item.first_seq, item.last_seq + 1)
    }


def differences(
    histories: Mapping[str, History],
    found: Mapping[str, Mapping[str, set[Identity]]],
    *,
    left_out: Sequence[str] = (),
) -> list[str]:
    """What of each history is missed or invented, the smallest history first."""
    wrong: list[tuple[int, str]] = []
    for cell, history in histories.items():
        size = len(history.send) + len(history.log) + len(history.recv)
        for name, expected in sets_of(history).items():
            its = found[cell].get(name, set())
            if its != expected and name not in left_out:
                wrong.append((size, f"{cell} {name}: missed {expected - its}, invented {its - expected}"))
    return [text for _, text in sorted(wrong)]


@pytest.mark.long
@pytest.mark.spark
def test_what_spark_finds_is_what_plain_python_finds(spark: SparkSession) -> None:
    histories = {f"history-{number}": random_history(number) for number in range(FIRST, FIRST + CELLS)}
    assert differences(histories, by_spark(spark, histories)) == []


@settings(max_examples=10 if AMOUNT == "all" else 3, deadline=None, phases=[Phase.generate])
@given(first=st.integers(min_value=0, max_value=10**9))
@pytest.mark.thorough
def test_the_rules_as_they_are_written_say_what_plain_python_says(first: int) -> None:
    histories = {f"history-{first + number}": random_history(first + number) for number in range(DUCK_CELLS)}
    small = small_tables_of(histories)
    by_rule = sets_in_frames(frames_of(histories), small)
    found = {cell: {name: by_cell.get(cell, set()) for name, by_cell in by_rule.items()} for cell in histories}
    assert differences(histories, found, left_out=NOT_A_RULE) == []
