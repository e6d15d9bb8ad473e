"""summary.md: the verdict table as Markdown, for terminals and job summaries."""

from __future__ import annotations

from reports.figures.cell import CellFigures
from reports.figures.damage import KindOfDamage
from reports.figures.figures import Figures
from reports.judge.verdict import FAIL, INCONCLUSIVE, PASS
from reports.render.junit import reproduction
from reports.render.plain import fenced, markdown
from reports.render.words import SIGNS


def summary(figures: Figures) -> str:
    run = figures.run
    lines = [f"# {run.verdict}: run {markdown(run.name)}", ""]
    lines += [f"- {markdown(note)}" for note in (*run.problems, *run.notes)]
    lines += ["| cell | verdict | rec/s | p99 ms | lost | dup | reordered | gap s | why |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|---:|---|"]
    for cell in figures.cells:
        p99_us = cell.latency["corrected"].quantiles.get("p99")
        columns = [
            markdown(cell.title),
            f"{SIGNS[cell.verdict.result]} {cell.verdict.result}",
            f"{cell.throughput_records_per_s:,.0f}",
            f"{p99_us / 1000:.1f}" if p99_us is not None else "–",
            *(_with_prediction(cell.damage[kind]) for kind in ("lost", "duplicated", "reordered")),
            f"{cell.gap_s:.2f}" if cell.gap_s is not None else "–",
            markdown(_why(cell)),
        ]
        lines.append(f"| {' | '.join(columns)} |")
    for cell in figures.cells:
        lines += _details(cell)
    lines += ["", f"<!-- analysis {run.analysis_id} -->"] if run.analysis_id else []
    return "\n".join(lines) + "\n"


def _details(cell: CellFigures) -> list[str]:
    """What a reader of the job summary needs to go on: each reason, each allowance, the command for this cell."""
    allowed = [f"- {markdown(check.name)}: {markdown(check.allowed)}" for check in cell.verdict.checks if check.allowed]
    if cell.verdict.result == PASS:
        return ["", f"**{markdown(cell.id)}**", *allowed] if allowed else []
    reasons = [
        f"- {markdown(check.name)}: {markdown(check.reason)}"
        for check in cell.verdict.checks
        if check.result in (FAIL, INCONCLUSIVE)
    ]
    again = [
        "",
        *fenced([f"# {reproduction(cell).partition(';')[0]}", reproduction(cell).partition("again by: ")[2]]),
    ]
    return ["", f"### {markdown(cell.id)}: {cell.verdict.result}", "", *reasons, *allowed, *again]


def _with_prediction(damage: KindOfDamage) -> str:
    if damage.observed is None:
        return "–"
    if damage.allowed:
        return f"{damage.observed} (allowed)" if damage.observed else "0"
    is_told = damage.predicted or damage.observed
    return f"{damage.observed} of {damage.predicted} predicted" if is_told else "0"


def _why(cell: CellFigures) -> str:
    return "; ".join(cell.verdict.reasons[:2]) if cell.verdict.result != PASS else ""
