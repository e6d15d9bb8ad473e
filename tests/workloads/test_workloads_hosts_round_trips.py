"""A clock that is set spoils the cell in which it was set, and no other."""

from __future__ import annotations

import random

import pytest

from runlog.quality.clock_bound import ClockBoundError
from runlog.records.stats import ClockSample
from tests.runlog.test_runlog_clock_bound import SECOND, PlantedClock, round_trips
from workloads.hosts.round_trips import RoundTrips

STEP_NS = 50_000_000


class SetClock(PlantedClock):
    """Is set forward at each of these moments of ours."""

    def __init__(self, *steps_s: float, step_ns: int = STEP_NS) -> None:
        super().__init__(skew_ns=5_000_000, drift_ppm=20.0)
        self._steps_ns, self._step_ns = [second * SECOND for second in steps_s], step_ns

    def offset_ns(self, our_ns: float) -> float:
        return super().offset_ns(our_ns) + self._step_ns * sum(our_ns >= step for step in self._steps_ns)


def trips_of(clock: PlantedClock, *, jitter_ms: float = 0.1, seed: int = 3) -> RoundTrips:
    """Of a minute."""
    found = RoundTrips(20_000)
    for sample in round_trips(clock, random.Random(seed), seconds=60, there_ms=0.2, back_ms=0.2, jitter_ms=jitter_ms):
        found.append(sample)
    return found


def test_a_cell_after_the_step_has_a_bound_that_holds() -> None:
    clock = SetClock(20.2)
    trips = trips_of(clock)
    used_ns = round(clock.offset_ns(30 * SECOND))
    record = trips.bound(25 * SECOND).over(25 * SECOND, 60 * SECOND, used_offset_ns=used_ns)
    assert record.error_us < 2_000
    found = trips.bound(25 * SECOND).at(40 * SECOND)
    assert abs(clock.offset_ns(40 * SECOND) - found.offset_ns) <= found.error_ns


@pytest.mark.parametrize("since_s", [0, 10, 20])
def test_the_cell_in_which_it_was_set_has_none(since_s: int) -> None:
    with pytest.raises(ClockBoundError, match="was set, or a host was suspended, after this had begun"):
        trips_of(SetClock(20.2)).bound(since_s * SECOND)


def test_the_step_is_remembered_when_what_came_before_it_is_dropped() -> None:
    trips = trips_of(SetClock(20.2))
    trips.bound(30 * SECOND)
    kept = len(trips)
    assert kept in range(4 * 39, 4 * 40 + 1)
    with pytest.raises(ClockBoundError, match="after this had begun"):
        trips.bound(10 * SECOND)
    assert len(trips) == kept


def test_several_steps_are_as_one() -> None:
    clock = SetClock(10.0, 12.0, 40.1)
    trips = trips_of(clock)
    found = trips.bound(45 * SECOND).at(50 * SECOND)
    assert abs(clock.offset_ns(50 * SECOND) - found.offset_ns) <= found.error_ns
    with pytest.raises(ClockBoundError):
        trips.bound(20 * SECOND)


def test_an_answer_that_is_nonsense_is_as_a_step() -> None:
    clock = PlantedClock(skew_ns=5_000_000, drift_ppm=0.0)
    first, *others = round_trips(clock, random.Random(1), seconds=9, there_ms=0.2, back_ms=0.2, jitter_ms=0.1)
    trips = RoundTrips(100)
    trips.append(
        ClockSample(
            t_us=0, source="a", sent_ns=first.sent_ns, host_received_ns=9, host_sent_ns=5,
            received_ns=first.received_ns,
        )
    )  # fmt: skip
    with pytest.raises(ClockBoundError, match="never answered"):
        trips.bound(first.received_ns)
    for sample in others:
        trips.append(sample)
    found = trips.bound(others[0].sent_ns).at(5 * SECOND)
    assert abs(clock.offset_ns(5 * SECOND) - found.offset_ns) <= found.error_ns


def test_a_clock_that_is_set_all_the_time_has_no_bound() -> None:
    with pytest.raises(ClockBoundError, match="was set more than 100 times"):
        trips_of(SetClock(*(number / 2 for number in range(120)))).bound(60 * SECOND)


@pytest.mark.parametrize("step_ms", [0.4, 1.0, 5.0, 20.0])
def test_a_bound_after_a_step_that_was_found_holds_between_wide_intervals_too(step_ms: float) -> None:
    found_steps = 0
    for seed in range(10):
        clock = SetClock(20.2, step_ns=int(step_ms * 1e6))
        trips = trips_of(clock, jitter_ms=3.0, seed=seed)
        bound = trips.bound(59 * SECOND)
        if len(trips) == 240:
            continue  # it is within what the round trips leave open
        found_steps += 1
        found = bound.at(50 * SECOND)
        assert abs(clock.offset_ns(50 * SECOND) - found.offset_ns) <= found.error_ns + 1, seed
    assert found_steps == 10 or step_ms < 5


def test_a_clock_without_a_step_keeps_all_of_its_round_trips() -> None:
    trips = trips_of(PlantedClock(skew_ns=0, drift_ppm=50.0))
    trips.bound(0)
    assert len(trips) == 240
