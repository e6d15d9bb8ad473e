"""The load process `python -m workloads`: started ahead of time, given its plan, listened to, stopped.

Its stdout is JSON lines (docs/internals/contracts.md). A thread reads them into a bounded queue; a line that is no JSON
is an error of that process and is shown. Shown by tests/harness/test_harness_workload_process.py.
"""

from __future__ import annotations

import contextlib
import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from harness.clusters.broker_process import ManagedProcess, spawn
from harness.errors import CellError
from runlog.records.codec import RecordError
from runlog.records.lines import LOAD, read_line
from runlog.records.load import LoadEnded, LoadError, LoadEvent, ProgressTold, Ready

READY_TIMEOUT_S: Final = 60.0
_QUEUE_EVENTS_MAX: Final = 10_000
_SHOWN_BYTES: Final = 200  # No more is shown of a line that is no event.


class Load(Protocol):
    """What carries out the load of one cell: a process here, or a hub with load hosts (load_hosts.py)."""

    carries_access: bool  # whether its plan has the credentials that the cluster asks for
    prepare_s: float  # how much longer than a process here it may take until it connects
    is_here: bool  # whether its errors are those of this host: what it says of a full disk is said of the run's

    @property
    def pid(self) -> int: ...

    def wait_ready(self, timeout_s: float = ..., should_stop: Callable[[], bool] = ...) -> None: ...

    def begin(self, plan: Mapping[str, Any]) -> None: ...

    def problem_of(self, event: LoadError | LoadEnded) -> str: ...

    def next_event(self, timeout_s: float) -> LoadEvent | None: ...

    def ask_to_stop(self) -> None: ...

    def stop(self, grace_s: float) -> int: ...

    def is_running(self) -> bool: ...

    def describe_end(self) -> str: ...


class WorkloadProcess:
    """One load process, for one cell."""

    carries_access = True
    prepare_s = 0.0
    is_here = True

    def __init__(self, stderr_path: Path, command: tuple[str, ...] = (sys.executable, "-m", "workloads")) -> None:
        self._events: queue.Queue[LoadEvent] = queue.Queue(maxsize=_QUEUE_EVENTS_MAX)
        self._ready = False
        self._process: ManagedProcess = spawn("load process", command, stderr_path=stderr_path, pipes=True)
        self._reader = threading.Thread(target=self._read, name="workload-events", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S, should_stop: Callable[[], bool] = lambda: False) -> None:
        """CellError when it ended, did not say `ready` in time, or `should_stop` says so."""
        deadline = time.monotonic() + timeout_s
        while not self._ready:
            if should_stop():
                raise CellError("interrupted while the load process started")
            event = self.next_event(max(0.0, min(0.2, deadline - time.monotonic())))
            if isinstance(event, Ready):
                self._ready = True
            elif isinstance(event, LoadError | LoadEnded):
                raise CellError(f"the load process did not start: {self.problem_of(event)}")
            elif time.monotonic() >= deadline:
                raise CellError(f"the load process was not ready after {timeout_s:.0f} s")

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Hand over the plan: one line of JSON, then the end of stdin."""
        self.wait_ready()
        self.say(plan)

    def say(self, document: Mapping[str, Any]) -> None:
        """One line of JSON on its stdin."""
        stdin = self._process.popen.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(document).encode() + b"\n")
            stdin.flush()
        except (OSError, ValueError) as error:  # ValueError: closed by us
            raise CellError(f"the load process took no plan: {self.describe_end()}") from error

    def problem_of(self, event: LoadError | LoadEnded) -> str:
        """The problem in words."""
        return (event.message if isinstance(event, LoadError) else "") or self.describe_end()

    def next_event(self, timeout_s: float) -> LoadEvent | None:
        """The next event, LoadEnded after the last one, or None after `timeout_s`."""
        try:
            event = self._events.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None
        if isinstance(event, LoadEnded):
            self._offer(event)  # The next caller gets it.
        return event

    def ask_to_stop(self) -> None:
        """SIGTERM: stop producing, drain, finish."""
        import signal

        self._process.send_signal(signal.SIGTERM)

    def finish(self, grace_s: float) -> int:
        """Let it do what it was told before, which ends with its stdin; after `grace_s` it is stopped."""
        self._close_stdin()
        self._process.wait(grace_s)
        return self.stop(grace_s)

    def _close_stdin(self) -> None:
        stdin = self._process.popen.stdin
        if stdin is not None and not stdin.closed:
            with contextlib.suppress(OSError):
                stdin.close()

    def stop(self, grace_s: float) -> int:
        """End it within `grace_s` whatever it does; returns the exit code."""
        self._close_stdin()
        code = self._process.stop(grace_s)
        self._reader.join(timeout=2.0)
        return code

    def kill(self) -> None:
        self._process.kill_and_wait()

    def is_running(self) -> bool:
        return self._process.is_running()

    def describe_end(self) -> str:
        code = self._process.popen.poll()
        tail = self._process.stderr_tail(6)
        return f"{'still running' if code is None else f'exit code {code}'}{': ' + tail if tail else ''}"

    def _read(self) -> None:
        stdout = self._process.popen.stdout
        assert stdout is not None
        for line in stdout:
            self._offer(_event(line))
        self._offer(LoadEnded())

    def _offer(self, event: LoadEvent) -> None:
        """Progress may be dropped if there is no listener. Other events wait, within a limit."""
        with contextlib.suppress(queue.Full):
            self._events.put(event, timeout=0.0 if isinstance(event, ProgressTold) else 5.0)


def _event(line: bytes) -> LoadEvent:
    try:
        return read_line(line, LOAD)
    except RecordError as error:
        return LoadError(message=f"not an event: {line[:_SHOWN_BYTES]!r} {error}")
