"""What faults did to cells that promise the same as a configuration of the sweep, and whether it met a fault itself.

surface.csv has each kind of damage by itself: a loss and a duplicate are no sum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.figures.sweep.figures import sweep_figures
from reports.figures.sweep.front import Damage
from reports.figures.sweep.tables import surface_table
from tests.reports.sweep_facts import BASELINE, analysed, cell_facts, judged
from tests.reports.test_reports_capacity import analysed as with_ceilings
from tests.reports.test_reports_capacity import two_windows

COLUMNS = ("lost_per_million", "duplicated_per_million", "reordered_per_million")


def test_each_kind_of_damage_is_held_against_the_cells_that_promised_the_same_of_it() -> None:
    loose = {"acks": "1", "enable.idempotence": "false"}
    cells = [cell_facts(BASELINE, p99_us=20_000, baseline=True)]
    one = {**loose, "max.in.flight.requests.per.connection": "1"}
    cells.append(cell_facts({**BASELINE, "acks": "1"}, p99_us=5_000, properties=one))
    cells.append(
        cell_facts({}, cell_id="chaos-a", kind="chaos", p99_us=5e4, throughput=1_000.0, damage={"lost": 412},
                   properties={**loose, "max.in.flight.requests.per.connection": "5"})
    )  # fmt: skip
    cells.append(cell_facts({}, cell_id="chaos-b", kind="chaos", p99_us=5e4, throughput=1_000.0))
    damage = {dict(point.configuration)["acks"]: point.damage for point in analysed(judged(cells)).points}["1"]
    assert (damage.lost, damage.sent["lost"]) == (412, 10_000)
    assert damage.sent["reordered"] == 0, "one in flight was tried with acks=all alone"
    assert damage.struck == ("412 of 10,000 lost under faults",)
    assert damage.text() == (
        "not run under faults; inferred from cells with its acks, idempotence and in flight: "
        "412 of 10,000 lost under faults, none duplicated of 10,000, reordered: not tried"
    )
    assert damage.per_million == pytest.approx(41_200)


def test_faults_have_no_common_rate_so_the_worst_one_counts() -> None:
    cells = [
        cell_facts(BASELINE, p99_us=20_000, baseline=True),
        cell_facts({**BASELINE, "linger.ms": "0"}, p99_us=9_000),
    ]
    for scenario, lost, sent_per_s in (("leader-loss", 300, 1_000.0), ("pause", 0, 9_000.0)):
        facts = cell_facts(
            {}, cell_id=f"chaos-{scenario}", kind="chaos", p99_us=5e4, throughput=sent_per_s, damage={"lost": lost}
        )
        record = replace(facts.cell.record, scenario=scenario)
        cells.append(replace(facts, cell=replace(facts.cell, record=record)))
    damage = analysed(judged(cells)).points[0].damage
    assert (damage.lost, damage.sent["lost"]) == (300, 100_000)
    assert damage.per_million_of("lost") == pytest.approx(30_000), "300 of 10,000, and not 300 of 100,000"
    assert damage.per_million_of("duplicated") == 0


def test_a_configuration_that_met_a_fault_itself_is_told_from_one_that_is_like_it() -> None:
    cells = [cell_facts(BASELINE, p99_us=20_000 + r, repetition=r, baseline=True) for r in (1, 2)]
    cells += [cell_facts({**BASELINE, "batch.size": "131072"}, p99_us=9_000 + r, repetition=r) for r in (1, 2)]
    cells.append(cell_facts(BASELINE, cell_id="chaos", kind="chaos", p99_us=5e4, throughput=1_000.0))
    found = analysed(judged(cells))
    own = {dict(point.configuration)["batch.size"]: point.damage for point in found.points}
    assert own["16384"].text() == "none lost of 10,000, none duplicated of 10,000, none reordered of 10,000"
    assert own["131072"].text().startswith("not run under faults; inferred from cells with its acks, idempotence ")
    assert any(text.startswith("This configuration was not run") for text in found.recommendation.sentences)
    lanes = {point.lane.partition("|")[2] for point in sweep_figures(found).surface["p99"]}
    assert lanes == {"nothing damaged by faults", "cells like it:|nothing damaged by faults"}


def test_each_kind_of_damage_has_its_rate_of_the_cells_that_tell_of_it_and_no_rate_without_such_a_cell() -> None:
    found, _ = with_ceilings(two_windows())
    damage = Damage(
        cells=3, lost=20, duplicated=7, sent={"lost": 10_000, "duplicated": 40_000},
        worst={"lost": 0.002, "duplicated": 0.000175},
    )  # fmt: skip
    points = (replace(found.points[0], damage=damage), *(replace(one, damage=Damage()) for one in found.points[1:]))
    header, rows = surface_table(replace(found, points=points))
    places = [header.index(name) for name in COLUMNS]
    assert [rows[0][place] for place in places] == [2000.0, 175.0, None]
    assert [rows[1][place] for place in places] == [None, None, None]
    assert "damaged_per_million" not in header
    assert all(len(row) == len(header) for row in rows)
    assert damage.per_million == 2175.0, "only the order on the front adds them up"
