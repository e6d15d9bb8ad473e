"""A misspelt name has the right one beside it, and a name that is merely another one has none."""

from __future__ import annotations

import pytest

from runlog.files.nearest import nearest_name

NAMES = (
    "acks", "linger.ms", "batch.size", "repetitions", "rate_per_s", "latency", "leader-loss", "p99_ms", "p999_ms",
    "demo", "SASL_SSL", "slow_close", "reset_peer", "timeout",
)  # fmt: skip


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("dmeo", "demo"), ("leader-los", "leader-loss"), ("rate_per_sec", "rate_per_s"), ("SASL_TLS", "SASL_SSL"),
        ("p99", "p99_ms"), ("linger", "linger.ms"), ("BATCH.SIZE", "batch.size"), ("lat", "latency"), ("ack", "acks"),
    ],
)  # fmt: skip
def test_what_is_near_is_found(word: str, name: str) -> None:
    assert nearest_name(word, NAMES) == name


@pytest.mark.parametrize("word", ["partitions", "retries", "acts", "la", "", "sasl", "time.out.everything", "close"])
def test_what_is_far_off_is_not_offered(word: str) -> None:
    near = nearest_name(word, [name for name in NAMES if name not in ("acks", "SASL_SSL")])
    assert near is None, near
