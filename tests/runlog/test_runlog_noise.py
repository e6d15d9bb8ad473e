"""What is taken for the host's doing: nothing that the system under test can cause, down to what makes a p99."""

from __future__ import annotations

import pytest

from runlog.quality.noise import disturbance_of, untold_stalls_of
from runlog.records.stats import HOST, Resources, StallSample, StatsSample

WINDOW_US = (1_000_000, 6_000_000)


def samples(*, foreign: float = 0.0, stolen: float = 0.0, at: tuple[int, ...] = ()) -> list[StatsSample]:
    """Two samples of the host a second; the shares are those of the samples with the numbers `at`, or of all."""
    return [
        Resources(
            t_us=number * 500_000,
            source=HOST,
            values={
                "cpu_share": 0.9,
                "foreign_share": foreign if not at or number in at else 0.01,
                "steal_share": stolen if not at or number in at else 0.0,
            },
        )
        for number in range(14)
    ]


def stall(*, ms: int, busy: float = 0.1, stolen: float = 0.0, at_us: int = 3_000_000) -> StallSample:
    return StallSample(
        t_us=at_us, took_us=ms * 1000 + 50_000, late_us=ms * 1000, stolen_share=stolen, busy_share=busy
    )  # fmt: skip


def disturbance(*found: StatsSample) -> str:
    return disturbance_of(found, WINDOW_US)


@pytest.mark.parametrize("shares", [{"foreign": 0.4}, {"stolen": 0.4}])
def test_one_sample_in_ten_disturbs_a_p99_though_the_mean_is_low(shares: dict[str, float]) -> None:
    assert disturbance(*samples(**shares, at=(5,))) == (
        "disturbed host: for 0.5 of the 5.0 s of the measured window others held it up, and 1% of the time makes a p99"
    )
    assert disturbance(*samples(**shares, at=(1, 13))) == "", "before the window, and after it"
    assert disturbance(*samples(**{name: 0.04 for name in shares})) == ""
    assert disturbance(*samples(foreign=0.2, at=(5,))) == "", "the cores had room for it"


def test_a_standstill_of_the_machine_is_seen_in_a_twentieth_of_a_second() -> None:
    assert "for 0.2 of the 5.0 s" in disturbance(*samples(), stall(ms=150))
    assert "for 0.1 of the 5.0 s" in disturbance(*samples(), stall(ms=10, stolen=0.5, busy=0.5))
    assert disturbance(*samples(), stall(ms=10, stolen=0.1)) == ""
    assert disturbance(*samples(), stall(ms=100, at_us=900_000)) == ""


def test_overlapping_evidence_counts_once() -> None:
    twice = [stall(ms=450), stall(ms=450)]
    assert "for 0.5 of the" in disturbance(*samples(), *twice)


def test_a_stall_while_programs_of_this_host_were_busy_is_never_the_hosts() -> None:
    """The brokers, or a collection of the load generator, make a thread wait for the processor as a neighbour does."""
    own = [*samples(), stall(ms=1_450, busy=0.95)]
    assert disturbance(*own) == ""
    assert untold_stalls_of(own, WINDOW_US).startswith(
        "for 1.5 s of the measured window a thread that only sleeps did not get the processor"
    )
    assert untold_stalls_of(samples(), WINDOW_US) == ""
    assert untold_stalls_of([stall(ms=100)], WINDOW_US) == "", "that one is the host's"
