"""`make prove`: the statistics at length, on made data of known truth. Prints a table; exit code 1 if a claim fails.

The same trials in small run in test_reports_comparison.py and test_reports_sweep.py.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator

from benchmarks.claims import Claim
from reports.figures.compare.comparison import WHOLE_RUN, WORSE
from reports.figures.sweep.cell_means import cell_means
from reports.figures.sweep.effects import estimate_effects
from reports.figures.sweep.observations import observe
from tests.harness import search_trials
from tests.reports import confirm_trials, interval_trials
from tests.reports.comparison_trials import forked_trial, rounds_trial, trial
from tests.reports.forked_trials import Truth, coverage
from tests.reports.sweep_facts import BASELINE, Factors, one_at_a_time, planted_sweep

FACTOR = {"4096": 1.5, "131072": 0.7, "0": 1.1, "50": 2.0, "lz4": 0.9}
CHANGES = {"batch.size": ["4096", "131072"], "linger.ms": ["0", "50"], "compression.type": ["lz4"]}


def _false_alarms(trials: int) -> Iterator[Claim]:
    settings: list[tuple[str, Callable[[int], str]]] = [
        ("6 cells, 4 repetitions", lambda seed: trial(seed, cells=6, repetitions=4, noise=0.03).result),
        ("2 cells, 6 repetitions", lambda seed: trial(seed, cells=2, repetitions=6, noise=0.08).result),
        ("12 cells, once each", lambda seed: trial(seed, cells=12, repetitions=1, noise=0.05).result),
        ("8 cells in 2 rounds that scatter by 15 %", lambda seed: rounds_trial(seed, rounds=2).result),
        ("8 cells in 4 rounds that scatter by 15 %", lambda seed: rounds_trial(seed, rounds=4).result),
        (
            "8 cells, 5 repetitions, some four times as noisy",
            lambda seed: trial(seed, cells=8, repetitions=5, noise=0.04, unequal=True).result,
        ),
        ("8 cells on 4 clusters", lambda seed: forked_trial(seed).result),
        (
            "8 cells on 4 clusters, each without p99 of one cell",
            lambda seed: forked_trial(seed, without_p99=[(0, 1), (3, 2), (6, 3), (7, 4)]).result,
        ),
    ]
    for name, run in settings:
        worse = sum(run(seed) == WORSE for seed in range(trials))
        yield Claim(text=f"A/A says worse: {name}", count=worse, total=trials, at_most=0.05)


def _planted(trials: int) -> Iterator[Claim]:
    found = sum(
        trial(seed, cells=6, repetitions=5, noise=0.03, change=0.10).result == WORSE for seed in range(trials)
    )  # fmt: skip
    yield Claim(text="10 % slower everywhere is called worse", count=found, total=trials, at_least=0.95)
    one = [trial(seed, cells=6, repetitions=6, noise=0.02, change=0.10, changed_cells=1) for seed in range(trials)]
    hits = sum(any(r.cell == "cell-0" and r.measure == "p99" and r.result == WORSE for r in c.rows) for c in one)
    yield Claim(text="10 % slower in one cell of six is found there", count=hits, total=trials, at_least=0.95)
    wrong = sum(any(r.result == WORSE and r.cell not in ("cell-0", WHOLE_RUN) for r in c.rows) for c in one)
    yield Claim(text="... and another cell is blamed", count=wrong, total=trials, at_most=0.05)


def _effects(trials: int) -> Iterator[Claim]:
    def truth(factors: Factors) -> float:
        return 20_000.0 * math.prod(FACTOR.get(value, 1.0) for value in factors.values())

    for name, noise, drift in (("calm", 0.05, 0.0), ("host drifts between rounds", 0.05, 0.3), ("noisy", 0.3, 0.1)):
        inside = total = 0
        for seed in range(trials):
            observations = observe(
                planted_sweep(
                    one_at_a_time(CHANGES), truth, repetitions=3, noise=noise, seed=seed, round_noise=drift,
                    baseline=BASELINE,
                )
            )  # fmt: skip
            means = cell_means(observations, "p99")
            assert means is not None
            base = next(item.configuration for item in observations if item.baseline)
            for effect in estimate_effects(means, base).effects:
                inside += effect.estimate.low <= math.log(FACTOR[effect.value]) <= effect.estimate.high
                total += 1
        yield Claim(
            text=f"planted effects within their 95 % interval: {name}", count=inside, total=total, at_least=0.95
        )


def _forks(trials: int) -> Iterator[Claim]:
    """Rounds on clusters of their own: intervals of levels and differences, predictions of one more cluster."""
    for name, between, forks, rounds in (
        ("clusters alike, one round on each of 4", 0.0, 4, 1),
        ("clusters scatter by 10 %, one round on each of 4", 0.1, 4, 1),
        ("clusters scatter by 30 %, two rounds on each of 4", 0.3, 4, 2),
        ("clusters scatter by 10 %, one round on each of 8", 0.1, 8, 1),
    ):
        truth = Truth(levels=tuple(0.1 * number for number in range(8)), between=between, own=between / 4)
        found = coverage(truth, forks=forks, rounds=rounds, trials=trials, first_seed=1)
        for what, count in (
            ("level", found.level), ("difference", found.difference), ("one more cluster", found.one_more_cluster),
        ):  # fmt: skip
            yield Claim(text=f"{what} within its 95 % interval: {name}", count=count, total=trials, at_least=0.93)


def _unalike(trials: int) -> Iterator[Claim]:
    """Two rounds, six settings without an effect, one configuration that may scatter three times as much."""
    for kind in interval_trials.KINDS:
        found = interval_trials.columns(kind, others=6, repetitions=2, baseline_runs=2, trials=trials)
        yield Claim(
            text=f"the interval of a setting holds: {kind}", count=sum(one.held[-1] for one in found), total=trials,
            at_least=0.93,
        )  # fmt: skip
        yield Claim(
            text=f"a column has a false dot: {kind}", count=sum(one.has_false_dot for one in found), total=trials,
            at_most=0.05,
        )  # fmt: skip


def _confirmations(trials: int) -> Iterator[Claim]:
    """Predictions of five figures that are all true."""
    for scatter, repetitions, forks in confirm_trials.SETTINGS:
        codes = [
            confirm_trials.confirmed(f"prove/{number}", scatter=scatter, repetitions=repetitions, forks=forks)[0]
            for number in range(trials)
        ]
        yield Claim(
            text=f"a true prediction exits 1: scatter {scatter:.0%}, {repetitions} repetitions, {forks} clusters",
            count=codes.count(1), total=trials, at_most=0.05,
        )  # fmt: skip


def _searches(trials: int) -> Iterator[Claim]:
    """A server whose limit wavers from try to try, and which overloads leave with less capacity for the next try."""
    for noise in (0.03, 0.1, 0.2):
        for carry_over in (0.0, 0.3):
            outcomes = search_trials.trials(trials, noise=noise, carry_over=carry_over)
            found = [one for one in outcomes if one.kept_per_s is not None]
            name = f"noise {noise:.0%}, {carry_over:.0%} carried over"
            yield Claim(
                text=f"one more try keeps the rate of the search: {name}",
                count=sum(one.held for one in found), total=len(found), at_least=0.95,
            )  # fmt: skip
            yield Claim(
                text=f"limit within the search's interval: {name}",
                count=sum(one.holds_limit for one in outcomes), total=trials, at_least=0.95,
            )  # fmt: skip


def main(trials: int = 300) -> int:
    started = time.monotonic()
    claims = []
    for source in (
        _false_alarms(trials),
        _planted(max(50, trials // 3)),
        _effects(max(50, trials // 3)),
        _forks(trials),
        _unalike(trials),
        _confirmations(trials),
        _searches(trials),
    ):
        for claim in source:
            claims.append(claim)
            bound = f"at least {claim.at_least:.0%}" if claim.at_least else f"at most {claim.at_most:.0%}"
            sign = "ok  " if claim.holds else "FAIL"
            print(f"{sign} {claim.text}: {claim.count} of {claim.total} = {claim.share:.1%} ({bound})", flush=True)
    print(f"{time.monotonic() - started:.0f} s")
    return 0 if all(claim.holds for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
