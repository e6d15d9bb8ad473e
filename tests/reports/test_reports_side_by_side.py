"""Both halves run at once, and an error of either is told when both are over."""

from __future__ import annotations

import threading

import pytest

from reports.analyse.side_by_side import both

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
