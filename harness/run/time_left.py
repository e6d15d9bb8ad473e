"""How long the cells of a plan take, including the clusters that are started for them. For the plan and for the live
line.

This module also decides which cells share a cluster. Pure except that it reads scenarios. The time to start and warm up
a cluster is estimated until the first cluster of the run has shown it. Shown by tests/harness/test_harness_forks.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.clusters.base import IPV4_LOOPBACK, ClusterKey, Engine
from harness.planned_cell import PlannedCell
from harness.run.attempts import RepeatAllowance
from harness.run.preparation.warm_up import DRAIN_MS, ONLY_ROUND_MS, ROUND_MS, rounds_before
from harness.scenarios import load_scenario
from harness.suite import Suite

CELL_OVERHEAD_MS: Final = 2_500  # topic, connect, drain, final read
CHAOS_OVERHEAD_MS: Final = 5_000
WARMED_ENGINES: Final = frozenset({"kafka"})  # those that run on a JVM
# A round of the warm-up also makes and deletes its topic. 60 rounds took 182 s on two cores.
_ROUND_OVERHEAD_MS: Final = 500
_START_S: Final[Mapping[str, float]] = {"reference": 2.0, "kafka": 12.0, "docker": 12.0, "external": 0.0}


def key_of(planned: PlannedCell, *, engine: Engine, brokers: int, host: str = IPV4_LOOPBACK) -> ClusterKey:
    """The cluster that the cell needs. Consecutive cells with equal keys share one. `brokers` is the number unless the
    cell says another."""
    return ClusterKey(
        engine=engine,
        proxied=planned.record.proxied,
        brokers=planned.brokers or brokers,
        log_directories=planned.log_directories,
        racks=planned.racks,
        releases=planned.releases if engine == "kafka" else (),
        host=host,
        settings=tuple(sorted(planned.record.broker_settings.items())),
        journal_appends=planned.kind == "chaos",
        security=planned.security,
        interposed=planned.kind == "chaos"
        and engine == "kafka"
        and load_scenario(planned.scenario_reference).is_interposed,
        fork=planned.fork,
    )


def time_left_of(suite: Suite, engine: Engine) -> TimeLeft:
    cluster = suite.cluster
    return TimeLeft(engine=engine, brokers=cluster.brokers, host=cluster.host, warm_up_ms_max=cluster.warm_up_ms_max)


def repeats_of(suite: Suite, cells: Sequence[PlannedCell]) -> RepeatAllowance:
    """How long the sweep's cells may be run again, all together."""
    planned_ms = [cell.duration_ms + CELL_OVERHEAD_MS for cell in cells if cell.is_of_sweep]
    return RepeatAllowance(planned_ms, suite.sweep.repeat_share if suite.sweep is not None else 0.0)


@dataclass(slots=True)
class TimeLeft:
    """Ask `seconds`. Tell `took` about every cluster, so that the next ones are expected to take the same time."""

    engine: Engine
    brokers: int  # The suite's cluster has so many.
    host: str = IPV4_LOOPBACK  # likewise
    warm_up_ms_max: int = 180_000  # likewise
    start_s: float = 0.0
    _warm_up_s: dict[int, float] = field(default_factory=dict)  # The key is the most rounds that it may have.

    def __post_init__(self) -> None:
        self.start_s = self.start_s or _START_S[self.engine]

    def took(self, first: PlannedCell, *, start_s: float, warm_up_s: float | None) -> None:
        self.start_s = start_s
        if warm_up_s is not None:
            self._warm_up_s[rounds_before(first)] = warm_up_s

    def of_clusters(self, cells: Sequence[PlannedCell], up: ClusterKey | None = None) -> tuple[int, float]:
        """Clusters that these cells start, one after the other, and their seconds; `up` runs already."""
        number, seconds = 0, 0.0
        for cell in cells:
            key = key_of(cell, engine=self.engine, brokers=self.brokers, host=self.host)
            if key != up:
                number, seconds, up = number + 1, seconds + self.start_s + self._warm_up(cell), key
        return number, seconds

    def seconds(self, cells: Sequence[PlannedCell], up: ClusterKey | None = None) -> float:
        """The time for all of these cells."""
        own_ms = sum(
            cell.duration_ms + (CHAOS_OVERHEAD_MS if cell.kind == "chaos" else CELL_OVERHEAD_MS) for cell in cells
        )
        return own_ms / 1000 + self.of_clusters(cells, up)[1]

    def _warm_up(self, first: PlannedCell) -> float:
        if self.engine not in WARMED_ENGINES:
            return 0.0
        rounds = rounds_before(first)
        longest_ms = rounds * (ROUND_MS + _ROUND_OVERHEAD_MS) if rounds > 1 else ONLY_ROUND_MS + DRAIN_MS
        return self._warm_up_s.get(rounds, min(longest_ms, self.warm_up_ms_max) / 1000)
