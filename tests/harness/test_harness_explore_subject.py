"""`harness.explore.execution.subject`: one run of one program has an end, whatever its client answers."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.explore.execution import bench, idleness, subject
from harness.explore.execution.subject import Subject
from harness.explore.trial.history import (
    Busy,
    Commit,
    Connected,
    Ended,
    FlushedEarly,
    Outcome,
    Overdue,
    Problem,
    Sent,
    Stuck,
    Told,
    TransactionEnd,
)
from harness.explore.trial.model import Disturbance, Do, How, Move, Program, Role
from harness.explore.trial.topics import Topics
from tests.harness.explore_site import SITE
from tests.patience import QUIET_S

ENDLESS = """
import json, sys, time

def say(**event):
    print(json.dumps(event), flush=True)

say(event="ready", protocol=1, client="endless", can=["produce", "transactions", "subscribe"])
for line in sys.stdin:
    command = json.loads(line)
    at_us = time.monotonic_ns() // 1000
    if command["do"] == "produce" and "cannot begin" in sys.argv:
        sys.exit("records outside of a transaction")
    if command["do"] == "begin" and "cannot begin" in sys.argv:
        say(event="error", id=command["id"], at_us=at_us, code=0, reason="the coordinator is away")
        continue
    if command["do"] == "flush":
        time.sleep(command["timeout_ms"] / 1000)
    if command["do"] in sys.argv:
        say(event="error", id=command["id"], at_us=at_us, code=-1, reason="something unexpected")
        continue
    if command["do"] in ("commit-transaction", "flush"):
        say(event="error", id=command["id"], at_us=at_us, code=0, reason="the coordinator is away", next="retry")
    elif command["do"] == "poll":
        record = {"topic": "t", "partition": 0, "offset": 0, "value": "", "leader_epoch": 0, "timestamp_ms": 0}
        say(event="polled", id=command["id"], at_us=at_us, records=[record] if len(sys.argv) > 1 else [])
        time.sleep(0.01)
    else:
        say(event="done", id=command["id"], at_us=at_us)
"""
pytestmark = pytest.mark.slow


COMMITS = Program(
    name="p",
    role=Role.PRODUCER,
    moves=(Move(do=Do.BEGIN), Move(do=Do.COMMIT_TRANSACTION)),
    properties={"transactional.id": "x"},
)
READS = Program(name="p", role=Role.CONSUMER, moves=(Move(do=Do.SUBSCRIBE), Move(do=Do.READ)), properties={})


def run(
    directory: Path,
    *words: str,
    is_healed: bool,
    program: Program = COMMITS,
    client: str = ENDLESS,
    is_settled: Callable[[], bool] = lambda: True,
) -> Subject:
    """With a patience of 0.2 s, of a second with a disturbance. The log has two records."""
    path = directory / "client.py"
    path.write_text(client)
    site = replace(SITE, log_ends=lambda: {0: 2}, is_healed=lambda: is_healed, patience_s=0.2, healed_within_s=1.0)
    site = replace(site, is_settled=is_settled)
    found = Subject([sys.executable, str(path), *words], {}, program, site)
    found.run()
    return found


def test_a_transaction_that_does_not_end_on_a_healed_cluster_is_no_progress(tmp_path: Path) -> None:
    found = run(tmp_path, is_healed=True)
    assert found.problem == ""
    (stuck,) = (one for one in found.happened if isinstance(one, Stuck))
    assert (stuck.what, stuck.missing, stuck.expected) == ("transactions not ended", 1, 1)


def test_giving_up_reaches_a_process_that_is_only_being_started(tmp_path: Path) -> None:
    path = tmp_path / "client.py"
    path.write_text(ENDLESS)
    given_up = Subject([sys.executable, str(path)], {}, COMMITS, SITE)
    given_up.give_up()
    given_up.run()
    assert [one.signal for one in given_up.happened if isinstance(one, Ended)] == [signal.SIGKILL]


ECHO = """
import json, sys, time

def say(**event):
    print(json.dumps({"at_us": time.monotonic_ns() // 1000, **event}), flush=True)

say(event="ready", protocol=1, client="echo", can=["subscribe", "one-by-one"][:len(sys.argv)])
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "poll":
        say(event="polled", id=command["id"], records=[])
    else:
        say(event="done", id=command["id"], effective={"asked": str(command.get("one_by_one"))})
"""


@pytest.mark.parametrize("is_one_by_one", [True, False])
def test_a_client_is_asked_for_one_record_a_poll_and_says_what_is_in_force(tmp_path: Path, is_one_by_one: bool) -> None:
    program = replace(READS, moves=(Move(do=Do.SUBSCRIBE),), is_one_by_one=is_one_by_one)
    found = run(tmp_path, "can", is_healed=True, program=program, client=ECHO)
    assert found.problem == ""
    assert found.effective == {"asked": str(is_one_by_one or None)}


def test_a_client_without_polls_of_one_record_cannot_do_a_program_of_them(tmp_path: Path) -> None:
    found = run(tmp_path, is_healed=True, program=replace(READS, is_one_by_one=True), client=ECHO)
    assert found.problem == (
        "the client cannot do this program: polls of one record each: the client has no one-by-one"
    )
    assert found.effective == {}


def test_who_cannot_begin_a_transaction_tries_again_and_sends_nothing_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "RETRIES_MAX", 3)
    monkeypatch.setattr(subject, "_RETRY_S", 0.01)
    monkeypatch.setattr(subject, "FLUSH_S", 0.5)
    sends = Program(
        name="p",
        role=Role.PRODUCER,
        moves=(Move(do=Do.BEGIN), Move(do=Do.SEND, count=1), Move(do=Do.COMMIT_TRANSACTION)),
        properties={"transactional.id": "x"},
    )
    found = run(tmp_path, "cannot begin", is_healed=True, program=sends)
    told = [one.command for one in found.happened if isinstance(one, Problem)]
    assert (found.problem, told.count("begin")) == ("", 3)
    assert not any(isinstance(one, Sent | TransactionEnd) for one in found.happened)


@pytest.mark.parametrize(
    ("fails", "end"),
    [
        (("commit-transaction",), (False, Told.DONE, 1)),
        (("commit-transaction", "abort-transaction"), (True, Told.FAILED, 2)),
    ],
    ids=["the same producer goes on", "a new producer goes on"],
)
def test_a_commit_that_failed_is_given_up_and_only_who_cannot_do_so_begins_anew(
    tmp_path: Path, fails: tuple[str, ...], end: tuple[bool, Told, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "FLUSH_S", 0.5)
    monkeypatch.setattr(subject, "GRACE_S", 0.1)
    found = run(tmp_path, *fails, is_healed=True)
    (told,) = (one for one in found.happened if isinstance(one, TransactionEnd))
    begun = sum(isinstance(one, Connected) for one in found.happened)
    assert (told.is_commit, told.told, begun) == end


def test_as_long_as_the_disturbance_lasts_it_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "RETRIES_MAX", 2)
    monkeypatch.setattr(subject, "FLUSH_S", 0.5)
    found = run(tmp_path, is_healed=False)
    assert not any(isinstance(one, Stuck) and one.what == "transactions not ended" for one in found.happened)
    assert any(isinstance(one, TransactionEnd) for one in found.happened)


def test_a_call_that_has_used_up_its_time_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush of 40 s that may be tried again would take the whole budget of a short search."""
    monkeypatch.setattr(subject, "FLUSH_S", 0.2)
    monkeypatch.setattr(subject, "GRACE_S", 0.1)
    sends = Program(name="p", role=Role.PRODUCER, moves=(Move(do=Do.SEND, count=1), Move(do=Do.FLUSH)), properties={})
    found = run(tmp_path, is_healed=True, program=sends)
    assert [one.command for one in found.happened if isinstance(one, Problem)] == ["flush"]
    assert stuck(found) == ["records without an outcome"]


def test_a_client_that_does_not_answer_is_killed_and_has_not_died_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "FLUSH_S", 0.2)
    monkeypatch.setattr("workloads.clients.process.peer.GRACE_S", 0.2)
    killed: list[int] = []
    by_group = os.killpg
    monkeypatch.setattr(os, "killpg", lambda group, number: (killed.append(group), by_group(group, number)))
    hangs = ENDLESS.replace("    at_us =", '    while command["do"] == "produce":\n        time.sleep(60)\n    at_us =')
    sends = Program(name="p", role=Role.PRODUCER, moves=(Move(do=Do.SEND, count=1), Move(do=Do.FLUSH)), properties={})
    found = run(tmp_path, is_healed=True, program=sends, client=hangs)
    assert found.problem == ""
    assert any(isinstance(one, Overdue) for one in found.happened)
    assert not any(isinstance(one, Ended) for one in found.happened)
    assert len(killed) == 1, "its id may be somebody else's when it is gone"


def test_whichever_member_does_not_answer_its_call_is_what_outlives_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python 2.0 waits for the others in its poll. When the second of two members did, the trial proved
    nothing."""
    monkeypatch.setattr("workloads.clients.process.peer.GRACE_S", 0.2)
    monkeypatch.setattr(subject, "CALL_S", 0.2)
    mark = """
import os
try:
    os.close(os.open(__file__ + ".first", os.O_CREAT | os.O_EXCL))
    hangs = False
except FileExistsError:
    hangs = True
"""
    waits = "    if hangs and command['do'] == 'subscribe':\n        time.sleep(60)\n    at_us ="
    client = mark + ENDLESS.replace("    at_us =", waits)
    moves = (Move(do=Do.SUBSCRIBE), Move(do=Do.SUBSCRIBE, member=1), Move(do=Do.POLL))
    program = Program(name="p", role=Role.CONSUMER, moves=moves, properties={})
    found = run(tmp_path, is_healed=True, program=program, client=client)
    assert found.problem == ""
    assert [one.command for one in found.happened if isinstance(one, Overdue)] == ["subscribe, within 200 ms and 0 s"]
    assert not any(isinstance(one, Ended) for one in found.happened)


def stuck(found: Subject) -> list[str]:
    return [one.what for one in found.happened if isinstance(one, Stuck)]


def test_who_gets_nothing_or_the_same_again_and_again_makes_no_progress(tmp_path: Path) -> None:
    for words in ((), ("the same record",)):
        found = run(tmp_path, *words, is_healed=True, program=READS)
        assert (found.problem, stuck(found)) == ("", ["records unread"])


def test_a_disturbance_that_does_not_end_is_our_problem_and_ends_the_program(tmp_path: Path) -> None:
    found = run(tmp_path, is_healed=False, program=READS)
    assert (found.problem, stuck(found)) == ("the disturbance was not over after 1 s", [])


class Counted:
    """A toxic that has met so many requests; None: its server does not answer."""

    def __init__(self, met: int | None) -> None:
        self.met, self.is_removed = met, False

    def counted(self, name: str) -> list[int]:
        if self.met is None:
            raise OSError("no server")
        return [self.met]

    def remove(self) -> None:
        self.is_removed = True


AT_ONCE = """
import json, sys, threading, time

lock = threading.Lock()

def say(**event):
    with lock:
        print(json.dumps({"at_us": time.monotonic_ns() // 1000, **event}), flush=True)

def wait(command):
    cancelled[command["id"]] = threading.Event()
    cancelled[command["id"]].wait(command["timeout_ms"] / 1000)
    if command["do"] == "poll":
        say(event="polled", id=command["id"], records=[])
    else:
        say(event="error", id=command["id"], reason="cancelled")

cancelled = {}
say(event="ready", protocol=1, client="at once", can="produce callers subscribe commit overlap cancel".split())
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "poll" and command["max_records"] == 2:
        record = {"topic": "t", "offset": 0, "value": "", "timestamp_ms": 0}
        places = [{**record, "partition": partition} for partition in (0, 1)]
        say(event="assigned", partitions=[{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}])
        say(event="polled", id=command["id"], records=places)
    elif command["do"] in ("poll", "flush"):
        threading.Thread(target=wait, args=[command], daemon=True).start()
    elif command["do"] == "commit":
        say(event="committed", id=command["id"], partitions=command["partitions"])
    elif command["do"] == "produce":
        records = [{"seq": each["seq"], "sent_us": time.monotonic_ns() // 1000} for each in command["records"]]
        say(event="unknown", records=records, code=command.get("callers", 1), reason="")
    else:
        if command["do"] in ("cancel", "close"):
            for event in cancelled.values():
                event.set()
            time.sleep(0.05)
        say(event="done", id=command["id"])
"""


def at_once(directory: Path, role: Role, *moves: Move) -> Subject:
    return run(directory, is_healed=True, program=Program(name="p", role=role, moves=moves), client=AT_ONCE)


def test_commits_and_a_close_beside_a_poll_are_noted_as_if_they_were_alone(tmp_path: Path) -> None:
    """Each of two commits at once is noted with the partitions that it was about."""
    found = at_once(
        tmp_path,
        Role.CONSUMER,
        *(Move(do=Do.SUBSCRIBE), Move(do=Do.POLL, count=2), Move(do=Do.COMMIT_HALVES), Move(do=Do.COMMIT_IN_POLL)),
        *(Move(do=Do.CANCEL_POLL, count=10), Move(do=Do.RESTART_IN_POLL), Move(do=Do.SUBSCRIBE)),
    )
    commits = [dict(one.offsets) for one in found.happened if isinstance(one, Commit)]
    assert (found.problem, commits) == ("", [{0: 1}, {1: 1}, {0: 1, 1: 1}])
    assert sum(isinstance(one, Connected) for one in found.happened) == 2


def test_what_several_callers_give_is_noted_with_its_caller_and_a_flush_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "FLUSH_S", 4.0)  # for the last flush, which nobody cancels
    found = at_once(
        tmp_path, Role.PRODUCER, Move(do=Do.SEND, count=4, callers=2), Move(do=Do.CANCEL_FLUSH), Move(do=Do.CLOSE)
    )
    sent = [(one.command, one.caller) for one in found.happened if isinstance(one, Sent)]
    codes = {one.code for one in found.happened if isinstance(one, Outcome)}
    assert (found.problem, sent, codes) == ("", [(1, 0), (1, 1), (1, 0), (1, 1)], {2})
    sizes = [subject.size_of(Move(do=Do.SEND, size_bytes=20_000, callers=4), caller) for caller in range(4)]
    assert sizes == [20_000, 5_000, 1_250, 312]


def watched(met: int | None, how: How, count: int = 2) -> bench._Watch:
    disturbance = Disturbance(api="Fetch", how=how, count=count, heal_after_ms=3_600_000)
    watch = bench._Watch(disturbance=disturbance, toxics=Counted(met))  # type: ignore[arg-type]
    watch.met = met or 0
    return watch


@pytest.mark.parametrize(
    ("met", "how", "is_over"),
    [
        (0, How.CLOSED_BEFORE, True),
        (0, How.SILENCE_BEFORE, True),
        (1, How.CLOSED_BEFORE, False),
        (2, How.CLOSED_BEFORE, True),
        (2, How.SILENCE_BEFORE, False),
    ],
)
def test_progress_is_due_while_a_disturbance_has_met_nothing(met: int, how: How, is_over: bool) -> None:
    """Otherwise a client that stands still for a reason of its own would be waited for without end."""
    assert watched(met, how).is_over is is_over


def test_a_disturbance_that_nobody_watches_is_a_problem_and_holds_nobody_up() -> None:
    watch = watched(None, How.SILENCE_BEFORE)
    watch.run()
    assert watch.problem == "the disturbance: OSError: no server"
    watch.met = 1
    assert watch.is_over


class LateLook:
    """The thread that watches asks for the count, and the disturbance is taken away before it has the answer."""

    def __init__(self) -> None:
        self.asked, self.is_removed = threading.Event(), threading.Event()

    def counted(self, _: str) -> list[int]:
        if threading.current_thread() is not threading.main_thread():
            self.asked.set()
            self.is_removed.wait(0.5)  # where the two take turns, it is not removed meanwhile
        return [0 if self.is_removed.is_set() else 1]

    def remove(self) -> None:
        self.is_removed.set()


def test_what_was_met_is_not_forgotten_when_two_threads_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_WATCH_S", 0.01)
    toxics = LateLook()
    disturbance = Disturbance(api="Produce", how=How.CLOSED_AFTER, heal_after_ms=3_600_000)
    watch = bench._Watch(disturbance=disturbance, toxics=toxics)  # type: ignore[arg-type]
    thread = threading.Thread(target=watch.run)
    thread.start()
    assert toxics.asked.wait(QUIET_S)
    watch.stop.set()
    watch.heal()
    thread.join()
    assert (watch.met, watch.problem, watch.first_us is None) == (1, "", False)
    assert watch.has_met, "also when it is healed"


HASTY = """
import json, sys, time

def say(**event):
    print(json.dumps({"at_us": time.monotonic_ns() // 1000, **event}), flush=True)

say(event="ready", protocol=1, client="hasty", can=["produce"])
given = []
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "produce":
        given += [{"seq": one["seq"], "sent_us": time.monotonic_ns() // 1000} for one in command["records"]]
        continue
    say(event="done", id=command["id"])
    if command["do"] == "flush" and given:
        told = [{**one, "partition": 0, "offset": one["seq"], "timestamp_ms": 0} for one in given]
        say(event="acknowledged", records=told)
        given = []
"""


def test_a_flush_that_ends_before_its_records_is_told_and_the_trial_goes_on(tmp_path: Path) -> None:
    """Until now such a trial proved nothing: the mistake was taken for one of the program around the library."""
    sends = Program(name="p", role=Role.PRODUCER, moves=(Move(do=Do.SEND, count=2), Move(do=Do.FLUSH)), properties={})
    found = run(tmp_path, is_healed=True, program=sends, client=HASTY)
    assert found.problem == ""
    assert [one.what for one in found.happened if isinstance(one, FlushedEarly)] == [
        "flush is answered, and 2 records have no outcome: 0, 1"
    ]
    assert sum(isinstance(one, Outcome) for one in found.happened) == 2


def test_a_client_whose_isolation_is_not_known_is_not_asked_to_read_transactions_of_others(tmp_path: Path) -> None:
    """Whether it is given what was given up depends on a setting that it does not take, or that its trial does not name
    (any more, because the client has refused the value): libraries have different defaults."""
    moves = (Move(do=Do.SUBSCRIBE), Move(do=Do.ARRIVE_ABORTED, count=3), Move(do=Do.READ))
    named = Program(name="p", role=Role.CONSUMER, moves=moves, properties={"isolation.level": "read_committed"})
    takes_all = ENDLESS.replace('"subscribe"])', '"subscribe"], properties={"consumer": ["*"], "producer": []})')
    for program, client in ((named, ENDLESS), (replace(named, properties={}), takes_all)):
        found = run(tmp_path, is_healed=True, program=program, client=client)
        assert (found.refused, found.problem) == ("isolation.level", "the client cannot set isolation.level")


def test_a_client_that_knows_no_idempotence_is_not_asked_for_it(tmp_path: Path) -> None:
    """Else it would be accused of another order, or of records that are there twice. kafka-python 2.0 is one."""
    asks = Program(
        name="p",
        role=Role.PRODUCER,
        moves=(Move(do=Do.SEND, count=2), Move(do=Do.FLUSH)),
        properties={"enable.idempotence": "true", "linger.ms": "5"},
    )
    knows_no = HASTY.replace('"produce"])', '"produce"], properties={"consumer": [], "producer": ["linger.ms"]})')
    assert knows_no != HASTY
    found = run(tmp_path, is_healed=True, program=asks, client=knows_no)
    assert (found.refused, found.problem) == ("enable.idempotence", "the client cannot set enable.idempotence")
    other = replace(asks, properties={"enable.idempotence": "false", "acks": "all"})
    assert run(tmp_path, is_healed=True, program=other, client=knows_no).refused == ""


def test_a_member_that_works_is_asked_for_nothing_and_runs_on(tmp_path: Path) -> None:
    moves = (Move(do=Do.SUBSCRIBE), Move(do=Do.WORK, count=100), Move(do=Do.READ_SHORT))
    found = run(tmp_path, is_healed=True, program=Program(name="p", role=Role.CONSUMER, moves=moves))
    assert (found.problem, stuck(found)) == ("", ["records unread"])


SPINNING = """
import json, sys, threading, time

def say(**event):
    print(json.dumps(event), flush=True)

def spin():
    while True:
        pass

say(event="ready", protocol=1, client="spinning", can=["produce"])
for line in sys.stdin:
    command = json.loads(line)
    at_us = time.monotonic_ns() // 1000
    if command["do"] == "flush" and "spins" in sys.argv and threading.active_count() == 1:
        threading.Thread(target=spin, daemon=True).start()
    say(event="done", id=command["id"], at_us=at_us)
"""
FLUSHES = Program(name="p", role=Role.PRODUCER, moves=(Move(do=Do.FLUSH),), properties={})


def test_a_client_that_spins_with_nothing_to_do_is_noted_and_one_that_waits_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idleness, "LET_RUN", 0.001)  # the host of a test may give it little
    monkeypatch.setattr(idleness, "WATCH_MAX_S", 600.0)

    def busy(*words: str, is_healed: bool = True) -> list[Busy]:
        found = run(tmp_path, *words, is_healed=is_healed, program=FLUSHES, client=SPINNING)
        assert found.problem == ""
        return [one for one in found.happened if isinstance(one, Busy)]

    (one,) = busy("spins")
    assert one.share >= idleness.BUSY_FROM
    assert busy() == []
    assert busy("spins", is_healed=False) == []  # whoever looks for a broker that is away has something to do


def test_a_client_that_spins_while_no_broker_is_there_is_noted_and_one_that_waits_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program goes on meanwhile. What is seen when a broker is there again says nothing of before."""
    monkeypatch.setattr(idleness, "LET_RUN", 0.001)
    monkeypatch.setattr(subject, "WATCH_S", 600.0)
    monkeypatch.setattr(subject, "ALONE_SETTLE_S", 0.0)
    monkeypatch.setattr(subject, "SETTLED_WITHIN_S", 600.0)  # The program waits as long as somebody looks.

    def busy(*words: str, away: Do = Do.CUT_ALL, is_back: bool = False) -> list[str]:
        def is_settled() -> bool:
            """The program waits for the cluster until nobody looks any more."""
            if threading.current_thread().name == "look":
                return is_back
            return not any(each.name == "look" for each in threading.enumerate())

        moves = (Move(do=Do.FLUSH), Move(do=away, count=5_000), Move(do=Do.SETTLE))
        program = replace(FLUSHES, moves=moves)
        found = run(tmp_path, *words, is_healed=False, program=program, client=SPINNING, is_settled=is_settled)
        assert found.problem == ""
        return [one.when for one in found.happened if isinstance(one, Busy)]

    for away in (Do.CUT_ALL, Do.FREEZE_ALL, Do.DIE_ALL):
        assert busy("spins", away=away) == ["while no broker is there"]
    assert busy() == []
    assert busy("spins", is_back=True) == []


IN_TURN = """
import json, os, sys, time
from pathlib import Path

here = Path(sys.argv[0]).parent
try:
    os.close(os.open(here / "first", os.O_CREAT | os.O_EXCL))
    mine = {"topic": "t", "partition": 0}
except FileExistsError:
    mine = {"topic": "t", "partition": 1}
given = False

def say(**event):
    print(json.dumps({**event, "at_us": time.monotonic_ns() // 1000}), flush=True)

print(json.dumps({"event": "ready", "protocol": 1, "client": "c", "version": "1", "can": ["subscribe", "commit"],
                  "properties": {"consumer": ["group.id", "bootstrap.servers", "client.id"]}}), flush=True)
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "subscribe":
        say(event="done", id=command["id"])
        say(event="assigned", partitions=[mine])
    elif command["do"] == "poll":
        if (here / "committing").exists():
            (here / "polled").touch()
        record = {**mine, "offset": 0, "value": "", "timestamp_ms": 0}
        say(event="polled", id=command["id"], records=[] if given else [record])
        given = True
        time.sleep(0.01)
    elif command["do"] == "commit":
        (here / "committing").touch()
        until = time.monotonic() + command["timeout_ms"] / 1000
        while not (here / "polled").exists() and time.monotonic() < until:
            time.sleep(0.01)
        is_done = (here / "polled").exists()
        for name in ("committing", "polled"):
            (here / name).unlink(missing_ok=True)
        if is_done:
            say(event="committed", id=command["id"], partitions=command["partitions"])
        else:
            say(event="error", id=command["id"], code=27, reason="the group rebalances")
    else:
        say(event="done", id=command["id"])
"""


def test_a_call_that_waits_for_another_member_does_not_wait_for_ever(tmp_path: Path) -> None:
    """franz-go commits when its group has rebalanced, and a member takes part in that when it is polled."""
    program = Program(
        name="p",
        role=Role.CONSUMER,
        moves=(
            *(Move(do=Do.SUBSCRIBE), Move(do=Do.POLL), Move(do=Do.SUBSCRIBE, member=1), Move(do=Do.POLL, member=1)),
            *(Move(do=Do.COMMIT), Move(do=Do.COMMIT, member=1)),
        ),
        properties={},
        partitions=2,
    )
    path = tmp_path / "client.py"
    path.write_text(IN_TURN)
    site = replace(SITE, topics=Topics(("t",), 2), log_ends=lambda: {0: 1, 1: 1})
    subject = Subject([sys.executable, str(path)], {}, program, site)
    subject.run()
    assert subject.problem == ""
    assert [one for one in subject.happened if isinstance(one, Problem)] == []
    commits = [one for one in subject.happened if isinstance(one, Commit)]
    assert [(one.member, one.told, dict(one.offsets)) for one in commits] == [
        (0, Told.DONE, {0: 1}),
        (1, Told.DONE, {1: 1}),
    ]


REFUSING = """
import json, sys, time

print(json.dumps({"event": "ready", "protocol": 1, "client": "c", "version": "1", "can": ["subscribe"],
                  "properties": {"consumer": ["group.id", "bootstrap.servers", "client.id"]}}), flush=True)
for line in sys.stdin:
    command = json.loads(line)
    event = "error" if command["do"] == "subscribe" else "done"
    more = {"code": 0, "reason": "not with a group"} if event == "error" else {}
    print(json.dumps({"event": event, "id": command["id"], "at_us": time.monotonic_ns() // 1000, **more}), flush=True)
"""


@pytest.mark.parametrize("has_met", [False, True])
def test_who_could_never_subscribe_on_a_quiet_cluster_cannot_do_the_program(tmp_path: Path, has_met: bool) -> None:
    """franz-go takes no partitions of one's choice as a member of a group. That is no lack of progress."""
    path = tmp_path / "client.py"
    path.write_text(REFUSING)
    site = replace(SITE, log_ends=lambda: {0: 2}, has_met=lambda: has_met, patience_s=0.2)
    found = Subject([sys.executable, str(path)], {}, READS, site)
    found.run()
    assert found.problem == ("" if has_met else "the client refuses the settings: not with a group")
    assert any(isinstance(one, Stuck) for one in found.happened) is has_met
