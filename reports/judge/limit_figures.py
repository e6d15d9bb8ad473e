"""The figures that a limit may name: those of the catalogue, and every anomaly. Pure, and quick to import.

Shown by tests/reports/test_reports_limits.py, and on docs/reference/limits.md, which
`python -m reports.judge.limit_page` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from reports.judge.anomalies import ANOMALIES
from reports.judge.catalogue import BY_LIMIT
from reports.judge.figure import Better, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFigure:
    name: str
    unit: str
    about: str
    better: Better = Better.NEITHER


THROUGHPUT: Final = "throughput_per_s"
CAPACITY: Final = "capacity_per_s"
SYNONYMS: Final[Mapping[str, str]] = {"throughput": THROUGHPUT, "capacity": CAPACITY}


def _figures() -> Iterator[LimitFigure]:
    for name, figure in BY_LIMIT.items():
        yield LimitFigure(name=name, unit=figure.unit, about=figure.about, better=figure.better)
    for anomaly in ANOMALIES:
        yield LimitFigure(name=anomaly.name, unit="records or cases", about=f"{anomaly.title}: {anomaly.rule}")


FIGURES: Final[Mapping[str, LimitFigure]] = {figure.name: figure for figure in _figures()}
COUNTED: Final = (  # they can be added up
    *(name for name, figure in BY_LIMIT.items() if figure.kind is Kind.COUNT),
    *(anomaly.name for anomaly in ANOMALIES),
)
FOUND_RATE: Final = "found_rate_per_s"
RUN_FIGURES: Final[Mapping[str, LimitFigure]] = {
    FOUND_RATE: LimitFigure(
        name=FOUND_RATE, unit="records/s", better=Better.HIGH, about="the highest rate that the run's search found"
    )
}
