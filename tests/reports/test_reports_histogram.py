"""Quantiles of binned latencies: sends that never ended rank above all that did."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from reports.analyse.histogram import summarise
from reports.analyse.queries import BOOTSTRAP_BLOCKS, LATENCY_BINS_PER_E_FOLD, SLOT_BINS_PER_E_FOLD
from reports.read.model import Latency

ANSWERED = [1_000 + place for place in range(10_000)]


def summary(us: list[int], unanswered: int) -> Latency:
    bins = [math.floor(math.log(value) * LATENCY_BINS_PER_E_FOLD) for value in us]
    frame = pd.DataFrame({"bin": bins, "n": 1, "low": us, "high": us, "total": us, "negative": 0})
    coarse = [one // (LATENCY_BINS_PER_E_FOLD // SLOT_BINS_PER_E_FOLD) for one in bins]
    blocks = pd.DataFrame({"bin": coarse, "n": 1, "block": [place % BOOTSTRAP_BLOCKS for place in range(len(us))]})
    return summarise(frame, blocks, seed=1, unanswered=unanswered)


@pytest.mark.parametrize("unanswered", [0, 50, 90])
def test_the_p99_is_that_of_answered_and_unanswered_sends_together(unanswered: int) -> None:
    everyone = np.sort([*ANSWERED, *[10**9] * unanswered])
    expected = everyone[math.ceil(0.99 * len(everyone)) - 1]
    found = summary(ANSWERED, unanswered)
    assert found.quantiles["p99"] == pytest.approx(expected, rel=0.01)
    assert found.n == len(ANSWERED)
    assert found.p99_interval_us is not None
    assert found.p99_interval_us[0] <= expected * 1.01
    assert found.p99_interval_us[1] >= expected * 0.99


def test_a_percentile_that_falls_on_an_unanswered_send_has_no_value() -> None:
    found = summary(ANSWERED, 300)
    assert found.quantiles["p50"] is not None
    assert found.quantiles["p99"] is None
    assert found.p99_interval_us is None
    assert max(quantile for quantile, _ in found.curve) < 0.98
    assert found.max_us == ANSWERED[-1]
