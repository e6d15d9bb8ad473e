"""A broker process that is forked from one that has imported everything, and looks like a `subprocess.Popen`.

`python -m broker.node` spends 1 to 2 s of a core with imports, and the tests start some two hundred brokers. The fork
server of `multiprocessing` imports once for each worker of pytest. What it forks is a process of its own, with its own
pid, sockets, files and environment, and it ends as any broker does. The harness's tests start brokers as users do.
Shown by tests/broker_node/test_node_broker_fork.py.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import multiprocessing.process
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_IMPORTED: Final = "broker.node.__main__"
# `multiprocessing` reads exit codes when it starts a process too, and is not made for threads.
_LOCK = threading.Lock()


def start_broker(properties: Path, stderr: Path, environment: Mapping[str, str]) -> ForkedBroker:
    """As `python -m broker.node PROPERTIES 2>>STDERR` with this environment."""
    context = multiprocessing.get_context("forkserver")
    with _LOCK:
        context.set_forkserver_preload([_IMPORTED])
        process = context.Process(target=_run, args=(properties, stderr, dict(environment)), daemon=True)
        process.start()
    return ForkedBroker(process)


def _run(properties: Path, stderr: Path, environment: dict[str, str]) -> None:
    """In the new process."""
    is_imported = _IMPORTED in sys.modules
    os.environ.clear()
    os.environ.update(environment)
    null, log = os.open(os.devnull, os.O_RDWR), os.open(stderr, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for number, descriptor in enumerate((null, null, log)):
        os.dup2(descriptor, number)
    os.close(null)
    os.close(log)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    assert is_imported, f"the fork server has not imported {_IMPORTED}"
    from broker.node.__main__ import main

    sys.exit(main([str(properties)]))


class ForkedBroker:
    """What the tests use of `subprocess.Popen`. Thread-safe."""

    def __init__(self, process: multiprocessing.process.BaseProcess) -> None:
        assert process.pid is not None
        self.pid: int = process.pid
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with _LOCK:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal. Raises subprocess.TimeoutExpired."""
        multiprocessing.connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("broker.node", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing is sent to one that has ended: its pid may be somebody else's by now."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
