"""The tables in docs/internals/checker.md: what is wrong with each mutant, in its own words, and what caught it.

The sentences come from the mutants' docstrings. What caught a mutant comes from a run, and afterwards from the table
itself. Shown by tests/harness/test_harness_mutation.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker.door.reference import description
from harness.mutation.hunt import Caught
from harness.mutation.trials import SIMULATED_ONLY, TRIALS, Trial
from workloads.clients import library

TABLES: Final = Path("docs/internals/checker.md")
MARKERS: Final = {kind: (f"<!-- {kind}: begin -->", f"<!-- {kind}: end -->") for kind in TRIALS}
_LIVES: Final = re.compile(r"\*\*lives\*\* \((.*)\)")


def rewritten(document: str, kind: str) -> str:
    """The document with the sentences of today, and what caught each mutant as the table has it."""
    return with_table(document, kind, table(kind, read_table(document, kind, TRIALS[kind])))


def table(kind: str, found: Sequence[Caught]) -> str:
    """Markdown, between the markers."""
    begin, end = MARKERS[kind]
    is_brokers = kind == "brokers"
    simulated = SIMULATED_ONLY if is_brokers else {}
    subjects = {each.trial.subject for each in found} | set(simulated)
    dead = {each.trial.subject for each in found if each.by}
    lines = [
        begin,
        "",
        f"{len(dead)} of {len(subjects)} fail a scenario that a sound one passes. Written by "
        f"`python -m harness.mutation {kind}` (`make mutants-real`).",
        "",
        "| mutant | what is wrong | scenario | caught by |",
        "|---|---|---|---|",
    ]
    for each in sorted(found, key=lambda each: each.trial.name):
        trial = each.trial
        by = "; ".join(each.by) or f"**lives** ({each.verdict})"
        lines.append(f"| `{trial.subject}` | {what_is_wrong(trial)} | {trial.where} | {by} |")
    lines += [
        f"| `{name}` | {description(name)} | in the simulation only | {reason} |"
        for name, reason in sorted(simulated.items())
    ]
    return "\n".join([*lines, "", end]) + "\n"


def what_is_wrong(trial: Trial) -> str:
    if trial.mutant:
        return description(trial.mutant)
    document = type(library(trial.client)).__doc__ or ""
    return " ".join(document.split("\n\n")[0].split())


def with_table(document: str, kind: str, made: str) -> str:
    """The document with the part between the markers replaced. ValueError when it has none."""
    begin, end = MARKERS[kind]
    before, found, rest = document.partition(begin)
    if not found or end not in rest:
        raise ValueError(f"{TABLES} has no {begin} followed by {end}")
    return f"{before}{made}\n{rest.partition(end)[2].lstrip()}".rstrip("\n") + "\n"


def read_table(document: str, kind: str, trials: Sequence[Trial]) -> list[Caught]:
    """The trials as a page's table has them; rows of what is no trial (any more) are left out."""
    begin, end = MARKERS[kind]
    known = {(trial.subject, trial.where): trial for trial in trials}
    found = []
    for line in document.partition(begin)[2].partition(end)[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) != 4 or (trial := known.get((cells[0].strip("`"), cells[2]))) is None:
            continue
        lives = _LIVES.fullmatch(cells[3])
        verdict, by = (lives[1], ()) if lives else ("fail", tuple(cells[3].split("; ")))
        found.append(Caught(trial=trial, verdict=verdict, by=by, reason="as the table has it"))
    return found
