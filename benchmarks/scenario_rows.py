"""What finished chaos runs showed, a row for each cell, kept in `benchmarks/results/scenario-runs.jsonl`.

Shown by tests/benchmarks/test_benchmarks_scenario_results.py.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.model import builtin_scenarios, load_builtin
from harness.errors import UsageError
from workloads.clients.process.versions.names import SEPARATOR

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "benchmarks" / "results" / "scenario-runs.jsonl"
DAMAGES = ("lost", "lost_unacked", "duplicated", "reordered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One chaos cell of one run. `damage` counts records; `reason` is that of the first check that did not pass."""

    started: str
    commit: str
    cluster: str
    client: str  # as it was named, with == and a version if it was named with one
    client_version: str  # of its library; empty: not known
    scenario: str
    case: str
    cell_id: str
    verdict: str
    reason: str
    damage: Mapping[str, int]

    @property
    def key(self) -> tuple[str, str]:
        return self.started, self.cell_id


def rows_of(run_dir: Path) -> list[Row]:
    """The chaos cells of a run that has been analysed; UsageError when it has not."""
    path = run_dir / "results" / "verdicts.json"
    if not path.is_file():
        raise UsageError(f"{run_dir}: no results/verdicts.json; `harness report {run_dir}` makes it")
    document = json.loads(path.read_text(encoding="utf-8"))
    run = document["run"]
    return [_row(run, cell, run_dir) for cell in document["cells"] if cell["kind"] == "chaos"]


def _row(run: Mapping[str, object], cell: Mapping[str, object], run_dir: Path) -> Row:
    versions = run["versions"]
    assert isinstance(versions, Mapping)
    checks = cell["checks"]
    assert isinstance(checks, list)
    client = str(cell["client"])
    damage = {**_mapping(cell.get("anomalies")), **cell}
    names = {"confluent": "confluent-kafka", "kafka_python": "kafka-python"}
    return Row(
        started=str(run["t0_wall"]),
        commit=str(versions.get("commit", "")),
        cluster=str(run["engine"]),
        client=client,
        client_version=(
            client.partition(SEPARATOR)[2]
            or str(versions.get(names.get(client, client), ""))
            or _version_told(run_dir / "cells" / str(cell["cell_id"]) / "cell.json")
        ),
        scenario=str(cell["scenario"]),
        case=str(cell["case"]),
        cell_id=str(cell["cell_id"]),
        verdict=str(cell["verdict"]),
        reason=next((str(check["reason"]) for check in checks if check["result"] != "pass"), ""),
        damage={name: int(str(damage.get(name) or 0)) for name in DAMAGES},
    )


def _version_told(path: Path) -> str:
    """What the client itself said, for example 1.22.2 of `franz-go v1.22.2`."""
    if not path.is_file():
        return ""
    outcome = _mapping(json.loads(path.read_text(encoding="utf-8")).get("outcome"))
    told = str(_mapping(_mapping(outcome.get("effective")).get("client")).get("client.library", ""))
    found = re.match(r"\S+ v?(\d[^\s,]*)", told)
    return found[1] if found else ""


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def read_kept(path: Path = KEPT) -> list[Row]:
    if not path.is_file():
        return []
    return [Row(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line]


def add(known: Sequence[Row], new: Iterable[Row]) -> list[Row]:
    """All rows by start time; a row of the same run and cell replaces the older one."""
    merged = {row.key: row for row in known} | {row.key: row for row in new}
    return sorted(merged.values(), key=lambda row: (row.started, row.cell_id))


def cases_of(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """In the catalogue's order first, then whatever else was run, each case once."""
    known = [load_builtin(name) for name in builtin_scenarios()]
    catalogue = [
        (scenario.name, case)
        for scenario in sorted(known, key=lambda scenario: (scenario.tags[:1] or ["~"], scenario.name))
        for case in scenario.cases
    ]
    return list(dict.fromkeys(catalogue + [(row.scenario, row.case) for row in rows]))


def result_of(rows: Sequence[Row]) -> str:
    """How many passed, and what they lost, duplicated and reordered."""
    if not rows:
        return "–"
    verdicts = Counter(row.verdict for row in rows)
    counts = f"{verdicts['pass']} of {len(rows)}"
    others = [f"{verdicts[name]} {name}" for name in ("fail", "inconclusive") if verdicts[name]]
    return ", ".join([counts, *others, *damage_of(rows, "pass")])


def damage_of(rows: Sequence[Row], verdict: str) -> list[str]:
    """The least and the most of each kind, over the rows with that verdict."""
    seen: list[str] = []
    for name in DAMAGES:
        counts = [row.damage.get(name, 0) for row in rows if row.verdict == verdict]  # older rows have three kinds
        least, most = min(counts, default=0), max(counts, default=0)
        if most:
            what = name.replace("_unacked", " without a promise")
            seen.append(f"{what} {least:,}" if least == most else f"{what} {least:,}–{most:,}")
    return seen
