"""Quotas: the wait brings a client back to its rate, whatever the pattern; who is limited by what; bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.node.features.quotas import client_quotas as quotas_module
from broker.node.features.quotas.client_quotas import ClientQuotas

LIMITS = {
    (("client-id", "a"),): {"producer_byte_rate": 1000.0},
    (("client-id", None),): {"producer_byte_rate": 50.0, "request_percentage": 10.0},
}


def made(limits: dict[tuple[tuple[str, str | None], ...], dict[str, float]]) -> ClientQuotas:
    quotas = ClientQuotas(window_count=11, window_size_ms=1000)
    quotas.set_limits(limits)
    return quotas


def test_the_client_then_the_default_then_nothing() -> None:
    quotas = made(LIMITS)
    assert quotas.limit("producer_byte_rate", "u", "a") == 1000
    assert quotas.limit("producer_byte_rate", "u", "b") == 50
    assert quotas.limit("request_percentage", "u", "a") == 10  # the client's own entry says nothing of it
    assert quotas.limit("consumer_byte_rate", "u", "a") is None
    assert quotas.fetched("u", "a", 10**9, 0) == 0
    quotas.set_limits({})
    assert not quotas.is_active


@given(sizes=st.lists(st.integers(1, 60_000), min_size=30, max_size=120))
def test_whoever_waits_as_told_stays_at_its_rate(sizes: list[int]) -> None:
    quotas = made({(("client-id", "a"),): {"producer_byte_rate": 10_000.0}})
    now_ms = 0
    for size in sizes:
        now_ms += quotas.produced("u", "a", size, now_ms) + 1
    # A burst may use up one window before it is seen; after that the rate holds.
    assert (sum(sizes) - 110_000 - 60_000) * 1000 / max(now_ms, 1) <= 10_000 * 1.35


def test_below_the_rate_nobody_waits() -> None:
    quotas = made({(("client-id", "a"),): {"consumer_byte_rate": 10_000.0}})
    assert all(quotas.fetched("u", "a", 900, number * 100) == 0 for number in range(300))


def test_request_time_is_limited_and_its_wait_is_short() -> None:
    quotas = made({(("client-id", None),): {"request_percentage": 1.0}})
    assert quotas.handled("u", "x", 1_000_000, 0) == 0
    assert 0 < quotas.handled("u", "x", 5_000_000_000, 10) <= 1000


def test_one_answer_holds_no_more_than_a_window_allows() -> None:
    quotas = made({(("client-id", "a"),): {"consumer_byte_rate": 500.0}})
    assert quotas.fetch_bytes_max("u", "a") == 5000
    assert quotas.fetch_bytes_max("u", "b") is None


def test_the_number_of_clients_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas_module, "CLIENTS_MAX", 3)
    quotas = made({(("client-id", None),): {"producer_byte_rate": 100.0}})
    for number in range(10):
        quotas.produced("u", f"client-{number}", 10, 0)
    assert len(quotas._windows) == 3


ALL_LEVELS: list[tuple[tuple[str, str | None], ...]] = [
    (("client-id", "c"), ("user", "u")),
    (("client-id", None), ("user", "u")),
    (("user", "u"),),
    (("client-id", "c"), ("user", None)),
    (("client-id", None), ("user", None)),
    (("user", None),),
    (("client-id", "c"),),
    (("client-id", None),),
]


@given(there=st.sets(st.sampled_from(range(8))), without=st.sets(st.sampled_from(range(8))))
def test_the_first_of_kafkas_eight_levels_that_limits_this_key_counts(there: set[int], without: set[int]) -> None:
    """ClientQuotaCallback's order. An entity that limits something else is passed over."""
    quotas = made(
        {
            ALL_LEVELS[level]: {"consumer_byte_rate" if level in without else "producer_byte_rate": 10.0 + level}
            for level in there
        }
    )
    first = min(there - without, default=None)
    assert quotas.limit("producer_byte_rate", "u", "c") == (None if first is None else 10.0 + first)


def test_a_users_quota_is_for_all_its_clients_together_and_a_clients_for_all_its_users() -> None:
    for entity, shared, apart in (
        ((("user", None),), ("u", "other"), ("other", "c")),
        ((("client-id", None),), ("other", "c"), ("u", "other")),
    ):
        quotas = made({entity: {"producer_byte_rate": 10.0}})
        assert quotas.produced("u", "c", 90, 0) == 0
        assert quotas.produced(*apart, 90, 0) == 0
        assert quotas.produced(*shared, 90, 0) > 0
    quotas = made({(("client-id", None), ("user", None)): {"producer_byte_rate": 10.0}})
    assert quotas.produced("u", "c", 90, 0) == quotas.produced("u", "d", 90, 0) == quotas.produced("v", "c", 90, 0) == 0
    assert quotas.produced("u", "c", 90, 0) > 0


def test_connections_of_an_address_are_limited_by_its_quota_then_by_the_default() -> None:
    rate = "connection_creation_rate"
    quotas = made({(("ip", "10.0.0.1"),): {rate: 100.0}, (("ip", None),): {rate: 1.0}})
    assert [quotas.connected("10.0.0.1", 0) for _ in range(20)] == [0] * 20
    assert any(quotas.connected("10.0.0.2", 0) for _ in range(20))
    assert made({(("user", None),): {"producer_byte_rate": 1.0}}).connected("10.0.0.2", 0) == 0
