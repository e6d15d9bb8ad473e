"""A program of somebody's own as a process: what it finds, how its end is told, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from harness.explore.execution.own_subject import OwnSubject
from harness.explore.execution.subject import Site
from harness.explore.oracles.own_program import own_program
from harness.explore.trial.history import Connected, Ended, Stuck
from harness.explore.trial.model import Do, Move, Program
from tests.harness.explore_site import SITE
from tests.patience import wait_until

pytestmark = pytest.mark.slow
PROGRAM = own_program()
GIVEN = {
    "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "KAFKA_TOPIC": "t",
    "KAFKA_GROUP_ID": "g",
    "KAFKA_TRANSACTIONAL_ID": "x",
    "KAFKA_CLIENT_ID": "c",
}


def subject(code: str, *, program: Program = PROGRAM, patience_s: float = 60.0, site: Site = SITE) -> OwnSubject:
    return OwnSubject([sys.executable, "-c", code], {}, program, site, patience_s=patience_s)


def test_it_finds_its_cluster_in_the_environment_and_its_end_is_told_with_its_last_words() -> None:
    made = subject("import json, os, sys; print(json.dumps(dict(os.environ))); sys.exit(3)")
    made.run()
    begun, ended = made.happened
    assert isinstance(begun, Connected)
    assert isinstance(ended, Ended)
    assert (ended.code, ended.signal, made.problem) == (3, 0, "")
    found = json.loads(ended.last_words)
    assert {name: found[name] for name in GIVEN} == GIVEN


def test_a_death_is_told_by_its_signal() -> None:
    made = subject("import os, signal; print('so long', flush=True); os.kill(os.getpid(), signal.SIGABRT)")
    made.run()
    ended = made.happened[-1]
    assert isinstance(ended, Ended)
    assert (ended.code, ended.signal, ended.last_words) == (0, 6, "so long")


def test_one_that_is_given_up_ends_at_once() -> None:
    made = subject("import time; time.sleep(600)", patience_s=600.0)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(made.run)
        wait_until(lambda: made.happened, "its start")
        made.give_up()
        running.result(60.0)
    assert isinstance(made.happened[-1], Ended)


def test_one_that_is_given_up_before_it_is_started_ends_at_once() -> None:
    made = subject("import time; time.sleep(600)", patience_s=600.0)
    made.give_up()
    made.run()
    ended = made.happened[-1]
    assert isinstance(ended, Ended)
    assert ended.signal == signal.SIGKILL


def test_one_that_does_not_end_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    made = subject(
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "started = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(child)!r}, 'w').write(str(started.pid))\n"
        "time.sleep(600)\n",
        patience_s=0.1,
        # The patience is counted once the child is there.
        site=replace(SITE, is_healed=lambda: child.exists() and child.read_text() != ""),
    )
    made.run()
    stuck = made.happened[-1]
    assert isinstance(stuck, Stuck)
    assert stuck.waited_ms >= 100
    pid = int(child.read_text())
    wait_until(lambda: not _is_alive(pid), "the child's end")


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_the_patience_begins_when_all_is_healed() -> None:
    until_s = time.monotonic() + 1.5
    made = subject(
        "import time; time.sleep(600)",
        patience_s=0.5,
        site=replace(SITE, is_healed=lambda: time.monotonic() > until_s),
    )
    made.run()
    assert time.monotonic() > until_s + 0.4
    assert isinstance(made.happened[-1], Stuck)


def test_the_cluster_does_nothing_any_more_when_it_has_ended() -> None:
    changed: list[Move] = []
    site = replace(SITE, change=changed.append)
    soon = (Move(do=Do.RUN), Move(do=Do.WAIT, count=1), Move(do=Do.ADD_PARTITIONS, count=1))
    late = (Move(do=Do.RUN), Move(do=Do.WAIT, count=60_000), Move(do=Do.ADD_PARTITIONS, count=1))
    subject("import time; time.sleep(600)", program=replace(PROGRAM, moves=soon), site=site, patience_s=0.1).run()
    assert [move.do for move in changed] == [Do.ADD_PARTITIONS]
    subject("", program=replace(PROGRAM, moves=late), site=site).run()
    assert len(changed) == 1


def test_one_that_is_not_there_is_a_problem_and_no_finding() -> None:
    made = OwnSubject([os.devnull + "/no"], {}, PROGRAM, SITE)
    made.run()
    assert "does not start" in made.problem
    assert made.happened == []


def test_output_without_end_is_read_and_its_last_lines_are_kept() -> None:
    made = subject("for n in range(100_000): print(n, 'x' * 50)")
    made.run()
    ended = made.happened[-1]
    assert isinstance(ended, Ended)
    assert ended.last_words.split(" | ")[-1].startswith("99999 x")
    assert len(ended.last_words) < 2_000
