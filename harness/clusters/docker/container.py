"""One broker in a container, handled like a process: kill, stop, freeze, is it alive, how did it end.

The engine must run on this host. The broker's process is then visible in /proc. To look there is cheaper than to ask
the engine, and faults prove themselves in the same way. Shown by tests/harness/test_harness_docker.py.
"""

from __future__ import annotations

import contextlib
import signal
import time
from typing import Any, Final

from docker.errors import APIError, DockerException, NotFound

from chaos.lease import ProcessIdentity, is_alive, read_identity
from harness.errors import EnvironmentFault

_END_KNOWN_WITHIN_S: Final = 2.0
_SIGNALLED: Final = 128  # the engine's code for a process that signal n ended is 128 + n; ours is -n


class ContainerProcess:
    """`container` is docker-py's, already started."""

    def __init__(self, name: str, container: Any) -> None:
        self.name, self.container = name, container
        container.reload()
        self.pid: int = container.attrs["State"]["Pid"]
        identity = read_identity(self.pid) if self.pid else None
        if identity is None and container.attrs["State"]["Running"]:
            raise EnvironmentFault(f"{name} runs, but not on this host: --cluster docker needs a local engine")
        self._identity = identity
        self._end: tuple[int, bool] | None = None  # exit code, and whether memory was the reason; read once

    def is_running(self) -> bool:
        return self._identity is not None and is_alive(self._identity)

    def exit_code(self) -> int | None:
        if self.is_running():
            return None
        self._end = self._end or self._read_end()
        return self._end[0]

    def is_out_of_memory(self) -> bool:
        """The kernel ended it, because the memory of its container is limited."""
        return self.exit_code() is not None and self._end is not None and self._end[1]

    def _read_end(self) -> tuple[int, bool]:
        """The process ends before the engine knows it, and the container may have been started again since then."""
        deadline = time.monotonic() + _END_KNOWN_WITHIN_S
        with contextlib.suppress(DockerException):
            while time.monotonic() < deadline:
                self.container.reload()
                state = self.container.attrs["State"]
                if not state["Running"]:
                    code = int(state["ExitCode"])
                    return (code if code <= _SIGNALLED else _SIGNALLED - code), bool(state["OOMKilled"])
                if state["Pid"] != self.pid:
                    break
                time.sleep(0.02)
        return -int(signal.SIGKILL), False

    def send_signal(self, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT pause and unpause the freezer. No process can catch or notice that."""
        if not self.is_running():
            return
        with contextlib.suppress(NotFound):
            if number == signal.SIGSTOP:
                self.container.pause()
            elif number == signal.SIGCONT:
                self._unpause()
            else:
                self._unpause()  # a frozen process would get the signal only later
                self.container.kill(signal=int(number))

    def kill_and_wait(self, timeout_s: float = 10.0) -> None:
        self.send_signal(signal.SIGKILL)
        if not self.wait(timeout_s):
            raise EnvironmentFault(f"{self.name} (pid {self.pid}) does not end after SIGKILL")

    def stop(self, grace_s: float) -> int:
        self.send_signal(signal.SIGTERM)
        if not self.wait(grace_s):
            self.kill_and_wait()
        return self.exit_code() or 0

    def wait(self, timeout_s: float) -> bool:
        """True once it has ended."""
        deadline = time.monotonic() + timeout_s
        while self.is_running():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        return True

    def stderr_tail(self, lines: int = 12) -> str:
        with contextlib.suppress(DockerException):
            return str(self.container.logs(tail=lines).decode(errors="replace"))
        return ""

    def identity(self) -> ProcessIdentity | None:
        return self._identity

    def _unpause(self) -> None:
        with contextlib.suppress(APIError):  # it was not paused
            self.container.unpause()
