"""Thresholds of the verdict, each with its reason. Values only: `verdict.py` applies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    # With fewer records in the measured window, a rate or a quantile is not used.
    records_min: int = 100
    # Below this share of sends that are accepted a cell without faults tells of refusals, and not of the load.
    accepted_share_min: float = 0.5
    # A fault may keep most sends from being accepted; with fewer than this the cell tells of little but the fault.
    accepted_share_min_chaos: float = 0.05
    # A percentile q needs this many samples beyond it: n * (1 - q) >= 10, so p99.9 needs 10,000.
    samples_beyond_percentile_min: int = 10
    # An open-loop generator that achieves less than this share of the asked rate was held back by something.
    achieved_ratio_min: float = 0.9
    # Held back and this busy (share of the cores it may use): the generator itself was the limit.
    generator_cpu_share_max: float = 0.85
    # A rate above this share of what the generator reaches against a broker that stores nothing may be its own limit.
    generator_ceiling_share_max: float = 0.75
    # Schedule lag above this is named beside the figures: the latency contains a delay of the generator.
    schedule_lag_us_p99_max: int = 20_000
    # So is a schedule lag that is such a share of the p99 itself.
    schedule_lag_p99_share_max: float = 0.25
    # Acknowledged rate of the slower third of the window over the faster third; a calm open loop has 1.0.
    steady_ratio_min: float = 0.6
    # Records that a window works off from before it began, over those due in it. A cell may fall as far short of its
    # rate and still count as having carried it.
    backlog_share_max: float = 0.05
    # Share of all cores that other programs, or other guests of the machine, may take while a cell is measured.
    foreign_share_max: float = 0.15
    steal_share_max: float = 0.05
    # The same at the resolution of a p99: within a short stretch of time such a share holds up what is measured, and
    # one percent of the window's records make its p99.
    taken_share_at_once_max: float = 0.25
    taken_time_share_max: float = 0.01
    # A thread that only sleeps and wakes up later than this: somebody had the processor.
    stall_us_min: int = 50_000
    # With so much of all cores used meanwhile, programs of this host may have been the cause, the brokers among them.
    stall_busy_share_max: float = 0.5
    # Share of the brokers' CPU that the just-in-time compilers of their JVMs may take in the measured window.
    compiler_share_max: float = 0.25
    # Window that is long enough to be judged for steadiness.
    steady_window_us_min: int = 2_000_000


CRITERIA: Final = Criteria()
