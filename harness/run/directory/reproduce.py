"""The command lines that carry out a run, or one of its cells, again. Pure.

`harness` must take every command that is made here. Shown by tests/harness/test_harness_suggestions.py.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from typing import Final

from runlog.records.cell import CellKind

CONFIRM: Final = "confirm"
_OF_ONE_EXECUTION: Final = frozenset({"--run-dir", "--artifacts", "--cell", "--allow"})
_FLAGS: Final = frozenset({"--dry-run", "--no-report", "--strict", "--web", "--no-certify"})  # take no value


def reproduce_command(argv: Sequence[str], seed: int) -> str:
    """The command line with the seed that was used, also if it was drawn. Quoted for a POSIX shell.

    Empty if no command line began the run.
    """
    if not argv:
        return ""
    words = ["harness", *argv]
    if not _is_confirm(argv) and not any(word == "--seed" or word.startswith("--seed=") for word in words):
        words += ["--seed", str(seed)]
    return shlex.join(words)


def cell_command(argv: Sequence[str], seed: int, *, cell_id: str, kind: CellKind) -> str:
    """The command that carries out this cell again, without those around it where that is possible.

    Two kinds of cells cannot be asked for one by one. The rates of a search follow from its earlier tries, so the whole
    search runs again. `harness confirm` takes its one configuration and its seed from the run that it confirms.
    """
    command = reproduce_command(without_options(argv), seed)
    if not command or kind is CellKind.SEARCH or _is_confirm(argv):
        return command
    return f"{command} --cell {shlex.quote(cell_id)}"


def without_options(argv: Sequence[str]) -> list[str]:
    """The command line without options that belong to one execution: where its results go, which cells it was about."""
    kept: list[str] = []
    argv = [word for word in argv if word != "--no-report"]
    skip = False
    for word in argv:
        if skip:
            skip = False
        elif word in _OF_ONE_EXECUTION:
            skip = True
        elif word.partition("=")[0] not in _OF_ONE_EXECUTION:
            kept.append(word)
    return kept


def of_one_suite(argv: Sequence[str], number: int) -> list[str]:
    """The command line of `harness run` with the suite of this number (from 0) alone: each of several has a run of its
    own."""
    kept: list[str] = list(argv[:1])  # `run` itself
    suites = 0
    for before, word in itertools.pairwise(argv):
        is_value = before.startswith("--") and "=" not in before and before not in _FLAGS
        if word.startswith("-") or is_value:
            kept.append(word)
            continue
        if suites == number:
            kept.append(word)
        suites += 1
    return kept


def _is_confirm(argv: Sequence[str]) -> bool:
    return tuple(argv[:1]) == (CONFIRM,)
