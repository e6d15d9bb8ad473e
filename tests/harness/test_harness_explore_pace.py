"""A kind of program that hangs does not take the time of the others."""

from __future__ import annotations

import itertools

import pytest

from harness.explore.generators.programs import plain
from harness.explore.search.pace import KNOWN, LONG_AT_ONCE, LONG_S, OVERTAKEN, Pace
from harness.explore.trial.model import Program, Role

ABILITIES = ("produce", "subscribe", "seek", "commit", "transactions", "send-offsets")
PROGRAMS = plain(ABILITIES, ["isolation.level"])


def first(role: Role, *, is_transactional: bool = False) -> Program:
    return next(one for one in PROGRAMS if one.role is role and one.is_transactional == is_transactional)


PRODUCER, GROUP = first(Role.PRODUCER), first(Role.CONSUMER)
TRANSACTIONS, COPIER = first(Role.PRODUCER, is_transactional=True), first(Role.COPIER, is_transactional=True)


def taken(lasts_s: dict[str, float], *, trials: int) -> dict[str, float]:
    """The time that each kind has had, if each is to have its turn and one that has had its share gives it up."""
    pace, spent, turn = Pace(), dict.fromkeys(lasts_s, 0.0), 0
    kinds = {"producer": PRODUCER, "group": GROUP, "transactions": TRANSACTIONS, "copier": COPIER}
    names = list(lasts_s)
    for _ in range(trials):
        while pace.has_had_its_share(kinds[names[turn % len(names)]]):
            turn += 1
        name = names[turn % len(names)]
        turn += 1
        pace.note_begun(kinds[name])
        pace.note_ended(kinds[name], lasts_s[name])
        spent[name] += lasts_s[name]
    return spent


def test_two_kinds_that_hang_leave_half_of_the_time_to_the_two_that_do_not() -> None:
    spent = taken({"producer": 3.0, "group": 6.0, "transactions": 200.0, "copier": 70.0}, trials=1_000)
    ordinary = spent["producer"] + spent["group"]
    assert ordinary > 0.4 * sum(spent.values())
    assert spent["transactions"] > 0
    assert spent["copier"] > 0


@pytest.mark.parametrize("longest_s", [3.0, 6.0, 12.0])
def test_kinds_whose_trials_take_alike_keep_their_turns(longest_s: float) -> None:
    spent = taken({"producer": 3.0, "group": longest_s, "transactions": 4.0, "copier": 7.0}, trials=400)
    assert spent["producer"] == 300.0


def test_a_kind_of_which_little_is_known_is_not_put_off() -> None:
    pace = Pace()
    for _ in range(KNOWN):
        pace.note_begun(PRODUCER)
        pace.note_ended(PRODUCER, 1.0)
    for _ in range(KNOWN - 1):
        pace.note_begun(COPIER)
        pace.note_ended(COPIER, 300.0)
    assert not pace.has_had_its_share(COPIER)
    pace.note_begun(COPIER)
    pace.note_ended(COPIER, 300.0)
    assert pace.has_had_its_share(COPIER)
    assert not pace.has_had_its_share(PRODUCER)


def test_a_slow_kind_that_hangs_without_a_disturbance_gets_no_time_any_more() -> None:
    pace = Pace()
    for program, lasts_s in ((PRODUCER, 2.0), (GROUP, 4.0), (COPIER, 100.0)):
        for _ in range(KNOWN):
            pace.note_ended(program, lasts_s)
    assert pace.is_slow(COPIER)
    assert not pace.has_had_its_share(COPIER)
    pace.note_hangs(COPIER)
    pace.note_hangs(GROUP)
    assert pace.has_had_its_share(COPIER)
    assert not pace.has_had_its_share(GROUP), "it hangs, and takes no longer than others"


def test_few_long_trials_take_place_at_once_whatever_they_are_for() -> None:
    pace, numbers = Pace(), itertools.count()
    pace.note_ended(COPIER, LONG_S)
    pace.note_ended(TRANSACTIONS, 4 * LONG_S)
    for _ in range(20):
        pace.note_handed_out(next(numbers), PRODUCER)
        assert not pace.must_wait(COPIER)
    for _ in range(LONG_AT_ONCE - 1):
        pace.note_handed_out(next(numbers), COPIER)
    assert not pace.must_wait(COPIER)
    last = next(numbers)
    pace.note_handed_out(last, TRANSACTIONS)
    assert pace.must_wait(TRANSACTIONS)
    assert pace.must_wait(COPIER)
    assert not pace.must_wait(PRODUCER)
    pace.note_back(last)
    assert not pace.must_wait(COPIER)


def test_what_many_have_overtaken_is_long_before_it_has_ended() -> None:
    pace, numbers = Pace(), itertools.count()
    for _ in range(LONG_AT_ONCE):
        pace.note_handed_out(next(numbers), COPIER)
    for _ in range(OVERTAKEN):
        assert not pace.must_wait(COPIER)
        number = next(numbers)
        pace.note_handed_out(number, PRODUCER)
        pace.note_back(number)
    assert pace.is_overtaken(0)
    assert pace.must_wait(COPIER)
    assert not pace.must_wait(PRODUCER)
    pace.note_ended(COPIER, 3.0)
    assert not pace.must_wait(COPIER), "one of them stands still, and others end"
