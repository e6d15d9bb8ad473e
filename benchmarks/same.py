"""Does the product call equal configurations different? It runs its whole path many times on equal configurations.

    python -m benchmarks.same [--runs 10] [--minutes 60] [--suite FILE] [--directory DIR]

Each run is the product as users run it: `harness run`, with its own cluster, load, Spark and report. If a run exists
already, it is not made again. So a check that was interrupted goes on where it was. Then `harness compare` compares
every two runs. Every difference that effects, recommendations and comparisons name is wrong. There may be as many as
their intervals permit. The busier the host, the better the test. Prints each claim and how often it was broken, writes
results/<date>-same.json and .md. Exit code: 1 if a claim is broken too often, 4 if there are too few trials to tell,
else 0.

If the configurations of a `--suite` are not equal (for example `demo`), only the comparisons of its runs are judged.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.claims import TRIALS_MIN, Claim
from benchmarks.same_claims import Quietness, of_comparisons, of_sweeps, quietness_of, results_of
from runlog.files.documents import read_json
from runlog.records.results import read_measurements

RESULTS: Final = Path(__file__).parent / "results"
SUITE: Final = Path(__file__).parent / "same_suite.yaml"
RUN_TIMEOUT_S: Final = 3_600.0
COMPARE_TIMEOUT_S: Final = 120.0
_MEASURED: Final = (0, 1, 4)  # exit codes of a run with figures: pass, fail, inconclusive
_COMPARED: Final = (0, 1, 4)


def make_runs(suite: str, directory: Path, *, runs: int, minutes: float) -> list[Path]:
    """The finished runs, in order; none begins after so many minutes. RuntimeError when one did not come to figures."""
    ends_s = time.monotonic() + 60 * minutes
    done: list[Path] = []
    for number in range(1, runs + 1):
        run = directory / f"run-{number:02d}"
        if not (run / "results" / "measurements.json").exists():
            if time.monotonic() > ends_s:
                break
            shutil.rmtree(run, ignore_errors=True)  # of an attempt that was ended
            options = ["--run-dir", str(run), "--seed", str(number), "--no-certify"]
            _harness(["run", suite, *options], timeout_s=RUN_TIMEOUT_S, good=_MEASURED)
            print(f"{run.name}: measured", flush=True)
        done.append(run)
    return done


def compare_all(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """What `harness compare` says of every two runs, the earlier one as BASE."""
    found = []
    for base, new in itertools.combinations(runs, 2):
        _harness(["compare", str(base), str(new)], timeout_s=COMPARE_TIMEOUT_S, good=_COMPARED)
        found.append(read_json(new / "results" / f"compare-{base.name}.json"))
    return found


def _harness(arguments: Sequence[str], *, timeout_s: float, good: Sequence[int]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode not in good:
        raise RuntimeError(f"harness {shlex.join(arguments)} ended with {done.returncode}: {done.stderr[-2_000:]}")


def render(document: dict[str, Any], claims: Sequence[Claim], hosts: Sequence[Quietness]) -> str:
    """The Markdown page. Pure."""
    results = ", ".join(f"{count} {name}" for name, count in document["results"].items())
    lines = [
        "# Equals, called different",
        "",
        f"`{document['command']}`, {document['date']}, {document['runs']} runs of the suite `{document['suite']}`, "
        f"{document['cells']} cells in each. What is counted is wrong each time: benchmarks/same.py.",
        "",
        "| claim | broken | may be | |",
        "|---|---|---|---|",
        *(f"| {one.text} | {one.count} of {one.total} | at most {one.at_most:.0%} | {one.outcome} |" for one in claims),
        "",
        "A claim holds if its share is within three standard errors of the bound, which is what so many trials can "
        f"tell. Fewer than {TRIALS_MIN} trials cannot show that it holds. Comparisons share runs, so they are fewer "
        "than they look.",
        "",
        f"Results of the comparisons: {results}.",
        "",
        "| run | other programs took | other guests took |",
        "|---|---|---|",
        *(f"| {one.run} | {_share(one.foreign)} | {_share(one.stolen)} |" for one in hosts),
        "",
        f"Load average at the end: {document['load']}. Commit {document['commit']}.",
    ]
    return "\n".join(lines) + "\n"


def _share(value: float | None) -> str:
    return "not recorded" if value is None else f"{value:.0%} of all cores"


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=RESULTS.parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _options(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Does the product call equals different?")
    parser.add_argument("--runs", type=int, default=10, help="how many runs of the suite")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no further run begins")
    parser.add_argument("--suite", default=str(SUITE), help="a suite by name or file, instead of that of equals")
    parser.add_argument("--directory", type=Path, default=Path("runs/same"), help="where the runs are kept")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args(given)


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _options(given)
    options.directory.mkdir(parents=True, exist_ok=True)
    runs = make_runs(options.suite, options.directory.resolve(), runs=options.runs, minutes=options.minutes)
    if len(runs) < 2:
        print(f"{len(runs)} runs are finished, and 2 are the least to compare: call it again", file=sys.stderr)
        return 4
    comparisons = compare_all(runs)
    claims = of_comparisons(comparisons)
    if Path(options.suite) == SUITE:
        claims = [*of_sweeps([read_json(run / "results" / "sweep.json") for run in runs]), *claims]
    cells = {run.name: read_measurements(run) for run in runs}
    hosts = [quietness_of(name, own) for name, own in cells.items()]
    document = {
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "-m", "benchmarks.same", *given]),
        "suite": Path(options.suite).stem,
        "runs": len(runs),
        "cells": max(len(own) for own in cells.values()),
        "results": results_of(comparisons),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "commit": _commit(),
    }
    _write(options.results, document, claims, hosts)
    for claim in claims:
        print(f"{claim.text}: {claim.count} of {claim.total}, {claim.outcome}", flush=True)
    told = [claim for claim in claims if claim.is_told]
    if not all(claim.holds for claim in told):
        return 1
    return 0 if len(told) == len(claims) else 4


def _write(
    results: Path, document: dict[str, Any], claims: Sequence[Claim], hosts: Sequence[Quietness]
) -> None:  # fmt: skip
    results.mkdir(parents=True, exist_ok=True)
    stem = results / f"{document['date']}-{document['suite'].replace('_suite', '')}"
    whole = {**document, "claims": [{**asdict(one), "outcome": one.outcome.strip("*")} for one in claims]}
    stem.with_suffix(".json").write_text(
        json.dumps({**whole, "hosts": [asdict(one) for one in hosts]}, indent=2) + "\n"
    )
    stem.with_suffix(".md").write_text(render(document, claims, hosts))
    print(stem.with_suffix(".md"))


if __name__ == "__main__":
    sys.exit(main())
