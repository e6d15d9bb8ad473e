"""A group has caught up when it has committed each partition to the end that it had; else its lag is told."""

from __future__ import annotations

import pytest

from harness.caught_up import lag_words, wait_caught_up


@pytest.mark.parametrize(
    ("committed", "ends", "told"),
    [
        ({0: 5, 1: 3}, {0: 5, 1: 3}, ""),
        ({0: 5}, {0: 5, 1: 0}, ""),  # nothing to read there
        ({0: 7}, {0: 5}, ""),
        ({0: 4}, {0: 5, 1: 3000}, "partition 0: committed 4 of 5; partition 1: nothing committed of 3,000"),
    ],
)
def test_lag_is_told_by_partition(committed: dict[int, int], ends: dict[int, int], told: str) -> None:
    assert lag_words(committed, ends) == told


def test_it_waits_for_the_commit_and_gives_up_at_its_bound() -> None:
    now = 0.0

    def sleep(duration_s: float) -> None:
        nonlocal now
        now += duration_s

    steps = iter([{}, {0: 1}, {0: 5}])
    assert wait_caught_up(lambda: next(steps), {0: 5}, timeout_s=60, clock=lambda: now, sleep=sleep) == ""
    behind = wait_caught_up(lambda: {0: 1}, {0: 5}, timeout_s=60, clock=lambda: now, sleep=sleep)
    assert behind == "partition 0: committed 1 of 5"
    assert 60 <= now < 62
