"""The figures of one cell by the names that limits use, and how much each can be wrong by two hosts' clocks. Pure.

A time that begins on one host and ends on another is as exact as their clocks are known. So a limit is compared with
the range in which the true figure lies, and not with the figure alone. Limits of a suite and criteria of a scenario
both do this here. Shown by tests/reports/test_reports_clock_limits.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reports.judge.anomalies import ANOMALIES
from reports.judge.catalogue import BY_LIMIT, LATENCIES, LEVELS
from reports.judge.cell_source import CellSource
from reports.judge.figure import Value
from reports.read.model import END_TO_END, CellFacts, Latency, answered_words
from runlog.records.hosts import clock_error_between_us, clock_error_of_gap_us

_END_TO_END: Final[Mapping[str, str]] = {
    f"{prefix}{level}_ms": level for prefix, (kind, _) in LATENCIES.items() if kind == END_TO_END for level in LEVELS
}
_LATENCY_KINDS: Final[Mapping[str, str]] = {
    f"{prefix}{level}_ms": kind for prefix, (kind, _) in LATENCIES.items() for level in LEVELS
}
# Times that begin with a fault, on the harness's clock, and end with an acknowledgement, on that of a load host.
# Detection and election are seen by the harness, or by the journal of brokers on its host.
_FROM_A_FAULT: Final[Mapping[str, str]] = {"first_ack_ms": "first_ack_us", "recover_ms": "recover_us"}
GAP: Final = "gap_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The true figure lies from `low` to `high`. `error` is how much `value` can be wrong, in its unit; 0 if it is of
    one clock. `value` is None if it is not above the error: then it is not shown."""

    value: float | None
    low: float
    high: float
    error: float = 0.0
    why_endless: str = ""  # It says why a value is infinite.

    @property
    def finite_error(self) -> float | None:
        """For a document. None if the figure is of one clock, or if no bound of its clocks is known."""
        return self.error if self.error and math.isfinite(self.error) else None

    def describe_hidden(self) -> str:
        """Why `value` is None."""
        if not math.isfinite(self.error):
            return "not shown, because no bound of the clocks of its load hosts is known"
        return f"not shown, because it is not above the {self.error:.3f} ms that the clocks of its hosts may be off"

    def why_open(self) -> str:
        """Why a limit is undecided that holds for a part of the range only. Empty if the figure is of one clock."""
        if not self.error:
            return ""
        if not math.isfinite(self.error):
            return "no bound of the clocks of its load hosts is known"
        return f"the clocks of the load hosts leave it open: it can be wrong by {self.error:.3f} ms"


def span_of(facts: CellFacts, figure: str) -> Span | None:
    """None if the run does not show the figure. It may be infinite, if it has no end."""
    value, error = figures_of_cell(facts).get(figure), _clock_error_ms(facts, figure)
    if value is None:
        return Span(value=None, low=0.0, high=2 * error, error=error) if error and _is_hidden(facts, figure) else None
    if not error or not math.isfinite(value):
        return Span(value=value, low=value, high=value, error=error, why_endless=_why_endless(facts, figure, value))
    return Span(value=value, low=max(0.0, value - error), high=value + error, error=error)


def _why_endless(facts: CellFacts, figure: str, value: float) -> str:
    if math.isfinite(value) or figure not in _LATENCY_KINDS:
        return ""
    kind = _LATENCY_KINDS[figure]
    return answered_words(kind, facts.latency[kind])


def _clock_error_ms(facts: CellFacts, figure: str) -> float:
    hosts = facts.cell.record.outcome.load_hosts
    if figure in _END_TO_END:
        return clock_error_between_us(hosts) / 1000
    if figure == GAP:
        return clock_error_of_gap_us(hosts) / 1000
    return facts.recovery.clock_error_us / 1000 if figure in _FROM_A_FAULT and facts.recovery is not None else 0.0


def _is_hidden(facts: CellFacts, figure: str) -> bool:
    """Whether the figure was measured, and is not shown because it is not above the error."""
    if figure in _END_TO_END:
        return _END_TO_END[figure] in facts.latency.get(END_TO_END, Latency()).beyond_clocks
    if figure == GAP:
        return facts.gap_beyond_clocks
    return facts.recovery is not None and _FROM_A_FAULT[figure] in facts.recovery.beyond_clocks


def is_certain(comparison: str, low: float, high: float, bound_low: float, bound_high: float) -> bool | None:
    """Whether the comparison holds for every figure from `low` to `high` and every bound in its own range. None if it
    holds for some of them only."""
    is_apart = high < bound_low or low > bound_high
    is_one = low == high == bound_low == bound_high
    held, broken = {
        "<=": (high <= bound_low, low > bound_high),
        "<": (high < bound_low, low >= bound_high),
        ">=": (low >= bound_high, high < bound_low),
        ">": (low > bound_high, high <= bound_low),
        "==": (is_one, is_apart),
        "!=": (is_apart, is_one),
    }[comparison]
    return True if held else False if broken else None


# --- figures ----------------------------------------------------------------------------------------------------------


def figures_of_cell(facts: CellFacts) -> dict[str, float | None]:
    """Every figure of `limit_figures.FIGURES`; None where the run does not show it, infinite where it has no end."""
    source = CellSource(facts)
    found = {name: _number(figure.read(source)) for name, figure in BY_LIMIT.items()}
    found |= {anomaly.name: float(facts.anomaly_count(anomaly.name)) for anomaly in ANOMALIES}
    corrupt = len(facts.cell.record.outcome.final_read.corrupt or ())
    found["corrupt"] = float(max(facts.anomaly_count("corrupt"), facts.counts.corrupt_received, corrupt))
    found["lost"] = None if facts.lost is None else float(facts.lost)
    return found


def _number(value: Value) -> float | None:
    return None if value is None else float(value)
