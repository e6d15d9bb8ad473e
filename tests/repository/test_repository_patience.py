"""What a test waits for: a hang is told soon on an idle host, work that a crowded host slows down is not cut off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.patience import Patience, communicate, crowding, run_command, wait_until

HANGS = "print('so far', flush=True)\nimport threading\nthreading.Event().wait()"
WORKS = "import time\nend = time.process_time() + 1.5\nwhile time.process_time() < end: pass\nprint('done')"


class Host:
    """A clock and a crowd."""

    def __init__(self) -> None:
        self.now_s, self.crowd = 1_000.0, 1.0

    def patience(self, *, quiet_s: float = 60, whole_s: float = 600) -> Patience:
        return Patience("the end", quiet_s, whole_s, clock=lambda: self.now_s, crowding=lambda: self.crowd)

    def seconds_until_told(self, patience: Patience, seen: Iterable[object], *, step_s: float = 1.0) -> float:
        began_s = self.now_s
        for value in seen:
            self.now_s += step_s
            try:
                patience.check(value)
            except AssertionError:
                return self.now_s - began_s
        raise ValueError("it goes on")


@pytest.mark.parametrize(("crowd", "expected_s"), [(1.0, 60), (4.0, 240), (8.0, 480)])
def test_a_hang_is_told_after_a_minute_of_an_idle_host(crowd: float, expected_s: float) -> None:
    host = Host()
    host.crowd = crowd
    assert host.seconds_until_told(host.patience(), [None] * 10_000) == expected_s


def test_a_change_starts_the_minute_anew() -> None:
    host = Host()
    assert host.seconds_until_told(host.patience(), [*range(100), *[99] * 10_000]) == 100 + 60


def test_what_changes_for_ever_is_told_too() -> None:
    host = Host()
    assert host.seconds_until_told(host.patience(), range(10_000)) == 600


def test_a_stop_of_the_whole_host_counts_as_a_moment() -> None:
    host = Host()
    patience = host.patience()
    host.now_s += 3_600
    patience.check()
    assert host.seconds_until_told(patience, [None] * 10_000) == 55


def test_what_is_told_names_what_was_awaited_and_how_long() -> None:
    host = Host()
    patience = host.patience(quiet_s=2)
    host.now_s += 1
    patience.check()
    host.now_s += 3
    with pytest.raises(AssertionError, match="after 4 s, nothing changed for 2 s of an idle host: the end"):
        patience.check()


def test_a_crowd_is_counted_for_each_core_and_no_host_is_emptier_than_empty() -> None:
    assert crowding() >= 1.0


def test_the_value_of_the_condition_is_handed_out() -> None:
    values = iter([0, 0, 7])
    assert wait_until(lambda: next(values), "a number", poll_s=0) == 7


@pytest.mark.slow
def test_a_command_that_hangs_is_ended_and_its_words_are_told() -> None:
    with pytest.raises(AssertionError, match="so far"):
        run_command([sys.executable, "-c", HANGS], quiet_s=1)


@pytest.mark.slow
def test_a_command_that_computes_without_a_word_is_left_alone() -> None:
    done = run_command([sys.executable, "-c", WORKS], quiet_s=1)
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.mark.slow
def test_a_command_gets_its_input_and_its_failure_is_raised_on_demand() -> None:
    echo = "import sys; print(sys.stdin.read().upper(), end=''); sys.exit(3)"
    done = run_command([sys.executable, "-c", echo], input="word")
    assert (done.returncode, done.stdout) == (3, "WORD")
    with pytest.raises(subprocess.CalledProcessError):
        run_command([sys.executable, "-c", echo], check=True)


@pytest.mark.slow
def test_pipes_that_a_test_holds_itself_are_read_to_their_end_or_told_as_a_hang() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    echo = "import sys, time; time.sleep(1.5); print(sys.stdin.read().upper(), end='')"
    with subprocess.Popen([sys.executable, "-c", echo], **pipes) as process:
        assert communicate(process, "an echo", "word") == ("WORD", "")
    with subprocess.Popen([sys.executable, "-c", HANGS], **pipes) as process:
        with pytest.raises(AssertionError, match="nothing changed for 1 s of an idle host: its end"):
            communicate(process, "its end", quiet_s=1)
        process.kill()
