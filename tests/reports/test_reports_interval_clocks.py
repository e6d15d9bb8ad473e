"""Acknowledgements on a load host are held against brokers' times as exactly as its clock is known."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from reports.analyse.analysis import CLOCK_ERROR_COLUMNS
from reports.analyse.record_sets import register_intervals
from reports.analyse.set_queries import FROM_INTERVALS, INTERVAL_BLOCKS, PREDICTED_LOST
from reports.evidence.topic_events import Interval
from reports.read.tables import LONG, TEXT, small_table

SEND_COLUMNS = {"cell": TEXT, **dict.fromkeys(
    ("producer", "incarnation", "seq", "partition", "offset", "status", "acked_us"), LONG
)}  # fmt: skip
# From 1,000 us on and before 9,000 us, at each offset.
BOUNDS = {"partition": 0, "from_offset": 0, "end_offset": 100, "after_us": 1_000, "before_us": 9_000}
ACKED_US = (400, 950, 1_050, 5_000, 8_950, 9_050, 9_600)  # of the records 0, 1, …


def found(spark: SparkSession, statement: str, errors: list[tuple[str, int, int, int | None]]) -> list[int]:
    rows = [("c", 3, 0, seq, 0, seq, 0, acked_us) for seq, acked_us in enumerate(ACKED_US)]
    small_table(spark, "placed", SEND_COLUMNS, rows)
    small_table(spark, "clock_errors", CLOCK_ERROR_COLUMNS, errors)
    kinds = ("lost", "acked_below_min_isr")
    register_intervals(spark, [("c", Interval(kind=kind, **BOUNDS)) for kind in kinds])  # type: ignore[arg-type]
    spark.sql(INTERVAL_BLOCKS).createOrReplaceTempView("interval_blocks")
    return sorted(row.seq for row in spark.sql(statement).collect())


@pytest.mark.spark
@pytest.mark.slow
def test_a_prediction_takes_the_latest_possible_time_and_an_observation_must_lie_in_it(spark: SparkSession) -> None:
    here: list[tuple[str, int, int, int | None]] = []
    assert found(spark, PREDICTED_LOST, here) == found(spark, FROM_INTERVALS, here) == [2, 3, 4]
    there: list[tuple[str, int, int, int | None]] = [("c", 3, 0, 100)]
    # Record 4 may be of the append that ended the interval, with a clock that is behind; so may no other.
    assert found(spark, PREDICTED_LOST, there) == [1, 2, 3]
    assert found(spark, FROM_INTERVALS, there) == [3]
    unknown: list[tuple[str, int, int, int | None]] = [("c", 3, 0, None)]
    assert found(spark, FROM_INTERVALS, unknown) == []
