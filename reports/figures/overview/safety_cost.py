"""What safety costs: acks=all against acks=1 in one place. Pure.

It is shown only if the baseline of a sweep has one of the two, one configuration has the other, and no other setting
differs. Shown by tests/reports/test_reports_overview.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.sweep.number_words import decided_change, significant
from reports.figures.sweep.observations import (
    BROKER_CPU,
    BY_NAME,
    CAPACITY,
    OK,
    P99,
    THROUGHPUT,
    Configuration,
    Measure,
    Observation,
    state_words,
)
from reports.figures.sweep.sweep_analysis import SweepAnalysis
from reports.figures.sweep.telling import carried_all

_ACKS: Final = "acks"
_ALL: Final = ("all", "-1")
_TITLES: Final = {CAPACITY: "capacity", P99: "p99", THROUGHPUT: "throughput", BROKER_CPU: "broker CPU a record"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """`change` is that of the one that is not the baseline against the baseline, as everywhere on the page: with its
    interval, or with the words that there is none."""

    title: str
    safe: str
    loose: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyCost:
    rows: tuple[CostRow, ...]
    direction: str  # `acks=1 against acks=all`, of every change
    silences: tuple[str, ...]  # how long nothing was acknowledged when a leader was lost
    notes: tuple[str, ...]  # what else differs between the two
    warnings: tuple[str, ...]  # what changes how the rows are to be read


def safety_cost(analysis: SweepAnalysis, silences: Sequence[str] = ()) -> SafetyCost | None:
    """The cost of safety. None if the sweep does not compare acks=all with acks=1."""
    pair = _pair(analysis)
    if pair is None:
        return None
    safe, loose = pair
    # What a capacity is known of needs no rate that was merely asked for.
    titles = [name for name in _TITLES if not (name == THROUGHPUT and CAPACITY in analysis.effects)]
    rows = [row for name in titles if (row := _row(analysis, BY_NAME[name], safe, loose)) is not None]
    own = [item for item in analysis.observations if item.configuration in pair and not item.at_ceiling]
    if not rows:
        return None
    return SafetyCost(
        rows=tuple(rows),
        direction="acks=1 against acks=all" if safe == analysis.baseline else "acks=all against acks=1",
        silences=tuple(silences),
        notes=tuple(dict.fromkeys(f"{_acks(item)} {item.note}" for item in own if item.note)),
        warnings=_warnings(own),
    )


def _pair(analysis: SweepAnalysis) -> tuple[Configuration, Configuration] | None:
    """The two configurations, with acks=all and with acks=1."""
    base = dict(analysis.baseline or ())
    if base.get(_ACKS) not in (*_ALL, "1"):
        return None
    others = ("1",) if base[_ACKS] in _ALL else _ALL
    wanted = [tuple(sorted({**base, _ACKS: acks}.items())) for acks in others]
    other = next((item.configuration for item in analysis.observations if item.configuration in wanted), None)
    if other is None or analysis.baseline is None:
        return None
    return (analysis.baseline, other) if base[_ACKS] in _ALL else (other, analysis.baseline)


def _row(analysis: SweepAnalysis, measure: Measure, safe: Configuration, loose: Configuration) -> CostRow | None:
    means = analysis.means.get(measure.name)
    if means is None:
        return None
    levels, difference = (means.level(safe), means.level(loose)), means.between(*_order(analysis, safe, loose))
    if levels[0] is None or levels[1] is None or difference is None:
        return None
    if measure.name == THROUGHPUT and carried_all(analysis.observations):
        told = "both carried what was asked"
    elif means.repeated and difference.is_bounded:
        told = decided_change(difference)
    else:
        told = f"{(difference.ratio[0] - 1) * 100:+.0f} %, seen once"
    shown = [f"{significant(level.ratio[0] * measure.scale)} {measure.unit}" for level in levels if level is not None]
    return CostRow(title=_TITLES[measure.name], safe=shown[0], loose=shown[1], change=told)


def _order(analysis: SweepAnalysis, safe: Configuration, loose: Configuration) -> tuple[Configuration, Configuration]:
    """The baseline, then what is held against it."""
    return (safe, loose) if safe == analysis.baseline else (loose, safe)


def _acks(item: Observation) -> str:
    return f"{_ACKS}={dict(item.configuration)[_ACKS]}"


def _warnings(own: Sequence[Observation]) -> tuple[str, ...]:
    """One line for each thing that was wrong, with whom it concerns."""
    found: dict[str, list[str]] = {}
    for item in own:
        words = [state_words(item.state)] if item.state != OK else []
        words += ["was disturbed by the host"] if item.disturbed else []
        for word in words:
            found.setdefault(word, []).append(_acks(item))
    return tuple(_of_whom(list(dict.fromkeys(names)), word) for word, names in found.items())


def _of_whom(names: Sequence[str], word: str) -> str:
    if len(names) == 1:
        return f"{names[0]} {word}"
    plural = f"were {word.removeprefix('was ')}" if word.startswith("was ") else word.replace(" its ", " their ")
    return f"both {' and '.join(names)} {plural}"
