"""The result of each scenario, by client and cluster: writes docs/reference/scenario-results.md from finished runs.

`python -m benchmarks.scenario_results RUN_DIR…` keeps the chaos cells of those runs (scenario_rows.py), and writes this
page and that of client_damage.py anew from all that are kept. Without RUN_DIR it only writes the pages. A run is
identified by its start time, so adding it twice changes nothing.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks import client_damage
from benchmarks.scenario_rows import KEPT, ROOT, Row, add, cases_of, read_kept, result_of, rows_of
from harness.errors import UsageError
from workloads.clients.process.versions.names import SEPARATOR

PAGE: Final = ROOT / "docs" / "reference" / "scenario-results.md"

_HEAD = """# Scenario results

Written by `python -m benchmarks.scenario_results RUN_DIR…` from the verdicts of finished runs
(`harness chaos … --cluster … --client …`), which are kept in `benchmarks/results/scenario-runs.jsonl`.
What each scenario does and what is expected: [scenarios.md](scenarios.md). Bugs of clients that runs showed:
[found.md](../guide/found.md).

A cell says how many runs passed, that is, how many showed exactly the damage that was expected and predicted, and the
damage that was seen (the least and the most of all runs). "Lost without a promise" are records of acks=0, of which no
client was told that they arrived. A dash: not run, or not applicable.
"""


def render(rows: Sequence[Row]) -> str:
    """Of the clients that are built in."""
    rows = [row for row in rows if SEPARATOR not in row.client]
    places = sorted({(row.cluster, row.client) for row in rows}, key=lambda place: (place[0] != "reference", place))
    by_cell: defaultdict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_cell[row.scenario, row.case, row.cluster, row.client].append(row)
    heads = [f"{'Apache Kafka' if cluster == 'kafka' else cluster}, {client}" for cluster, client in places]
    lines = [_HEAD, f"| scenario | case | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for scenario, case in cases_of(rows):
        cells = [result_of(by_cell[scenario, case, *place]) for place in places]
        lines.append(f"| [{scenario}](scenarios.md#{scenario}) | {case} | {' | '.join(cells)} |")
    odd = [row for row in rows if row.verdict != "pass"]
    lines += ["", "## Runs that did not pass", ""]
    lines += [
        f"- {row.started[:16].replace('T', ' ')}, {row.scenario} {row.case}, {row.cluster} with {row.client}"
        f" ({f'commit {row.commit}' if row.commit else 'not from a commit'}): **{row.verdict}**, {row.reason}"
        for row in odd
    ] or ["None."]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    try:
        new = [row for name in arguments for row in rows_of(Path(name))]
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    rows = add(read_kept(), new)
    KEPT.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows), encoding="utf-8")
    PAGE.write_text(render(rows), encoding="utf-8")
    client_damage.PAGE.write_text(client_damage.render(rows), encoding="utf-8")
    print(f"{len(new)} cells added, {len(rows)} in all: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
