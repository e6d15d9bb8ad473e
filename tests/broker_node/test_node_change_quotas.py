"""Quotas of changes to the metadata (KIP-599): a bucket that refills, refusals of new versions, waits of old ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.node.net import change_quotas as module
from broker.node.net.change_quotas import ChangeQuotas

LIMITS = {
    (("user", "u"),): {"controller_mutation_rate": 2.0},
    (("client-id", None),): {"controller_mutation_rate": 1.0},
}


def made(limits: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = LIMITS) -> ChangeQuotas:
    quotas = ChangeQuotas(window_count=11, window_size_ms=1000)
    quotas.set_limits(limits)
    return quotas


def test_a_full_bucket_takes_one_large_request_whole_and_refuses_the_next() -> None:
    quotas = made()
    first = quotas.charge_of("u", "c", is_strict=True, now_ms=0)
    assert (first(100), first.wait_ms) == (True, 0)  # 22 were there
    assert first(1) is False
    assert first.wait_ms == 39_000  # 78 too many, 2 a second
    later = quotas.charge_of("u", "c", is_strict=True, now_ms=38_999)
    assert later(1) is False
    assert later.wait_ms == 1
    assert quotas.charge_of("u", "c", is_strict=True, now_ms=39_000)(1) is True


def test_an_old_version_is_served_and_told_to_wait() -> None:
    quotas = made()
    charge = quotas.charge_of("u", "c", is_strict=False, now_ms=0)
    assert (charge(30), charge.wait_ms) == (True, 4_000)
    assert (charge(2), charge.wait_ms) == (True, 5_000)


def test_who_shares_a_bucket() -> None:
    quotas = made()
    assert quotas.charge_of("u", "a", is_strict=True, now_ms=0)(30)
    assert not quotas.charge_of("u", "b", is_strict=True, now_ms=0)(1)  # the user's, whatever its client id
    assert quotas.charge_of("v", "a", is_strict=True, now_ms=0)(30)
    assert not quotas.charge_of("w", "a", is_strict=True, now_ms=0)(1)  # the client id's, whoever it is
    assert quotas.charge_of("w", "b", is_strict=True, now_ms=0)(1)


def test_without_a_quota_nothing_is_counted() -> None:
    quotas = made({(("user", "u"),): {"producer_byte_rate": 1.0}})
    assert not quotas.is_active
    charge = quotas.charge_of("u", "c", is_strict=True, now_ms=0)
    assert all(charge(10**6) for _ in range(3))
    assert charge.wait_ms == 0
    quotas.set_limits(LIMITS)
    assert quotas.is_active


def test_the_least_recently_seen_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 2)
    quotas = made({(("client-id", None),): {"controller_mutation_rate": 1.0}})
    for client in ("a", "b"):
        quotas.charge_of("u", client, is_strict=True, now_ms=0)(20)
    assert not quotas.charge_of("u", "a", is_strict=True, now_ms=0)(1)
    quotas.charge_of("u", "c", is_strict=True, now_ms=0)
    assert not quotas.charge_of("u", "a", is_strict=True, now_ms=0)(1)
    assert quotas.charge_of("u", "b", is_strict=True, now_ms=0)(1)


@given(sizes=st.lists(st.integers(1, 50), min_size=20, max_size=60), is_strict=st.booleans())
def test_whoever_waits_as_told_stays_at_its_rate(sizes: list[int], is_strict: bool) -> None:
    quotas = made()
    now_ms = changed = 0
    for size in sizes:
        charge = quotas.charge_of("u", "c", is_strict=is_strict, now_ms=now_ms)
        changed += size if charge(size) else 0
        now_ms += charge.wait_ms
    assert changed <= 22 + 2 * now_ms / 1000 + 2 * max(sizes)


def test_the_smallest_rate_there_is_asks_for_no_longer_wait_than_can_be_told() -> None:
    quotas = made({(("user", "u"),): {"controller_mutation_rate": 5e-324}})
    charge = quotas.charge_of("u", "c", is_strict=False, now_ms=0)
    assert charge(1)
    assert charge.wait_ms == 2**31 - 1
