"""`harness.explore.execution.warm_clients`: who serves another trial, who does not, and what reaches which trial."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from harness.cli.explore.search_cluster import place_of, started_bench
from harness.clusters.kafka.jars import cache_directory
from harness.explore.execution import subject
from harness.explore.execution.idleness import Look
from harness.explore.execution.subject import Subject
from harness.explore.execution.warm_clients import TRIALS_MAX, WarmClients
from harness.explore.generators.programs import plain
from harness.explore.oracles.oracles import suspicions
from harness.explore.trial.history import Outcome
from harness.explore.trial.model import Do, Move, Program, Role, Trial
from tests.harness.explore_site import SITE
from tests.patience import wait_until
from workloads.clients.process import peer as peers
from workloads.clients.process.messages import Ability, Event
from workloads.clients.process.peer import OnLine, Peer
from workloads.clients.process.versions.installers import missing_tool
from workloads.clients.process.versions.installing import installed
from workloads.clients.process.versions.short_jvm import short_lived
from workloads.clients.process.versions.table import VERSIONS

# The client id says what goes wrong. Each record is acknowledged at an offset that is the process id.
CLIENT = """
import json, os, signal, sys, time

def say(**event):
    print(json.dumps(event), flush=True)

def now():
    return time.monotonic_ns() // 1000

def tell(seq):
    records = [{"seq": seq, "sent_us": now(), "partition": 0, "offset": os.getpid()}]
    say(event="acknowledged", at_us=now(), records=records)

signal.signal(signal.SIGUSR1, lambda *_: tell(0))
signal.signal(signal.SIGUSR2, lambda *_: say(event="error", at_us=now(), code=0, reason="late"))
say(event="ready", protocol=1, client="fake", can=["produce"], properties={"producer": ["client.id"]})
tries, wrong = 0, ""
for line in sys.stdin:
    command = json.loads(line)
    do = command["do"]
    if do == "connect":
        wrong = command["properties"]["client.id"]
        tries += 1
        print("words of", wrong, file=sys.stderr, flush=True)
    if do == "produce":
        for record in command["records"]:
            for _ in range({"leaves a record out": 0, "tells an outcome twice": 2}.get(wrong, 1)):
                tell(record["seq"])
        continue
    if wrong == f"hangs at {do}":
        time.sleep(600)
    if wrong == f"fails at {do}" or (wrong == f"fails at first {do}" and tries == 1):
        say(event="error", id=command["id"], at_us=now(), code=0, reason="no")
        continue
    if wrong == f"reports at {do}":
        say(event="error", at_us=now(), code=0, reason="by the way")
    say(event="done", id=command["id"], at_us=now())
    if wrong == f"dies after {do}":
        os._exit(3)
sys.exit(3 if wrong == "ends badly" else 0)
"""
SENDS = Program(name="sends", role=Role.PRODUCER, moves=(Move(do=Do.SEND, count=1),), properties={})
pytestmark = pytest.mark.slow


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(subject, "SETTLE_S", 0.0)
    monkeypatch.setattr(subject, "_RETRY_S", 0.01)
    path = tmp_path / "client.py"
    path.write_text(CLIENT)
    return [sys.executable, str(path)]


@pytest.fixture
def warm() -> Iterator[WarmClients]:
    with WarmClients() as made:
        yield made


def run(client: list[str], warm: WarmClients | None, wrong: str = "c", *moves: Move) -> Subject:
    program = replace(SENDS, moves=(*SENDS.moves, *moves))
    made = Subject(client, {}, program, replace(SITE, client_id=wrong, warm=warm))
    made.run()
    return made


def process_of(found: Subject) -> int:
    """The last one that the trial used."""
    return [one.offset for one in found.happened if isinstance(one, Outcome)][-1]


def at_rest(client: list[str], warm: WarmClients, on_line: OnLine = lambda *_: None) -> Peer:
    """One that has connected and closed, and is still lent."""
    peer = warm.take(client, {}, on_line)
    peer.wait_ready()
    peer.call("connect", timeout_s=10, role="producer", properties={"client.id": "c"}, failed_codes=[])
    peer.call("close", timeout_s=10)
    return peer


def test_who_has_closed_without_a_fault_serves_the_next_trial_which_has_its_own_history(
    client: list[str], warm: WarmClients
) -> None:
    first, second = run(client, warm), run(client, warm)
    assert process_of(first) == process_of(second)
    for found in (first, second):
        assert found.problem == ""
        assert [one.seq for one in found.happened if isinstance(one, Outcome)] == [0]


def test_a_trial_that_may_confirm_something_has_a_process_of_its_own(client: list[str], warm: WarmClients) -> None:
    resting = process_of(run(client, warm))
    own = process_of(run(client, None))
    assert own != resting
    assert not psutil.pid_exists(own)
    assert process_of(run(client, warm)) == resting


def test_a_process_that_was_started_otherwise_is_not_taken(client: list[str], warm: WarmClients) -> None:
    resting = process_of(run(client, warm))
    assert process_of(run([*client, "--other"], warm)) != resting


@pytest.mark.parametrize(
    ("wrong", "moves"),
    [
        ("tells an outcome twice", ()),
        ("leaves a record out", ()),
        ("hangs at flush", ()),
        ("hangs at close", ()),
        ("fails at close", ()),
        ("fails at first connect", ()),
        ("reports at flush", ()),
        ("dies after flush", ()),
        ("is busy at rest", ()),
        ("was stopped", (Move(do=Do.SLEEP, count=1),)),
    ],
)
def test_who_has_had_any_trouble_serves_no_other_trial(
    wrong: str, moves: tuple[Move, ...], client: list[str], warm: WarmClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        if "hangs" in wrong or "leaves" in wrong:
            patch.setattr(peers, "GRACE_S", 0.2)
            patch.setattr(subject, "GRACE_S", 0.2)
            patch.setattr(subject, "CALL_S", 0.1)
            patch.setattr(subject, "FLUSH_S", 0.1)
        if wrong == "is busy at rest":
            patch.setattr(subject, "look_at", lambda *_: Look(share=1.0, looked_ms=2_000))
        first = run(client, warm, wrong, *moves)
    second = run(client, warm)
    assert second.problem == ""
    if wrong != "leaves a record out":
        assert process_of(second) != process_of(first)
    assert len([each for each in psutil.Process().children() if client[1] in each.cmdline()]) == 1


def test_who_was_killed_is_gone_and_who_was_started_in_its_place_may_serve(
    client: list[str], warm: WarmClients
) -> None:
    first = run(client, warm, "c", Move(do=Do.FLUSH), Move(do=Do.KILL), Move(do=Do.SEND, count=1))
    killed, again = [one.offset for one in first.happened if isinstance(one, Outcome)]
    assert killed != again
    assert process_of(run(client, warm)) == again


def test_a_process_serves_so_many_trials_and_the_last_one_sees_how_it_ends(client: list[str]) -> None:
    with WarmClients(trials_max=2) as warm:
        first, second, third = run(client, warm), run(client, warm, "ends badly"), run(client, warm)
        assert warm.end() == []
    assert process_of(first) == process_of(second) != process_of(third)
    ended = [one for one in second.happened if type(one).__name__ == "Ended"]
    assert [getattr(one, "code", 0) for one in ended] == [3]
    assert 1 < TRIALS_MAX < 100


def test_only_so_many_rest(client: list[str]) -> None:
    with WarmClients(resting_max=1) as warm:
        one, other = at_rest(client, warm), at_rest(client, warm)
        assert [warm.give_back(each, "t") for each in (one, other)] == [True, False]
        other.end()


def test_who_speaks_while_it_rests_is_heard_by_no_trial_and_serves_none(client: list[str], warm: WarmClients) -> None:
    heard: list[Event] = []
    peer = at_rest(client, warm)
    assert warm.give_back(peer, "explore-7 (sends)")
    before = peer.conversation.lines_heard
    os.kill(peer.pid, signal.SIGUSR1)
    wait_until(lambda: peer.conversation.lines_heard > before, "its line")
    next_one = warm.take(client, {}, lambda event, *_: heard.append(event))
    next_one.wait_ready()
    assert next_one.pid != peer.pid
    assert not psutil.pid_exists(peer.pid)
    assert [event.event for event in heard] == ["ready"]
    next_one.end()
    (told,) = warm.end()
    assert "explore-7 (sends), when it waited for another trial: line" in told
    assert "record 0 is acknowledged, and no such record was sent" in told


def test_a_late_line_that_is_no_mistake_is_told_too(client: list[str], warm: WarmClients) -> None:
    """A client may report something at any time. After a close that means that somebody is still at work."""
    heard: list[Event] = []
    peer = at_rest(client, warm, lambda event, *_: heard.append(event))
    assert warm.give_back(peer, "explore-7")
    os.kill(peer.pid, signal.SIGUSR2)
    wait_until(lambda: not peer.is_at_rest, "its line")
    taken = warm.take(client, {}, lambda *_: None)
    assert taken is not peer
    taken.kill()
    assert [event.event for event in heard] == ["ready", "done", "done"]
    assert [text.rpartition(": ")[2] for text in warm.end()] == ["it said something after its close"]


def test_who_dies_while_it_rests_serves_no_trial_and_is_told(client: list[str], warm: WarmClients) -> None:
    peer = at_rest(client, warm)
    assert warm.give_back(peer, "explore-7")
    os.kill(peer.pid, signal.SIGKILL)
    wait_until(lambda: peer.is_lost, "its end")
    assert process_of(run(client, warm)) != peer.pid
    (told,) = warm.end()
    assert "explore-7" in told
    assert "the program ended: by SIGKILL" in told
    assert warm.end() == []


def test_the_last_words_of_an_earlier_trial_are_not_those_of_the_next_one(client: list[str], warm: WarmClients) -> None:
    peer = at_rest(client, warm)
    wait_until(lambda: "words of c" in peer.last_words(), "its words")
    assert warm.give_back(peer, "t")
    assert warm.take(client, {}, lambda *_: None) is peer
    assert peer.last_words() == ""
    peer.end()


def test_no_two_trials_have_one_process_at_the_same_time(client: list[str]) -> None:
    lock, held, taken = threading.Lock(), set[int](), list[int]()

    def serve(warm: WarmClients) -> None:
        peer = at_rest(client, warm)
        with lock:
            assert peer.pid not in held
            held.add(peer.pid)
            taken.append(peer.pid)
        with lock:
            held.remove(peer.pid)
        assert warm.give_back(peer, "t")

    with WarmClients(trials_max=100) as warm, ThreadPoolExecutor(4) as pool:
        list(pool.map(serve, [warm] * 40))
    assert len(taken) == 40
    assert len(set(taken)) <= 4


def test_when_it_is_over_all_are_gone_and_nobody_rests_any_more(client: list[str]) -> None:
    with WarmClients() as warm:
        resting = [at_rest(client, warm) for _ in range(3)]
        lent = at_rest(client, warm)
        assert all(warm.give_back(each, "t") for each in resting)
    assert not any(psutil.pid_exists(each.pid) for each in resting)
    assert not warm.give_back(lent, "t")
    lent.end()


@pytest.mark.long
@pytest.mark.versions
def test_a_jvm_serves_several_trials_of_a_search_and_is_not_accused(tmp_path: Path) -> None:
    """Programs of each role, one after the other, in one process each. Only those that may be warm share it."""
    if (tool := missing_tool(VERSIONS["java"])) is not None:
        pytest.skip(f"{tool.program} is not on PATH: {tool.fix}")
    java = short_lived(installed("java==4.4.0", cache_directory()))
    names = ("producer, idempotent", "group, commits itself", "transactions")
    trials = [Trial(program=one) for one in plain([str(word) for word in Ability]) if one.name in names]
    assert len(trials) == len(names)
    started = started_bench(
        java.command, java.environment, place_of("reference"), kind="test", run_dir=tmp_path / "run"
    )
    with started as (bench, _):
        jvms = set[int]()
        for number, trial in enumerate((*trials, trials[0])):
            history = bench.run(trial, number, may_be_warm=True).history
            assert history.problem == ""
            assert [str(one) for one in suspicions(trial, history)] == []
            resting = {each.pid for each in psutil.Process().children() if "-XX:+UseSerialGC" in each.cmdline()}
            assert len(resting) == 1
            jvms |= resting
        assert len(jvms) == 1
        assert bench.run(trials[0], 10).history.problem == ""
        assert list(bench.end_warm()) == []
    assert not any(map(psutil.pid_exists, jvms))
