"""`harness explore`: a search from the command line, or one trial of an earlier search again.

Shown by tests/harness/test_harness_explore_cli.py.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from chaos.fields import duration_ms
from harness.cli.clients.own_client import first_line, own_client, words_from_anywhere
from harness.cli.environment.descriptors import require_descriptors
from harness.cli.explore.search_cluster import Place, place_of, started_bench
from harness.errors import ExitCode, UsageError
from harness.explore.campaign import GRACE_S, Campaign, Plan, cause_lines, suspicion_lines
from harness.explore.execution.benches import Benches
from harness.explore.execution.host_share import HostShare
from harness.explore.findings.junit import Case, junit
from harness.explore.findings.known_findings import read_allowances
from harness.explore.findings.story import story, timeline
from harness.explore.generators.broker_deaths import broker_deaths
from harness.explore.generators.extremes import extremes
from harness.explore.generators.programs import COPYING, plain
from harness.explore.generators.usage import usage
from harness.explore.oracles.oracles import suspicions
from harness.explore.search.corpus import Corpus, extend_corpus, fits, read_corpus
from harness.explore.search.search import Judge, Search, is_about, wishes
from harness.explore.trial.model import Program, Role, Takes, Trial, from_document
from harness.output_places import check_output_directory, check_output_file
from harness.suite_source import nearest
from harness.terminal.signals import StopFlag, signals_set
from harness.terminal.tables import print_fitting
from reports.render.exploration import PAGE as EXPLORATION_PAGE
from reports.render.files import replace_text
from runlog.files.user_files import read_text
from workloads.clients.process.messages import Ready
from workloads.clients.process.versions.short_jvm import short_lived

AGAIN: Final = 3
JOBS: Final = 6  # a client mostly waits: for time-outs, for rebalances, for the brokers
# Beyond that the proxies and brokers, which are one process each, begin to be what the clients wait for.
JOBS_MAX: Final = 24
_BUDGET_MS: Final = (10_000, 24 * 3_600_000)
_PARTS: Final = ("producer", "groups", "transactions", "copying")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`command`: its words, or one text that a shell would split. `client`: the name of one of ours, instead."""

    command: tuple[str, ...]
    client: str | None
    engine: str  # as --cluster says it, kafka==3.9.1 too
    budget: str
    seed: int
    only: tuple[str, ...]
    again: Path | None
    jobs: int | None  # None: from JOBS to JOBS_MAX, as the host has room
    run_dir: Path | None
    known: Path | None = None
    junit: Path | None = None
    corpus: Path | None = None


def explore_client(question: Question) -> ExitCode:
    client = short_lived(own_client(question.command, question.client, what="be searched", asked_by="explore"))
    words = list(client.command)
    place = place_of(question.engine)
    budget_ms = budget_ms_of(question.budget)
    for part in question.only:
        if part not in _PARTS:
            raise UsageError(
                f"--only {part}: there is no such part{nearest(part, _PARTS)}; parts are {', '.join(_PARTS)}"
            )
    check_places(question)
    trial = None if question.again is None else read_trial(question.again, "--again")
    known = [] if question.known is None else read_allowances(question.known)
    corpus = Corpus() if question.corpus is None else read_corpus(question.corpus)
    require_descriptors()
    ready = first_line(client)
    programs = programs_of(ready, question.only)
    if not programs and trial is None:
        raise UsageError(f"{words[0]} can do {', '.join(ready.can) or 'nothing'}: nothing of that is searched here")
    stop = StopFlag()
    started = started_bench(words, client.environment, place, kind="explore", run_dir=question.run_dir)
    with signals_set(stop), started as (bench, directory):
        if trial is not None:
            return try_again(bench, trial, stop)
        search = search_of(ready, programs, place, corpus, seed=question.seed, only=question.only)
        plan = Plan(
            budget_s=budget_ms / 1_000,
            workers=question.jobs or JOBS,
            workers_max=0 if question.jobs else JOBS_MAX,
            directory=directory,
            about=about_of(question, place, bench, client=ready.client, version=ready.version, words=words),
            client_words=cluster_words(question) + words_from_anywhere(question.command, question.client),
            known=known,
            takes=takes_of(ready),
        )
        say(f"{ready.client} {ready.version}".rstrip() + f" on {place.engine} {bench.version}, seed {question.seed}")
        campaign = search_through(search, bench, plan, stop)
    if question.corpus is not None:
        new = extend_corpus(question.corpus, search.kept, [finding.trial for finding in search.confirmed])
        unread = f"; {len(corpus.unread)} files of another version were left alone" if corpus.unread else ""
        say(f"{new} new files in the corpus {question.corpus}{unread}")
    return told(question, search, campaign, plan)


def takes_of(ready: Ready) -> Takes:
    """Which properties it declares."""
    return lambda side, name: ready.takes(side, name)  # type: ignore[arg-type]


def programs_of(ready: Ready, only: Sequence[str] = ()) -> list[Program]:
    """The plain programs of these parts, or all of them, that the client can do."""
    return _of_parts(plain(ready.can, ready.properties.consumer), only)


def _lacking(ready: Ready, place: Place) -> list[tuple[Role, str, str]]:
    """What programs ask for and nobody can do here. Other settings that a client does not take are left out; without
    idempotence it would be another producer, but for transactions, which need nobody to ask for it."""
    found: list[tuple[Role, str, str]] = []
    if not ready.takes("producer", "enable.idempotence") and "transactions" not in ready.can:
        found.append((Role.PRODUCER, "enable.idempotence", "true"))
    if not place.has_consumer_protocol:
        found += [(role, "group.protocol", "consumer") for role in (Role.CONSUMER, Role.COPIER)]
    return found


def _of_parts(programs: Sequence[Program], only: Sequence[str]) -> list[Program]:
    return [program for program in programs if not only or _part(program) in only]


def search_of(
    ready: Ready, programs: Sequence[Program], place: Place, corpus: Corpus, *, seed: int, only: Sequence[str] = ()
) -> Search:
    """A search with all that the client declares."""
    takes, abilities = takes_of(ready), _abilities(ready, only)
    refused = _lacking(ready, place)

    def is_possible(program: Program) -> bool:
        return not any(wish in refused for wish in wishes(program))

    return Search(
        list(filter(is_possible, programs)),
        abilities=abilities,
        seed=seed,
        rare=_of_parts([one for one in usage(abilities, takes, seed) if not is_about(one, refused)], only),
        extreme=_of_parts(extremes(abilities, takes), only),
        kept=[program for program in corpus.programs if fits(program, abilities)],
        first=[one for one in corpus.findings if fits(one.program, abilities) and is_possible(one.program)],
        refused=refused,
        transaction_version=place.transaction_version,
        deaths=broker_deaths,
    )


def check_places(question: Question) -> None:
    """UsageError for a place where nothing could be kept, before the search, and for an option that --again would
    leave out."""
    check_output_file("--junit", question.junit)
    check_output_directory("--corpus", question.corpus)
    if question.again is None:
        return
    told = {"--only": question.only, "--known": question.known, "--junit": question.junit, "--corpus": question.corpus}
    if given := [option for option, value in told.items() if value]:
        raise UsageError(f"--again tries one trial three times and searches nothing: leave {', '.join(given)} out")


def cluster_words(question: Question) -> str:
    """Before the client's words, because those may end with `-- COMMAND`."""
    return "" if question.engine == "reference" else f"--cluster {shlex.quote(question.engine)} "


def about_of(
    question: Question, place: Place, bench: Benches, *, client: str, version: str, words: Sequence[str]
) -> dict[str, object]:
    """What stands on top of explore.json."""
    return {
        "client": client,
        "version": version,
        "command": list(words),
        "cluster": place.engine,
        "cluster_version": bench.version,
        "seed": question.seed,
    }


def search_through(search: Search, bench: Benches, plan: Plan, stop: StopFlag) -> Campaign:
    """Returns when the budget is used up, or when asked to stop."""
    campaign = Campaign(search, bench, plan, say=say, should_stop=stop.is_set, host_used=HostShare().used)
    say(f"the page of the search: {plan.directory / EXPLORATION_PAGE}")
    campaign.run()
    return campaign


def told(question: Question, search: Search, campaign: Campaign, plan: Plan) -> ExitCode:
    """On the terminal, and as JUnit if that is wanted."""
    code = _tell(search, campaign, plan.directory)
    if question.junit is not None:
        _write_junit(question.junit, search, campaign, plan.about, code)
    return code


def _write_junit(path: Path, search: Search, campaign: Campaign, about: Mapping[str, object], code: ExitCode) -> None:
    cases = [
        Case(
            name=str(cause),
            failure=members[0].suspicion.what,
            details=story(members[0]),
            allowed="" if allowed is None else str(allowed),
        )
        for cause, members, allowed in campaign.causes()
    ]
    why = ""
    if code is ExitCode.INCONCLUSIVE:
        why = f"{len(search.problems)} of {search.reach.trials} trials proved nothing: {search.problems[0]}"
    elif code is ExitCode.INTERRUPTED:
        why = "the search was interrupted"
    name = f"{about['client']} {about['version']} on {about['cluster']} {about['cluster_version']}"
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, junit(name, campaign.elapsed_s, cases, inconclusive=why))


def _tell(search: Search, campaign: Campaign, directory: Path) -> ExitCode:
    reach, causes = search.reach, campaign.causes()
    is_failed = any(allowed is None for _, _, allowed in causes)
    print_fitting(f"{reach.trials} trials in {campaign.elapsed_s:.0f} s; {len(causes)} confirmed causes")
    for line in cause_lines(causes, campaign.again):
        for part in line.splitlines():
            print_fitting(part, hanging=4)
    for text in suspicion_lines(search.findings.values()):
        print_fitting(text)
    if search.problems:
        print_fitting(f"{len(search.problems)} trials proved nothing: {search.problems[0]}")
    if campaign.given_up:
        print_fitting(
            f"{campaign.given_up} trials did not end within {GRACE_S:.0f} s after the time, and were given up"
        )
    if reach.left:
        print_fitting(f"{reach.left} single disturbances were not tried: a longer --budget reaches them")
    print(directory / EXPLORATION_PAGE)
    print(directory / "explore.json")
    if campaign.is_interrupted:
        return ExitCode.INTERRUPTED
    if is_failed:
        return ExitCode.FAIL
    return ExitCode.INCONCLUSIVE if len(search.problems) * 2 > reach.trials else ExitCode.PASS


def try_again(bench: Benches, trial: Trial, stop: StopFlag, judge: Judge = suspicions) -> ExitCode:
    """Three times, each with what it shows. FAIL if one of them shows anything, INCONCLUSIVE if all prove nothing."""
    shown = futile = 0
    for number in range(1, AGAIN + 1):
        if stop.is_set():
            return ExitCode.INTERRUPTED
        evidence = bench.run(trial, number)
        found = judge(trial, evidence.history)
        shown += bool(found)
        what = "; ".join(f"{one.kind}: {one.what}" for one in found) or "as it should"
        print_fitting(f"{number}. {trial}: {what}", hanging=3)
        if trial.then is not None and not evidence.history.disturbed_then:
            print_fitting("   the second disturbance met no request")
        if evidence.history.problem:
            futile += 1
            print_fitting(f"   proves nothing: {evidence.history.problem}")
        if found and shown == 1:
            print("\n".join(timeline(evidence.history)))
    print_fitting(f"{shown} of {AGAIN} show it")
    if shown:
        return ExitCode.FAIL
    return ExitCode.INCONCLUSIVE if futile == AGAIN else ExitCode.PASS


def say(text: str) -> None:
    print_fitting(text, to_stderr=True, hanging=10)


def budget_ms_of(text: str) -> int:
    try:
        budget_ms = cast(int, duration_ms(text))
    except ValueError as error:
        raise UsageError(f"--budget: {error}") from error
    if not _BUDGET_MS[0] <= budget_ms <= _BUDGET_MS[1]:
        raise UsageError(f"--budget {text}: from 10s to 24 h")
    return budget_ms


def read_trial(path: Path, option: str, *, is_of_program: bool = False) -> Trial:
    """UsageError for a file that is none, or of the other kind. `is_of_program`: of a search with --program."""
    try:
        trial = from_document(json.loads(read_text(path)))
    except (ValueError, AttributeError) as error:
        raise UsageError(f"{option} {path}: no trial of a search: {error}") from error
    if (trial.program.role is Role.PROGRAM) is not is_of_program:
        found, expected = ("with --program", "with a client")[:: -1 if is_of_program else 1]
        raise UsageError(f"{option} {path}: a trial of a search {found}; expected one of a search {expected}")
    return trial


def _part(program: Program) -> str:
    if program.role is Role.COPIER:
        return "copying"
    if program.is_transactional:
        return "transactions"
    return "producer" if program.role is Role.PRODUCER else "groups"


_ABILITIES: Final = {
    "producer": {"produce", "partition", "headers", "callers", "overlap", "cancel"},
    "groups": {"subscribe", "assign", "seek", "pause", "commit", "one-by-one", "overlap", "cancel"},
    "transactions": {"transactions"},
    "copying": {"send-offsets", "one-by-one"},
}


def _abilities(ready: Ready, only: Sequence[str]) -> set[str]:
    """What drawn programs may use. `send-offsets` stands for all that copying needs."""
    wanted = set().union(*(_ABILITIES[part] for part in only or _PARTS))
    can_copy = set(ready.can) >= COPYING and ready.takes("consumer", "isolation.level")
    return set(ready.can) & (wanted if can_copy else wanted - {"send-offsets"})
