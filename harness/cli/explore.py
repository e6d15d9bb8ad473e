"""`harness explore`: a search from the command line, or one trial of an earlier search again.

Shown by tests/harness/test_harness_explore_cli.py.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from chaos.fields import duration_ms
from chaos.lease import Lease, default_root
from chaos.reap import reap
from harness.cli.descriptors import require_descriptors
from harness.cli.preflight import check_releases
from harness.clusters.base import Engine
from harness.errors import ExitCode, UsageError
from harness.explore.bench import Bench
from harness.explore.expedition import Expedition, Plan, confirmed_lines
from harness.explore.model import Program, Role, Trial, from_document
from harness.explore.oracles import suspicions
from harness.explore.programs import plain
from harness.explore.search import Search
from harness.explore.story import timeline
from harness.kafka_releases import cluster_choice, parse_releases
from harness.run.client_runtime import client_program
from harness.run.rundir import create_run_directory
from harness.run.stop import StopFlag, signals_set
from harness.run.terminal_tables import print_fitting
from harness.suite_source import nearest
from workloads.clients.process.build import Built
from workloads.clients.process.messages import Ready
from workloads.clients.process.peer import Peer, PeerLost

RUNS: Final = Path("runs")
AGAIN: Final = 3
_BUDGET_MS: Final = (10_000, 24 * 3_600_000)
_PARTS: Final = ("producer", "groups", "transactions")


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
    jobs: int
    run_dir: Path | None


def explore_client(question: Question) -> ExitCode:
    client = _client(question)
    words = list(client.command)
    choice = cluster_choice(question.engine)
    engine = _engine(choice.engine)
    if engine == "kafka":
        check_releases(parse_releases(choice.releases))
    budget_ms = _budget_ms(question.budget)
    for part in question.only:
        if part not in _PARTS:
            raise UsageError(
                f"--only {part}: there is no such part{nearest(part, _PARTS)}; parts are {', '.join(_PARTS)}"
            )
    trial = None if question.again is None else _read_trial(question.again)
    require_descriptors()
    ready = _first_line(client)
    known = plain(ready.can, ready.properties.consumer)
    programs = [program for program in known if not question.only or _part(program) in question.only]
    if not programs and trial is None:
        raise UsageError(f"{words[0]} can do {', '.join(ready.can) or 'nothing'}: nothing of that is searched here")
    directory = create_run_directory(RUNS, "explore", question.run_dir)
    root = default_root(os.environ)
    reap(root)
    lease, stop = Lease(root), StopFlag()
    try:
        with (
            signals_set(stop),
            Bench(
                words,
                environment=client.environment,
                engine=engine,
                releases=choice.releases,
                directory=directory / "cluster",
                lease=lease,
            ) as bench,
        ):
            if trial is not None:
                return _try_again(bench, trial, stop)
            search = Search(programs, abilities=_abilities(ready, question.only), seed=question.seed)
            about = {
                "client": ready.client,
                "version": ready.version,
                "command": words,
                "cluster": engine,
                "cluster_version": bench.version,
                "seed": question.seed,
            }
            plan = Plan(budget_s=budget_ms / 1_000, workers=question.jobs, directory=directory, about=about)
            expedition = Expedition(search, bench, plan, say=_say, should_stop=stop.is_set)
            _say(f"{ready.client} {ready.version}".rstrip() + f" on {engine} {bench.version}, seed {question.seed}")
            expedition.run()
    finally:
        lease.close()
    return _tell(search, expedition, directory)


def _tell(search: Search, expedition: Expedition, directory: Path) -> ExitCode:
    reach = search.reach
    print_fitting(f"{reach.trials} trials in {expedition.elapsed_s:.0f} s; {len(search.confirmed)} confirmed findings")
    for line in confirmed_lines(search.confirmed):
        for part in line.splitlines():
            print_fitting(part, hanging=4)
    suspected = [finding for finding in search.findings.values() if finding not in search.confirmed]
    if suspected:
        print_fitting(f"{len(suspected)} suspicions that did not show again, or show without the disturbance too")
    if search.problems:
        print_fitting(f"{len(search.problems)} trials proved nothing: {search.problems[0]}")
    if reach.left:
        print_fitting(f"{reach.left} single disturbances were not tried: a longer --budget reaches them")
    print(directory / "explore.json")
    if expedition.is_interrupted:
        return ExitCode.INTERRUPTED
    if search.confirmed:
        return ExitCode.FAIL
    return ExitCode.INCONCLUSIVE if len(search.problems) * 2 > reach.trials else ExitCode.PASS


def _try_again(bench: Bench, trial: Trial, stop: StopFlag) -> ExitCode:
    """Three times, each with what it shows. FAIL if one of them shows anything, INCONCLUSIVE if all prove nothing."""
    shown = futile = 0
    for number in range(1, AGAIN + 1):
        if stop.is_set():
            return ExitCode.INTERRUPTED
        evidence = bench.run(trial, number)
        found = suspicions(trial, evidence.history)
        shown += bool(found)
        what = "; ".join(f"{one.kind}: {one.what}" for one in found) or "as it should"
        print_fitting(f"{number}. {trial}: {what}", hanging=3)
        if evidence.history.problem:
            futile += 1
            print_fitting(f"   proves nothing: {evidence.history.problem}")
        if found and shown == 1:
            print("\n".join(timeline(evidence.history)))
    print_fitting(f"{shown} of {AGAIN} show it")
    if shown:
        return ExitCode.FAIL
    return ExitCode.INCONCLUSIVE if futile == AGAIN else ExitCode.PASS


def _say(text: str) -> None:
    print_fitting(text, to_stderr=True, hanging=10)


def _engine(name: str) -> Engine:
    if name not in ("reference", "kafka"):
        raise UsageError(f"--cluster {name}: a search starts its own cluster, reference or kafka")
    return cast(Engine, name)


def _budget_ms(text: str) -> int:
    try:
        budget_ms = cast(int, duration_ms(text))
    except ValueError as error:
        raise UsageError(f"--budget: {error}") from error
    if not _BUDGET_MS[0] <= budget_ms <= _BUDGET_MS[1]:
        raise UsageError(f"--budget {text}: from 10s to 24 h")
    return budget_ms


def _read_trial(path: Path) -> Trial:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return from_document(document)
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"--again {path}: no trial of a search: {error}") from error


def _client(question: Question) -> Built:
    """UsageError if there is none, EnvironmentFault if it cannot be built."""
    if question.client is None:
        words = shlex.split(question.command[0]) if len(question.command) == 1 else list(question.command)
        if not words:
            raise UsageError("explore: no client, expected how it is started, ./my-client, or --client NAME")
        return Built(command=tuple(words))
    if question.command:
        raise UsageError(f"explore: both --client {question.client} and a command; expected one of them")
    return client_program(question.client, what="be searched")


def _first_line(client: Built) -> Ready:
    words = client.command
    hint = f"; `harness client check {shlex.join(words)}` says what is wrong with it"
    try:
        peer = Peer(words, environment=client.environment)
    except PeerLost as error:
        raise UsageError(f"{error}{hint}") from error
    try:
        return peer.wait_ready()
    except PeerLost as error:
        raise UsageError(f"{error}{hint}") from error
    finally:
        peer.kill()


def _part(program: Program) -> str:
    if program.is_transactional:
        return "transactions"
    return "producer" if program.role is Role.PRODUCER else "groups"


_ABILITIES: Final = {
    "producer": {"produce", "partition", "headers"},
    "groups": {"subscribe", "assign", "seek", "pause", "commit"},
    "transactions": {"transactions"},
}


def _abilities(ready: Ready, only: Sequence[str]) -> set[str]:
    """What drawn programs may use."""
    wanted = set().union(*(_ABILITIES[part] for part in only or _PARTS))
    return set(ready.can) & wanted
