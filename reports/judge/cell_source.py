"""What the figures of the catalogue are read from: a cell's facts, and what others know of it.

Each part is computed once. Pure. Shown by tests/reports/test_reports_catalogue.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from reports.evidence.asked import achieved_ratio, is_closed_loop
from reports.judge.broker_cpu import BrokerCpu, broker_cpu
from reports.judge.host_use import HostUse, host_use
from reports.judge.volume import Volume, volume_of
from reports.read.model import CORRECTED, CellFacts, Counts, Latency, Recovery
from runlog.records.cell import CellKind, CellRecord
from runlog.records.hosts import clock_error_between_us, clock_error_of_gap_us, known_error_us


class CellSource:
    def __init__(
        self,
        facts: CellFacts,
        *,
        capacity_records_per_s: float | None = None,
        cores: int | None = None,
        result: str | None = None,
    ) -> None:
        """`capacity_records_per_s`: of its configuration in its repetition, if it was measured. `cores` of the host.
        `result` of its verdict, None before that."""
        self.facts, self.result = facts, result
        self.capacity_records_per_s = capacity_records_per_s
        self._cores = cores

    @property
    def record(self) -> CellRecord:
        return self.facts.cell.record

    @property
    def counts(self) -> Counts:
        return self.facts.counts

    @property
    def recovery(self) -> Recovery | None:
        return self.facts.recovery

    @property
    def is_ceiling(self) -> bool:
        return self.facts.cell.kind is CellKind.CEILING

    @cached_property
    def volume(self) -> Volume:
        return volume_of(self.facts, self.capacity_records_per_s)

    @cached_property
    def use(self) -> HostUse:
        return host_use(self.facts, self._cores)

    @cached_property
    def cpu(self) -> BrokerCpu | None:
        return broker_cpu(self.facts)

    @cached_property
    def achieved_ratio(self) -> float | None:
        return achieved_ratio(self.facts)

    @cached_property
    def told_latency(self) -> Mapping[str, Latency]:
        return told_latencies(self.facts)

    def latency(self, kind: str) -> Latency:
        return self.facts.latency.get(kind, Latency())

    @property
    def end_to_end_clock_error_us(self) -> float | None:
        """Between two load hosts. None: no record went from one to another, or no bound is known."""
        return known_error_us(clock_error_between_us(self.record.outcome.load_hosts))

    @property
    def gap_clock_error_us(self) -> float | None:
        """Of acknowledgements on load hosts. None: all of one clock, or no bound is known."""
        return known_error_us(clock_error_of_gap_us(self.record.outcome.load_hosts))


def told_latencies(facts: CellFacts) -> Mapping[str, Latency]:
    """Those that files and curves tell, by kind: nothing is corrected in a closed loop, whose latencies count from the
    hand-over."""
    return {**facts.latency, CORRECTED: Latency()} if is_closed_loop(facts.cell) else facts.latency
