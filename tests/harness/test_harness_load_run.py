"""What a cell makes of the events of its load. The load is made up."""

from __future__ import annotations

import io
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.lease import Lease
from harness.clusters.cluster import Cluster
from harness.errors import CellError
from harness.run.cells.load_run import LoadRun
from harness.run.context import RunContext
from harness.run.directory.outcome import Outcome
from harness.run.generator.workload_process import Load
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag
from runlog.files.clock import RunClock
from runlog.records.load import LoadDone, LoadEnded, LoadError, LoadEvent, LoadPhase, PhaseBegan
from tests.harness.test_harness_lint import SOUND

FULL = "[Errno 28] No space left on device"
USER_FAILED = LoadError(message="producer 1: fenced", fatal=False)
PHASES = (PhaseBegan(phase=LoadPhase.WARMUP, t_us=0), PhaseBegan(phase=LoadPhase.MEASURE, t_us=1))


class MadeUpLoad:
    carries_access = True
    prepare_s = 0.0
    pid = 1

    def __init__(self, *events: LoadEvent, is_here: bool = True) -> None:
        self._events = deque(events)
        self.is_here = is_here

    def wait_ready(self, timeout_s: float = 0.0, should_stop: object = None) -> None: ...

    def begin(self, plan: object) -> None: ...

    def next_event(self, timeout_s: float) -> LoadEvent | None:
        return self._events.popleft() if self._events else None

    def describe_end(self) -> str:
        return f"exit code 1, its last words: {FULL}"


def load_run(directory: Path, load: MadeUpLoad) -> tuple[LoadRun, io.StringIO]:
    screen = io.StringIO()
    context = RunContext(
        run_dir=directory, clock=RunClock.starting_now(), stop=StopFlag(), progress=Progress(1, screen),
        lease=cast(Lease, None), argv=(), seed=1, engine="reference",
    )  # fmt: skip
    cluster: Any = SimpleNamespace(bootstrap_servers="127.0.0.1:1", broken_proxies=lambda: "")
    stats: Any = SimpleNamespace(append=lambda _sample: None)
    return LoadRun(
        context,
        SOUND.marked("harness-1"),
        cast(Cluster, cluster),
        cast(Load, load),
        access={},
        chaos=None,
        outcome=Outcome(0),
        stats=stats,
    ), screen


def test_a_user_that_fails_does_not_end_the_others_and_is_remembered(tmp_path: Path) -> None:
    run, screen = load_run(tmp_path, MadeUpLoad(*PHASES, USER_FAILED, LoadDone(t_us=2)))
    run.run()
    assert run.problems == ("producer 1: fenced",)
    assert "producer 1: fenced" in screen.getvalue()


def test_a_load_that_says_it_cannot_go_on_ends_the_cell(tmp_path: Path) -> None:
    run, _ = load_run(tmp_path, MadeUpLoad(*PHASES, LoadError(message="no such topic")))
    with pytest.raises(CellError, match="no such topic"):
        run.run()


@pytest.mark.parametrize("told", [LoadError(message=FULL), LoadError(message=FULL, fatal=False), LoadEnded()])
@pytest.mark.parametrize("is_here", [True, False])
def test_a_full_disk_of_a_load_host_is_not_the_disk_of_the_run(
    tmp_path: Path, told: LoadError | LoadEnded, is_here: bool
) -> None:
    run, _ = load_run(tmp_path, MadeUpLoad(*PHASES, told, LoadDone(t_us=2), is_here=is_here))
    said = ""
    try:
        run.run()
    except CellError as error:
        said = str(error)
    assert bool(run.full_disk) == is_here
    assert is_here or "--run-dir" not in said, "what the operator of the run can do about its own disk does not help"
