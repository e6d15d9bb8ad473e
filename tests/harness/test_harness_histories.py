"""`harness report --to-edn` and `--from-edn`, as a user calls them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.errors import ExitCode
from reports.jepsen.operations import line_of
from tests.reports import jepsen_histories as plants
from tests.reports.jepsen_histories import Book
from tests.reports.synthetic_run import Damage, SyntheticCell, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    cells = [
        SyntheticCell(cell_id="loss", damage=Damage(lost_batches=2, duplicated_batches=2)),
        SyntheticCell(cell_id="calm"),
    ]
    return write_run(tmp_path / "run", [cell.build() for cell in cells])


def _planted(path: Path, plant: object) -> Path:
    book = Book(random.Random(1))
    plant(book)  # type: ignore[operator]
    path.write_text("".join(f"{line_of(line)}\n" for line in book.lines), encoding="utf-8")
    return path


@pytest.mark.thorough
def test_a_cell_goes_out_and_comes_in_with_the_same_verdict(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history, document = tmp_path / "h.edn", tmp_path / "h.json"
    assert execute(["report", str(run), "--to-edn", str(history), "--cell", "loss"]) == ExitCode.PASS
    assert capsys.readouterr().out.splitlines()[-1] == str(history)
    assert execute(["report", "--from-edn", str(history), "--json", str(document)]) == ExitCode.PASS
    told = json.loads(document.read_text())
    assert {item["anomaly"]: item["lawful"] for item in told["anomalies"]}["lost-write"] == "lawful", "acks=1"
    assert told["settings"]["acks"] == "1"
    assert execute(["report", "--from-edn", str(history), "--set", "acks=all"]) == ExitCode.FAIL
    assert "fail: lost-write" in capsys.readouterr().out


def test_what_is_lawful_follows_the_settings(tmp_path: Path) -> None:
    history = _planted(tmp_path / "h.edn", plants.aborted_read)
    assert execute(["report", "--from-edn", str(history)]) == ExitCode.FAIL
    assert execute(["report", "--from-edn", str(history), "--set", "isolation.level=read_uncommitted"]) == ExitCode.PASS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RUN", "--to-edn", "DIR/h.edn"], "the run has 2 cells: --cell ID says which, e.g. --cell calm"),
        (["RUN", "--to-edn", "DIR/h.edn", "--cell", "los"], "the run has no such cell; did you mean loss?"),
        (["RUN", "--to-edn", "DIR/no/h.edn", "--cell", "loss"], "there is no directory"),
        (["RUN", "--cell", "loss"], "--cell belongs to --to-edn"),
        (["RUN", "--set", "acks=1"], "--set belongs to --from-edn"),
        (["RUN", "--json", "x"], "--json belongs to --from-edn"),
        (["RUN", "RUN", "--to-edn", "DIR/h.edn"], "expected one DIR"),
        (["RUN", "--from-edn", "DIR/h.edn"], "leave DIR and --to-edn out"),
        ([], "expected DIR, a run directory, or --from-edn FILE"),
        (["--from-edn", "DIR/none.edn"], "there is no such file"),
        (["--from-edn", "DIR"], "is a directory"),
        (["--from-edn", "DIR/good.edn", "--set", "isolatoin.level=x"], "did you mean isolation.level?"),
        (["--from-edn", "DIR/good.edn", "--set", "acks=7"], "--set acks=7: expected all, 1 or 0"),
        (["--from-edn", "DIR/cut.edn"], "line 4, column 1: the text ends, and the map that begins here does not"),
        (["--from-edn", "DIR/word.edn"], "line 2, column 1: operation 1: :f :sned is unknown; did you mean :send?"),
        (["--from-edn", "DIR/bytes.edn"], "line 2, byte 3: no UTF-8, which EDN is"),
    ],
)
def test_what_cannot_be_done_is_told_with_the_right_word(
    run: Path, tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = _planted(tmp_path / "good.edn", plants.write_cycle).read_text()
    lines = good.splitlines()
    (tmp_path / "cut.edn").write_text("\n".join([*lines[:3], lines[3][:-1]]))
    (tmp_path / "word.edn").write_text("\n".join([lines[0], lines[1].replace(":f :txn", ":f :sned")]))
    (tmp_path / "bytes.edn").write_bytes(b"{}\n{:\xff}")
    words = [word.replace("RUN", str(run)).replace("DIR", str(tmp_path)) for word in arguments]
    assert execute(["report", *words]) == ExitCode.USAGE
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert message in told
    assert not (tmp_path / "h.edn").exists()


@pytest.mark.slow
@pytest.mark.long
def test_a_real_run_says_the_same_in_its_report_and_in_its_history(tmp_path: Path) -> None:
    """A leader is lost with acks=1: the records that the report calls lost are those that the history has lost."""
    run, history, document = tmp_path / "run", tmp_path / "h.edn", tmp_path / "h.json"
    execute(["chaos", "leader-loss", "--case", "acks-1", "--run-dir", str(run), "--yes"])
    (verdict,) = json.loads((run / "results" / "verdicts.json").read_text())["cells"]
    assert verdict["lost"] > 0, "the scenario has shown nothing"
    assert execute(["report", str(run), "--to-edn", str(history)]) == ExitCode.PASS
    assert execute(["report", "--from-edn", str(history), "--json", str(document)]) == ExitCode.PASS
    counts = {item["anomaly"]: item["count"] for item in json.loads(document.read_text())["anomalies"]}
    assert (counts.get("lost-write", 0), counts.get("duplicate", 0)) == (verdict["lost"], verdict["duplicated"])
