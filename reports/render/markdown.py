"""summary.md: the verdict, what ran where, the doubts, what to run and the table of cells, for job summaries.

A blank line stands before each list, table and block: without it a table does not render. Shown by
tests/reports/test_reports_reading.py.
"""

from __future__ import annotations

import math
from typing import Final

from reports.figures.cell import CellFigures
from reports.figures.damage import KindOfDamage
from reports.figures.figures import Figures
from reports.figures.overview.head import Head
from reports.figures.reading import reading_of
from reports.figures.suites import CellSuite
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, Check
from reports.judge.run_limits import RunLimit
from reports.read.model import CORRECTED
from reports.render.junit import reproduction
from reports.render.plain import fenced, markdown
from reports.render.words import NOT_REACHED, SIGNS
from runlog.records.verdicts import LimitTally, Reading

_WARNINGS_SHOWN: Final = 8  # the report has them all
Block = list[str]  # A block is a list of lines. Blank lines set blocks apart.


def summary(figures: Figures) -> str:
    run, reading = figures.run, reading_of(figures)
    blocks: list[Block] = [
        [f"# {run.verdict}: run {markdown(run.name)}"],
        *_head(figures.overview.head),
        *([["## What was damaged"], _list([*reading.damage])] if reading.damage else []),
        *_warnings(reading),
        *([["## What safety costs"], _list([*reading.safety_cost])] if reading.safety_cost else []),
        *([["## Highest rate"], [markdown(reading.highest_rate)]] if reading.highest_rate else []),
        *_recommendation(reading),
        *_limits(reading.limits),
        *_run_limits(run.limits),
        _table(figures.suites.cells),
    ]
    for cell in figures.cells:
        blocks += _details(cell)
    blocks.append([f"<!-- analysis {run.analysis_id} -->"] if run.analysis_id else [])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _head(head: Head) -> list[Block]:
    """The head of the page: which cells, on which cluster, with which client, and what others took of the host."""
    return [
        [markdown(f"{head.cells}, {head.records}.")],
        [markdown(f"{head.cluster}; {head.client}; {head.host.text}")],
    ]


def _list(texts: list[str]) -> Block:
    return [f"- {markdown(text)}" for text in texts]


def _recommendation(reading: Reading) -> list[Block]:
    if not reading.recommendation:
        return []
    properties = [fenced(reading.properties.split("\n"))] if reading.properties else []
    return [["## What to run"], [markdown(" ".join(reading.recommendation))], *properties]


def _warnings(reading: Reading) -> list[Block]:
    if not reading.warnings:
        return []
    more = len(reading.warnings) - _WARNINGS_SHOWN
    shown = [*reading.warnings[:_WARNINGS_SHOWN], *([f"{more} more are in the report"] if more > 0 else [])]
    return [["## Before you read a figure"], _list(shown)]


def _limits(limits: tuple[LimitTally, ...]) -> list[Block]:
    if not limits:
        return []
    rows = ["| limit | held | broken | undecided |", "|---|---:|---:|---:|"]
    rows += [f"| {markdown(one.limit)} | {one.held} | {one.broken} | {one.undecided} |" for one in limits]
    return [["## Limits"], rows]


def _run_limits(limits: tuple[RunLimit, ...]) -> list[Block]:
    """Limits of the run that are broken or undecided, each with its reason. Limits of cells are shown with the
    cells."""
    told = [f"{one.subject}: {one.check.allowed or one.check.reason}" for one in limits if _is_worth_telling(one)]
    return [_list(told)] if told else []


def _is_worth_telling(one: RunLimit) -> bool:
    return one.check.result != PASS or bool(one.check.allowed)


def _table(suites: tuple[CellSuite, ...]) -> Block:
    """A configuration's cell at the ceiling has no row of its own: its figure stands in that of the other cell."""
    has_capacity = any(suite.cell.capacity_records_per_s is not None for suite in suites)
    heading, rule = (" capacity |", "---:|") if has_capacity else ("", "")
    lines = [f"| cell | verdict | rec/s |{heading} p99 ms | lost | dup | reordered | gap s | why |"]
    lines += [f"|---|---|---:|{rule}---:|---:|---:|---:|---:|---|"]
    for suite in suites:
        cell = suite.cell
        if cell.kind == "ceiling" and cell.verdict.result == PASS:
            continue
        p99_us = cell.latency[CORRECTED].us_of("p99")
        columns = [
            f"{markdown(suite.name)}{' ⚠ disturbed' if cell.disturbed else ''}",
            f"{SIGNS[cell.verdict.result]} {cell.verdict.result}",
            f"{cell.throughput_records_per_s:,.0f}",
            *([_capacity(cell)] if has_capacity else []),
            _milliseconds(p99_us),
            *(_with_prediction(cell.damage[kind]) for kind in ("lost", "duplicated", "reordered")),
            cell.gap_text or "–",
            markdown(_why(cell)),
        ]
        lines.append(f"| {' | '.join(columns)} |")
    return lines


def _milliseconds(us: float | None) -> str:
    if us is None:
        return "–"
    return f"{us / 1000:.1f}" if math.isfinite(us) else NOT_REACHED


def _capacity(cell: CellFigures) -> str:
    return "–" if cell.capacity_records_per_s is None else f"{cell.capacity_records_per_s:,.0f}"


def _details(cell: CellFigures) -> list[Block]:
    """What a reader of the job summary needs to go on: each reason, each allowance, the command for this cell."""
    allowed = [f"- {markdown(check.name)}: {markdown(check.allowed)}" for check in cell.verdict.checks if check.allowed]
    doubts = [
        check for check in cell.verdict.checks if check.result in (FAIL, INCONCLUSIVE) and not check.is_under_hole
    ]
    reasons = [_reason(check) for check in doubts]
    holes = dict.fromkeys(hole.text() for hole in cell.verdict.holes)
    beside = [f"- evidence is missing: {markdown(hole)}" for hole in holes if hole not in "; ".join(reasons)] + allowed
    if cell.verdict.result == PASS:
        return [[f"**{markdown(cell.id)}**"], beside] if beside else []
    seed, _, command = reproduction(cell).partition("; again by: ")
    again = fenced([f"# {seed}", command])
    return [
        [f"### {markdown(cell.id)}: {cell.verdict.result}"],
        [*(f"- {markdown(reason)}" for reason in reasons), *beside],
        again,
    ]


def _reason(check: Check) -> str:
    """Some reasons begin with the name already."""
    return check.reason if check.reason.startswith(check.name) else f"{check.name}: {check.reason}"


def _with_prediction(damage: KindOfDamage) -> str:
    if damage.observed is None:
        return "–"
    if damage.allowed:
        return f"{damage.observed} (allowed)" if damage.observed else "0"
    is_told = damage.predicted or damage.observed
    return f"{damage.observed} of {damage.predicted} predicted" if is_told else "0"


def _why(cell: CellFigures) -> str:
    return "; ".join(cell.verdict.reasons[:2]) if cell.verdict.result != PASS else ""
