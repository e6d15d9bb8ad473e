"""Both halves run at once, and an error of either is told when both are over."""

from __future__ import annotations

import re
import threading

import pytest

from reports.analyse.record_sets import _LOG_VIEWS, _READER_VIEWS
from reports.analyse.side_by_side import both, in_turn

LONG_S = 60.0


def test_both_halves_run_at_the_same_time() -> None:
    first, second = threading.Event(), threading.Event()

    def here() -> str:
        first.set()
        assert second.wait(LONG_S)
        return "here"

    def beside() -> str:
        second.set()
        assert first.wait(LONG_S)
        return "beside"

    assert both(here, beside) == ("here", "beside")


def test_an_error_beside_is_raised_here() -> None:
    def beside() -> None:
        raise ValueError("beside")

    with pytest.raises(ValueError, match="beside"):
        both(lambda: 1, beside)


def test_an_error_here_is_raised_when_the_other_half_is_over() -> None:
    failed, over = threading.Event(), []

    def here() -> None:
        failed.set()
        raise ValueError("here")

    def beside() -> None:
        assert failed.wait(LONG_S)
        over.append(True)

    with pytest.raises(ValueError, match="here"):
        both(here, beside)
    assert over == [True]


def test_an_interrupt_waits_for_nothing() -> None:
    released = threading.Event()

    def here() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        both(here, lambda: released.wait(LONG_S))
    released.set()


def test_in_turn_the_other_half_begins_when_the_first_is_over() -> None:
    steps: list[str] = []
    assert in_turn(lambda: steps.append("here"), lambda: steps.append("beside")) == (None, None)
    assert steps == ["here", "beside"]


def test_no_group_of_views_that_runs_beside_another_reads_what_that_one_keeps() -> None:
    """Else a statement would be refused, or read a view of an attempt before, whenever the threads meet so."""
    for own, other in ((_LOG_VIEWS, _READER_VIEWS), (_READER_VIEWS, _LOG_VIEWS)):
        names = {view.name for view in other}
        for view in own:
            assert not names & set(re.findall(r"\w+", view.sql)), view.name
            assert not names & set(view.of), view.name
