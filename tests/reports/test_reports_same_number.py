"""What a table and a sentence of a report say of one figure is the same number."""

from __future__ import annotations

import csv
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from reports.figures.figures import figures_of
from reports.figures.knobs import knob_rows, middles
from reports.figures.latencies import p99_of
from reports.figures.sweep.figures import sweep_figures
from reports.figures.sweep.number_words import effect_size
from reports.figures.sweep.recommendation_words import _draws
from reports.figures.sweep.tables import effect_records, sensitivity_table, surface_table
from reports.read.model import CORRECTED, UNCORRECTED, CellFacts
from reports.render.results import write_results
from reports.render.sweep_json import sweep_record
from tests.reports.cells import changed, document_of, make_run
from tests.reports.sweep_facts import BASELINE, analysed, cell_facts, judged
from tests.reports.test_reports_sweep import oaat


def test_the_smallest_effect_is_a_logarithm_in_the_table_and_its_ratio_in_words() -> None:
    """The table said 0.07 under a name that promises ln(1.07)."""
    own = oaat(1, noise=0.3)
    header, rows = sensitivity_table(own)
    place, name = header.index("smallest_effect"), header.index("measure")
    (p99,) = [row[place] for row in rows if row[name] == "p99"]
    assert isinstance(p99, float)
    assert effect_size(math.expm1(p99)) in " ".join(own.recommendation.sentences)


@pytest.mark.parametrize(
    ("share", "words"), [(0.996, "99% of the draws"), (1.0, "all of the draws"), (0.5, "50% of the draws")]
)
def test_a_share_of_the_draws_is_rounded_down(share: float, words: str) -> None:
    assert _draws(share) == words


def test_the_lines_of_the_knob_charts_join_the_levels_of_the_forest() -> None:
    """They joined arithmetic means: 89.5 where the forest had 82.8."""
    rng = random.Random(4)
    items = judged(
        [
            replace_change(cell_facts(
                {**BASELINE, "linger.ms": linger}, p99_us=1e4 * rng.lognormvariate(0, 0.6), repetition=number,
                baseline=linger == BASELINE["linger.ms"],
            ), linger)
            for number in (1, 2, 3)
            for linger in ("5", "50", "0")
        ]
    )  # fmt: skip
    levels = {dict(one.configuration)["linger.ms"]: one.levels["p99"].ratio[0] for one in analysed(items).points}
    drawn = {one.value: one.p99 for one in middles(knob_rows(items, {})["linger.ms"])}
    assert drawn == {value: pytest.approx(us / 1000, rel=1e-3) for value, us in levels.items()}


def replace_change(facts: CellFacts, linger: str) -> CellFacts:
    """With what the plan says that its cell changes."""
    changed = "" if linger == BASELINE["linger.ms"] else "linger.ms"
    return replace(facts, cell=replace(facts.cell, record=replace(facts.cell.record, changed=changed)))


def test_a_configuration_is_told_as_its_cells_ran_in_the_table_and_in_the_document() -> None:
    """acks=1 needs enable.idempotence=false. A sweep that varies both said acks=1 with enable.idempotence=true."""
    base = {**BASELINE, "enable.idempotence": "true"}
    planned = [(base, {}), ({**base, "acks": "1"}, {"enable.idempotence": "false"}),
               ({**base, "enable.idempotence": "false"}, {})]  # fmt: skip
    found = analysed(
        judged(
            [
                cell_facts(factors, p99_us=1e4 + number, repetition=number, baseline=factors is base, properties=ran)
                for number in (1, 2)
                for factors, ran in planned
            ]
        )
    )
    ran_with = {(one["acks"], one["enable.idempotence"]) for one in (dict(point.ran_with) for point in found.points)}
    assert ran_with == {("all", "true"), ("1", "false"), ("all", "false")}
    header, rows = surface_table(found)
    told = [str(row[header.index("settings")]) for row in rows]
    assert sorted(told) == sorted(f"acks={acks} enable.idempotence={idempotence}" for acks, idempotence in ran_with), (
        "the table"
    )
    document = sweep_record(sweep_figures(found), analysis_id="")
    assert {(one.settings["acks"], one.settings["enable.idempotence"]) for one in document.surface} == ran_with
    assert {(one.settings["acks"], one.settings["enable.idempotence"]) for one in document.cells} == ran_with
    assert len(found.effects["p99"].effects) == 2, "each level is still an effect of its own setting"


def test_a_closed_loop_has_no_corrected_latency_in_any_file_or_curve(tmp_path: Path) -> None:
    """It has no schedule, so nothing could be corrected: the files repeated the uncorrected figures under that name."""
    facts = cell_facts({}, cell_id="sweep-baseline", p99_us=12_000)
    document = document_of(facts.cell)
    closed = {**document["workload"], "schedule": {"kind": "closed", "outstanding": 10}}
    spectrum = ((0.5, 5_000.0, 500), (0.99, 12_000.0, 990))
    latency = replace(facts.latency[CORRECTED], curve=((0.5, 5_000.0), (0.99, 12_000.0)), spectrum=spectrum)
    slots = facts.slots.assign(corrected_p99_us=12_000.0, corrected_mean_us=5_000.0, uncorrected_p99_us=12_000.0)
    facts = replace(facts, latency={**facts.latency, CORRECTED: latency, UNCORRECTED: latency}, slots=slots)
    for schedule, told in ((document["workload"], "corrected"), (closed, "")):
        cell = changed(facts.cell, document={**document, "workload": schedule})
        (item,) = judged([replace(facts, cell=cell)])
        directory = tmp_path / (told or "closed")
        figures = figures_of(make_run(directory=str(directory)), [item])
        write_results(figures, directory)
        (row,) = csv.DictReader((directory / "results" / "cells.csv").open())
        assert bool(row["corrected_p99_us"]) == bool(told)
        assert row["uncorrected_p99_us"], "the figure itself stays"
        for name in ("time.csv", "latency_curves.csv"):
            lines = list(csv.DictReader((directory / "results" / name).open()))
            own = [line for line in lines if line.get("kind") == CORRECTED or line.get("corrected_p99_us")]
            assert bool(own) == bool(told), name
        (cell_record,) = json.loads((directory / "results" / "verdicts.json").read_text())["cells"]
        assert bool(cell_record["latency_us"]["corrected"]["n"]) == bool(told)
        assert ("corrected" in {point.series for point in figures.cells[0].curve}) == bool(told)
        assert any(
            "corrected" in point.series and "un" not in point.series for point in figures.cells[0].over_time.latency
        ) == bool(told)
        spectra = {path.name for path in (directory / "results" / "spectra").iterdir()}
        assert ("sweep-baseline.corrected.hgrm" in spectra) == bool(told)
        assert "sweep-baseline.uncorrected.hgrm" in spectra
        assert figures.cells[0].spectrum == spectrum
        assert figures.cells[0].spectrum_of == (told or "uncorrected")
        assert p99_of(item.facts).basis == (told or "uncorrected")
        assert p99_of(item.facts).ms == 12.0


def test_an_effect_has_one_interval_wherever_two_configurations_are_compared() -> None:
    """The forest and effects.csv tell the effect, sentences and the price of safety the difference of the pair."""
    found = oaat(1)
    assert found.baseline is not None
    for name, effects in found.effects.items():
        means = found.means[name]
        others = [one for one in means.configurations if one != found.baseline]
        pairs = {means.between(found.baseline, other) for other in others}
        assert pairs == {effect.estimate for effect in effects.effects}, name
        told = {(row.value, row.low, row.high) for row in effect_records(found) if row.measure == name}
        assert told == {
            (effect.value, *(round(end, 5) for end in effect.estimate.ratio[1:])) for effect in effects.effects
        }, name


def test_a_large_effect_is_no_power_of_ten() -> None:
    """A disturbed demo said "a factor of 2.3e+02"."""
    assert effect_size(230.4) == "a factor of 230"
    assert effect_size(2.14) == "a factor of 3.1"
    assert effect_size(8.97) == "a factor of 10"
