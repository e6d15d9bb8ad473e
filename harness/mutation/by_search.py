"""`python -m harness.mutation.by_search [NAME ...]`: does `harness explore` find wrong brokers, with no scenario?

For each mutant a search with a client of ours, on brokers that have `harness.mutant=NAME`. It ends with the first
finding that is confirmed and does not show on sound brokers, where it is tried three times: what shows there too is the
client's, and the search goes on. Each mutant is a line of JSON, as soon as it is known. Exit code 1 if one was not
found. Shown by tests/harness/test_harness_mutation_by_search.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from harness.cli.clients.own_client import first_line, own_client
from harness.cli.explore.explore import budget_ms_of, programs_of, say, search_of, takes_of
from harness.cli.explore.search_cluster import Place, place_of, started_bench
from harness.errors import ExitCode, UsageError
from harness.explore.campaign import Campaign, Plan, RunsTrials
from harness.explore.generators.shrink import size
from harness.explore.oracles.oracles import suspicions
from harness.explore.search.corpus import Corpus
from harness.explore.search.search import Finding, Judge, Search, Signature
from harness.mutation.trials import BROKER_TRIALS
from harness.run.directory.run_directory import RUNS, create_run_directory
from harness.terminal.signals import StopFlag, signals_set
from workloads.clients.process.messages import Ready
from workloads.clients.process.versions.short_jvm import short_lived

SOUND_TRIES: Final = 3
JOBS: Final = 6
_SOUND_FROM: Final = 1_000_000  # numbers of trials on sound brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The fields from `cause` to `tried` are empty if nothing was found. `innocent`: what was confirmed, and shows on
    sound brokers too."""

    mutant: str
    seed: int
    seconds: float
    trials: int
    cause: str = ""
    what: str = ""
    trial: str = ""
    steps: int = 0
    shown: int = 0
    tried: int = 0
    innocent: tuple[str, ...] = ()


def first_of_the_mutant(
    search: Search,
    bench: RunsTrials,
    plan: Plan,
    shows_on_sound: Callable[[Finding], bool],
    *,
    should_stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Finding | None, list[Signature]]:
    """The first finding that is the mutant's, within the budget, and those that are not. The search goes on after one
    that is not."""
    innocent: dict[Signature, None] = {}
    until_s = clock() + plan.budget_s

    def candidates() -> list[Finding]:
        return [one for one in search.confirmed if one.signature not in innocent]

    while not should_stop() and (left_s := until_s - clock()) > 0:
        is_enough = lambda: bool(candidates()) or should_stop()  # noqa: E731
        Campaign(search, bench, replace(plan, budget_s=left_s), say=say, should_stop=is_enough, clock=clock).run()
        for finding in candidates():
            if not shows_on_sound(finding):
                return finding, list(innocent)
            innocent[finding.signature] = None
    return None, list(innocent)


def shows(bench: RunsTrials, finding: Finding, judge: Judge = suspicions) -> bool:
    """Whether one of three runs of the finding's trial on these brokers shows the same."""
    for number in range(SOUND_TRIES):
        evidence = bench.run(finding.trial, _SOUND_FROM + number)
        if any(one.kind is finding.signature.kind for one in judge(finding.trial, evidence.history)):
            return True
    return False


def main(argv: Sequence[str]) -> int:
    known = [*dict.fromkeys(trial.mutant for trial in BROKER_TRIALS)]
    parser = argparse.ArgumentParser(prog="python -m harness.mutation.by_search", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    parser.add_argument("--client", default="confluent", help="as `harness explore --client` has it (confluent)")
    parser.add_argument("--budget", default="5m", help="for each mutant (5m)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"trials side by side ({JOBS})")
    parser.add_argument("--run-dir", type=Path, help="where everything goes (default: a directory below runs/)")
    options = parser.parse_args(argv)
    for name in options.names:
        if name not in known:
            parser.error(f"no mutant {name!r}, there are {', '.join(known)}")
    budget_s = budget_ms_of(options.budget) / 1_000
    client = short_lived(own_client((), options.client, what="be searched", asked_by="explore"))
    ready = first_line(client)
    place = place_of("reference")
    directory = create_run_directory(RUNS, "mutants", options.run_dir)
    stop, rows = StopFlag(), []
    sound_run = directory / "sound"
    with (
        signals_set(stop),
        started_bench(client.command, client.environment, place, kind="mutants", run_dir=sound_run) as (sound, _),
    ):
        for name in options.names or known:
            if stop.is_set():
                break
            settings = {"harness.mutant": name}
            run_dir = directory / name
            started = started_bench(
                client.command, client.environment, place, kind="mutants", run_dir=run_dir, settings=settings
            )
            say(f"--- {name}")
            with started as (bench, _):
                plan = Plan(
                    budget_s=budget_s,
                    workers=options.jobs,
                    directory=run_dir,
                    about={
                        "client": ready.client,
                        "version": ready.version,
                        "command": list(client.command),
                        "cluster": f"{place.engine} with {name}",
                        "cluster_version": bench.version,
                        "seed": options.seed,
                    },
                    client_words=f"--client {options.client}",
                    takes=takes_of(ready),
                )
                row = _row(name, ready, place, bench, sound, plan, options.seed, stop)
            if stop.is_set() and not row.cause:
                break  # it was not searched for long enough to be called missed
            rows.append(row)
            line = json.dumps(asdict(row))
            with (directory / "rows.jsonl").open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
            print(line, flush=True)
    missed = [row.mutant for row in rows if not row.cause]
    print(f"{len(rows) - len(missed)} of {len(rows)} found; missed: {', '.join(missed) or 'none'}; {directory}")
    if stop.is_set():
        return int(ExitCode.INTERRUPTED)
    return 1 if missed else 0


def _row(
    name: str,
    ready: Ready,
    place: Place,
    bench: RunsTrials,
    sound: RunsTrials,
    plan: Plan,
    seed: int,
    stop: StopFlag,
) -> Row:
    search = search_of(ready, programs_of(ready), place, Corpus(), seed=seed)
    begun_s = time.monotonic()
    found, innocent = first_of_the_mutant(
        search, bench, plan, lambda finding: shows(sound, finding), should_stop=stop.is_set
    )
    row = Row(
        mutant=name,
        seed=seed,
        seconds=round(time.monotonic() - begun_s, 1),
        trials=search.reach.trials,
        innocent=tuple(str(each) for each in innocent),
    )
    if found is None:
        return row
    return replace(
        row,
        cause=str(found.signature),
        what=found.suspicion.what,
        trial=str(found.trial),
        steps=size(found.trial),
        shown=found.shown,
        tried=found.tried,
    )


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except UsageError as error:
        print(error, file=sys.stderr)
        code = int(ExitCode.USAGE)
    except Exception:  # a process entry: exit code 1 means that a mutant was not found, and nothing else
        traceback.print_exc()
        code = int(ExitCode.HARNESS_ERROR)
    sys.exit(code)
