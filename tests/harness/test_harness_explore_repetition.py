"""`harness.explore.search.repetition`: what is a finding, reckoned exactly for bugs and for damage by the host."""

from __future__ import annotations

from math import comb

import pytest

from harness.explore.search.repetition import (
    BESIDE_CONTROLS,
    REPETITIONS,
    WITHOUT_CONTROLS,
    Rule,
    Verdict,
    verdict,
)

# The rule before: three of three at once, and otherwise four of six.
BEFORE = Rule(needed=(3, 4), to_go_on=(2,))


def confirmed(rule: Rule, shows: float, control_shows: float, *, is_first_trial: bool = True) -> float:
    """The probability, if each repetition shows it with the one and each control with the other."""

    def from_round(rounds: int, shown: int) -> float:
        found = 0.0
        for more in range(REPETITIONS + 1):
            once = comb(REPETITIONS, more) * shows**more * (1 - shows) ** (REPETITIONS - more)
            once *= (1 - control_shows) ** REPETITIONS
            match verdict(rule, rounds, shown + more, is_first_trial=is_first_trial):
                case Verdict.FINDING:
                    found += once
                case Verdict.MORE:
                    found += once * from_round(rounds + 1, shown + more)
        return found

    return from_round(1, 0)


@pytest.mark.parametrize("percent", range(1, 100))
@pytest.mark.parametrize("is_first_trial", [True, False])
def test_a_host_that_damages_trials_has_no_client_accused_more_often_than_before(
    percent: int, is_first_trial: bool
) -> None:
    damage = percent / 100
    now = confirmed(BESIDE_CONTROLS, damage, damage, is_first_trial=is_first_trial)
    assert now <= confirmed(BEFORE, damage, damage, is_first_trial=is_first_trial) + 1e-12
    assert now < 0.02


def test_a_bug_that_shows_in_every_second_trial_is_confirmed_twice_as_often() -> None:
    assert round(confirmed(BEFORE, 0.5, 0.0), 2) == 0.31
    assert round(confirmed(BESIDE_CONTROLS, 0.5, 0.0), 2) == 0.67
    assert round(confirmed(BESIDE_CONTROLS, 2 / 3, 0.0), 2) == 0.94


@pytest.mark.parametrize("rule", [BESIDE_CONTROLS, WITHOUT_CONTROLS])
def test_what_always_shows_is_confirmed_at_once_and_what_never_does_is_refuted_at_once(rule: Rule) -> None:
    assert verdict(rule, 1, 3, is_first_trial=True) is Verdict.FINDING
    assert verdict(rule, 1, 3, is_first_trial=False) is Verdict.MORE
    assert verdict(rule, 1, 0, is_first_trial=True) is Verdict.NONE
    assert confirmed(rule, 1.0, 0.0, is_first_trial=False) == 1.0


@pytest.mark.parametrize("rule", [BESIDE_CONTROLS, WITHOUT_CONTROLS])
def test_repetitions_have_an_end_and_no_round_is_begun_in_vain(rule: Rule) -> None:
    last = len(rule.needed)
    assert len(rule.to_go_on) == last - 1
    assert verdict(rule, last, rule.needed[-1] - 1, is_first_trial=True) is Verdict.NONE
    for place, least in enumerate(rule.to_go_on):
        assert any(least + (later - place) * REPETITIONS >= rule.needed[later] for later in range(place + 1, last))
