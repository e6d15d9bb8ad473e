"""What is wrong with the figures of a run: each thing once, with the place that it concerns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.cell import REFERENCE
from reports.figures.generator import GeneratorFigures
from reports.figures.overview.rests_on import speed_rests_on
from reports.figures.sweep.sweep_analysis import SweepAnalysis
from reports.judge.checks import INCONCLUSIVE
from reports.judge.doubt_words import of_inconclusive, of_more_inconclusive, of_problem
from reports.judge.judged import Judged
from reports.judge.late_faults import after_the_load
from reports.judge.noise import disturbance
from runlog.records.cell import CellKind

RUN, CELLS, SPEED, GENERATOR = "again", "cells", "speed", "generator"  # sections of the page
_TOLD_MAX: Final = 3  # cells of one kind, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    text: str
    target: str  # section or cell that it concerns


def doubts_of(
    judged: Sequence[Judged],
    analysis: SweepAnalysis | None,
    generator: GeneratorFigures,
    *,
    problems: Sequence[str],
    notes: Sequence[str],
    cores: int | None,
) -> tuple[Doubt, ...]:
    """The doubts, the most important first: a doubt that keeps the run from a pass comes before others."""
    found = [Doubt(text=of_problem(problem), target=RUN) for problem in problems]
    found += [Doubt(text=note, target=RUN) for note in notes]
    found += [] if judged else [Doubt(text="the run has no cell: nothing was measured", target=RUN)]
    found += _undecided(judged)
    found += late_faults(judged)
    if analysis is not None:
        found += [Doubt(text=warning, target=SPEED) for warning in _of_others(analysis.warnings, judged)]
        found += _seen_once(analysis)
    found += _disturbed(judged, is_swept=analysis is not None)
    found += _of_product(judged)
    found += [Doubt(text=problem, target=GENERATOR) for problem in generator.problems]
    found += [Doubt(text=text, target=SPEED) for text in speed_rests_on(judged, analysis, cores)]
    found += [Doubt(text=text, target=GENERATOR) for text in generator.doubts]
    return tuple({_key(doubt): doubt for doubt in found}.values())


def _key(doubt: Doubt) -> str:
    return doubt.text.rstrip(".")


def _undecided(judged: Sequence[Judged]) -> list[Doubt]:
    """Inconclusive cells, folded where they are many."""
    own = [item for item in judged if item.verdict.result == INCONCLUSIVE]
    told = [
        Doubt(
            text=of_inconclusive(item.facts.cell.title, next(iter(item.verdict.reasons), "no reason")),
            target=f"cell-{item.facts.cell.cell_id}",
        )
        for item in own[:_TOLD_MAX]
    ]
    more = len(own) - len(told)
    return told + ([Doubt(text=of_more_inconclusive(more), target=CELLS)] if more > 0 else [])


def late_faults(judged: Sequence[Judged]) -> list[Doubt]:
    """Cells that seem to have stood a fault, but sent nothing under it. An inconclusive one says it by itself."""
    own = [
        (item, why) for item in judged if item.verdict.result != INCONCLUSIVE and (why := after_the_load(item.facts))
    ]
    return [
        Doubt(text=f"{item.facts.cell.title}: {why}", target=f"cell-{item.facts.cell.cell_id}") for item, why in own
    ]


def _of_others(warnings: Sequence[str], judged: Sequence[Judged]) -> list[str]:
    """The warnings without those that only repeat why a cell is inconclusive. Such a cell is named or counted above."""
    told = [
        (item.facts.cell.title, reason)
        for item in judged
        if item.verdict.result == INCONCLUSIVE
        for reason in item.verdict.reasons
    ]
    return [
        one
        for one in warnings
        if not any(one.startswith((f"{title}: ", f"{title}, ")) and one.endswith(why) for title, why in told)
    ]


def _of_product(judged: Sequence[Judged]) -> list[Doubt]:
    if not any(item.facts.cell.record.engine in REFERENCE for item in judged):
        return []
    text = (
        "the brokers are the project's reference broker, not Apache Kafka: which damage the settings permit is a rule "
        "of the protocol and carries over; speed, capacity and how long an outage lasts do not"
    )
    return [Doubt(text=text, target=RUN)]


def _seen_once(analysis: SweepAnalysis) -> list[Doubt]:
    if not analysis.means or any(means.repeated for means in analysis.means.values()):
        return []
    text = "each configuration ran once: no figure of speed has an interval that says how much the next run differs"
    return [Doubt(text=text, target=SPEED)]


def _disturbed(judged: Sequence[Judged], *, is_swept: bool) -> list[Doubt]:
    """About cells whose speed is shown, and which no warning of the sweep covers. Under faults only the damage counts,
    and a busy host damages no record."""
    untold = (CellKind.CHAOS, CellKind.SWEEP, CellKind.CEILING) if is_swept else (CellKind.CHAOS,)
    own = [item for item in judged if item.facts.cell.kind not in untold]
    struck = [(item, text) for item in own if (text := disturbance(item.facts))]
    if not struck:
        return []
    first, why = struck[0]
    cells = f"{'other ' if is_swept else ''}cells"
    return [
        Doubt(
            text=f"{len(struck)} of {len(own)} {cells} were disturbed by the host (first {first.facts.cell.title}: "
            f"{why}): their times may be longer for it",
            target=SPEED,
        )
    ]
