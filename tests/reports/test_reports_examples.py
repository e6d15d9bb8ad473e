"""The example queries of docs/guide/analysis.md run on a run directory and find what was planted."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from reports.figures.figures import figures_of
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.render.csv_tables import write_tables
from tests.patience import run_command
from tests.reports.conftest import Planted

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "analysis"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = run_command(command, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_stands_on_the_page() -> None:
    page = (ROOT / "docs" / "guide" / "analysis.md").read_text()
    assert set(re.findall(r"with_\w+\.py", page)) == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.long
@pytest.mark.spark
def test_the_examples_find_what_was_planted(planted: Planted) -> None:
    directory = Path(planted.run.directory)
    judged = [Judged(facts=item, verdict=judge(item)) for item in planted.facts]
    (directory / "results").mkdir(exist_ok=True)
    write_tables(directory / "results", figures_of(planted.run, judged))
    cells = {item.cell.cell_id: item for item in planted.facts}
    assert all(cell in run("with_duckdb.py", str(directory)) for cell in cells)
    assert "mean" in run("with_pandas.py", str(directory))
    told = dict(re.findall(r"\|(\S+)\s*\|(\d+)\s*\|", run("with_spark.py", str(directory))))
    lost = {cell: item.set_count("lost") for cell, item in cells.items() if item.set_count("lost")}
    assert lost, "damage was planted"
    assert {cell: int(count) for cell, count in told.items()} == lost
