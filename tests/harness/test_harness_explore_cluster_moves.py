"""`harness.explore.generators.cluster_moves`: each thing that a cluster does, once in each program."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.explore.generators.cluster_moves import changed, each_change
from harness.explore.generators.programs import plain
from harness.explore.generators.shrink import is_lawful
from harness.explore.trial.model import Do, Program, Role, Trial

ABILITIES = ("produce", "partition", "assign", "subscribe", "seek", "pause", "commit", "transactions", "send-offsets")
PROGRAMS = plain(ABILITIES, ["group.protocol", "isolation.level"])


def is_of(one: Program, program: Program) -> bool:
    is_same = all(
        one.properties.get(name) == value for name, value in program.properties.items() if name != "metadata.max.age.ms"
    )
    return Trial(program=one).control.program.moves == program.moves and is_same


@pytest.mark.thorough
@given(st.integers(0, 1_000))
def test_each_program_meets_each_thing_once_in_its_middle(seed: int) -> None:
    made = each_change(PROGRAMS, seed)
    for program in PROGRAMS:
        mine = [one for one in made if is_of(one, program)]
        changes = Counter((one.changes[-1].do, one.changes[-1].partition < 0) for one in mine)
        assert set(changes.values()) == {1}
        is_coordinated = program.role in (Role.CONSUMER, Role.COPIER) or program.is_transactional
        assert changes[Do.LOSE, True] == changes[Do.MOVE_COORDINATOR, True] == int(is_coordinated)
        assert changes[Do.LOSE, False] == changes[Do.MOVE_LEADER, False] == 1
        assert changes[Do.CUT_ALL, True] == changes[Do.FREEZE_ALL, True] == 1
        for one in mine:
            *before, _ = one.changes
            assert all(move.do is Do.MOVE_LEADER for move in before)
            assert bool(before) == (one.changes[-1].do is Do.RECREATE)
            place = next(number for number, move in enumerate(one.moves) if move.do.is_of_cluster)
            assert len(program.moves) // 4 <= place <= len(program.moves) - len(program.moves) // 4
            assert is_lawful(one, one.moves)
    assert len({one.name for one in made}) == len(made)


def test_some_are_awaited_and_their_control_waits_for_nothing() -> None:
    made = each_change(PROGRAMS, 1)
    awaited = [one for one in made if any(move.do is Do.SETTLE for move in one.moves)]
    assert len(made) // 5 < len(awaited) < len(made)  # Half of what lasts, and that is half of what there is at most.
    for one in awaited:
        assert all(move.do is not Do.SETTLE for move in Trial(program=one).control.program.moves)


@pytest.mark.parametrize("seed", range(3))
def test_a_producer_has_to_ask_by_itself_when_a_leader_has_moved(seed: int) -> None:
    """One that asks for Metadata every half second anyway finds the new leader although it does not look for it."""
    producers = [program for program in PROGRAMS if program.role is Role.PRODUCER]
    for one in (*each_change(producers, seed), changed(producers, seed)):
        assert "metadata.max.age.ms" not in one.properties


def test_the_first_ones_are_of_all_programs_and_equal_seeds_give_equal_ones() -> None:
    made = each_change(PROGRAMS, 5)
    assert len({(one.role, one.properties.get("enable.auto.commit")) for one in made[: len(PROGRAMS)]}) == 4
    assert made == each_change(PROGRAMS, 5)
    assert made != each_change(PROGRAMS, 6)
