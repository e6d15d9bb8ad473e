"""The agent's end of a load process: what it is told, and what it says, a line of JSON each, without ever waiting.

Shown by tests/workloads/test_workloads_hosts.py.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import gevent

from workloads.model import Plan

LINES_MAX: Final = 10_000  # that nobody reads
QUIET_END_S: Final = 15.0


class ShareProcess:
    """A process `python -m workloads --share` or, to measure a ceiling, `python -m workloads`."""

    def __init__(self, mode: tuple[str, ...]) -> None:
        self._on_line: Callable[[dict[str, Any]], None] = _ignore
        self._lines: deque[bytes] = deque(maxlen=LINES_MAX)
        command = [sys.executable, "-m", "workloads", *mode]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self._read, daemon=True).start()

    def begin(self, plan: Plan, on_line: Callable[[dict[str, Any]], None]) -> None:
        self._on_line = on_line
        self.say(plan.model_dump(mode="json"))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)

    def say(self, document: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
            self._process.stdin.flush()

    def step(self) -> None:
        while self._lines:
            with contextlib.suppress(json.JSONDecodeError):
                self._on_line(json.loads(self._lines.popleft()))

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def end(self) -> None:
        """Let it finish its files; after a while, make it end."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        deadline_s = time.monotonic() + QUIET_END_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            gevent.sleep(0.02)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def _ignore(_line: dict[str, Any]) -> None:
    """Of a share that has no plan yet."""
