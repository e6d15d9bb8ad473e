"""The rate over a sliding window: a first burst is spread over it, and what is older than it is forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.node.net.rate_window import RateWindow


def test_a_first_burst_is_spread_over_all_samples_but_one() -> None:
    window = RateWindow(count=11, size_ms=1_000)
    assert window.per_second(0) == 0
    window.add(500, 0)
    window.add(500, 999)
    assert window.per_second(999) == window.per_second(10_000) == 100
    assert window.per_second(10_999) == 1_000_000 / 10_999
    assert window.per_second(11_000) == 0, "it is older than the window"


def test_a_window_of_one_sample_forgets_the_one_before() -> None:
    window = RateWindow(count=1, size_ms=1_000)
    window.add(7, 0)
    window.add(9, 1_000)
    assert window.per_second(1_000) == 9


@given(amounts=st.lists(st.integers(1, 60_000), min_size=30, max_size=120))
def test_whoever_waits_until_the_rate_is_back_stays_at_it(amounts: list[int]) -> None:
    window, limit, now_ms = RateWindow(count=11, size_ms=1_000), 10_000, 0
    for amount in amounts:
        window.add(amount, now_ms)
        rate = window.per_second(now_ms)
        # Kafka's wait: so long the excess takes at the limit
        now_ms += 1 + (0 if rate <= limit else round((rate - limit) / limit * 11 * 1_000))
    # A burst may use up one window before it is seen; after that the rate holds.
    assert (sum(amounts) - 11 * limit - 60_000) * 1_000 / now_ms <= limit * 1.35
