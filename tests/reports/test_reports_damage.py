"""There is never a pass without evidence: every file of a run that passes is removed or damaged in turn.

All damaged cells are in one run beside a sound one. So one analysis also shows that a bad file affects only its cell.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from reports.analyse.analysis import analyse
from reports.analyse.tolerant import facts_of_all, unusable
from reports.evidence.completeness import cell_files, hole_of_file, missing_evidence
from reports.figures.figures import figures_of
from reports.job import _judged, _write
from reports.judge.allowances import Allowances
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, Verdict
from reports.judge.holes import TOUCHES, Evidence
from reports.judge.judged import exit_code, overall
from reports.judge.verdict import judge
from reports.read.cell import Cell
from reports.read.model import CellFacts, Counts, IdentitySet
from reports.read.run_files import read_run
from reports.render.junit import junit
from reports.render.markdown import summary
from runlog.records.codec import to_json
from runlog.streams.inventory import CellFiles, take_inventory
from runlog.streams.parquet import read_stream, write_part
from runlog.streams.schema import STREAMS
from tests.reports.cells import make_cell
from tests.reports.synthetic_run import SyntheticCell, write_run
from tests.reports.test_reports_verdict import facts as clean_facts
from tests.runlog.test_runlog_inventory import DAMAGES as OF_PARTS
from tests.runlog.test_runlog_inventory import NOT_SEEN_WITHOUT_A_LIST

SOUND = "sound"
OLD = "old"  # of a run that listed no files
OF_ODD_CONTENT = ("cell.json-topic-is-text", "cell.json-odd-numbers")
# A run with a link anywhere in it is refused as a whole.
DAMAGES = {name: damage for name, damage in OF_PARTS.items() if name != "a link"}
NEEDED = ("send", "recv", "log", "batches")
EVENTS = ("cluster", "faults", "wire")


def set_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def in_two_parts(run_dir: Path, cell_id: str) -> None:
    """Each stream in two files, as of a longer run, and the list of files anew."""
    for stream in STREAMS:
        table = read_stream(run_dir, stream, cell_id)
        half = table.num_rows // 2
        for part, rows in (("000000", table.slice(0, half)), ("000001", table.slice(half))):
            columns = {name: rows.column(name).to_numpy() for name in rows.column_names}
            write_part(run_dir, stream, cell_id, columns, part=part)
    set_json(run_dir / "cells" / cell_id / "cell.json", files=to_json(take_inventory(run_dir, cell_id)))


def part_of(run_dir: Path, cell_id: str, stream: str) -> Path:
    return run_dir / stream / f"cell={cell_id}" / "part-000001.parquet"


def without_a_field(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0].pop("kind", None)
    lines[0].pop("outcome", None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


EVENT_DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "emptied": lambda path: path.write_text(""),
    "a line less": lambda path: path.write_text("".join(path.read_text().splitlines(keepends=True)[1:])),
    "no JSON": lambda path: path.write_bytes(b"\x00\xff{" * 100 + b"\n"),
    "a field less": without_a_field,
    "a torn last line": lambda path: path.write_text(path.read_text()[:-5]),
}
DOCUMENT_DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "torn": lambda path: path.write_text(path.read_text()[:-200]),
    "a list": lambda path: path.write_text("[]"),
    "of another cell": lambda path: set_json(path, cell_id="other"),
    "without files": lambda path: path.write_text(
        json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "files"})
    ),
    "files garbled": lambda path: set_json(path, files={"streams": 7}),
    "topic is text": lambda path: set_json(path, topic="t", workload="much", expect=[1], properties=3, outcome="done"),
    "odd numbers": lambda path: set_json(path, seed="x", repetition=[], criteria=[{"limit": "low"}], tags=4),
}


def plans() -> dict[str, Callable[[Path], object]]:
    """Cell id -> what is done to it."""
    found: dict[str, Callable[[Path], object]] = {}
    for stream in NEEDED:
        for name, damage in DAMAGES.items():
            cell_id = f"{stream}-{name}".replace(" ", "-")
            found[cell_id] = lambda run, cell_id=cell_id, stream=stream, damage=damage: damage(  # type: ignore[misc]
                part_of(run, cell_id, stream)
            )
        found[f"{stream}-all-gone"] = lambda run, cell_id=f"{stream}-all-gone", stream=stream: shutil.rmtree(  # type: ignore[misc]
            run / stream / f"cell={cell_id}"
        )
    for event in EVENTS:
        for name, event_damage in EVENT_DAMAGES.items():
            cell_id = f"{event}-{name}".replace(" ", "-")
            found[cell_id] = lambda run, cell_id=cell_id, event=event, damage=event_damage: damage(  # type: ignore[misc]
                run / "cells" / cell_id / f"{event}.jsonl"
            )
    for name, document_damage in DOCUMENT_DAMAGES.items():
        cell_id = f"cell.json-{name}".replace(" ", "-")
        found[cell_id] = lambda run, cell_id=cell_id, damage=document_damage: damage(  # type: ignore[misc]
            run / "cells" / cell_id / "cell.json"
        )
    found["directory-gone"] = lambda run: shutil.rmtree(run / "cells" / "directory-gone")
    return found


def copies_of(run_dir: Path, template: str, names: Iterable[str]) -> None:
    for name in names:
        shutil.copytree(run_dir / "cells" / template, run_dir / "cells" / name)
        set_json(run_dir / "cells" / name / "cell.json", cell_id=name)
        for stream in STREAMS:
            shutil.copytree(run_dir / stream / f"cell={template}", run_dir / stream / f"cell={name}")


def verdicts_if_queries_find_nothing(run_dir: Path) -> dict[str, Verdict]:
    """What is judged of each cell where the records that can be read show no damage at all."""
    run = read_run(run_dir)
    files = cell_files(run)
    found = {}
    for cell in run.cells:
        rows = files[cell.cell_id].rows
        counts = Counts(acked=10_000, sent_total=rows["send"], log_total=rows["log"])
        missing = missing_evidence(cell, files[cell.cell_id], counts)
        found[cell.cell_id] = judge(
            replace(
                clean_facts(),
                cell=cell,
                counts=counts,
                holes=missing,
            )
        )
    return found


@pytest.mark.thorough
def test_whatever_is_taken_away_or_damaged_is_no_pass_and_the_file_is_named(tmp_path: Path) -> None:
    damages = {name: damage for name, damage in plans().items() if name not in OF_ODD_CONTENT}
    run_dir = write_run(tmp_path / "run", [SyntheticCell(cell_id=SOUND, seed=9).build()])
    in_two_parts(run_dir, SOUND)
    copies_of(run_dir, SOUND, damages)
    for damage in damages.values():
        damage(run_dir)
    set_json(run_dir / "manifest.json", cells=[*damages, SOUND, SOUND])
    found = verdicts_if_queries_find_nothing(run_dir)
    assert found.pop(SOUND).result == PASS
    assert set(found) == set(damages), "one for each planned cell, and one for a cell that is named twice"
    assert {cell_id for cell_id, verdict in found.items() if verdict.result == PASS} == set()
    for cell_id, verdict in found.items():
        stream, _, name = cell_id.partition("-")
        if stream in NEEDED and name != "all-gone":
            assert f"{stream}/part-000001.parquet: " in str(verdict.reasons)


@pytest.mark.thorough
def test_without_a_list_of_files_what_can_be_told_is_told(tmp_path: Path) -> None:
    """Runs of before version 3 still report; a sound one passes and says what it cannot know."""
    template = SyntheticCell(cell_id=OLD, seed=9).build()
    run_dir = write_run(tmp_path / "run", [template], schema_version=2)
    in_two_parts(run_dir, OLD)
    document = json.loads((run_dir / "cells" / OLD / "cell.json").read_text())
    del document["files"]
    high = max(template.columns["send"]["seq"])
    producers = [{"producer": number, "incarnation": 0, "high_seq": high} for number in range(template.producers)]
    document["outcome"] |= {"producers": producers}
    document["outcome"]["final_read"] |= {"records": len(template.columns["log"]["seq"]), "foreign": 0}
    (run_dir / "cells" / OLD / "cell.json").write_text(json.dumps(document))
    damages = {f"{stream}-{name}".replace(" ", "-"): (stream, name) for stream in NEEDED for name in DAMAGES}
    unseen = {
        f"{stream}-{name}".replace(" ", "-") for stream in ("recv", "batches") for name in NOT_SEEN_WITHOUT_A_LIST
    }
    copies_of(run_dir, OLD, damages)
    for cell_id, (stream, name) in damages.items():
        DAMAGES[name](part_of(run_dir, cell_id, stream))
    manifest = json.loads((run_dir / "manifest.json").read_text())
    del manifest["status"]
    (run_dir / "manifest.json").write_text(json.dumps({**manifest, "cells": [OLD, *damages]}))

    found = verdicts_if_queries_find_nothing(run_dir)
    passed = {name for name, verdict in found.items() if verdict.result == PASS}
    # Without a checksum zeros in a page may decode to other values: zstd says so only if they make no sense to it.
    assert passed - {f"{stream}-zeroed-middle" for stream in NEEDED} == {OLD, *unseen}
    assert "one that is gone leaves no trace" in str(found[OLD].notes)
    run = read_run(run_dir)
    assert run.problems == ()
    assert any("not recorded" in note for note in run.notes)


@pytest.mark.long
@pytest.mark.spark
def test_bad_files_and_odd_content_cost_their_cells_and_the_rest_is_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The whole way through Spark, verdict and page. Each of these took the whole report down with exit 1."""
    wanted = ["send-zeroed-middle", "log-garbled-footer", "recv-column-of-another-type", "batches-column-absent",
              "cluster-a-field-less", "directory-gone", *OF_ODD_CONTENT]  # fmt: skip
    damages = plans()
    template = SyntheticCell(cell_id=SOUND, seed=9).build()
    run_dir = write_run(tmp_path / "run", [template])
    in_two_parts(run_dir, SOUND)
    copies_of(run_dir, SOUND, wanted)
    for cell_id in wanted:
        damages[cell_id](run_dir)
    set_json(run_dir / "manifest.json", cells=[*wanted, SOUND, SOUND])
    run = read_run(run_dir)

    def of_cells(cells: Sequence[Cell]) -> list[CellFacts]:
        return analyse(spark, replace(run, cells=tuple(cells)))

    into = tmp_path / "written"
    into.mkdir()
    judged, _ = _write(run, [_judged(item) for item in facts_of_all(run.cells, of_cells)], (), into, Allowances())
    found = {item.facts.cell.cell_id: item for item in judged}
    assert found[SOUND].verdict.result == PASS, found[SOUND].verdict.reasons
    assert found[SOUND].facts.counts.acked_total == template.truth.acked, "named twice, and counted once"
    assert sorted(found) == sorted([*wanted, SOUND])
    assert {name for name in wanted if found[name].verdict.result == PASS} == set()
    written = json.loads((into / "results" / "verdicts.json").read_text())
    assert [cell["cell_id"] for cell in written["cells"]] == [*wanted, SOUND]
    assert (into / "report.html").stat().st_size > 100_000


# --- the run as a whole -----------------------------------------------------------------------------------------------


def run_of_one(tmp_path: Path) -> Path:
    (tmp_path / "cells" / "a").mkdir(parents=True)
    (tmp_path / "cells" / "a" / "cell.json").write_text('{"cell_id": "a", "files": {}}')
    manifest = {"schema_version": 3, "cells": ["a"], "status": "finished"}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (Path.unlink, "manifest.json is missing"),
        (lambda path: path.write_text(path.read_text()[:-9]), "manifest.json is unreadable"),
        (lambda path: path.write_text("[1]"), "holds no JSON object"),
        (lambda path: path.write_text("[" * 100_000), "manifest.json is unreadable"),
        (lambda path: set_json(path, status="interrupted"), "'interrupted'"),
        (lambda path: set_json(path, status="killed"), "'killed'"),
        (lambda path: set_json(path, status="running"), "'running'"),
        (lambda path: set_json(path, status="failed"), "'failed'"),
        (lambda path: set_json(path, status=["finished"]), "did not come to its end"),
        (lambda path: path.write_text('{"schema_version": 3, "cells": ["a"]}'), "'not recorded'"),
        (lambda path: set_json(path, cells="a"), "which cells were planned"),
        (lambda path: set_json(path, cells=["a", 7]), "by what is no cell id"),
        (lambda path: set_json(path, cells=["a", "../../etc"]), "by what is no cell id"),
        (lambda path: set_json(path, cells=["a", "x y"]), "by what is no cell id"),
        (lambda path: set_json(path, suite_document={"search": {"low_per_s": 1}}), "search.json is missing"),
    ],
)
def test_a_run_whose_manifest_does_not_say_that_all_was_done_is_no_pass(
    tmp_path: Path, change: Callable[[Path], object], text: str
) -> None:
    change(run_of_one(tmp_path) / "manifest.json")
    run = read_run(tmp_path)
    assert text in str(run.problems)
    assert overall([], run.problems) == INCONCLUSIVE
    assert exit_code([], run.problems) == 4
    assert "run is whole" in junit(figures_of(run, []))
    assert text in summary(figures_of(run, []))


@pytest.mark.parametrize(("name", "is_needed"), [("cluster", True), ("history", True), ("stats", False)])
def test_a_torn_last_line_may_be_the_one_also_where_no_list_of_files_tells_of_it(
    tmp_path: Path, name: str, is_needed: bool
) -> None:
    """As after an end of the host; it was a note, and a finished cell of a run without lists passed."""
    folder = run_of_one(tmp_path) / "cells" / "a"
    (folder / f"{name}.jsonl").write_text('{"t_us": 1, "kind": "x"}\n{"t_us": 2, "ki')
    (cell,) = read_run(tmp_path).cells
    (hole,) = cell.holes
    assert hole.what == f"{name}.jsonl: the last line is torn and was left out"
    assert (TOUCHES[hole.kind] == {Evidence.SAMPLES}) is not is_needed


def test_a_whole_run_has_no_problems(tmp_path: Path) -> None:
    run = read_run(run_of_one(tmp_path))
    assert run.problems == ()
    assert [cell.holes for cell in run.cells] == [()]


def test_a_planned_cell_without_a_directory_is_a_cell_that_says_nothing(tmp_path: Path) -> None:
    set_json(run_of_one(tmp_path) / "manifest.json", cells=["a", "b"])
    cell = read_run(tmp_path).cells[1]
    verdict = judge(unusable(cell, "x"))
    assert verdict.result == INCONCLUSIVE
    assert "left no directory" in str(verdict.reasons)


# --- what the plan must have given rows to ----------------------------------------------------------------------------

ROWS = dict.fromkeys(STREAMS, 10)
COPIERS = {"readers": [{"name": "copy", "copies": True}, {"name": "audit", "reads": "copies"}]}
COMPLETE: dict[str, Any] = {"copies": {"complete": True}}


@pytest.mark.parametrize(
    ("workload", "outcome", "rows", "text"),
    [
        ({"consumers": 1}, {}, {"recv": 0}, "recv: no row although the plan has readers"),
        ({"consumers": 0}, {}, {"recv": 0}, ""),
        ({"consumers": 0, "readers": [{"name": "r"}]}, {}, {"recv": 0}, "recv: no row"),
        ({}, {}, {"copies": 0, "audit": 0}, ""),
        (COPIERS, COMPLETE, {}, ""),
        (COPIERS, COMPLETE, {"copies": 0}, "copies: no row although the plan has copiers"),
        (COPIERS, COMPLETE, {"audit": 0}, "audit: no row although the plan has readers of copies"),
        (COPIERS, {"copies": {"complete": False, "reason": "no leader"}}, {}, "not read to its end: no leader"),
        (COPIERS, {}, {}, "not read to its end: it is not recorded"),
        ({}, {"producers": [{"high_seq": 99}]}, {}, "send: 10 rows, but 100 records were handed"),
        ({}, {"producers": [{"high_seq": 9}]}, {}, ""),
        ({}, {"final_read": {"records": 12, "foreign": 1}}, {}, "log: 10 rows, but the final read saw 11"),
        ({}, {"final_read": {"records": 12, "foreign": 2}}, {}, ""),
    ],
)
def test_streams_are_held_against_the_plan_and_rows_against_other_counts(
    workload: dict[str, Any], outcome: dict[str, Any], rows: dict[str, int], text: str
) -> None:
    cell = make_cell(cell_id="c", document={"workload": workload, "outcome": outcome})
    missing = missing_evidence(cell, CellFiles(rows={**ROWS, **rows}), Counts(sent_total=10, log_total=10))
    assert bool(missing) == bool(text)
    assert text in str(missing)


def test_without_batches_a_cell_is_no_pass_and_what_is_seen_in_its_records_is_still_a_fail() -> None:
    no_batches, no_sends = hole_of_file("batches: no row"), hole_of_file("send: no row")
    assert judge(replace(clean_facts(), holes=(no_batches,))).result == INCONCLUSIVE
    one = {"phantom": IdentitySet(count=1)}
    assert judge(replace(clean_facts(observed=one), holes=(no_batches,))).result == FAIL
    assert judge(replace(clean_facts(observed=one), holes=(no_sends,))).result == INCONCLUSIVE
