"""`python -m broker.sim.mutation`: runs the simulation over every mutant until a seed catches it.

It writes docs/reference/mutants.md. If a mutant survives, the exit code is 1, because the checks do not notice this
mistake. Mutants run the same seeds as the correct broker.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.mutants import MUTANTS, applied, description, is_reached
from broker.sim.plan import settings_of
from broker.sim.seed_run import run_seed
from broker.sim.workers import pool_of

SEEDS_MAX = 400  # a mutant that survives more seeds is not caught by the tests' own run either
TABLE = Path("docs/reference/mutants.md")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    name: str
    seed: int | None  # None: no seed caught it
    invariant: str


def hunt(name: str, seeds: Sequence[int]) -> Caught:
    """The first of these seeds that catches the mutant. Seeds that never run the code that it changes are skipped."""
    with applied(name):
        for seed in seeds:
            if not is_reached(name, settings_of(seed)):
                continue
            violation = run_seed(seed).violation
            if violation is not None:
                return Caught(name=name, seed=seed, invariant=violation.invariant)
    return Caught(name=name, seed=None, invariant="")


def hunts(names: Sequence[str], seeds: Sequence[Sequence[int]], *, jobs: int) -> Iterator[Caught]:
    """Hunt each mutant with its seeds. The results come in the order of the names."""
    if jobs <= 1:
        yield from map(hunt, names, seeds)
        return
    with pool_of(jobs) as pool:
        yield from pool.map(hunt, names, seeds)


def check(known: Mapping[str, Caught], *, jobs: int) -> list[str]:
    """What in the table is no longer true. Every mutant must violate the same invariant with the same seed again."""
    seeds = [range(each.seed or 0, (each.seed or 0) + 1) for each in known.values()]
    problems = [f"{name} is not in the table" for name in MUTANTS if name not in known]
    found = hunts(tuple(known), seeds, jobs=jobs)
    return problems + [
        f"{each.name}: the table has {known[each.name]}, found {each}" for each in found if each != known[each.name]
    ]


def table(found: Sequence[Caught], seeds: range) -> str:
    dead = [each for each in found if each.seed is not None]
    lines = [
        "# Mutants",
        "",
        "Deliberately wrong variants of the broker, one file each in `broker/mutants/`. The simulation has to catch",
        f"every one; what it does not catch, it cannot see. {len(dead)} of {len(found)} are caught, each by the first",
        "of the seeds that were tried: the one that this table named before, if any, then "
        f"{seeds.start} to {seeds.stop - 1} in order; seeds that never come",
        "to what a mutant changes are left out. Written by `python -m broker.sim.mutation` (`make mutants`).",
        "See one again: `python -m broker.sim --mutant NAME --seeds SEED --log`.",
        "In a real process: `python -m broker.mutants FILE.properties`, with `harness.mutant=NAME` in that file.",
        "",
        "| mutant | what is wrong | violated invariant | seed |",
        "|---|---|---|---|",
    ]
    for each in found:
        seed = "**lives**" if each.seed is None else str(each.seed)
        lines.append(f"| `{each.name}` | {description(each.name)} | {each.invariant} | {seed} |")
    return "\n".join(lines) + "\n"


def read_table(text: str) -> dict[str, Caught]:
    """The rows by name, from the text that `table` made."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`"):
            name, seed = cells[0].strip("`"), int(cells[3]) if cells[3].isdigit() else None
            found[name] = Caught(name=name, seed=seed, invariant=cells[2])
    return found


def _known_first(known: Caught | None, seeds: range) -> list[int]:
    """The seeds, with the known one first. The run of that seed may have changed, but it often still catches the
    mutant. This saves minutes."""
    first = [] if known is None or known.seed is None else [known.seed]
    return first + [seed for seed in seeds if seed not in first]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m broker.sim.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds-max", type=int, default=SEEDS_MAX)
    parser.add_argument("--only", choices=MUTANTS, nargs="*", help="these mutants; the table is then not written")
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that share the mutants")
    parser.add_argument("--check", action="store_true", help="only whether what the table says is so")
    options = parser.parse_args(arguments)
    if options.check:
        problems = check(read_table(options.table.read_text()), jobs=options.jobs)
        print("\n".join(problems) or "as in the table")
        return int(bool(problems))
    seeds = range(1, options.seeds_max + 1)
    found = []
    names = tuple(options.only or MUTANTS)
    known = read_table(options.table.read_text()) if options.table.exists() else {}
    orders = [_known_first(known.get(name), seeds) for name in names]
    for each in hunts(names, orders, jobs=options.jobs):
        found.append(each)
        name = each.name
        print(f"{name}: {'LIVES' if each.seed is None else f'seed {each.seed}, {each.invariant}'}", flush=True)
    if not options.only:
        options.table.write_text(table(found, seeds))
    return int(any(each.seed is None for each in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
