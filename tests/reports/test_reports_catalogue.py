"""One entry of the catalogue makes a figure: in the tables, the documents, the limits, the page, and in the docs."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reports.judge.catalogue import CATALOGUE, IN_CSV
from reports.judge.figure import Files, Kind
from reports.judge.judged import Judged
from reports.judge.limit_figures import FIGURES
from reports.judge.verdict import judge
from reports.read.model import IdentitySet
from reports.render.results import write_results
from tests.patience import run_command
from tests.reports.csv_headers import headers
from tests.reports.overview_runs import faulty, figures

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "new-figure.md"
_CHANGE = re.compile(
    r"In `(?P<file>reports/[a-z_/]+\.py)`, below `(?P<line>[^`]+)`:\n\n```python\n(?P<code>.*?)```", re.DOTALL
)
# What a newcomer's checkout answers after the page.
ASK = """
import json, sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pandas as pd

from reports.analyse.cell_facts import Found, Frames, cell_facts
from reports.evidence.predict import predict
from reports.evidence.removals import Removals
from reports.judge.cell_values import figures_of_cell
from reports.judge.judged import Judged
from reports.judge.limit_page import page
from reports.judge.verdict import judge
from reports.read.model import SET_KINDS, IdentitySet
from reports.render.csv_columns import columns_page
from reports.render.page import render
from reports.render.results import write_results
from reports.render.results_schema import verdicts_schema
from runlog.quality.criteria import Criteria
from runlog.streams.inventory import CellFiles
from tests.reports.csv_headers import headers
from tests.reports.overview_runs import faulty, figures

made = faulty()[1]
row = {"partition": 0, "leader_epoch": 0, "first_offset": 0, "end_offset": 8, "records": 8, "batches": 4}
batches = pd.DataFrame([{**row, "size_bytes": 1001, "uncompressed_bytes": 1001}])
frames = Frames(**{**dict.fromkeys(Frames.__dataclass_fields__, pd.DataFrame()), "batches": batches})
asked = {"files": CellFiles(), "frames": frames, "sets": {}, "stories": (), "removals": Removals()}
found = cell_facts(
    Found(cell=made.cell, prediction=predict(made.cell), slot_us=100_000, **asked), Criteria()
)
observed = {kind: IdentitySet() for kind in SET_KINDS}
facts = replace(made, batch_size_bytes=found.batch_size_bytes, observed=observed)
run = figures([Judged(facts=facts, verdict=judge(facts))])
into = Path(sys.argv[1])
write_results(run, into)
verdicts = json.loads((into / "results" / "verdicts.json").read_text())
jsonschema.validate(verdicts, verdicts_schema())
print(json.dumps({"json": verdicts["cells"][0]["batch_size_bytes"], "limit": figures_of_cell(facts)["batch_size_bytes"],
                  "page": render(run), "limits": page(), "tables": columns_page(headers())}))
"""


@pytest.mark.slow
def test_the_page_about_a_new_figure_is_all_that_it_takes(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "reports", tmp_path / "reports", ignore=shutil.ignore_patterns("__pycache__"))
    changes = list(_CHANGE.finditer(PAGE.read_text()))
    assert len({change["file"] for change in changes}) == len(changes) == 3
    for change in changes:
        path = tmp_path / change["file"]
        before, line, after = path.read_text().partition(f"{change['line']}\n")
        assert line, f"{change['file']} has no line {change['line']!r}"
        path.write_text(before + line + change["code"] + after)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = run_command([sys.executable, "-c", ASK, str(tmp_path)], env=environment, cwd=tmp_path, check=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    (row,) = csv.DictReader((tmp_path / "results" / "cells.csv").open())
    assert row["batch_size_bytes"] == "250.2"
    assert seen["json"] == seen["limit"] == 250.2, "1,001 bytes in 4 batches"
    assert re.search(r'data-col="batch_size_bytes"[^>]*>250</td>', seen["page"])
    assert "size of a batch <small>(B)</small></dt><dd>mean size of a batch in the final log" in seen["page"]
    assert "| `batch_size_bytes` | B | mean size of a batch in the final log, with its header |" in seen["limits"]
    assert "| `batch_size_bytes` | B | mean size of a batch in the final log, with its header |" in seen["tables"]


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
