"""What changes how a run is read is in summary.md, on the terminal and in verdicts.json; summary.md renders."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from harness.run.report.reporting import print_verdicts, reading_lines
from reports.figures.client_properties import client_properties
from reports.figures.figures import Figures, figures_of
from reports.figures.reading import reading_of
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.cell import Run
from reports.render.markdown import summary
from reports.render.page import render
from reports.render.plain import markdown
from reports.render.verdicts_json import verdicts_record
from tests.reports.cells import changed, document_of, make_run, stats_of
from tests.reports.overview_runs import every_kind
from tests.reports.sweep_facts import cell_facts, judged
from tests.reports.test_reports_sweep import host_line
from tests.reports.test_reports_verdict import facts


def swept() -> Figures:
    """Four repetitions of two values; the first cell was disturbed."""
    cells = []
    for round_number in range(1, 5):
        for value, p99_us in (("0", 5e3), ("50", 60e3)):
            one = cell_facts({"linger.ms": value}, p99_us=p99_us * (1 + round_number / 100), repetition=round_number)
            properties = {"acks": "all", "batch.size": "16384", "linger.ms": value}
            topic = {"replication_factor": 3, "config": {"min.insync.replicas": "2"}}
            document = {**document_of(one.cell), "properties": properties, "topic": topic}
            stats = (*stats_of(one.cell), *(host_line(t, 0.4) for t in range(0, 9_000_000, 500_000) if not cells))
            cells.append(replace(one, cell=changed(one.cell, document=document, stats=stats)))
    items = judged(cells)
    return figures_of(make_run("r", cells=tuple(item.facts.cell for item in items), manifest={"run_id": "r"}), items)


def test_the_summary_has_what_to_run_and_what_to_doubt() -> None:
    figures = swept()
    reading = reading_of(figures)
    assert reading.recommendation, "the run is one that recommends"
    assert any("disturbed by the host" in warning for warning in reading.warnings)
    text = summary(figures)
    assert "## What to run\n\n" in text
    assert "```\nacks=all\nbatch.size=16384\nlinger.ms=0\n" in text, "complete: not only what was varied"
    assert "\n# measured on a topic with\n#   replication.factor=3\n#   min.insync.replicas=2\n" in text
    assert "## Before you read a figure\n\n- " in text


@pytest.mark.parametrize("kind", ["sweep", "faults"])
def test_the_summary_says_what_ran_where_and_what_others_took_of_the_host(kind: str) -> None:
    """In CI it is all that most people read. It named no client, no cluster and no busy host."""
    figures = swept() if kind == "sweep" else figures_of(*_faults_on_a_busy_host())
    head = figures.overview.head
    text = summary(figures)
    for told in (head.cells, head.records, head.cluster, head.client, head.host.text):
        assert markdown(told) in text.split("##")[0]
    assert "disturbed" in head.host.text
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| cell ")]
    shown = [suite.cell for suite in figures.suites.cells]
    assert len(rows) == len(shown)
    for row, cell in zip(rows, shown, strict=True):
        assert ("⚠ disturbed" in row) is bool(cell.disturbed)
    assert any(cell.disturbed for cell in shown)


def _faults_on_a_busy_host() -> tuple[Run, list[Judged]]:
    own = facts()
    busy = replace(own, cell=changed(own.cell, stats=tuple(host_line(t, 0.6) for t in range(0, 5_000_000, 500_000))))
    items = [Judged(facts=one, verdict=judge(one)) for one in (busy,)]
    return make_run("r", cells=(busy.cell,), manifest={"run_id": "r"}), items


def test_the_terminal_and_the_summary_say_what_was_damaged_and_why_and_what_kept_every_record() -> None:
    figures = every_kind()["faults"]
    told = reading_of(figures).damage
    rows = figures.overview.damage.rows
    struck = [(row.fault, cell) for row in rows for cell in (*row.permits, *row.does_not) if cell.is_damaged]
    assert struck, "the run is one with damage"
    for fault, cell in struck:
        (line,) = [text for text in told if text.startswith(f"{fault}, {cell.setting}: ")]
        assert cell.findings[0].text in line
        assert line.endswith(cell.why)
    assert "under these faults nothing lost with acks=all, min ISR 2" in told
    lines = reading_lines(verdicts_record(figures).reading)
    assert lines[: len(told) + 1] == ["what was damaged:", *(f"  - {text}" for text in told)]
    text = summary(figures)
    assert "## What was damaged\n\n" in text
    for one in told:
        assert text.count(markdown(one)) == 1


@pytest.mark.parametrize("note", [(), ("an odd line was left out",)])
def test_every_table_list_and_block_has_a_blank_line_before_it(note: tuple[str, ...]) -> None:
    """Without one a table is a part of the paragraph or the list above it."""
    bad = facts(complete=False)
    run = replace(make_run("r", manifest={"run_id": "r"}), notes=note)
    for figures in (swept(), figures_of(run, [Judged(facts=bad, verdict=judge(bad))])):
        kinds = [_kind(line) for line in summary(figures).splitlines()]
        fenced = False
        for before, own in itertools.pairwise(kinds):
            if not fenced and own and before and own != before:
                raise AssertionError(f"{before} runs into {own}:\n{summary(figures)}")
            fenced ^= own == "fence"


def _kind(line: str) -> str:
    for start, kind in (("|", "table"), ("- ", "list"), ("```", "fence"), ("#", "heading")):
        if line.startswith(start):
            return kind
    return "text" if line.strip() else ""


def test_the_terminal_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    figures = swept()
    print_verdicts(verdicts_record(figures), Path("/r/report.html"))
    out = capsys.readouterr().out
    assert "before you read a figure:\n  - " in out
    assert "what to run:\n  " in out
    assert "\n    acks=all\n    batch.size=16384\n    linger.ms=0\n" in out
    assert out.endswith("/r/report.html\n"), "the last line is the path alone"


@pytest.mark.parametrize("cells", [1, 5])
def test_the_terminal_tells_a_problem_once(cells: int, capsys: pytest.CaptureFixture[str]) -> None:
    """In the line of the cell, or of the run, that it concerns, and not among the doubts as well."""
    bad = facts(complete=False)
    items = [
        Judged(facts=one, verdict=judge(one))
        for one in (replace(bad, cell=changed(bad.cell, cell_id=f"c{number}")) for number in range(cells))
    ]
    run = replace(make_run("r", manifest={"run_id": "r"}), problems=("it did not come to its end",))
    figures = figures_of(run, items)
    assert "## Before you read a figure\n\n- it did not come to its end" in summary(figures)
    print_verdicts(verdicts_record(figures), Path("/r/report.html"))
    out = capsys.readouterr().out
    assert out.count("it did not come to its end") == 1
    assert out.count(items[0].verdict.reasons[0]) == cells, "once for each cell"
    assert "more cells are inconclusive" not in out, "each has a line"


def test_disturbed_cells_without_a_sweep_are_told_where_their_speed_counts() -> None:
    def warnings(kind: str) -> tuple[str, ...]:
        one = cell_facts({"acks": "all"}, p99_us=9_000, kind=kind)
        taken = replace(one, cell=changed(one.cell, stats=(host_line(1_000, 0.5),)))
        return reading_of(figures_of(make_run("r"), judged([taken]))).warnings

    warning, *_ = warnings("sweep")
    assert warning.startswith("1 of 1 cells were disturbed by the host")
    assert not any("disturbed" in text for text in warnings("chaos")), "a busy host damages no record"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["once", "doubtful", "none", "faults"])
def test_the_page_the_summary_and_the_terminal_doubt_the_same_things(kind: str) -> None:
    figures = every_kind()[kind]
    doubts = [doubt.text for doubt in figures.overview.doubts]
    assert [*reading_of(figures).warnings] == doubts
    told = summary(figures).partition("## Before you read a figure\n\n")[2].partition("\n\n")[0].splitlines()
    lines = reading_lines(verdicts_record(figures).reading)
    start = lines.index("before you read a figure:") + 1 if doubts else 0
    assert told == [f"- {markdown(text)}" for text in doubts]
    shown = [f"  - {text}" for text in doubts[:6]] + (
        [f"  - {len(doubts) - 6} more are in the report"] * (len(doubts) > 6)
    )
    assert lines[start : start + len(shown)] == shown
    for text in doubts:
        assert summary(figures).count(markdown(text)) == 1, "once, and not in a list of its own as well"
    words = f"{len(doubts)} thing{'s' if len(doubts) != 1 else ''}" if doubts else "nothing that this run can see"
    assert f"What is wrong with these figures: {words}</h2>" in render(figures)


def test_properties_are_those_of_a_java_file() -> None:
    one = facts()
    document = {"properties": {"b": " led by a space\n", "a": "C:\\x"}}
    item = Judged(facts=replace(one, cell=changed(one.cell, document=document)), verdict=judge(one))
    assert client_properties(item) == "a=C:\\\\x\nb=\\ led by a space\\n"
