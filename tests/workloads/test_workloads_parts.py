"""Histogram, keys, claims and the plan."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from workloads.context import claim_number
from workloads.histogram import LogHistogram
from workloads.keys import key_sequence
from workloads.model import Plan, Workload


def test_quantiles_are_within_two_per_cent_and_survive_a_merge() -> None:
    values = np.random.default_rng(1).lognormal(7, 1.5, 50_000).astype(np.int64)
    halves = [LogHistogram(), LogHistogram()]
    halves[0].add(values[:20_000])
    halves[1].add(values[20_000:])
    merged = LogHistogram()
    for half in halves:
        merged.merge(half.told())
    assert merged.count == 50_000
    assert merged.max_us == values.max()
    for share in (0.5, 0.99, 0.999):
        assert merged.quantile_us(share) == pytest.approx(np.quantile(values, share), rel=0.02)


def test_an_empty_histogram_and_negative_values_are_harmless() -> None:
    histogram = LogHistogram()
    assert histogram.quantile_us(0.99) == 0
    histogram.add(np.array([-5, 0], dtype=np.int64))
    assert (histogram.count, histogram.quantile_us(1.0)) == (2, 0)


def test_key_distributions_have_their_shape() -> None:
    def shares(keys: str) -> list[float]:
        sequence = key_sequence(Workload.model_validate({"rate_per_s": 1, "keys": keys, "key_count": 10}), seed=3)
        assert sequence is not None
        counts = Counter(sequence)
        return [counts[f"key-{number:06d}".encode()] / len(sequence) for number in range(10)]

    assert key_sequence(Workload(rate_per_s=1), seed=3) is None
    assert shares("uniform") == pytest.approx([0.1] * 10, abs=0.01)
    assert shares("hot")[0] == pytest.approx(0.55, abs=0.01)
    zipf = shares("zipf")
    assert zipf[0] == pytest.approx(2 * zipf[1], rel=0.1)


def test_numbers_of_users_are_claimed_once(tmp_path: Path) -> None:
    assert [claim_number(tmp_path, "producer", range(2)) for _ in range(2)] == [0, 1]
    assert claim_number(tmp_path, "consumer", range(1)) == 0
    with pytest.raises(RuntimeError, match="all 2 numbers of producer are taken"):
        claim_number(tmp_path, "producer", range(2))


def test_property_values_of_a_plan_become_text(tmp_path: Path) -> None:
    plan = Plan.model_validate(
        {
            "run_dir": str(tmp_path), "cell_id": "c", "t0_monotonic_ns": 1, "client": "confluent", "topic": "t",
            "bootstrap_servers": "127.0.0.1:1", "partitions": 1, "workload": {"rate_per_s": 1},
            "properties": {"enable.idempotence": True, "linger.ms": 5},
        }
    )  # fmt: skip
    assert plan.properties == {"enable.idempotence": "true", "linger.ms": "5"}
