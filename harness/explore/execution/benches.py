"""The benches of one search: the one that all trials share, and one for trials in which a broker's process dies.

A broker that dies is away for each trial of its cluster. So such trials have a cluster of their own, and run there one
after the other, beside the shared one. It is started with the first of them. Shown by
tests/harness/test_harness_explore_deaths.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Final, Protocol

from harness.errors import HarnessError
from harness.explore.execution.bench import Evidence
from harness.explore.trial.history import History
from harness.explore.trial.model import Trial

NOT_STARTED: Final = "the cluster whose brokers may die did not start"


class Runs(Protocol):
    """What of `harness.explore.execution.bench.Bench` is used."""

    @property
    def version(self) -> str: ...

    @property
    def dropped_log_bytes(self) -> int: ...

    def run(self, trial: Trial, number: int, *, may_be_warm: bool = False) -> Evidence: ...

    def end_warm(self) -> Sequence[str]: ...

    def give_up(self) -> None: ...


class Benches:
    """`shared` is running. `start_own` starts the other one, which ends with this one, and uses the same processes of
    clients. `run` may be called from several threads; two trials with brokers of their own wait for one another."""

    def __init__(self, shared: Runs, start_own: Callable[[], AbstractContextManager[Runs]]) -> None:
        self._shared, self._start_own = shared, start_own
        self._own: Runs | None = None
        self._problem = ""
        self._is_given_up = False
        self._stack = ExitStack()
        self._lock = threading.Lock()

    def __enter__(self) -> Benches:
        return self

    def __exit__(self, *details: object) -> None:
        with self._lock:
            self._stack.close()

    @property
    def version(self) -> str:
        return self._shared.version

    @property
    def dropped_log_bytes(self) -> int:
        return self._shared.dropped_log_bytes + (0 if self._own is None else self._own.dropped_log_bytes)

    def end_warm(self) -> Sequence[str]:
        return self._shared.end_warm()

    def give_up(self) -> None:
        """Also of a trial whose own cluster is still being started: its bench is told as soon as it is there."""
        self._is_given_up = True
        self._shared.give_up()
        if (own := self._own) is not None:  # The lock is held by the trial that runs there.
            own.give_up()

    def run(self, trial: Trial, number: int, *, may_be_warm: bool = False) -> Evidence:
        if not trial.program.has_own_brokers:
            return self._shared.run(trial, number, may_be_warm=may_be_warm)
        with self._lock:
            if self._own is None and not self._problem:
                try:
                    self._own = self._stack.enter_context(self._start_own())
                except (HarnessError, OSError) as error:  # the others go on without it
                    self._problem = f"{NOT_STARTED}: {error}"
            if self._own is None:
                history = History(happened=(), log=(), problem=self._problem)
                return Evidence(history=history, uses={}, duration_s=0.0)
            if self._is_given_up:
                self._own.give_up()
            return self._own.run(trial, number, may_be_warm=may_be_warm)
