"""The true offset of a planted clock is always within the stated bound."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from runlog.quality.clock_bound import ClockBound, ClockBoundError
from runlog.records.stats import ClockSample

SECOND = 1_000_000_000
BOOTED_NS = 987_654_321_000_000_000  # how far two hosts' monotonic clocks may be apart: since their boots


class PlantedClock:
    """A clock that is ahead of ours by `skew_ns` at our time 0 and gains `drift_ppm`."""

    def __init__(self, *, skew_ns: int, drift_ppm: float) -> None:
        self.skew_ns, self.drift_ppm = skew_ns, drift_ppm

    def offset_ns(self, our_ns: float) -> float:
        return self.skew_ns + our_ns * self.drift_ppm * 1e-6

    def reads(self, our_ns: float) -> int:
        return int(our_ns + self.offset_ns(our_ns))


def round_trips(
    clock: PlantedClock, rng: random.Random, *, seconds: int, there_ms: float, back_ms: float, jitter_ms: float
) -> list[ClockSample]:
    """Four a second, over a link that is not the same in both directions."""
    samples = []
    for number in range(seconds * 4):
        sent = number * SECOND // 4 + rng.randrange(1_000_000)
        arrived = sent + int((there_ms + rng.expovariate(1 / jitter_ms)) * 1e6)
        answered = arrived + rng.randrange(2_000_000)
        received = answered + int((back_ms + rng.expovariate(1 / jitter_ms)) * 1e6)
        samples.append(
            ClockSample(
                t_us=received // 1000,
                source="a",
                sent_ns=sent,
                host_received_ns=clock.reads(arrived),
                host_sent_ns=clock.reads(answered),
                received_ns=received,
            )
        )
    return samples


@pytest.mark.thorough
@pytest.mark.parametrize("base_ns", [0, BOOTED_NS, -BOOTED_NS])
def test_a_hundred_planted_skews_and_drifts_come_back_within_their_bounds(base_ns: int) -> None:
    held = 0
    for seed in range(100):
        rng = random.Random(seed)
        clock = PlantedClock(
            skew_ns=base_ns + rng.choice((-1, 1)) * 5_000_000, drift_ppm=rng.choice((-50.0, 50.0, 0.0))
        )
        samples = round_trips(
            clock,
            rng,
            seconds=rng.choice((5, 30, 120)),
            there_ms=rng.choice((0.1, 5.0, 35.0)),
            back_ms=rng.choice((0.1, 5.0, 20.0)),
            jitter_ms=rng.choice((0.05, 2.0, 10.0)),
        )
        bound = ClockBound(samples)
        last = samples[-1].received_ns
        moments = [rng.randrange(last + 10 * SECOND) for _ in range(50)]  # also after the last round trip
        found = [bound.at(moment) for moment in moments]
        held += all(
            abs(clock.offset_ns(moment) - each.offset_ns) <= each.error_ns + 1
            for moment, each in zip(moments, found, strict=True)
        )
    assert held == 100


def test_the_bound_of_a_whole_cell_holds_at_each_moment_of_it() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        clock = PlantedClock(skew_ns=BOOTED_NS + 5_000_000, drift_ppm=50.0)
        samples = round_trips(clock, rng, seconds=60, there_ms=20.0, back_ms=2.0, jitter_ms=5.0)
        used = round(ClockBound(samples[:20]).at(0).offset_ns)
        record = ClockBound(samples).over(0, 60 * SECOND, used_offset_ns=used)
        errors_us = [abs(clock.offset_ns(moment) - used) / 1e3 for moment in range(0, 60 * SECOND, SECOND // 10)]
        assert max(errors_us) <= record.error_us
        assert record.error_us < 30_000  # half of 22 ms, 3 ms of drift, and some air


def test_the_rate_is_found_within_its_error() -> None:
    clock = PlantedClock(skew_ns=5_000_000, drift_ppm=50.0)
    samples = round_trips(clock, random.Random(1), seconds=600, there_ms=0.5, back_ms=0.2, jitter_ms=0.2)
    bound = ClockBound(samples)
    assert abs(bound.rate_ppm - 50.0) <= bound.rate_error_ppm
    assert bound.rate_error_ppm < 3.0


def test_a_wandering_rate_stays_within_the_bound() -> None:
    """The rate goes from 45 to 55 ppm and back: within the allowance around the measured mean."""
    for seed in range(20):
        rng = random.Random(seed)

        class Wandering(PlantedClock):
            def offset_ns(self, our_ns: float) -> float:
                turn = 30 * SECOND
                late = max(0.0, our_ns - turn)
                return self.skew_ns + (our_ns - late) * 45e-6 + late * 55e-6

        clock = Wandering(skew_ns=5_000_000, drift_ppm=0.0)
        samples = round_trips(clock, rng, seconds=60, there_ms=0.2, back_ms=0.2, jitter_ms=0.1)
        bound = ClockBound(samples)
        for _ in range(100):
            moment = rng.randrange(60 * SECOND)
            found = bound.at(moment)
            assert abs(clock.offset_ns(moment) - found.offset_ns) <= found.error_ns + 1


def test_the_bound_is_half_the_shortest_round_trip_and_little_more() -> None:
    clock = PlantedClock(skew_ns=5_000_000, drift_ppm=50.0)
    samples = round_trips(clock, random.Random(7), seconds=60, there_ms=0.1, back_ms=0.1, jitter_ms=0.2)
    bound = ClockBound(samples)
    middle = bound.at(30 * SECOND)
    assert bound.round_trip_ns_min >= 200_000
    assert bound.round_trip_ns_min / 2 * 0.5 < middle.error_ns < bound.round_trip_ns_min / 2 + 200_000


def test_further_from_the_round_trips_the_bound_is_wider() -> None:
    clock = PlantedClock(skew_ns=0, drift_ppm=0.0)
    bound = ClockBound(round_trips(clock, random.Random(3), seconds=10, there_ms=1, back_ms=1, jitter_ms=0.1))
    assert bound.at(5 * SECOND).error_ns < bound.at(60 * SECOND).error_ns < bound.at(600 * SECOND).error_ns


def test_a_clock_that_was_set_has_no_bound() -> None:
    clock = PlantedClock(skew_ns=0, drift_ppm=0.0)
    samples = round_trips(clock, random.Random(3), seconds=10, there_ms=0.1, back_ms=0.1, jitter_ms=0.1)
    stepped = [
        replace(each, host_received_ns=each.host_received_ns + 50_000_000, host_sent_ns=each.host_sent_ns + 50_000_000)
        for each in samples[20:]
    ]
    with pytest.raises(ClockBoundError):
        ClockBound([*samples[:20], *stepped])


def test_without_any_answer_there_is_no_bound() -> None:
    with pytest.raises(ClockBoundError, match="never answered"):
        ClockBound([])


@pytest.mark.parametrize(
    "times", [(10, 5, 5, 9), (10, 7, 5, 20), (10, 0, 500, 20)], ids=["back in time", "reply first", "took too long"]
)
def test_a_host_that_lies_about_its_times_gives_no_bound(times: tuple[int, int, int, int]) -> None:
    sent, host_received, host_sent, received = times
    sample = ClockSample(
        t_us=0, sent_ns=sent, host_received_ns=host_received, host_sent_ns=host_sent, received_ns=received
    )
    with pytest.raises(ClockBoundError):
        ClockBound([sample])


def test_one_round_trip_is_enough_for_a_bound() -> None:
    clock = PlantedClock(skew_ns=BOOTED_NS, drift_ppm=50.0)
    one = round_trips(clock, random.Random(5), seconds=1, there_ms=20, back_ms=1, jitter_ms=1)[:1]
    found = ClockBound(one).at(one[0].sent_ns)
    assert abs(clock.offset_ns(one[0].sent_ns) - found.offset_ns) <= found.error_ns + 1
