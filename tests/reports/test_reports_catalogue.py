"""One entry of the catalogue makes a figure. That it needs no more, docs/internals/new-figure.md shows."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

from reports.judge.catalogue import CATALOGUE, IN_CSV
from reports.judge.figure import Files, Kind
from reports.judge.judged import Judged
from reports.judge.limit_figures import FIGURES
from reports.judge.verdict import judge
from reports.read.model import IdentitySet
from reports.render.results import write_results
from tests.reports.csv_headers import headers
from tests.reports.overview_runs import faulty, figures


def test_a_figure_has_one_name_and_says_where_it_comes_from() -> None:
    names = [figure.name for figure in CATALOGUE]
    assert len(set(names)) == len(names)
    limits = [figure.limit for figure in CATALOGUE if figure.limit]
    assert limits == [name for name in FIGURES if name in set(limits)], "no anomaly has the name of a figure"
    sources = re.compile(
        r"(send|recv|log|batches|cell\.json|stats|faults|cluster|of the cell at the ceiling|with acks=0)"
    )
    assert [figure.name for figure in CATALOGUE if sources.sub("", figure.rows).strip(", ") != ""] == []


def test_a_figure_is_shown_somewhere_and_a_text_in_no_document_of_numbers() -> None:
    hidden = [figure.name for figure in CATALOGUE if not figure.files and not figure.limit and not figure.column]
    assert hidden == []
    assert [figure.name for figure in CATALOGUE if figure.kind is Kind.TEXT and Files.JSON in figure.files] == []


def test_cells_csv_has_the_columns_of_the_catalogue_in_its_order() -> None:
    written = headers()["cells.csv"]
    assert written[: len(IN_CSV)] == [figure.name for figure in IN_CSV]
    assert all(name.startswith("setting.") for name in written[len(IN_CSV) :])


def test_what_retention_took_is_a_column_of_its_own_and_no_loss(tmp_path: Path) -> None:
    made = replace(faulty()[1], observed={"removed": IdentitySet(count=7, hash=7)})
    write_results(figures([Judged(facts=made, verdict=judge(made))]), tmp_path)
    (row,) = csv.DictReader((tmp_path / "results" / "cells.csv").open())
    assert (row["removed"], row["lost"]) == ("7", "0")
