"""The rate of moves between directories: when it is used up, and when there is room again."""

from __future__ import annotations

from broker.node.features.replica_moves.throttle import Throttle
from broker.node.settings.values import LONG_MAX


def throttle(rate: int) -> Throttle:
    made = Throttle(window_count=11, window_size_ms=1_000)
    made.set_rate(rate)
    return made


def test_a_first_burst_counts_for_one_second_and_no_longer_as_time_goes_on() -> None:
    slow = throttle(1_000)
    assert not slow.is_exceeded(0)
    slow.record(5_000, 0)
    assert slow.is_exceeded(4_900)
    assert not slow.is_exceeded(5_000)


def test_what_is_older_than_the_window_is_forgotten_and_without_a_rate_nothing_is_too_much() -> None:
    slow = throttle(1)
    slow.record(1_000_000, 0)
    assert slow.is_exceeded(10_999)
    assert not slow.is_exceeded(11_000)
    unlimited = throttle(LONG_MAX)
    unlimited.record(1 << 60, 0)
    assert not unlimited.is_exceeded(0)
