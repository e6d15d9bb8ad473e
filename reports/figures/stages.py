"""Which times of a record's way may be shown, and how far the clocks of two hosts may put them off. Pure.

Shown by tests/reports/test_reports_waterfall.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from reports.analyse.beyond_clocks import stage_beyond
from reports.judge.judged import Judged
from reports.read.model import CORRECTED, END_TO_END, SCHEDULE_LAG, UNCORRECTED, Latency
from runlog.records.cell import EXTERNAL
from runlog.records.hosts import clock_error_between_us
from runlog.records.load import StageFigures, Stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A level, such as mean or p99. `column` is its column in stages.csv."""

    name: str
    column: str
    us: Callable[[StageFigures], float | None]  # None: the sample is too small for it; infinite: it is not reached


MEAN: Final = Level(name="mean", column="mean_us", us=lambda stage: stage.mean_us)
LEVELS: Final = (
    MEAN,
    Level(name="p50", column="p50_us", us=lambda stage: stage.p50_us),
    Level(name="p90", column="p90_us", us=lambda stage: stage.p90_us),
    Level(name="p99", column="p99_us", us=lambda stage: stage.p99_us),
    Level(name="p99.9", column="p999_us", us=lambda stage: stage.p999_us),
)
AROUND_THE_APPEND: Final = ("send_to_append", "append_to_ack", "append_to_poll")  # the broker's wall clock is in them
BETWEEN_HOSTS: Final = frozenset({"intended_to_poll"})  # begins with a producer and ends with a reader


def why_no_append(item: Judged) -> str:
    """Why the time of the broker's append says nothing beside those of the load. Empty if both are of one clock."""
    record = item.facts.cell.record
    if record.engine == EXTERNAL:
        return "the brokers may be on other hosts than the load"
    return "the load ran on load hosts, and the brokers did not" if record.outcome.load_hosts else ""


def words_of_not_shown(item: Judged) -> str:
    measured = (item.facts.cell.record.outcome.health.stages or Stages()).by_name()
    why = why_no_append(item) if any(name in measured for name in AROUND_THE_APPEND) else ""
    return why and (
        "the stages that begin or end with the broker's append are not shown, because "
        f"{why}: nobody has measured how far the brokers' clocks are off"
    )


def shown_stages(item: Judged) -> Stages:
    """The stages that can be shown. A time of appending is of the broker's wall clock. On another host it may be off by
    more than a stage takes, and no bound of that is known."""
    counted, latency = item.facts.cell.record.outcome.health.stages or Stages(), item.facts.latency
    if why_no_append(item):
        counted = replace(counted, send_to_append=None, append_to_ack=None, append_to_poll=None)
    return replace(
        counted,
        schedule_lag=_as_in_the_log(counted.schedule_lag, latency[SCHEDULE_LAG]),
        send_to_ack=_as_in_the_log(counted.send_to_ack, latency[UNCORRECTED]),
        intended_to_ack=_as_in_the_log(counted.intended_to_ack, latency[CORRECTED]),
        intended_to_poll=stage_beyond(
            _as_in_the_log(counted.intended_to_poll, latency[END_TO_END]), end_to_end_error_us(item)
        ),
    )


def end_to_end_error_us(item: Judged) -> float:
    return clock_error_between_us(item.facts.cell.record.outcome.load_hosts)


def _as_in_the_log(counted: StageFigures | None, latency: Latency) -> StageFigures | None:
    """The stage with the figures of the run log, if both counted the same records. They differ if a load process
    died.

    The load processes count only what came. So a percentile that falls on records that never came is infinite here in
    both cases, as it is in the table of latencies.
    """
    if counted is None:
        return None
    if counted.n == latency.n and latency.max_us is not None:
        counted = replace(
            counted, mean_us=latency.mean_us, p50_us=latency.p50_us, p90_us=latency.p90_us, p99_us=latency.p99_us,
            p999_us=latency.p999_us, max_us=latency.max_us,
        )  # fmt: skip

    def shown(name: str, us: float | None) -> float | None:
        return math.inf if latency.is_beyond(name) else us

    return replace(
        counted, p50_us=shown("p50", counted.p50_us), p90_us=shown("p90", counted.p90_us),
        p99_us=shown("p99", counted.p99_us), p999_us=shown("p999", counted.p999_us),
    )  # fmt: skip
