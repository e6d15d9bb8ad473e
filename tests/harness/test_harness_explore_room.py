"""`harness.explore.search.room` and `execution.host_share`: an idle host gets more trials at once, a full one fewer."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from harness.explore.campaign import Campaign, Plan
from harness.explore.execution.bench import Evidence
from harness.explore.execution.host_share import HostShare
from harness.explore.generators.programs import plain
from harness.explore.search.room import FULL_FROM, LOOK_EVERY_S, SPARE_BELOW, STEP, Room
from harness.explore.search.search import Search
from harness.explore.trial.history import History
from harness.explore.trial.model import Trial
from harness.explore.trial.requests_sent import Use

ABOUT = {"client": "simulated", "version": "1", "cluster": "none", "cluster_version": "0", "seed": 1}
BOUND_S = 120.0  # until a trial of this file gives up waiting for others


def test_room_grows_by_a_step_while_the_host_is_idle_and_never_beyond_its_most() -> None:
    room = Room(6, 9)
    seen = []
    for look in range(1, 4):
        room.look(0.2, room.trials, look * LOOK_EVERY_S)
        seen.append(room.trials)
    assert seen == [6 + STEP, 9, 9]


def test_room_does_not_grow_while_what_there_is_is_not_used() -> None:
    room = Room(6, 20)
    room.look(0.2, 5, LOOK_EVERY_S)
    assert room.trials == 6


def test_room_falls_on_a_full_host_and_never_below_its_least() -> None:
    room = Room(6, 20)
    room.look(0.2, 6, 0.0)
    seen = []
    for look in range(1, 4):
        room.look(1.0, room.trials, look * LOOK_EVERY_S)
        seen.append(room.trials)
    assert seen == [7, 6, 6]


def test_room_stays_between_spare_and_full() -> None:
    room = Room(6, 20)
    for number, busy in enumerate((SPARE_BELOW, FULL_FROM)):
        room.look(busy, 6, number * LOOK_EVERY_S)
    assert room.trials == 6


def test_a_fixed_room_wants_to_know_nothing() -> None:
    assert not Room(4, 4).is_due(1_000.0)
    room = Room(4, 5)
    assert room.is_due(LOOK_EVERY_S)
    room.look(0.5, 4, LOOK_EVERY_S)
    assert not room.is_due(1.5 * LOOK_EVERY_S)


def test_what_is_used_of_the_host_is_a_share_and_nothing_is_free_before_time_has_passed() -> None:
    share = HostShare()
    assert 0.0 <= share.used() <= 1.0


class MeetingBench:
    """Its trials end when as many of them run at once as are to be seen."""

    dropped_log_bytes = 0

    def __init__(self, meet: int) -> None:
        self._meet, self._running = meet, 0
        self._changed = threading.Condition()
        self.have_met = threading.Event()

    def end_warm(self) -> Sequence[str]:
        return ()

    def give_up(self) -> None:
        pass

    def run(self, trial: Trial, number: int, *, may_be_warm: bool = False) -> Evidence:
        with self._changed:
            self._running += 1
            if self._running >= self._meet:
                self.have_met.set()
                self._changed.notify_all()
            self._changed.wait_for(self.have_met.is_set, BOUND_S)
            self._running -= 1
        uses = {"Produce": Use(requests=8, version=12)}
        return Evidence(history=History(happened=(), log=()), uses=uses, duration_s=0.1)


class EndlessBench(MeetingBench):
    """Its trials end when they are given up, but for the first ones."""

    def __init__(self, quick: int) -> None:
        super().__init__(meet=1)
        self._quick = quick
        self.are_given_up, self.are_held = threading.Event(), threading.Event()

    def give_up(self) -> None:
        self.are_given_up.set()

    def run(self, trial: Trial, number: int, *, may_be_warm: bool = False) -> Evidence:
        if number == self._quick + 3:
            self.are_held.set()
        if number > self._quick:
            self.are_given_up.wait(BOUND_S)
        return super().run(trial, number, may_be_warm=may_be_warm)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_what_does_not_end_after_the_time_is_given_up_and_shows_nothing(tmp_path: Path, is_stopped: bool) -> None:
    """The time is that of the budget, or that at which it was asked to stop."""
    bench = EndlessBench(quick=7)
    seconds = iter(range(1_000_000))
    search = Search(plain(["produce"]), abilities=["produce"], seed=1)
    campaign = Campaign(
        search,
        bench,
        Plan(budget_s=1_000_000 if is_stopped else 100, workers=3, directory=tmp_path, about=ABOUT),
        say=lambda text: None,
        should_stop=lambda: is_stopped and bench.are_held.is_set(),
        clock=lambda: float(next(seconds)),
    )
    with ThreadPoolExecutor(1) as pool:
        pool.submit(campaign.run).result(BOUND_S)
    assert bench.are_given_up.is_set()
    found = campaign.document()
    assert (found["trials"], found["trials_given_up"], found["is_interrupted"]) == (7, 3, is_stopped)
    assert found["trials_that_proved_nothing"] == []


def test_a_trial_that_ended_before_the_others_were_given_up_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have ended, and whoever waits for them is told of one at a time."""

    def one_of(running: Mapping[Future[Evidence], object], **_: object) -> tuple[set[Future[Evidence]], set[object]]:
        wait(running, timeout=BOUND_S)
        return {next(iter(running))}, set()

    monkeypatch.setattr("harness.explore.campaign.wait", one_of)
    bench = EndlessBench(quick=1_000_000)
    seconds = itertools.count(step=25)  # longer than the grace, at each look
    campaign = Campaign(
        Search(plain(["produce"]), abilities=["produce"], seed=1),
        bench,
        Plan(budget_s=2_000, workers=3, directory=tmp_path, about=ABOUT),
        say=lambda text: None,
        clock=lambda: float(next(seconds)),
    )
    with ThreadPoolExecutor(1) as pool:
        pool.submit(campaign.run).result(BOUND_S)
    assert bench.are_given_up.is_set()
    assert campaign.document()["trials_given_up"] == 0


def test_a_search_takes_the_room_of_an_idle_host(tmp_path: Path) -> None:
    bench = MeetingBench(meet=5)
    seconds = iter(range(1_000_000))
    campaign = Campaign(
        Search(plain(["produce"]), abilities=["produce"], seed=1),
        bench,
        Plan(budget_s=2_000, workers=1, workers_max=6, directory=tmp_path, about=ABOUT),
        say=lambda text: None,
        should_stop=bench.have_met.is_set,
        clock=lambda: float(next(seconds)),
        host_used=lambda: 0.1,
    )
    with ThreadPoolExecutor(1) as pool:
        pool.submit(campaign.run).result(BOUND_S)
    assert bench.have_met.is_set()
    assert 5 <= campaign.document()["trials_at_once_max"] <= 6
