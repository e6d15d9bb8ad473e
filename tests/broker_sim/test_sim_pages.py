"""The pages about the state machines are what the code says."""

from __future__ import annotations

import pytest

from broker.quorum.transitions import TRANSITIONS, RoleName
from broker.sim import invariants_page, state_machines_page


def test_the_page_of_the_state_machines_is_what_the_tables_say() -> None:
    assert state_machines_page.PAGE.read_text() == state_machines_page.page(), (
        "run: python -m broker.sim.state_machines_page"
    )


def test_each_change_of_a_role_is_an_arrow_of_the_diagram() -> None:
    page = state_machines_page.page().partition("## A replica")[0]
    for (state, trigger), after in TRANSITIONS.items():
        start = "[*]" if state is RoleName.INITIAL else state.value
        (arrow,) = [line for line in page.splitlines() if line.startswith(f"  {start} --> {after.value}: ")]
        assert trigger.value in arrow.partition(": ")[2].split("<br/>")


def test_the_list_of_invariants_is_what_their_docstrings_say() -> None:
    text = invariants_page.PAGE.read_text()
    assert text == invariants_page.page(text), "run: python -m broker.sim.invariants_page"


def test_a_page_without_the_marks_is_not_written() -> None:
    with pytest.raises(ValueError, match="no list to be written"):
        invariants_page.page("# Simulation\n")
