"""`harness.explore` with real brokers and librdkafka: a right client is not accused, and planted bugs are found."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import workloads.clients.process
from chaos.lease import Lease
from harness.cli.explore.explore import Question, explore_client
from harness.errors import ExitCode
from harness.explore.campaign import Campaign, Plan
from harness.explore.execution.bench import Bench, RunsProgram
from harness.explore.execution.subject import Site, Subject
from harness.explore.execution.toxics import is_second
from harness.explore.execution.warm_clients import WarmClients
from harness.explore.generators.extremes import extremes
from harness.explore.generators.programs import plain
from harness.explore.generators.usage import usage
from harness.explore.oracles.oracles import Kind, suspicions
from harness.explore.search.search import FINAL_REPETITIONS, Search
from harness.explore.trial.history import Delivered, Ended, Problem, Rebalance, Stuck, TransactionEnd
from harness.explore.trial.model import Disturbance, Do, How, Move, Program, Role, Trial
from tests.patience import wait_until
from workloads.clients.process.messages import Ability

CLIENT = Path(workloads.clients.process.__file__).parent / "shipped" / "python" / "client.py"
MUTANT = Path(__file__).with_name("explore_mutant.py")
MUTANTS = {  # what each does. On a busy host records wait long enough to be sent again without any disturbance.
    "sends again": {Kind.DUPLICATED, Kind.REORDERED},
    # What is committed behind the end is out of range for who fetches there before more has come: he begins anew.
    "commits too far": {Kind.SKIPPED, Kind.DELIVERED_AGAIN},
    "commits outside": {Kind.NOT_COPIED},
    "dies aborting": {Kind.CRASHED},
}
ROOT = Path(__file__).parents[2]
BOUND_S = 800.0
ABOUT = {"client": "mutant", "version": "1", "cluster": "reference", "cluster_version": "0", "seed": 1}
pytestmark = pytest.mark.slow


class Started:
    """What a trial on the shared cluster starts. Mutants are tried on it too: a cluster for each would take longer than
    all of its trials."""

    def __init__(self) -> None:
        self.mutant = ""

    def run_by(
        self, command: Sequence[str], environment: Mapping[str, str], program: Program, site: Site
    ) -> RunsProgram:
        if self.mutant:
            command, environment = [sys.executable, str(MUTANT), self.mutant], {"PYTHONPATH": str(ROOT)}
        return Subject(command, environment, program, site)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, Started]]:
    directory = tmp_path_factory.mktemp("explore")
    lease, started = Lease(directory / "leases"), Started()
    with WarmClients() as warm, Bench(
        [sys.executable, str(CLIENT)], environment={}, engine="reference", directory=directory / "cluster",
        lease=lease, run_by=started.run_by, warm=warm,
    ) as made:  # fmt: skip
        yield made, started
    lease.close()


@pytest.fixture
def bench(shared: tuple[Bench, Started]) -> Bench:
    """With the right client."""
    made, started = shared
    started.mutant = ""
    return made


def test_a_right_client_is_not_accused_whatever_is_answered_or_not(bench: Bench) -> None:
    """Quiet programs of each part, and each way to disturb a request; librdkafka stands all of these."""
    producer, *others = plain([str(word) for word in Ability])
    disturbed = [
        # The first request: on a busy host there may be no other, for all records wait until the client has connected.
        Disturbance(api="Produce", how=how, code=6 if how.is_error else 0, late_ms=1_000)
        for how in How
        if how is not How.ALTERED
    ]
    disturbed.append(Disturbance(api="Metadata", how=How.ALTERED, alteration="reversed", count=0))
    trials = [Trial(program=producer, disturbance=one) for one in disturbed]
    trials += [Trial(program=program) for program in others if program.name != "producer, large batches"]
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda pair: bench.run(pair[1], pair[0]), enumerate(trials)))
    for trial, evidence in zip(trials, found, strict=True):
        assert evidence.history.problem == "", str(trial)
        assert [str(one) for one in suspicions(trial, evidence.history)] == [], str(trial)
        assert (evidence.history.disturbed > 0) == (trial.disturbance is not None), str(trial)


def test_who_reads_a_compacted_topic_need_not_get_what_is_gone(bench: Bench) -> None:
    can = [str(word) for word in Ability]
    program = next(one for one in extremes(can, lambda side, name: True) if one.is_compacted)
    evidence = bench.run(Trial(program=program), 103)
    assert evidence.history.problem == ""
    gone = [one for one in evidence.history.log if one.is_deleted]
    assert len(gone) > 200, "the brokers have compacted most of it"
    assert not {(one.partition, one.offset) for one in gone} & {
        (one.partition, one.offset) for one in evidence.history.log if not one.is_deleted
    }
    assert [str(one) for one in suspicions(Trial(program=program), evidence.history)] == []


def test_a_fatal_error_of_the_library_is_told_and_ends_its_client(bench: Bench) -> None:
    """librdkafka's binding raises it in the next call, which is one of the program's second thread. Before, that thread
    ended, and the client seemed to stand still."""
    producer = next(program for program in plain([str(word) for word in Ability]) if program.role is Role.PRODUCER)
    forbidden = Disturbance(api="InitProducerId", how=How.ERROR_BEFORE, code=31)
    evidence = bench.run(Trial(program=producer, disturbance=forbidden), 102)
    assert evidence.history.problem == ""
    assert [one.code for one in evidence.history.happened if isinstance(one, Problem) and one.is_fatal] != []
    assert not any(isinstance(one, Stuck) for one in evidence.history.happened)


@pytest.mark.long
def test_sizes_at_their_limits_are_no_trouble_for_a_right_client(bench: Bench) -> None:
    """Quietly: what is refused because of its size is refused lawfully, and a fetch of large records fits a line."""
    trials = [Trial(program=program) for program in extremes([str(word) for word in Ability], lambda side, name: True)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda pair: bench.run(pair[1], 300 + pair[0]), enumerate(trials)))
    for trial, evidence in zip(trials, found, strict=True):
        assert evidence.history.problem == "", str(trial)
        assert [str(one) for one in suspicions(trial, evidence.history)] == [], str(trial)


def test_a_reader_gets_what_transactions_of_others_committed_and_an_application_that_worked_long_comes_back(
    bench: Bench,
) -> None:
    """The topic holds what was given up and markers, also at its end; librdkafka gets past all of it."""
    abilities = [str(word) for word in Ability]
    made = usage(abilities, lambda side, name: True, 1) + extremes(abilities, lambda side, name: True)
    wanted = (
        "calls of a group, transactions of others, one by one 1",
        "group, much is given up by others",
        "group, short polls",
    )
    readers = [program for program in made if program.role is Role.CONSUMER]
    programs = [program for program in readers if program.name in wanted or "works long" in program.name]
    assert len(programs) == 5
    every = next(program for program in programs if program.name == wanted[1])
    uncommitted = replace(every, properties={**every.properties, "isolation.level": "read_uncommitted"})
    trials = [Trial(program=program) for program in (*programs, uncommitted)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda pair: bench.run(pair[1], 400 + pair[0]), enumerate(trials)))
    for trial, evidence in zip(trials, found, strict=True):
        history = evidence.history
        assert history.problem == "", str(trial)
        assert [str(one) for one in suspicions(trial, history)] == [], str(trial)
        given_up = {(one.partition, one.offset) for one in history.log if one.is_aborted}
        read = {(one.partition, one.offset) for one in history.happened if isinstance(one, Delivered)}
        assert bool(given_up) == any(move.do is Do.ARRIVE_ABORTED for move in trial.program.moves), str(trial)
        assert given_up & read == (given_up if trial.program is uncommitted else set()), str(trial)
        if "works long" in trial.program.name:
            assert len([one for one in history.happened if isinstance(one, Rebalance)]) > 1, str(trial)


COPIERS = [one for one in plain([str(word) for word in Ability], ["isolation.level"]) if one.role is Role.COPIER]
IN_TRANSACTIONS = ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")


def test_a_right_copier_is_not_accused_whatever_is_answered_or_not(bench: Bench) -> None:
    """librdkafka copies each record once: quietly, with two members, with one that is frozen, and whatever becomes of
    the requests of a transaction."""
    alone = COPIERS[0]
    disturbed = [
        Disturbance(api=api, how=how, code=15 if how.is_error else 0, skip=2, late_ms=3_000)
        for api, hows in zip(
            IN_TRANSACTIONS,
            [
                (How.ERROR_BEFORE,),
                (How.ERROR_AFTER, How.SILENCE_BEFORE),
                (How.ERROR_BEFORE, How.CLOSED_AFTER),
                (How.ERROR_AFTER, How.LATE, How.CLOSED_BEFORE),
            ],
            strict=True,
        )
        for how in hows
    ]
    moved = replace(alone, moves=(*alone.moves[:8], Move(do=Do.MOVE_COORDINATOR), *alone.moves[8:]))
    trials = [Trial(program=program) for program in (*COPIERS, moved)]
    trials += [Trial(program=alone, disturbance=one) for one in disturbed]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda pair: bench.run(pair[1], 600 + pair[0]), enumerate(trials)))
    for trial, evidence in zip(trials, found, strict=True):
        history = evidence.history
        assert history.problem == "", str(trial)
        assert [str(one) for one in suspicions(trial, history)] == [], str(trial)
        assert (history.disturbed > 0) == (trial.disturbance is not None), str(trial)
        assert history.committed == {each: end for each, end in history.ends.items() if end}, str(trial)
        if any(move.do is Do.ABORT_TRANSACTION for move in trial.program.moves):  # What was given up is copied again.
            ends = {one.is_commit for one in history.happened if isinstance(one, TransactionEnd)}
            assert ends == {True, False}, str(trial)


def test_a_second_disturbance_begins_when_the_first_one_has_met_a_request_and_goes_on_without_it(bench: Bench) -> None:
    """The first one meets a broker that is asked for a producer id, before all records. The second one then meets
    requests of any broker, also after the first one was healed; and nothing at all if the first one meets nothing. The
    producer is idempotent, and none of its connections is closed: librdkafka keeps no order of one in flight when it is
    refused (1092), and has records twice when it is refused after a connection broke."""
    producer = next(one for one in plain([str(word) for word in Ability]) if one.name == "producer, idempotent")
    first = Disturbance(api="InitProducerId", how=How.THROTTLED, late_ms=20, heal_after_ms=300)
    refused = Disturbance(api="Produce", how=How.ERROR_BEFORE, code=6, skip=2, count=3)
    never = Disturbance(api="Produce", how=How.CLOSED_AFTER, skip=10_000)
    pair = Trial(program=producer, disturbance=first, then=refused)
    in_vain = Trial(program=producer, disturbance=never, then=replace(refused, skip=0, count=0))
    with ThreadPoolExecutor(2) as pool:
        met, unmet = (one.history for one in pool.map(bench.run, (pair, in_vain), (106, 107)))
    for trial, history in ((pair, met), (in_vain, unmet)):
        assert history.problem == "", str(trial)
        assert [str(one) for one in suspicions(trial, history)] == [], str(trial)
    assert (unmet.disturbed, unmet.disturbed_then, unmet.then_disturbed_us) == (0, 0, None)
    assert met.disturbed > 0
    assert met.disturbed_then > 1
    by_first = [each.mono_ns for each in met.exchanges if each.toxics and not any(map(is_second, each.toxics))]
    by_second = [each.mono_ns for each in met.exchanges if any(map(is_second, each.toxics))]
    assert (len(by_first), len(by_second)) == (met.disturbed, met.disturbed_then)
    assert by_first[0] < by_second[0]
    between = [each for each in met.exchanges if each.api == "Produce" and by_first[0] < each.mono_ns < by_second[0]]
    assert len(between) >= refused.skip
    assert met.first_disturbed_us is not None
    assert met.healed_us is not None
    assert met.first_disturbed_us < met.healed_us


def test_several_disturbances_share_a_run_and_each_meets_its_own_requests(bench: Bench) -> None:
    program = next(one for one in plain([str(word) for word in Ability]) if one.name == "group, commits itself")
    first = Disturbance(api="Fetch", how=How.CLOSED_BEFORE, skip=1)
    commit = Disturbance(api="OffsetCommit", how=How.ERROR_BEFORE, code=14)
    never = Disturbance(api="Heartbeat", how=How.CLOSED_AFTER, skip=10_000)
    shared = Trial(program=program, disturbance=first, besides=(commit, never))
    history = bench.run(shared, 108).history
    assert history.problem == ""
    assert [str(one) for one in suspicions(shared, history)] == []
    assert history.disturbed > 0
    assert history.disturbed_besides[0] > 0
    assert history.disturbed_besides[1] == history.disturbed_then == 0
    met = {each.api for each in history.exchanges if each.toxics}
    assert met == {"Fetch", "OffsetCommit"}


def test_a_process_serves_new_trials_of_each_role_and_no_trial_that_confirms(bench: Bench) -> None:
    """Its trials have topics, groups and records of their own, so nobody is accused of what an earlier one did."""
    programs = {program.name: program for program in plain([str(word) for word in Ability])}
    names = ("producer, idempotent", "group, commits itself", "transactions", "group, commits itself")
    seen = []
    for number, name in enumerate(names, 800):
        trial = Trial(program=programs[name])
        history = bench.run(trial, number, may_be_warm=True).history
        assert history.problem == ""
        assert [str(one) for one in suspicions(trial, history)] == []
        seen.append(processes())
    assert len(seen[0]) == 1
    assert seen == [seen[0]] * len(names)
    with ThreadPoolExecutor(1) as pool:
        own = pool.submit(bench.run, Trial(program=programs["producer, idempotent"]), 810)
        meanwhile = wait_until(lambda: processes() - seen[0], "a process of its own")
        assert own.result().history.problem == ""
    assert len(meanwhile) == 1
    assert processes() == seen[0]
    assert list(bench.end_warm()) == []
    assert processes() == set()


def test_what_is_under_way_can_be_given_up_and_leaves_nothing(bench: Bench) -> None:
    group = next(one for one in plain([str(word) for word in Ability]) if one.name == "group, commits itself")
    # Each poll waits at the end of the log, so that all of them take minutes.
    waits = replace(group, moves=(Move(do=Do.SUBSCRIBE), *[Move(do=Do.POLL, count=1)] * 1_000))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(bench.run, Trial(program=waits), 820)
        wait_until(lambda: processes(), "its client")
        bench.give_up()
        try:
            evidence = running.result(BOUND_S)
            assert evidence.history.problem == "EnvironmentFault: given up"
            ended = [one for one in evidence.history.happened if isinstance(one, Ended)]
            assert [one.signal for one in ended] == [signal.SIGKILL], "it did not end by itself"
            assert processes() == set()
            assert bench.run(Trial(program=group), 821).history.problem == "EnvironmentFault: given up"
        finally:
            bench._are_given_up.clear()  # The next test runs trials on it.


def processes() -> set[int]:
    """Of clients that this process has started."""
    return {each.pid for each in psutil.Process().children() if str(CLIENT) in each.cmdline()}


def test_a_control_counts_the_requests_of_its_client_only(bench: Bench) -> None:
    programs = {program.name: program for program in plain([str(word) for word in Ability])}
    with ThreadPoolExecutor(2) as pool:
        group = pool.submit(bench.run, Trial(program=programs["group, commits itself"]), 101)
        pool.submit(bench.run, Trial(program=programs["transactions"]), 102).result()
        uses = group.result().uses
    assert uses["Fetch"].requests > 0
    assert uses["Fetch"].version >= 11
    assert uses["OffsetCommit"].requests > 0
    assert not {"Produce", "EndTxn"} & uses.keys()


def found_by_search(
    mutant: str, part: str, kind: Kind, directory: Path, monkeypatch: pytest.MonkeyPatch, *, until_small: bool = False
) -> list[dict[str, object]]:
    """Searches until a finding of this kind is confirmed, or as small as it gets. The budget is only a bound."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    abilities = [str(word) for word in Ability]
    programs = [program for program in plain(abilities, ["isolation.level"]) if program.name.startswith(part)]
    search = Search(programs, abilities=abilities, seed=1)

    def is_found() -> bool:
        found = [one for one in search.confirmed if one.signature.kind is kind]
        if not until_small:
            return bool(found)
        # One that was made too small counts as it was first found. The search goes on, and another one is made small.
        small = [one for one in found if one.trial is not one.first]
        return any(one.is_done and one.tried >= FINAL_REPETITIONS for one in small)

    command = [sys.executable, str(MUTANT), mutant]
    lease = Lease(directory / "leases")
    with Bench(command, environment={}, engine="reference", directory=directory / "cluster", lease=lease) as made:
        plan = Plan(budget_s=BOUND_S, workers=4, directory=directory / "run", about=ABOUT)
        Campaign(search, made, plan, say=print, should_stop=is_found).run()
    lease.close()
    findings: list[dict[str, object]] = json.loads((directory / "run" / "explore.json").read_text())["findings"]
    return [one for one in findings if one["stage"] == "confirmed" and one["kind"] == str(kind)]


@pytest.mark.parametrize(
    ("mutant", "part"),
    [("sends again", "producer"), ("commits too far", "group"), ("commits outside", ""), ("dies aborting", "transac")],
)
def test_a_mutant_does_what_the_client_does_but_for_its_bug(
    mutant: str, part: str, shared: tuple[Bench, Started]
) -> None:
    """Else the search finds another bug than the planted one: the mutant's own, since the client learnt a new word. All
    mutants read commands in the same way, so that one of them tries all words, and the others what they change."""
    bench, started = shared
    started.mutant = mutant
    first = 700 + 50 * sorted(MUTANTS).index(mutant)
    needs_no_fault = mutant == "commits outside"  # a copier shows it quietly
    programs = [one for one in plain([str(word) for word in Ability]) if one.name.startswith(part)]
    programs += COPIERS[:needs_no_fault]
    trials = [Trial(program=program) for program in programs]
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda pair: bench.run(pair[1], first + pair[0]), enumerate(trials)))
    accused = [{one.kind for one in suspicions(trial, each.history)} for trial, each in zip(trials, found, strict=True)]
    if needs_no_fault:
        assert found[-1].history.problem == ""
        assert MUTANTS[mutant] <= accused.pop()
    assert set().union(*accused) <= MUTANTS[mutant]


@pytest.mark.long
@pytest.mark.parametrize(
    ("mutant", "part", "kind"),
    [
        ("commits too far", "group", Kind.SKIPPED),
        ("dies aborting", "transactions", Kind.CRASHED),
        ("commits outside", "copies in transactions", Kind.NOT_COPIED),
    ],
)
def test_a_bug_that_needs_no_fault_is_found_by_a_quiet_run(
    mutant: str, part: str, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed = found_by_search(mutant, part, kind, tmp_path, monkeypatch)
    assert "" in {one["api"] for one in confirmed}


@pytest.mark.long
def test_a_bug_that_needs_a_late_answer_is_found_and_made_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed = found_by_search(
        "sends again", "producer, idempotent", Kind.DUPLICATED, tmp_path, monkeypatch, until_small=True
    )
    assert min(int(str(one["steps"])) for one in confirmed) < 20, "of 52"


def test_the_command_searches_and_says_what_it_did_not_reach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shortest budget there is: on a busy host only the quiet runs fit in."""
    question = Question(
        command=(),
        client="confluent",
        engine="reference",
        budget="10s",
        seed=1,
        only=("transactions",),
        again=None,
        jobs=1,
        run_dir=tmp_path / "run",
    )
    assert explore_client(question) is ExitCode.PASS
    document = json.loads((tmp_path / "run" / "explore.json").read_text())
    assert (document["client"], document["seed"], document["findings"]) == ("confluent-kafka", 1, [])
    assert document["trials"] >= 2
    assert capsys.readouterr().out.rstrip().endswith(str(tmp_path / "run" / "explore.json"))
