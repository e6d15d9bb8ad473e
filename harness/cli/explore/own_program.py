"""`harness explore --program COMMAND`: a search with a program that is somebody's own and speaks no protocol of ours.

Two quiet runs come first. They say which requests the program sends, how long it takes and what it writes. A program
that fails by itself is refused. Shown by tests/harness/test_harness_explore_program.py.
"""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from functools import partial
from typing import Final

from chaos.fields import duration_ms
from harness.cli.environment.descriptors import require_descriptors
from harness.cli.explore.explore import (
    JOBS,
    Question,
    about_of,
    budget_ms_of,
    check_places,
    cluster_words,
    read_trial,
    say,
    search_through,
    told,
    try_again,
)
from harness.cli.explore.search_cluster import place_of, started_bench
from harness.errors import EnvironmentFault, ExitCode, UsageError
from harness.explore.campaign import Plan
from harness.explore.execution.bench import Evidence
from harness.explore.execution.benches import Benches
from harness.explore.execution.own_subject import OwnSubject
from harness.explore.findings.known_findings import read_allowances
from harness.explore.oracles.own_program import ProgramOracle, changed_program, dying_programs, own_program, why_unfit
from harness.explore.search.search import Search
from harness.explore.trial.model import Program, Trial
from harness.terminal.signals import StopFlag, signals_set

QUIET_RUNS: Final = 2
PATIENCE: Final = "150s"
_PATIENCE_MS: Final = (1_000, 3_600_000)
_NAME_MAX: Final = 60
_NUMBERS: Final = 1_000_000  # A search counts its own trials from 1.


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """`command`: as a shell would be given it. `patience`: how long the program may take to end after the healing."""

    command: str
    records_before: int = 0
    patience: str = PATIENCE

    @property
    def words_for_commands(self) -> str:
        records = f" --records-before {self.records_before}" if self.records_before else ""
        patience = "" if self.patience == PATIENCE else f" --patience {shlex.quote(self.patience)}"
        return f"--program {shlex.quote(self.command)}{records}{patience}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Learnt:
    """What the quiet runs say."""

    program: Program
    oracle: ProgramOracle
    quiet_ms: int


def explore_program(question: Question, own: Own) -> ExitCode:
    words = _words(question, own)
    place = place_of(question.engine)
    budget_ms, patience_s = budget_ms_of(question.budget), _patience_s(own.patience)
    check_places(question)
    trial = None if question.again is None else read_trial(question.again, "--again", is_of_program=True)
    known = [] if question.known is None else read_allowances(question.known)
    require_descriptors()
    stop, run_by = StopFlag(), partial(OwnSubject, patience_s=patience_s)
    started = started_bench(words, {}, place, kind="explore", run_dir=question.run_dir, run_by=run_by)
    with signals_set(stop), started as (bench, directory):
        say(f"{own.command} on {place.engine} {bench.version}, seed {question.seed}")
        learnt = _learn(bench, own)
        if trial is not None:
            return try_again(bench, trial, stop, learnt.oracle)
        search = Search(
            [learnt.program],
            abilities=(),
            seed=question.seed,
            judge=learnt.oracle,
            change=lambda programs, seed: changed_program(programs[0], learnt.quiet_ms, seed),
            deaths=lambda programs, seed: dying_programs(programs[0], learnt.quiet_ms, seed),
        )
        plan = Plan(
            budget_s=budget_ms / 1_000,
            workers=question.jobs or JOBS,
            directory=directory,
            about=about_of(question, place, bench, client=own.command[:_NAME_MAX], version="", words=words),
            client_words=cluster_words(question) + own.words_for_commands,
            known=known,
        )
        campaign = search_through(search, bench, plan, stop)
    return told(question, search, campaign, plan)


def _words(question: Question, own: Own) -> list[str]:
    """UsageError for what cannot be meant together, and for a program that is not there."""
    for given, option in (
        (question.command, "a command of a client"),
        (question.client, "--client"),
        (question.only, "--only"),
        (question.corpus, "--corpus"),
    ):
        if given:
            raise UsageError(f"explore: both --program and {option}; a program of yours speaks no client protocol")
    try:
        words = shlex.split(own.command)
    except ValueError as error:
        raise UsageError(f"--program {own.command!r}: {error}") from error
    if not words:
        raise UsageError("--program is empty; expected how your program is started, for example 'python app.py'")
    if shutil.which(words[0]) is None:
        if os.path.isfile(words[0]):
            raise UsageError(
                f"--program {own.command!r}: {words[0]} may not be executed: chmod +x it, or begin with its interpreter"
            )
        raise UsageError(f"--program {own.command!r}: there is no program {words[0]}")
    # An interpreter knows its environment by the name under which it was started, so links are not followed.
    return [os.path.abspath(words[0]) if os.sep in words[0] else words[0], *words[1:]]


def _patience_s(text: str) -> float:
    try:
        patience_ms = duration_ms(text)
    except ValueError as error:
        raise UsageError(f"--patience: {error}") from error
    assert isinstance(patience_ms, int)
    if not _PATIENCE_MS[0] <= patience_ms <= _PATIENCE_MS[1]:
        raise UsageError(f"--patience {text}: from 1s to 1 h")
    return patience_ms / 1_000


def _learn(bench: Benches, own: Own) -> _Learnt:
    """UsageError if a quiet run is no measure for others."""
    quiet = [_quiet(bench, own, number) for number in range(1, QUIET_RUNS + 1)]
    apis = {api for evidence in quiet for api in evidence.uses}
    oracle = ProgramOracle.of([evidence.history for evidence in quiet])
    longest_s = max(evidence.duration_s for evidence in quiet)
    say(f"quiet runs take up to {longest_s:.1f} s and send {', '.join(sorted(apis))}")
    if not oracle.is_repeatable:
        say("they do not write the same records each time: so what is lost or duplicated in the topic cannot be told")
    return _Learnt(
        program=own_program(apis, prefilled=own.records_before), oracle=oracle, quiet_ms=round(longest_s * 1_000)
    )


def _quiet(bench: Benches, own: Own, number: int) -> Evidence:
    evidence = bench.run(Trial(program=own_program(prefilled=own.records_before)), _NUMBERS + number)
    if evidence.history.problem:
        raise EnvironmentFault(f"--program {own.command!r}: a run without any fault: {evidence.history.problem}")
    if unfit := why_unfit(evidence.history):
        raise UsageError(f"--program {own.command!r}: {unfit}")
    return evidence
