"""Machine-readable results: verdicts.json, CSV tables, junit.xml, summary.md. Writes only into the run directory."""

from __future__ import annotations

import csv
import json
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import pandas as pd

from reports.anomalies import BY_NAME
from reports.asked import achieved_ratio
from reports.model import QUANTILES, CellFacts, Json, Run
from reports.plain import csv_cell, fenced, markdown
from reports.results_schema import VERDICTS_VERSION
from reports.verdict import (
    ANY,
    EXIT_CODES,
    FAIL,
    INCONCLUSIVE,
    PASS,
    Verdict,
    expectation,
    is_any_allowed,
    worst,
)
from runlog.strangers import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    facts: CellFacts
    verdict: Verdict


def overall(judged: Sequence[Judged], problems: Sequence[str] = ()) -> str:
    """Of the cells and of the run as a whole: what is wrong with that keeps it from being a pass."""
    return worst([*(item.verdict.result for item in judged), *(INCONCLUSIVE for _ in problems)])


def exit_code(judged: Sequence[Judged], problems: Sequence[str] = ()) -> int:
    return EXIT_CODES[overall(judged, problems)]


def cell_result(item: Judged) -> Json:
    """The cell's entry in verdicts.json."""
    facts, verdict = item.facts, item.verdict
    ratio = achieved_ratio(facts)
    return {
        "cell_id": facts.cell.cell_id,
        "title": facts.cell.title,
        "kind": facts.cell.kind,
        "client": facts.cell.text("client"),
        "scenario": facts.cell.document.get("scenario"),
        "case": facts.cell.document.get("case"),
        "verdict": verdict.result,
        "reasons": verdict.reasons,
        "notes": list(verdict.notes),
        "checks": [{"name": c.name, "result": c.result, "reason": c.reason} for c in verdict.checks],
        "throughput_records_per_s": facts.throughput_records_per_s,
        "throughput_interval": list(facts.throughput_interval) if facts.throughput_interval else None,
        "throughput_basis": facts.throughput_basis,
        "achieved_ratio": round(ratio, 4) if ratio is not None else None,
        "latency_us": {kind: latency.as_json() for kind, latency in facts.latency.items()},
        "sent": facts.counts.sent_total,
        "acked": facts.counts.acked_total,
        "failed": facts.counts.failed_total,
        "unknown": facts.counts.unknown_total,
        "in_window": {
            "sent": facts.counts.sent,
            "acked": facts.counts.acked,
            "failed": facts.counts.failed,
            "unknown": facts.counts.unknown,
        },
        "in_log": facts.counts.log_total,
        "received": facts.counts.received_total,
        "lost": facts.lost,
        "duplicated": facts.set_count("duplicated"),
        "reordered": facts.set_count("reordered"),
        "recovered": facts.set_count("recovered"),
        "unexpected": facts.set_count("unexpected"),
        "corrupt": facts.set_count("corrupt"),
        "dup_delivered": facts.set_count("dup_delivered"),
        "anomalies": {name: facts.anomaly_count(name) for name in BY_NAME if facts.anomaly_count(name)},
        "recovery": asdict(facts.recovery) if facts.recovery else None,
        "observed_sets": {kind: identities.as_json() for kind, identities in facts.observed.items()},
        "gap_ms": round(facts.gap_us / 1000, 1) if facts.gap_us is not None else None,
        "predicted": {
            kind: {"expected": expectation(facts, kind), **comparison.as_json()}
            for kind, comparison in facts.predictions.items()
        },
        "records_per_batch": facts.records_per_batch,
        "compression_ratio": facts.compression_ratio,
        "batches": facts.batches,
        "log_bytes": facts.log_bytes,
    }


def write_results(run: Run, judged: Sequence[Judged], *, into: Path | None = None) -> Json:
    """All machine-readable files, `into` a directory or the run's own; returns the document of verdicts.json."""
    directory = into or Path(run.directory)
    results = directory / "results"
    results.mkdir(parents=True, exist_ok=True)
    document: Json = {
        "schema_version": VERDICTS_VERSION,
        "analysis": {"id": run.analysis_id, "written_at": datetime.now().astimezone().isoformat(timespec="seconds")},
        "run": {
            "run_id": run.manifest.get("run_id"),
            "engine": run.manifest.get("engine"),
            "seed": run.manifest.get("seed"),
            "t0_wall": run.manifest.get("t0_wall"),
            "versions": run.manifest.get("versions"),
            "notes": list(run.notes),
            "problems": list(run.problems),
        },
        "cells": [cell_result(item) for item in judged],
        "verdict": overall(judged, run.problems),
        "exit_code": exit_code(judged, run.problems),
    }
    replace_text(results / "verdicts.json", json.dumps(document, indent=1, allow_nan=False) + "\n")
    _write_tables(results, judged)
    replace_text(directory / "junit.xml", junit(run, judged))
    replace_text(directory / "summary.md", summary(run, judged))
    return document


def replace_text(path: Path, text: str) -> None:
    """Appears whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(csv_cell(name) for name in header)
        writer.writerows([csv_cell(value) for value in row] for row in rows)
    os.replace(temporary, path)


def _write_tables(results: Path, judged: Sequence[Judged]) -> None:
    header = ["cell_id", "title", "kind", "verdict", "throughput_records_per_s", "throughput_low", "throughput_high"]
    header += [f"corrected_{name}_us" for name, _ in QUANTILES] + ["corrected_max_us", "corrected_n"]
    header += [f"uncorrected_{name}_us" for name, _ in QUANTILES] + [f"end_to_end_{name}_us" for name, _ in QUANTILES]
    header += ["lost", "duplicated", "reordered", "recovered", "unknown", "gap_ms", "records_per_batch", "compression"]
    write_csv(results / "cells.csv", header, (_cell_row(item) for item in judged))
    slots = [item.facts.slots.assign(cell_id=item.facts.cell.cell_id) for item in judged if len(item.facts.slots)]
    if slots:
        temporary = results / ".time.csv.tmp"
        pd.concat(slots, ignore_index=True).map(csv_cell).to_csv(temporary, index=False)
        os.replace(temporary, results / "time.csv")
    write_csv(
        results / "latency_curves.csv",
        ["cell_id", "kind", "quantile", "latency_us", "n"],
        (
            (item.facts.cell.cell_id, kind, quantile, round(value, 1), latency.n)
            for item in judged
            for kind, latency in item.facts.latency.items()
            for quantile, value in (
                *latency.curve,
                *(((latency.quantile_of_maximum, latency.max_us),) if latency.max_us is not None else ()),
            )
        ),
    )
    write_csv(
        results / "sets.csv",
        ["cell_id", "kind", "part", "producer", "incarnation", "first_seq", "last_seq"],
        (
            (item.facts.cell.cell_id, kind, part, r.producer, r.incarnation, r.first_seq, r.last_seq)
            for item in judged
            for kind, comparison in item.facts.predictions.items()
            for part in ("both", "only_predicted", "only_observed")
            for r in getattr(comparison, part).ranges
        ),
    )


def _cell_row(item: Judged) -> list[object]:
    facts = item.facts
    corrected, uncorrected = facts.latency["corrected"], facts.latency["uncorrected"]
    low, high = facts.throughput_interval or (None, None)
    row: list[object] = [facts.cell.cell_id, facts.cell.title, facts.cell.kind, item.verdict.result]
    row += [facts.throughput_records_per_s, low, high]
    row += [corrected.quantiles.get(name) for name, _ in QUANTILES] + [corrected.max_us, corrected.n]
    row += [uncorrected.quantiles.get(name) for name, _ in QUANTILES]
    row += [facts.latency["end_to_end"].quantiles.get(name) for name, _ in QUANTILES]
    row += [facts.lost, *(facts.set_count(kind) for kind in ("duplicated", "reordered", "recovered"))]
    row += [facts.counts.unknown_total, round(facts.gap_us / 1000, 1) if facts.gap_us is not None else None]
    return [*row, facts.records_per_batch, facts.compression_ratio]


def junit(run: Run, judged: Sequence[Judged]) -> str:
    """One test suite a cell, one case an invariant; inconclusive is an error, because a skip would look like a pass."""
    root = ElementTree.Element("testsuites", name=str(run.manifest.get("run_id") or "run"))
    if run.problems:
        suite = ElementTree.SubElement(
            root, "testsuite", name="run", tests=str(len(run.problems)), failures="0", errors=str(len(run.problems)),
            skipped="0",
        )  # fmt: skip
        for number, problem in enumerate(run.problems, start=1):
            case = ElementTree.SubElement(suite, "testcase", classname="run", name=f"run is whole ({number})")
            ElementTree.SubElement(case, "error", message=problem, type="inconclusive")
    for item in judged:
        checks = item.verdict.checks
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=item.facts.cell.cell_id,
            tests=str(len(checks)),
            failures=str(sum(check.result == FAIL for check in checks)),
            errors=str(sum(check.result == INCONCLUSIVE for check in checks)),
            skipped=str(sum(bool(check.allowed) for check in checks)),
        )
        again = reproduction(item)
        lenient = [f"{kind}: {ANY} expected" for kind in item.facts.predictions]
        for check in checks:
            case = ElementTree.SubElement(suite, "testcase", classname=item.facts.cell.cell_id, name=check.name)
            if check.result == FAIL:
                ElementTree.SubElement(case, "failure", message=check.reason).text = again
            elif check.result == INCONCLUSIVE:
                ElementTree.SubElement(case, "error", message=check.reason, type="inconclusive").text = again
            elif check.allowed:
                ElementTree.SubElement(case, "skipped", message=check.allowed)
            elif check.name in lenient:
                ElementTree.SubElement(case, "system-out").text = check.reason
    ElementTree.indent(root)
    mark = f"<!-- analysis {run.analysis_id} -->\n" if run.analysis_id else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{mark}'
        + clean_text(ElementTree.tostring(root, encoding="unicode"))
        + "\n"
    )


def reproduction(item: Judged) -> str:
    """Seed and command that carry out this cell alone, as it was."""
    document = item.facts.cell.document
    return f"seed {document.get('seed', 'unknown')}; again by: {document.get('command') or 'no command recorded'}"


_SIGNS = {PASS: "✓", FAIL: "✗", INCONCLUSIVE: "?"}


def summary(run: Run, judged: Sequence[Judged]) -> str:
    """The verdict table as Markdown, for terminals and job summaries."""
    title = markdown(run.manifest.get("run_id") or Path(run.directory).name)
    lines = [f"# {overall(judged, run.problems)}: run {title}", ""]
    lines += [f"- {markdown(note)}" for note in (*run.problems, *run.notes)]
    lines += ["| cell | verdict | rec/s | p99 ms | lost | dup | reordered | gap s | why |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|---:|---|"]
    for item in judged:
        facts = item.facts
        p99 = facts.latency["corrected"].quantiles.get("p99")
        cells = [
            markdown(facts.cell.title),
            f"{_SIGNS[item.verdict.result]} {item.verdict.result}",
            f"{facts.throughput_records_per_s:,.0f}",
            f"{p99 / 1000:.1f}" if p99 is not None else "–",
            *(_with_prediction(facts, kind) for kind in ("lost", "duplicated", "reordered")),
            f"{facts.gap_us / 1e6:.2f}" if facts.gap_us is not None else "–",
            markdown(_why(item)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    for item in judged:
        lines += _details(item)
    lines += ["", f"<!-- analysis {run.analysis_id} -->"] if run.analysis_id else []
    return "\n".join(lines) + "\n"


def _details(item: Judged) -> list[str]:
    """What a reader of the job summary needs to go on: each reason, each allowance, the command for this cell."""
    allowed = [f"- {markdown(check.name)}: {markdown(check.allowed)}" for check in item.verdict.checks if check.allowed]
    if item.verdict.result == PASS:
        return ["", f"**{markdown(item.facts.cell.cell_id)}**", *allowed] if allowed else []
    reasons = [
        f"- {markdown(check.name)}: {markdown(check.reason)}"
        for check in item.verdict.checks
        if check.result in (FAIL, INCONCLUSIVE)
    ]
    again = [
        "",
        *fenced([f"# {reproduction(item).partition(';')[0]}", reproduction(item).partition("again by: ")[2]]),
    ]
    return ["", f"### {markdown(item.facts.cell.cell_id)}: {item.verdict.result}", "", *reasons, *allowed, *again]


def _with_prediction(facts: CellFacts, kind: str) -> str:
    comparison = facts.predictions[kind]
    observed = comparison.observed.count
    if kind == "lost" and facts.lost is None:
        return "–"
    if is_any_allowed(facts, kind):
        return f"{observed} (allowed)" if observed else "0"
    return f"{observed} of {comparison.predicted.count} predicted" if comparison.predicted.count or observed else "0"


def _why(item: Judged) -> str:
    return "; ".join(item.verdict.reasons[:2]) if item.verdict.result != PASS else ""
