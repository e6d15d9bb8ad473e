"""A fault host: what is not on its list is refused, nobody else's process is hit, and whatever it breaks is mended.

The brokers are `sleep` processes, started by an operator's script that writes a pid file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from chaos.fault_host import processes
from chaos.fault_host.host import Refused
from chaos.fault_host.journal import Journal, JournalError
from chaos.fault_host.site import NotDone
from chaos.process_identity import is_alive, read_state
from tests.chaos.operators import NAME, WAIT_S, Operator
from tests.patience import wait_until


@pytest.mark.slow
def test_a_killed_broker_is_gone_and_is_started_by_the_operators_command(operator: Operator) -> None:
    worker, before = operator.worker(), operator.broker(1)
    assert worker.act("look", 1).running == before
    done = worker.act("kill", 1)
    assert done.from_ns <= done.to_ns
    assert dict(done.processes) == {before: ""}
    assert not is_alive(before)
    assert [(held["broker"], held["what"], held["pid"]) for held in operator.leases()] == [(1, "down", before.pid)]
    assert worker.act("look", 1).running is None
    after = worker.act("start", 1).running
    assert after == operator.broker(1) != before
    assert not operator.leases()
    assert worker.act("look", 2).running == operator.broker(2), "nobody else was touched"


@pytest.mark.slow
def test_a_paused_broker_stands_still_until_it_is_resumed(operator: Operator) -> None:
    worker, broker = operator.worker(), operator.broker(2)
    assert dict(worker.act("pause", 2).processes)[broker] == "T"
    assert read_state(broker.pid) == "T"
    assert [held["what"] for held in operator.leases()] == ["paused"]
    with pytest.raises(NotDone, match="paused or down by this worker already"):
        worker.act("pause", 2)
    assert worker.act("resume", 2).running == broker
    wait_until(lambda: read_state(broker.pid) != "T", "it goes on")
    assert not operator.leases()


@pytest.mark.slow
def test_a_clean_stop_also_ends_a_paused_broker(operator: Operator) -> None:
    worker, broker = operator.worker(), operator.broker(1)
    worker.act("pause", 1)
    worker.act("terminate", 1)
    assert not is_alive(broker)
    worker.act("start", 1)
    assert not operator.leases()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "broker", "words"),
    [
        ("kill", 1, "kill of broker 1: this host's list allows pause for it"),
        ("terminate", 2, "terminate of broker 2: this host's list allows pause for it"),
        ("pause", 3, "pause of broker 3: this host has only broker 1, 2 on its list"),
        ("look", 3, "look of broker 3"),
        ("rm -rf /", 1, "no action 'rm -rf /'"),
    ],
)
def test_what_is_not_on_the_list_is_refused_by_name(operator: Operator, action: str, broker: int, words: str) -> None:
    worker, before = operator.worker(operator.permits(allow="pause")), [operator.broker(1), operator.broker(2)]
    with pytest.raises(Refused, match=words):
        worker.act(action, broker)
    assert [operator.broker(1), operator.broker(2)] == before
    assert not operator.leases()


@pytest.mark.slow
def test_what_this_worker_has_not_done_it_does_not_undo(operator: Operator) -> None:
    worker, stopped = operator.worker(), operator.broker(1)
    os.kill(stopped.pid, signal.SIGSTOP)
    wait_until(lambda: read_state(stopped.pid) == "T", "the signal has come")
    with pytest.raises(NotDone, match="broker 1 is not paused by this worker"):
        worker.act("resume", 1)
    assert read_state(stopped.pid) == "T"
    with pytest.raises(NotDone, match="broker 2 is not down by this worker"):
        worker.act("start", 2)


@pytest.mark.slow
def test_a_process_that_is_not_the_broker_is_left_alone(operator: Operator) -> None:
    worker = operator.worker()
    stranger = subprocess.Popen(["sleep", "7200"])
    try:
        (operator.directory / "pid-1").write_text(f"{stranger.pid}\n")
        for action in ("kill", "pause", "terminate"):
            with pytest.raises(NotDone, match=f"pid {stranger.pid} is 'sleep 7200', expected '{NAME}'"):
                worker.act(action, 1)
        (operator.directory / "pid-1").write_text(f"{os.getpid()}\n")
        with pytest.raises(NotDone, match="the worker itself"):
            worker.act("kill", 1)
        (operator.directory / "pid-1").write_text("1\n")
        with pytest.raises(NotDone, match="holds no pid"):
            worker.act("kill", 1)
        assert stranger.poll() is None
        assert read_state(stranger.pid) != "T"
        assert not operator.leases()
    finally:
        stranger.kill()
        stranger.wait(timeout=WAIT_S)


@pytest.mark.slow
def test_a_process_in_the_middle_of_an_exec_is_looked_at_again(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, broker = operator.worker(), operator.broker(1)
    empty, read = ["", ""], processes._read_command_line
    monkeypatch.setattr(processes, "_read_command_line", lambda pid: empty.pop() if empty else read(pid))
    assert worker.act("look", 1).running == broker
    assert not empty


@pytest.mark.slow
def test_a_pid_file_that_was_left_over_names_nobody(operator: Operator) -> None:
    """Another process of the same command line got the pid later."""
    worker, broker = operator.worker(), operator.broker(1)
    os.utime(operator.directory / "pid-1", (time.time() - 3_600, time.time() - 3_600))
    with pytest.raises(NotDone, match="is left over"):
        worker.act("kill", 1)
    assert is_alive(broker)


@pytest.mark.slow
def test_a_process_of_another_user_is_no_broker(operator: Operator) -> None:
    text = operator.permits().replace("command_has", "user: nobody-of-this-name, command_has")
    with pytest.raises(NotDone, match="expected nobody-of-this-name"):
        operator.worker(text).act("kill", 1)
    assert is_alive(operator.broker(1))


@pytest.mark.slow
def test_the_pid_may_come_from_a_command(operator: Operator) -> None:
    text = operator.permits().replace(
        f"pid_file: {operator.directory}/pid-1", f"pid_command: [/bin/cat, {operator.directory}/pid-1]"
    )
    worker, before = operator.worker(text), operator.broker(1)
    worker.act("kill", 1)
    assert worker.act("start", 1).running == operator.broker(1) != before
    (operator.directory / "pid-1").rename(operator.directory / "away")
    assert worker.act("look", 1).running is None, "no word: it does not run"
    (operator.directory / "away").rename(operator.directory / "pid-1")


@pytest.mark.slow
def test_without_a_lease_nothing_is_broken(operator: Operator) -> None:
    worker, broker = operator.worker(), operator.broker(1)
    (operator.directory / "leases" / "here.json").mkdir()  # whatever keeps a file from being written
    for action in ("kill", "pause", "terminate"):
        with pytest.raises(NotDone, match="left alone, because no lease can be written"):
            worker.act(action, 1)
    assert read_state(broker.pid) not in ("T", None)
    (operator.directory / "leases" / "here.json").rmdir()


@pytest.mark.slow
def test_when_the_harness_is_lost_everything_is_healed(operator: Operator) -> None:
    worker, killed, paused = operator.worker(), operator.broker(1), operator.broker(2)
    worker.act("kill", 1)
    worker.act("pause", 2)
    began_s = time.monotonic()
    worker.heard()
    worker.step()
    state = read_state(paused.pid)
    if time.monotonic() - began_s < 2.0:
        assert state == "T", "it was heard of just now"

    def is_healed() -> bool:
        worker.step()
        return not operator.leases()

    wait_until(is_healed, "healed without being asked")
    assert time.monotonic() - began_s >= 2.0, "not as long as it was heard of just before"
    wait_until(lambda: read_state(paused.pid) != "T", "it goes on")
    assert operator.broker(1) != killed
    for action, broker in (("start", 1), ("resume", 2)):
        with pytest.raises(NotDone, match="healed before, because the harness was silent for 2 s"):
            worker.act(action, broker)


@pytest.mark.slow
def test_a_fault_ends_at_the_operators_bound(operator: Operator) -> None:
    """Of both brokers at the same time, so the two leases end at the same time too."""
    bounds = operator.permits(more="    paused_at_most: 300ms\n    down_at_most: 300ms\n")
    worker = operator.worker(bounds.replace("lost_after: 2s", "lost_after: 60s"))  # so that only the bounds heal
    worker.act("kill", 1)
    paused = operator.broker(2)
    worker.act("pause", 2)

    def is_healed() -> bool:
        worker.heard()
        worker.step()
        return not operator.leases()

    wait_until(is_healed, "healed at its bound")
    wait_until(lambda: read_state(paused.pid) != "T", "it goes on")
    with pytest.raises(NotDone, match=r"because it lasted 0\.3 s"):
        worker.act("resume", 2)


@pytest.mark.slow
def test_a_worker_that_was_killed_heals_at_its_next_start(operator: Operator) -> None:
    worker, killed, paused = operator.worker(), operator.broker(1), operator.broker(2)
    worker.act("kill", 1)
    worker.act("pause", 2)
    again = operator.worker()
    assert not operator.leases()
    wait_until(lambda: read_state(paused.pid) != "T", "it goes on")
    assert operator.broker(1) != killed
    assert any("broker 1 was started" in line and "started again" in line for line in operator.said)
    with pytest.raises(NotDone, match="healed before"):
        again.act("resume", 2)


@pytest.mark.slow
def test_another_run_finds_nothing_broken(operator: Operator) -> None:
    worker, paused = operator.worker(), operator.broker(2)
    worker.act("pause", 2)
    worker.begin_run("run-1")
    assert read_state(paused.pid) == "T", "it is the same run"
    worker.begin_run("run-2")
    wait_until(lambda: read_state(paused.pid) != "T", "it goes on")


@pytest.mark.slow
def test_an_operator_may_want_a_broker_left_down(operator: Operator) -> None:
    worker = operator.worker(operator.permits(more="    start_when_lost: false\n"))
    worker.act("kill", 1)

    def is_told() -> bool:
        worker.step()
        return any("left down, because start_when_lost is false" in line for line in operator.said)

    wait_until(is_told, "it is told")
    assert worker.act("look", 1).running is None
    worker.act("start", 1)
    assert not operator.leases()


@pytest.mark.slow
def test_a_broker_that_somebody_else_started_is_told(operator: Operator) -> None:
    """An init system that restarts what was killed would cut the fault short, and nobody would see it."""
    worker = operator.worker()
    worker.act("kill", 1)
    operator.start(1)
    with pytest.raises(NotDone, match="runs again, and this worker did not start it"):
        worker.act("look", 1)
    with pytest.raises(NotDone, match="runs again, and this worker did not start it"):
        worker.act("start", 1)
    assert worker.act("look", 1).running == operator.broker(1)


@pytest.mark.slow
def test_a_start_that_fails_says_where_to_look(operator: Operator) -> None:
    worker = operator.worker()
    worker.act("kill", 1)
    good = operator.script.read_text()
    operator.script.write_text("#!/bin/sh\necho no disk\nexit 7\n")
    with pytest.raises(NotDone, match=r"start of broker 1 ended with 7, see .*start-1\.log"):
        worker.act("start", 1)
    assert (operator.directory / "start-1.log").read_text() == "no disk\n"
    assert operator.leases(), "it stays down, and the worker knows it"
    operator.script.write_text(good)
    worker.act("start", 1)
    assert not operator.leases()


@pytest.mark.slow
def test_logs_are_read_only_of_a_dead_broker_and_of_a_topic_of_a_run(operator: Operator, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for name in ("harness-1-c-0", "harness-1-c-1", "theirs-0"):
        (logs / name).mkdir(parents=True)
    (logs / "harness-1-c-2").symlink_to(logs / "theirs-0")
    worker = operator.worker(operator.permits(more=f"    log_dirs: [{logs}]\n"))
    with pytest.raises(NotDone, match="not down by this worker"):
        worker.act("logs", 1, topic="harness-1-c", partitions=3)
    worker.act("kill", 1)
    assert dict(worker.act("logs", 1, topic="harness-1-c", partitions=3).epochs) == {
        0: ((3, 0, 13),), 1: ((3, 0, 13),),
    }  # fmt: skip
    for topic in ("theirs", "../logs/theirs", "harness-/../theirs", ""):
        with pytest.raises(Refused, match="only topics of a run"):
            worker.act("logs", 1, topic=topic, partitions=1)
    worker.act("start", 1)


@pytest.mark.slow
def test_two_workers_of_one_name_would_spoil_each_others_leases(operator: Operator) -> None:
    operator.worker()
    with pytest.raises(JournalError, match="another worker called here"):
        Journal(operator.directory / "leases", "here")


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 9, "held": []}', '{"format": 1, "held": [{"broker": "1"}]}', "[" * 100_000]
)
def test_leases_that_cannot_be_read_are_not_thrown_away(tmp_path: Path, text: str) -> None:
    Journal(tmp_path / "leases", "x").close()
    path = tmp_path / "leases" / "x.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(JournalError, match=r"x\.json cannot be read"):
        Journal(tmp_path / "leases", "x")
    assert path.read_text() == text
