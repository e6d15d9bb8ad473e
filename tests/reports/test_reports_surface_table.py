"""surface.csv has each kind of damage by itself: a loss and a duplicate are no sum."""

from __future__ import annotations

from dataclasses import replace

from reports.figures.sweep.front import Damage
from reports.figures.sweep.tables import surface_table
from tests.reports.test_reports_capacity import analysed, two_windows

COLUMNS = ("lost_per_million", "duplicated_per_million", "reordered_per_million")


def test_each_kind_of_damage_has_its_rate_of_the_cells_that_tell_of_it_and_no_rate_without_such_a_cell() -> None:
    found, _ = analysed(two_windows())
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
