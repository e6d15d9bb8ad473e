"""What the verdict does not trust decides nothing: no choice, no clear effect, and the reader is told which cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reports.figures.overview.forest import forest_of
from reports.figures.sweep.effects import BETTER, NOT_CLEAR, judgement
from reports.figures.sweep.observations import THROUGHPUT
from reports.read.model import CellFacts
from runlog.records.measurements import FigureState
from tests.reports.cells import changed, document_of
from tests.reports.sweep_facts import BASELINE, analysed, cell_facts, judged

NOISE = (0.98, 1.0, 1.03, 0.99)
Doubt = Callable[[CellFacts], CellFacts]


def unread(facts: CellFacts) -> CellFacts:
    """The final read did not come to the end."""
    document: dict[str, Any] = document_of(facts.cell)
    outcome = {**document["outcome"], "final_read": {"complete": False}}
    return replace(facts, cell=changed(facts.cell, document={**document, "outcome": outcome}))


def sweep(doubt: Doubt, of: str, *, repetitions: int = 4) -> list[CellFacts]:
    """linger.ms=5 is the baseline and 0 is three times as fast; so many cells of one of them are in doubt."""
    cells = []
    for number, share in enumerate(NOISE, 1):
        for linger, p99_us in (("5", 30_000), ("0", 10_000)):
            facts = cell_facts(
                {**BASELINE, "linger.ms": linger}, p99_us=p99_us * share, repetition=number, baseline=linger == "5"
            )
            cells.append(doubt(facts) if linger == of and number <= repetitions else facts)
    return cells


def test_with_a_baseline_in_doubt_there_is_no_choice_and_no_effect() -> None:
    """It said "Clear choice" with +185 %, in 98 % of the draws."""
    own = analysed(judged(sweep(unread, "5")))
    assert own.recommendation.point is None
    assert own.recommendation.certainty is None
    (sentence,) = own.recommendation.sentences
    assert sentence.startswith("No recommendation: the verdict does not trust 4 of 4 cells of the baseline (")
    assert [judgement(effect) for effect in own.effects["p99"].effects] == [NOT_CLEAR]
    forest = forest_of(own)
    assert forest is not None
    (row,) = forest.rows
    assert {value.judgement for value in row.values if value is not None} <= {"undecided", "negligible"}
    assert "inconclusive" in " ".join(forest.warnings)


def test_a_setting_in_doubt_is_not_recommended_and_has_no_effect() -> None:
    own = analysed(judged(sweep(unread, "0", repetitions=2)))
    assert own.recommendation.point is not None, "the baseline may still be"
    assert dict(own.recommendation.point.configuration)["linger.ms"] == "5"
    assert [judgement(effect) for effect in own.effects["p99"].effects] == [NOT_CLEAR]


def test_one_repetition_in_doubt_of_four_leaves_the_others_their_say() -> None:
    own = analysed(judged(sweep(unread, "0", repetitions=1)))
    assert own.recommendation.sentences[0].startswith("Clear choice")
    assert [judgement(effect) for effect in own.effects["p99"].effects] == [BETTER]
    states = [item.state for item in own.observations if not item.trusted]
    assert states == [FigureState.INCONCLUSIVE]
    assert any("inconclusive" in text for text in own.warnings)


def test_an_interval_of_throughput_never_passes_the_rate_that_was_asked() -> None:
    cells = [
        cell_facts(
            {**BASELINE, "linger.ms": linger}, p99_us=10_000, throughput=rate, repetition=number, baseline=linger == "5"
        )
        for linger in ("5", "0")
        for number, rate in enumerate((2_000.0, 1_910.0, 1_990.0), 1)
    ]
    own = analysed(judged(cells))
    for point in own.points:
        level = point.levels[THROUGHPUT]
        assert level.low <= level.value <= level.high <= math.log(2_000.0)


def test_an_unsteady_cell_decides_like_any_other_and_is_told() -> None:
    """The brokers stall too: whoever leaves out their unsteady cells finds them steady."""
    own = analysed(judged([replace(facts, steady_ratio=0.3) for facts in sweep(unread, "0", repetitions=0)]))
    assert [judgement(effect) for effect in own.effects["p99"].effects] == [BETTER]
    assert own.recommendation.sentences[0].startswith("Clear choice")
    assert any(line.startswith("8 of 8 cells of the sweep were unsteady (first ") for line in own.warnings)
