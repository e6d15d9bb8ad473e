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
from typing import Any, Final

from harness.clusters.broker_process import ManagedProcess, spawn
from harness.errors import CellError

READY_TIMEOUT_S: Final = 60.0
_QUEUE_EVENTS_MAX: Final = 10_000
_END: Final[dict[str, Any]] = {"event": "end"}

Event = dict[str, Any]  # one JSON object


class WorkloadProcess:
    """One load process, for one cell."""

    def __init__(self, stderr_path: Path, command: tuple[str, ...] = (sys.executable, "-m", "workloads")) -> None:
        self._events: queue.Queue[Event] = queue.Queue(maxsize=_QUEUE_EVENTS_MAX)
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
            if event is not None and event.get("event") == "ready":
                self._ready = True
            elif event is not None and event.get("event") in ("end", "error"):
                raise CellError(f"the load process did not start: {event.get('message') or self.describe_end()}")
            elif time.monotonic() >= deadline:
                raise CellError(f"the load process was not ready after {timeout_s:.0f} s")

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Hand over the plan: one line of JSON, then the end of stdin."""
        self.wait_ready()
        stdin = self._process.popen.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(plan).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise CellError(f"the load process took no plan: {self.describe_end()}") from error

    def next_event(self, timeout_s: float) -> Event | None:
        """The next event, `{"event": "end"}` after the last one, or None after `timeout_s`."""
        try:
            event = self._events.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None
        if event is _END:
            self._offer(_END)
        return event

    def ask_to_stop(self) -> None:
        """SIGTERM: stop producing, drain, finish."""
        import signal

        self._process.send_signal(signal.SIGTERM)

    def stop(self, grace_s: float) -> int:
        """End it within `grace_s` whatever it does; returns the exit code."""
        stdin = self._process.popen.stdin
        if stdin is not None and not stdin.closed:
            with contextlib.suppress(OSError):
                stdin.close()
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
            try:
                event = json.loads(line)
            except ValueError:
                event = {"event": "error", "message": f"not an event: {line[:200]!r}"}
            self._offer(event if isinstance(event, dict) else {"event": "error", "message": f"not an event: {event!r}"})
        self._offer(_END)

    def _offer(self, event: Event) -> None:
        """Progress may be dropped if nobody listens. Other events wait, within a limit."""
        with contextlib.suppress(queue.Full):
            self._events.put(event, timeout=0.0 if event.get("event") == "progress" else 5.0)
