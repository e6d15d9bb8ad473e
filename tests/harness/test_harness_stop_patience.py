"""The last step of a run that was stopped may go on for a while, until somebody asks again."""

from __future__ import annotations

import signal

import pytest

from harness.terminal.signals import Patience, StopFlag


def test_a_run_that_goes_on_has_all_the_time() -> None:
    assert not Patience(StopFlag(), 0.0).is_over()


def test_a_stopped_run_has_its_time_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    flag = StopFlag()
    now_s = 100.0
    monkeypatch.setattr("harness.terminal.signals.time.monotonic", lambda: now_s)
    patience = Patience(flag, 60.0)
    flag.on_signal(signal.SIGINT, None)
    assert not patience.is_over()
    now_s = 160.0
    assert not patience.is_over()
    now_s = 160.1
    assert patience.is_over()


def test_a_second_signal_breaks_it_off() -> None:
    flag = StopFlag()
    flag.on_signal(signal.SIGINT, None)
    patience = Patience(flag, 60.0)
    assert not patience.is_over(), "the signal that stopped the run"
    flag.on_signal(signal.SIGINT, None)
    assert patience.is_over()
