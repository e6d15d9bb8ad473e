"""Does the product call equal configurations different? It runs its whole path many times on equal configurations.

    python -m benchmarks.same [--check demo|equals] [--runs 10] [--minutes 60] [--directory DIR] [--again]

`demo` is the demo's sweep (ceilings, mixed rounds) with two more configurations that equal its baseline; `equals` is
four equal configurations in four rounds, with ceilings. Without --check both are made. Each run is the product as users
run it: `harness run`, with its own cluster and load, then the analysis with its page and recommendation. Then `harness
compare` compares every two runs of a check. Every difference that is named between equals is wrong. There may be as
many as the intervals permit. The busier the host, the better the test.

What is there already is not made again, so a check that was interrupted goes on where it was. --again analyses all runs
anew, with the code as it is now. Prints each claim and how often it was broken, writes results/<date>-same.json and
.md. Exit code: 1 if a claim is broken too often, 4 if there are too few trials to tell, else 0.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.claims import TRIALS_MIN, Claim
from benchmarks.same_claims import (
    Quietness,
    of_comparisons,
    of_pages,
    of_sweeps,
    quietness_of,
    results_of,
    unlike_hosts,
)
from benchmarks.same_runs import CHECKS, Check, analyse_all, compare_all, make_runs
from reports.render.publication import PAGE
from runlog.files.documents import read_json
from runlog.records.results import read_measurements

RESULTS: Final = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of one check. `results`: result of a comparison -> how many."""

    check: str
    about: str
    runs: int
    cells: int
    claims: tuple[Claim, ...]
    results: dict[str, int]
    unlike: int  # comparisons whose hosts were not alike: they decide nothing
    hosts: tuple[Quietness, ...]


def outcome_of(check: Check, runs: Sequence[Path]) -> Outcome:
    comparisons = compare_all(runs)
    cells = {run.name: read_measurements(run) for run in runs}
    return Outcome(
        check=check.name,
        about=check.about,
        runs=len(runs),
        cells=max(len(own) for own in cells.values()),
        claims=(
            of_pages([(run / PAGE).read_text() for run in runs]),
            *of_sweeps([read_json(run / "results" / "sweep.json") for run in runs]),
            *of_comparisons(comparisons),
        ),
        results=results_of(comparisons),
        unlike=unlike_hosts(comparisons),
        hosts=tuple(quietness_of(name, own) for name, own in cells.items()),
    )


def render(document: dict[str, Any], outcomes: Sequence[Outcome]) -> str:
    """The Markdown page. Pure."""
    lines = [
        "# Equals, called different",
        "",
        f"`{document['command']}`, {document['date']}, commit {document['commit']}, load average at the end: "
        f"{document['load']}. What is counted is wrong each time: benchmarks/same.py.",
        "",
        "A claim holds if its share is within three standard errors of the bound, which is what so many trials can "
        f"tell. Fewer than {TRIALS_MIN} trials cannot show that it holds. The interval is the exact binomial one "
        "(Clopper and Pearson). It takes trials as independent. Comparisons share runs, and figures of one run share "
        "a host, so they are fewer than they look, and the interval is too narrow.",
    ]
    for one in outcomes:
        lines += _section(one)
    return "\n".join(lines) + "\n"


def _section(own: Outcome) -> list[str]:
    results = ", ".join(f"{count} {name}" for name, count in own.results.items())
    return [
        "",
        f"## {own.check}: {own.runs} runs",
        "",
        f"Each is {own.about}: {own.cells} cells.",
        "",
        "| claim | broken | share, 95 % | may be | |",
        "|---|---|---|---|---|",
        *(
            f"| {one.text} | {one.count} of {one.total} | {_interval(one)} "
            f"| at most {one.at_most:.0%} | {one.outcome} |"
            for one in own.claims
        ),
        "",
        f"Results of the comparisons: {results}. In {own.unlike} of them others took unlike parts of the host, so that "
        "no figure decided.",
        "",
        "| run | other programs took | other guests took |",
        "|---|---|---|",
        *(f"| {one.run} | {_share(one.foreign)} | {_share(one.stolen)} |" for one in own.hosts),
    ]


def _interval(claim: Claim) -> str:
    low, high = claim.interval
    return "none was tried" if not claim.total else f"{claim.share:.1%} ({low:.1%} to {high:.1%})"


def _share(value: float | None) -> str:
    return "not recorded" if value is None else f"{value:.0%} of all cores"


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=RESULTS.parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _options(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Does the product call equals different?")
    parser.add_argument("--check", action="append", choices=[*CHECKS], help="this one alone; may be given twice")
    parser.add_argument("--runs", type=int, default=10, help="how many runs of each check")
    parser.add_argument("--minutes", type=float, default=120.0, help="after which no further run begins")
    parser.add_argument("--again", action="store_true", help="analyse all runs anew")
    parser.add_argument("--directory", type=Path, default=Path("runs/same"), help="where the runs are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args(given)


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _options(given)
    ends_s = time.monotonic() + 60 * options.minutes
    directory = options.directory.resolve()
    checks = [CHECKS[name] for name in options.check or CHECKS]
    runs = {check.name: make_runs(check, directory, runs=options.runs, ends_s=ends_s) for check in checks}
    few = [f"{name}: {len(own)}" for name, own in runs.items() if len(own) < 2]
    if few:
        print(f"finished runs of {', '.join(few)}, and 2 are the least to compare: call it again", file=sys.stderr)
        return 4
    analyse_all([run for own in runs.values() for run in own], again=options.again)
    outcomes = [outcome_of(check, runs[check.name]) for check in checks]
    _write(options.results, given, outcomes)
    claims = [claim for one in outcomes for claim in one.claims]
    for one in outcomes:
        for claim in one.claims:
            print(f"{one.check}: {claim.text}: {claim.count} of {claim.total}, {claim.outcome}", flush=True)
    told = [claim for claim in claims if claim.is_told]
    if not all(claim.holds for claim in told):
        return 1
    return 0 if len(told) == len(claims) else 4


def _write(results: Path, given: Sequence[str], outcomes: Sequence[Outcome]) -> None:
    document = {
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "-m", "benchmarks.same", *given]),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "commit": _commit(),
    }
    results.mkdir(parents=True, exist_ok=True)
    stem = results / f"{document['date']}-same"
    stem.with_suffix(".json").write_text(
        json.dumps({**document, "checks": [_told(one) for one in outcomes]}, indent=2) + "\n"
    )
    stem.with_suffix(".md").write_text(render(document, outcomes))
    print(stem.with_suffix(".md"))


def _told(own: Outcome) -> dict[str, Any]:
    claims = [{**asdict(one), "interval": one.interval, "outcome": one.outcome.strip("*")} for one in own.claims]
    return {**asdict(own), "claims": claims}


if __name__ == "__main__":
    sys.exit(main())
