"""A kind of program that hangs does not take the time of the others."""

from __future__ import annotations

import pytest

from harness.explore.generators.programs import plain
from harness.explore.search.pace import KNOWN, Pace
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
