"""`harness client check`: a table of what a client can do, and each of its mistakes with the line that shows it.

Shown by tests/harness/test_harness_client_check.py.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Final

from harness.cli.environment.descriptors import require_descriptors
from harness.conformance.check import TRIALS, TrialResult, first_line, trial_results
from harness.conformance.world import World
from harness.errors import ExitCode, UsageError
from harness.run.generator.client_runtime import client_program
from harness.suite_source import nearest
from harness.terminal.signals import StopFlag, signals_set
from harness.terminal.tables import Column, print_fitting, stdout_width, table_lines
from workloads.clients.process.build import Built
from workloads.clients.process.conversation import Mistake
from workloads.clients.process.messages import Ability, Ready

_SHOWN_MAX: Final = 3  # mistakes of one rule in one trial
_COLUMNS: Final = (
    Column(heading="trial"), Column(heading="result"), Column(heading="s", is_figure=True, spare=1),
    Column(heading="what it shows", is_text=True),
)  # fmt: skip


def check(command: Sequence[str], *, client: str | None = None, only: Sequence[str] = ()) -> ExitCode:
    """`command`: its words, or one text that a shell would split. `client`: one of ours instead."""
    program = _program(command, client)
    names = [trial.name for trial in TRIALS]
    for name in only:
        if name not in names:
            raise UsageError(f"--only {name}: no such trial{nearest(name, names)}")
    require_descriptors()
    ready, mistakes = first_line(program)
    if ready is None or mistakes:
        _print_mistakes("its first line", mistakes)
    if ready is None:
        return ExitCode.FAIL
    print_fitting(f"{ready.client} {ready.version}".rstrip() + f": protocol {ready.protocol}")
    stop = StopFlag()
    results: list[TrialResult] = []
    with signals_set(stop), World() as world:
        for result in trial_results(program, world, ready, only=only):
            results.append(result)
            if not result.left_out:
                print_fitting(f"{result.trial.name}: {result.word}", to_stderr=True)
            if stop.is_set():
                break
    _print_table(ready, results)
    for result in results:
        _print_mistakes(result.trial.name, result.mistakes)
    if stop.is_set():
        return ExitCode.INTERRUPTED
    return ExitCode.FAIL if mistakes or any(result.mistakes for result in results) else ExitCode.PASS


def _program(command: Sequence[str], client: str | None) -> Built:
    if client is not None:
        if command:
            raise UsageError(f"client check: both --client {client} and a command; expected one of them")
        return client_program(client, what="be checked")
    words = shlex.split(command[0]) if len(command) == 1 else list(command)
    if not words:
        raise UsageError("client check: no command, expected how the client is started, ./my-client, or --client NAME")
    return Built(command=tuple(words))


def _print_table(ready: Ready, results: Sequence[TrialResult]) -> None:
    rows = [
        [
            result.trial.name,
            result.word,
            "" if result.left_out else f"{result.seconds:.1f}",
            result.left_out or result.trial.shows,
        ]
        for result in results
    ]
    for line in table_lines(_COLUMNS, rows, stdout_width()):
        print(line)
    cannot = [str(word) for word in Ability if not ready.is_able(word)]
    if cannot:
        print_fitting(f"not declared: {', '.join(cannot)}", hanging=2)


def _print_mistakes(where: str, mistakes: Sequence[Mistake]) -> None:
    shown: Counter[str] = Counter()
    for mistake in mistakes:
        shown[mistake.rule] += 1
        if shown[mistake.rule] <= _SHOWN_MAX:
            told = str(mistake).replace(f"{mistake.rule}: ", "", 1)  # some messages begin with their rule
            print_fitting(f"{where}: {mistake.rule}: {told}", hanging=4)
    for rule, count in shown.items():
        if count > _SHOWN_MAX:
            print_fitting(f"{where}: {rule}: {count - _SHOWN_MAX} more", hanging=4)
