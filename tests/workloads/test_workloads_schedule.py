"""Schedules: the count and the times agree, shares make up the whole, and each shape has the rate that it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.amount import examples
from workloads import schedule
from workloads.model import Workload

SHAPES: list[dict[str, Any]] = [
    {"kind": "constant"},
    {"kind": "steps", "steps": [{"rate_per_s": 100, "duration_ms": 700}, {"rate_per_s": 900, "duration_ms": 300}]},
    {"kind": "steps", "steps": [{"rate_per_s": 300, "duration_ms": 500}, {"rate_per_s": 0, "duration_ms": 500}]},
    {"kind": "ramp", "from_rate_per_s": 0, "to_rate_per_s": 2_000},
    {"kind": "ramp", "from_rate_per_s": 800, "to_rate_per_s": 0},
    {"kind": "spike", "spike_rate_per_s": 5_000, "at_ms": 400, "duration_ms": 200},
    {"kind": "sine", "amplitude_share": 0.9, "period_ms": 800},
    {"kind": "poisson"},
    {"kind": "replay", "times_ms": [0, 0.5, 0.5, 100, 1_999]},
]


def _build(shape: dict[str, Any], **changes: Any) -> schedule.Schedule:
    fields: dict[str, Any] = {"rate_per_s": 1_000, "warmup_ms": 500, "measure_ms": 2_000, "schedule": shape}
    return schedule.build(Workload(**(fields | changes)), seed=11)


def _all_times(built: schedule.Schedule) -> list[int]:
    times: list[int] = built.times_ns(np.arange(built.total, dtype=np.int64)).tolist()
    return times


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["kind"])
def test_times_ascend_and_stay_within_warmup_and_window(shape: dict[str, Any]) -> None:
    times = _all_times(_build(shape))
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= 2_500_000_000


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["kind"])
@given(t_ns=st.integers(-1_000, 2_600_000_000))
@settings(max_examples=examples(60), deadline=None)
def test_the_count_until_a_time_is_the_number_of_times_up_to_it(shape: dict[str, Any], t_ns: int) -> None:
    built = _build(shape)
    expected = int(np.searchsorted(np.array(_all_times(built)), t_ns, side="right"))
    assert built.count_until(t_ns) == expected


@given(rate=st.floats(0.5, 5_000), warmup_ms=st.integers(0, 1_000), measure_ms=st.integers(1, 3_000))
@settings(max_examples=examples(60), deadline=None)
def test_a_constant_rate_sends_rate_times_duration(rate: float, warmup_ms: int, measure_ms: int) -> None:
    built = _build({"kind": "constant"}, rate_per_s=rate, warmup_ms=warmup_ms, measure_ms=measure_ms)
    assert built.total == pytest.approx(rate * (warmup_ms + measure_ms) / 1e3, abs=1.001)
    assert built.count_until(10**12) == built.total


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["kind"])
@pytest.mark.parametrize("of", [1, 3, 7])
def test_shares_make_up_the_whole(shape: dict[str, Any], of: int) -> None:
    built = _build(shape)
    shares = [schedule.Share(built, index=index, of=of) for index in range(of)]
    times = sorted(time for share in shares for time in share.next_times_ns(0, share.total).tolist())
    assert times == _all_times(built)
    assert sum(share.count_until(1_234_567_890) for share in shares) == built.count_until(1_234_567_890)


@pytest.mark.parametrize(
    ("shape", "from_ms", "to_ms", "expected"),
    [
        ({"kind": "constant"}, 500, 1_500, 1_000),
        (SHAPES[1], 500, 1_200, 70),
        (SHAPES[1], 1_200, 2_500, 1_170),
        (SHAPES[3], 500, 2_500, 2_000),
        (SHAPES[3], 500, 1_500, 500),
        (SHAPES[5], 900, 1_100, 1_000),
        (SHAPES[5], 1_100, 2_100, 1_000),
        (SHAPES[6], 500, 1_300, 800),  # one whole period has the mean rate
    ],
)
def test_each_shape_has_its_rate_in_each_part(shape: dict[str, Any], from_ms: int, to_ms: int, expected: int) -> None:
    built = _build(shape)
    count = built.count_until(to_ms * 1_000_000) - built.count_until(from_ms * 1_000_000)
    assert count == pytest.approx(expected, abs=2)


def test_poisson_arrivals_have_the_rate_and_the_spread_of_poisson() -> None:
    built = _build({"kind": "poisson"}, rate_per_s=20_000, measure_ms=4_500, warmup_ms=500)
    gaps = np.diff(np.array(_all_times(built)))
    assert built.total == pytest.approx(100_000, rel=0.02)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.02)


def test_the_same_seed_gives_the_same_arrivals() -> None:
    assert _all_times(_build({"kind": "poisson"})) == _all_times(_build({"kind": "poisson"}))


def test_replayed_times_count_from_the_measured_window() -> None:
    assert _all_times(_build(SHAPES[8])) == [500_000_000, 500_500_000, 500_500_000, 600_000_000, 2_499_000_000]


def test_mistakes_in_a_workload_are_named() -> None:
    with pytest.raises(ValidationError, match="rate_per_sec"):
        Workload.model_validate({"rate_per_s": 1, "rate_per_sec": 1})
    with pytest.raises(ValidationError, match="ascend"):
        Workload.model_validate({"rate_per_s": 1, "schedule": {"kind": "replay", "times_ms": [2, 1]}})
    with pytest.raises(ValidationError, match="more than producers"):
        Workload.model_validate({"rate_per_s": 1, "producers": 1, "processes": 3})


@pytest.mark.parametrize("at_most", [1, 1_000, schedule.LOOKAHEAD])
def test_looking_ahead_gives_the_records_that_the_share_has_due(at_most: int) -> None:
    whole = schedule.PiecewiseRate([schedule.Piece(duration_s=50, rate_from=1_000, rate_to=2_000)])
    share = schedule.Share(whole, index=1, of=2)
    lookahead = schedule.Lookahead(share)
    for first in (0, 7, 16_000, schedule.LOOKAHEAD - 1, 30_000, share.total - 5, 3):
        assert lookahead.next_ns(first) == share.next_times_ns(first, 1)[0]
        for ahead in (0, 1, 999, schedule.LOOKAHEAD - 1):
            t_ns = int(share.next_times_ns(min(first + ahead, share.total - 1), 1)[0])
            count = min(at_most, share.count_until(t_ns) - first)
            assert lookahead.due(first, t_ns, at_most).tolist() == share.next_times_ns(first, count).tolist()
        assert not len(lookahead.due(first, int(share.next_times_ns(first, 1)[0]) - 1, at_most))
