"""reports.figures.compare.confirm: a prediction beside a new run. Within both intervals or 5 % it is confirmed."""

from __future__ import annotations

import random

import pytest

from reports.figures.compare.confirm import (
    BETTER,
    CONFIRMED,
    UNDECIDED,
    UNKNOWN,
    WORSE,
    Confirmation,
    confirm,
    exit_code,
)
from tests.reports.confirm_trials import confirmed
from tests.reports.sweep_facts import predicted_figures

P99 = {"p99": {"value": 10.0, "low": 9.5, "high": 10.5, "unit": "ms"}}


def judged(*p99_us: float) -> Confirmation:
    [found] = confirm(predicted_figures(P99), {"p99": p99_us})
    return found


@pytest.mark.parametrize(
    ("p99_us", "result"),
    [
        ((10_000, 10_100, 9_900), CONFIRMED),
        ((10_400, 10_410, 10_390), CONFIRMED),  # 4 % off, but that does not matter
        ((13_000, 13_010, 12_990), WORSE),
        ((8_000, 8_010, 7_990), BETTER),
        ((8_000, 10_000, 12_000), UNDECIDED),  # half of the figure could be true
        ((2_000, 10_000, 50_000), UNDECIDED),  # anything could be true
        ((10_000,), UNKNOWN),
        ((), UNKNOWN),
    ],
)
def test_a_latency_is_judged_by_both_intervals_and_by_direction(p99_us: tuple[float, ...], result: str) -> None:
    assert judged(*p99_us).result == result


def test_more_throughput_is_better() -> None:
    predicted = {"throughput": {"value": 1_000.0, "low": 990.0, "high": 1_010.0, "unit": "records/s"}}
    [found] = confirm(predicted_figures(predicted), {"throughput": [1_300.0, 1_301.0]})
    assert found.result == BETTER
    assert found.measured is not None
    assert found.measured[0] == pytest.approx(1_300.5, rel=1e-4)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ((CONFIRMED, BETTER), 0),
        ((CONFIRMED, WORSE), 1),
        ((CONFIRMED, UNKNOWN), 4),
        ((UNKNOWN, WORSE), 1),
        ((UNDECIDED, BETTER), 4),
        ((), 4),
    ],
)
def test_the_exit_code_tells_the_worst(results: tuple[str, ...], code: int) -> None:
    found = [
        Confirmation(measure="p99", title="", unit="", predicted=(1, 1, 1), measured=None, repetitions=0, result=result)
        for result in results
    ]
    assert exit_code(found) == code


@pytest.mark.thorough
def test_a_run_of_what_was_predicted_is_called_worse_or_better_in_5_of_100_at_most() -> None:
    """Prediction and new run are means of four with the same scatter of 20 %, far above what never matters."""
    alike = 0
    for seed in range(400):
        rng = random.Random(seed)
        base = [rng.lognormvariate(0.0, 0.2) for _ in range(4)]
        [first] = confirm(
            predicted_figures({"p99": {"value": 1.0, "low": 1.0, "high": 1.0}}),
            {"p99": [1e3 * value for value in base]},
        )
        assert first.measured is not None
        value, low, high = first.measured
        new = [1e3 * rng.lognormvariate(0.0, 0.2) for _ in range(4)]
        [found] = confirm(predicted_figures({"p99": {"value": value, "low": low, "high": high}}), {"p99": new})
        alike += found.result in (CONFIRMED, UNDECIDED)
    assert alike >= 0.95 * 400 - 3 * (0.95 * 0.05 * 400) ** 0.5


@pytest.mark.parametrize("forks", [1, 4])
@pytest.mark.thorough
def test_five_predictions_that_are_true_exit_with_1_in_5_of_100_at_most(forks: int) -> None:
    """The full trials, with their table, are `python -m tests.reports.confirm_trials`."""
    codes = [confirmed(f"few/{seed}", scatter=0.1, repetitions=4, forks=forks)[0] for seed in range(300)]
    assert codes.count(1) <= 0.05 * 300


def test_what_never_scatters_is_confirmed() -> None:
    assert confirmed("calm", scatter=0.01, repetitions=4, forks=1) == (0, 1.0)


@pytest.mark.parametrize(("of_clusters", "result"), [(1, UNDECIDED), (4, CONFIRMED)])
def test_a_prediction_for_one_more_cluster_alone_decides(of_clusters: int, result: str) -> None:
    """Two repetitions have an interval of many times themselves; that says nothing against a narrow prediction."""
    predicted = {"p99": {**P99["p99"], "forks": of_clusters, "rounds": 1}}
    [found] = confirm(predicted_figures(predicted), {"p99": (9_300, 10_700)})
    assert found.result == result


def test_a_prediction_without_an_interval_confirms_nothing_and_is_shown_without_one() -> None:
    predicted = {"wire_bytes": {"value": 500.0, "low": None, "high": None, "unit": "B"}}
    [found] = confirm(predicted_figures(predicted), {"wire_bytes": (500, 501, 499)})
    assert (found.result, found.predicted) == (UNDECIDED, (500.0, None, None))
