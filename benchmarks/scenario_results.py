"""The result of each scenario, by client and cluster: writes docs/reference/scenario-results.md from finished runs.

`python -m benchmarks.scenario_results RUN_DIR…` adds the chaos cells of those runs to
`benchmarks/results/scenario-runs.jsonl`, one row for each cell, and writes the page anew from all rows. Without RUN_DIR
it only writes the page. A run is identified by its start time, so adding it twice changes nothing.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from chaos.model import builtin_scenarios, load_builtin
from harness.errors import UsageError

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "benchmarks" / "results" / "scenario-runs.jsonl"
PAGE = ROOT / "docs" / "reference" / "scenario-results.md"
DAMAGES = ("lost", "lost_unacked", "duplicated", "reordered")

_HEAD = """# Scenario results

Written by `python -m benchmarks.scenario_results RUN_DIR…` from the verdicts of finished runs
(`harness chaos … --cluster … --client …`), which are kept in `benchmarks/results/scenario-runs.jsonl`.
What each scenario does and what is expected: [scenarios.md](scenarios.md). Bugs of clients that runs showed:
[found.md](../guide/found.md).

A cell says how many runs passed, that is, how many showed exactly the damage that was expected and predicted, and the
damage that was seen (the least and the most of all runs). "Lost without a promise" are records of acks=0, of which no
client was told that they arrived. A dash: not run, or not applicable.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One chaos cell of one run. `damage` counts records; `reason` is that of the first check that did not pass."""

    started: str
    commit: str
    cluster: str
    client: str
    client_version: str
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
    return [_row(run, cell) for cell in document["cells"] if cell["kind"] == "chaos"]


def _row(run: Mapping[str, object], cell: Mapping[str, object]) -> Row:
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
        client_version=str(versions.get(names.get(client, client), "")),
        scenario=str(cell["scenario"]),
        case=str(cell["case"]),
        cell_id=str(cell["cell_id"]),
        verdict=str(cell["verdict"]),
        reason=next((str(check["reason"]) for check in checks if check["result"] != "pass"), ""),
        damage={name: int(str(damage.get(name) or 0)) for name in DAMAGES},
    )


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


def render(rows: Sequence[Row]) -> str:
    places = sorted({(row.cluster, row.client) for row in rows}, key=lambda place: (place[0] != "reference", place))
    by_cell: defaultdict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_cell[row.scenario, row.case, row.cluster, row.client].append(row)
    heads = [f"{'Apache Kafka' if cluster == 'kafka' else cluster}, {client}" for cluster, client in places]
    lines = [_HEAD, f"| scenario | case | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for scenario, case in _cases(rows):
        cells = [_cell(by_cell[scenario, case, *place]) for place in places]
        lines.append(f"| [{scenario}](scenarios.md#{scenario}) | {case} | {' | '.join(cells)} |")
    odd = [row for row in rows if row.verdict != "pass"]
    lines += ["", "## Runs that did not pass", ""]
    lines += [
        f"- {row.started[:16].replace('T', ' ')}, {row.scenario} {row.case}, {row.cluster} with {row.client}"
        f" ({f'commit {row.commit}' if row.commit else 'not from a commit'}): **{row.verdict}**, {row.reason}"
        for row in odd
    ] or ["None."]
    return "\n".join(lines) + "\n"


def _cases(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """In the catalogue's order first, then whatever else was run, each case once."""
    known = [load_builtin(name) for name in builtin_scenarios()]
    catalogue = [
        (scenario.name, case)
        for scenario in sorted(known, key=lambda scenario: (scenario.tags[:1] or ["~"], scenario.name))
        for case in scenario.cases
    ]
    return list(dict.fromkeys(catalogue + [(row.scenario, row.case) for row in rows]))


def _cell(rows: Sequence[Row]) -> str:
    if not rows:
        return "–"
    verdicts = Counter(row.verdict for row in rows)
    counts = f"{verdicts['pass']} of {len(rows)}"
    others = [f"{verdicts[name]} {name}" for name in ("fail", "inconclusive") if verdicts[name]]
    return ", ".join([counts, *others, *_damage(rows)])


def _damage(rows: Sequence[Row]) -> list[str]:
    seen: list[str] = []
    for name in DAMAGES:
        counts = [row.damage.get(name, 0) for row in rows if row.verdict == "pass"]  # older rows have three kinds
        least, most = min(counts, default=0), max(counts, default=0)
        if most:
            what = name.replace("_unacked", " without a promise")
            seen.append(f"{what} {least:,}" if least == most else f"{what} {least:,}–{most:,}")
    return seen


def main(arguments: Sequence[str]) -> int:
    try:
        new = [row for name in arguments for row in rows_of(Path(name))]
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    rows = add(read_kept(), new)
    KEPT.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows), encoding="utf-8")
    PAGE.write_text(render(rows), encoding="utf-8")
    print(f"{len(new)} cells added, {len(rows)} in all: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
