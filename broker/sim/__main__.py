"""`python -m broker.sim --seeds 1-300`: run seeds, print progress and a summary.

Exit codes:

- 0: no invariant was violated, and every expected state was reached.
- 1: a violation.
- 2: wrong arguments.
- 3: no violation, but a state was never reached (only with at least --coverage-from seeds).

With --state FILE an interrupted run continues where it stopped. --budget-s ends a run after this time, and the next
call continues it. --shrink leaves out of one failing seed what it fails without, and prints the command that shows the
rest again (--without).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from broker import mutants
from broker.sim.minimise import RUNS_MAX
from broker.sim.plan import settings_of
from broker.sim.report import Summary, failure_text, outcome_text, shrunk_text, story_text, summary_text
from broker.sim.runner import results
from broker.sim.seed_run import run
from broker.sim.shrink import shrunk, without

COVERAGE_FROM = 200  # with fewer seeds, a run does not have to reach every state
PROGRESS_S = 5


def parse_seeds(text: str) -> range:
    first, separator, last = text.partition("-")
    try:
        low, high = int(first), int(last if separator else first)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected N or N-M, got {text!r}") from None
    if not 0 <= low <= high:
        raise argparse.ArgumentTypeError(f"expected N-M with 0 <= N <= M, got {text!r}")
    return range(low, high + 1)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m broker.sim", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=parse_seeds, default=range(1, 101), metavar="N-M")
    parser.add_argument(
        "--mutant", metavar="NAME", choices=sorted(mutants.MUTANTS), help="run with this wrong one of broker/mutants"
    )
    parser.add_argument("--stop-at-first", action="store_true", help="end at the first violation")
    parser.add_argument("--log", action="store_true", help="print what was done in a failed seed and what brokers said")
    parser.add_argument("--coverage-from", type=int, default=COVERAGE_FROM, metavar="SEEDS")
    parser.add_argument("--state", type=Path, help="remember here which seeds are done, and go on from there")
    parser.add_argument("--outcomes", type=Path, help="add a line for each seed, to compare two commits by")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="end after this time")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    parser.add_argument("--shrink", action="store_true", help="of one seed that fails: leave out what it fails without")
    parser.add_argument("--runs-max", type=int, default=RUNS_MAX, metavar="RUNS", help="runs that --shrink may take")
    parser.add_argument("--without", metavar="PART,PART", help="run one seed without these parts (see --shrink)")
    options = parser.parse_args(arguments)
    if options.shrink or options.without is not None:
        if len(options.seeds) != 1:
            parser.error("--shrink and --without take one seed: --seeds N")
        with mutants.applied(options.mutant):
            return _shrink(options) if options.shrink else _run_without(options, parser)
    summary, is_whole = _run(options)
    print(summary_text(summary))
    missing = summary.coverage.missing()
    if summary.failures:
        return 1
    if is_whole and missing and summary.seeds >= options.coverage_from:
        print(f"never reached: {', '.join(missing)}")
        return 3
    return 0


def _shrink(options: argparse.Namespace) -> int:
    """As exit codes: 0 if there is nothing to shrink."""
    seed = options.seeds[0]
    found = shrunk(seed, runs_max=options.runs_max, tell=lambda line: print(line, file=sys.stderr, flush=True))
    if found is None:
        print(f"seed {seed} violates nothing")
        return 0
    print(shrunk_text(found, mutant=options.mutant))
    print(story_text(found.left))
    return 1


def _run_without(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    left_out = [part.strip() for part in options.without.split(",") if part.strip()]
    try:
        settings = without(settings_of(options.seeds[0]), left_out)
    except ValueError as error:
        parser.error(str(error))
    result = run(settings)
    if result.violation is None:
        print(f"seed {result.seed} violates nothing without {options.without}")
        return 0
    print(failure_text(result, left_out=left_out, mutant=options.mutant))
    if options.log:
        print(story_text(result))
    return 1


def _run(options: argparse.Namespace) -> tuple[Summary, bool]:
    summary = Summary()
    done_below = _load(options.state, summary, options.seeds)
    began = told = time.monotonic()
    seeds = [seed for seed in options.seeds if seed >= done_below]
    for result in results(seeds, mutant=options.mutant, jobs=options.jobs):
        seed = result.seed
        summary.add(result)
        if options.outcomes is not None:
            with options.outcomes.open("a") as file:
                file.write(f"{outcome_text(result)}\n")
        if result.violation is not None:
            print(failure_text(result, mutant=options.mutant), flush=True)
            if options.log:
                print(story_text(result), flush=True)
        _save(options.state, summary, seed + 1)
        if result.violation is not None and options.stop_at_first:
            return summary, False
        now = time.monotonic()
        if now - told >= PROGRESS_S:
            told = now
            share = (seed + 1 - options.seeds.start) / len(options.seeds)
            print(f"seed {seed}, {share:.0%}, {len(summary.failures)} failed", file=sys.stderr, flush=True)
        if now - began >= options.budget_s:
            print(f"out of time after seed {seed}; the same command goes on from there", flush=True)
            return summary, False
    return summary, True


def _load(path: Path | None, summary: Summary, seeds: range) -> int:
    """The first seed that has not been run yet."""
    if path is None or not path.exists():
        return seeds.start
    state = json.loads(path.read_text())
    if state["first"] != seeds.start:
        return seeds.start
    summary.seeds, summary.events, summary.acked = state["seeds"], state["events"], state["acked"]
    summary.virtual_us = state["virtual_us"]
    summary.coverage.merge(state["counts"])
    next_seed: int = state["next"]
    return next_seed


def _save(path: Path | None, summary: Summary, next_seed: int) -> None:
    """Write the state file. A failed seed is not skipped. The next call begins with it."""
    if path is None or summary.failures:
        return
    state = {
        "first": next_seed - summary.seeds,
        "next": next_seed,
        "seeds": summary.seeds,
        "events": summary.events,
        "acked": summary.acked,
        "virtual_us": summary.virtual_us,
        "counts": dict(summary.coverage.counts),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(state))
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
