"""The first sentences of a report, from figures that were planted."""

from __future__ import annotations

from dataclasses import replace

from reports.figures.headline import headline_of
from reports.read.model import CellFacts, IdentitySet, SetComparison
from reports.render.narrative import verdict_sentences
from tests.reports.cells import changed
from tests.reports.sweep_facts import BASELINE, cell_facts, judged


def damaged(acks: str, lost: int, *, unpredicted: int = 0) -> CellFacts:
    """A cell with so many records lost, all of them expected as predicted, but for the last few."""
    name = f"{acks}-{lost}"
    made = cell_facts({**BASELINE, "acks": acks}, p99_us=9_000, kind="chaos", damage={"lost": lost}, cell_id=name)
    expect = dict.fromkeys(("duplicated", "reordered"), "none") | {"lost": "predicted"}
    found = SetComparison(both=IdentitySet(count=lost - unpredicted), only_observed=IdentitySet(count=unpredicted))
    cell = changed(made.cell, document={**made.cell.document, "expect": expect})
    return replace(made, cell=cell, predictions={**made.predictions, "lost": found})


def damage_of(*cells: CellFacts) -> str:
    return verdict_sentences(headline_of(judged(cells)))[1].text


def test_the_damage_of_all_cells_is_told_setting_by_setting() -> None:
    text = damage_of(damaged("1", 2_020), damaged("all", 300), damaged("1", 7_609))
    assert text == "Under faults, acks=1 lost 9,629 in 2 cells, acks=all lost 300 (exactly the predicted)."


def test_one_cell_that_lost_what_was_not_predicted_is_told() -> None:
    text = damage_of(damaged("1", 2_020), damaged("1", 100, unpredicted=7))
    assert text == "Under faults, acks=1 lost 2,120 in 2 cells (not what was predicted: 2,113 in all)."
