"""Load processes that are started ahead of time.

Imports take a second of CPU. They are done while nothing is measured, beside the final read of a cell, for the cell
after the next. So no cell waits for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from harness.run.generator.workload_process import WorkloadProcess

STANDBY: Final = 2
_STOP_S: Final = 1.0


class StandbyLoads:
    def __init__(self, run_dir: Path, should_stop: Callable[[], bool]) -> None:
        self._run_dir, self._should_stop = run_dir, should_stop
        self._ready: deque[WorkloadProcess] = deque()

    def take(self) -> WorkloadProcess:
        return self._ready.popleft() if self._ready else self._new()

    def take_and_refill(self) -> WorkloadProcess:
        """And have the next one made ready beside it."""
        load = self.take()
        self.fill()
        return load

    def fill(self) -> None:
        while len(self._ready) < STANDBY and not self._should_stop():
            self._ready.append(self._new())

    def stops(self) -> list[Callable[[], object]]:
        """One call for each that waits: one that fails must not keep the others alive."""
        return [partial(load.stop, _STOP_S) for load in self._ready]

    def _new(self) -> WorkloadProcess:
        return WorkloadProcess(self._run_dir / "load.stderr.log")
