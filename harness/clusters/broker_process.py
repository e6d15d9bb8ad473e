"""Child processes. They die with the harness (or outlive it, if asked), and are stopped within a time limit.

Owns the only thread that forks. PR_SET_PDEATHSIG acts when the *thread* that forked ends. A broker that the thread of
the chaos timeline restarted would be killed when the timeline ends. So one thread, which lives as long as the process,
makes every fork. Shown by tests/harness/test_harness_process.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Protocol

_LAUNCHER = Path(__file__).with_name("launcher.py")
FORK_TIMEOUT_S = 20.0

_Job = tuple[Callable[[], "subprocess.Popen[bytes]"], "Future[subprocess.Popen[bytes]]"]


class _Forker:
    """The thread that forks. It is a daemon, so it ends with the process, and every child of it too."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def fork(self, job: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="forker", daemon=True)
                self._thread.start()
        future: Future[subprocess.Popen[bytes]] = Future()
        self._jobs.put((job, future))
        return future.result(timeout=FORK_TIMEOUT_S)

    def _serve(self) -> None:
        while True:
            job, future = self._jobs.get()
            try:
                future.set_result(job())
            except BaseException as error:  # given to the caller, whatever it is, because this thread must not end
                future.set_exception(error)


_forker = _Forker()


class BrokerProcess(Protocol):
    """What a cluster needs of a broker's process, wherever it runs. No call waits without a limit."""

    @property
    def pid(self) -> int: ...
    def is_running(self) -> bool: ...
    def send_signal(self, number: signal.Signals) -> None: ...
    def kill_and_wait(self, timeout_s: float = 10.0) -> None: ...
    def stop(self, grace_s: float) -> int: ...
    def wait(self, timeout_s: float) -> bool: ...
    def exit_code(self) -> int | None: ...
    def stderr_tail(self, lines: int = 12) -> str: ...


@dataclass(slots=True, kw_only=True)
class ManagedProcess:
    """One child: its handle, what it is called in messages, and where its stderr goes."""

    name: str
    popen: subprocess.Popen[bytes]
    stderr_path: Path | None

    @property
    def pid(self) -> int:
        return self.popen.pid

    def is_running(self) -> bool:
        return self.popen.poll() is None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal. A process that is already gone is left alone."""
        if self.is_running():
            self.popen.send_signal(number)

    def kill_and_wait(self, timeout_s: float = 10.0) -> None:
        """SIGKILL works on a stopped process too; returns when the kernel has reaped it."""
        was_running = self.is_running()
        self.send_signal(signal.SIGKILL)
        self.popen.wait(timeout=timeout_s)
        if was_running:
            self._end_group()

    def stop(self, grace_s: float) -> int:
        """SIGTERM, then SIGKILL after `grace_s`. Returns the exit code (negative: the signal)."""
        if not self.is_running():
            return int(self.popen.returncode)
        self.send_signal(signal.SIGCONT)
        self.send_signal(signal.SIGTERM)
        try:
            self.popen.wait(timeout=grace_s)
        except subprocess.TimeoutExpired:
            self.kill_and_wait()
        else:
            self._end_group()
        return int(self.popen.returncode)

    def _end_group(self) -> None:
        """What the child started itself (Spark's JVM, load workers). The child leads its own session, so they share its
        group.

        Only called after the child ended and was waited for. Its number stays taken while a member of its group lives.
        So a process that has this pid now came later, leads another group, and is not ours.
        """
        if Path(f"/proc/{self.popen.pid}").exists():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)

    def wait(self, timeout_s: float) -> bool:
        """True once it has ended."""
        try:
            self.popen.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def exit_code(self) -> int | None:
        """The exit code. None while the process runs; negative: the signal that ended it."""
        return self.popen.poll()

    def stderr_tail(self, lines: int = 12) -> str:
        if self.stderr_path is None or not self.stderr_path.exists():
            return ""
        return tail_text(self.stderr_path, lines)


def tail_text(path: Path, lines: int) -> str:
    """The last lines of a text file; reads at most its last 16 KiB."""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 16384))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])


def spawn(
    name: str,
    command: Sequence[str],
    *,
    stderr_path: Path | None,
    outlive_parent: bool = False,
    pipes: bool = False,
    stdin_pipe: bool = False,
    stdin: bytes | None = None,
    environment: Mapping[str, str] | None = None,
    working_directory: Path | None = None,
) -> ManagedProcess:
    """Start a child in a session of its own, so that a Ctrl-C at the terminal reaches only the harness.

    Without `outlive_parent` the kernel kills it when the harness dies, even by SIGKILL. With `pipes` its stdin and
    stdout are pipes, with `stdin_pipe` its stdin alone. Otherwise stdin holds `stdin` or nothing, and stdout goes with
    stderr. Secrets go through stdin, because everybody on the host can read a command line.
    """
    assert not ((pipes or stdin_pipe) and stdin is not None)
    launcher = () if outlive_parent else (sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()))
    argv = [*launcher, *command]

    def job() -> subprocess.Popen[bytes]:
        stderr: IO[bytes] | int = subprocess.DEVNULL if stderr_path is None else stderr_path.open("ab")
        source = subprocess.PIPE if pipes or stdin_pipe else subprocess.DEVNULL if stdin is None else _in_memory(stdin)
        try:
            return subprocess.Popen(
                argv,
                stdin=source,
                stdout=subprocess.PIPE if pipes else stderr,
                stderr=stderr,
                start_new_session=True,
                env=None if environment is None else {**os.environ, **environment},
                cwd=working_directory,
            )
        finally:
            if not isinstance(stderr, int):
                stderr.close()
            if source >= 0:
                os.close(source)

    return ManagedProcess(name=name, popen=_forker.fork(job), stderr_path=stderr_path)


def _in_memory(content: bytes) -> int:
    """A file without a name, to be read from its beginning. A pipe would need somebody who fills it."""
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def popen_dying_with_us(
    command: Sequence[str], environment: Mapping[str, str], log_path: Path | None
) -> subprocess.Popen[bytes]:
    """`chaos.toxiproxy.lookup.Starter`: chaos starts its Toxiproxy servers with this function."""
    return spawn(command[0], command, stderr_path=log_path, environment=environment).popen


def start_ticks(pid: int) -> int | None:
    """When the process was started, in clock ticks since boot. None if there is none, or only a zombie.

    Another process may get the same pid later. pid and start time together are unique.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name in parentheses may hold spaces and parentheses: fields are counted after the last one.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])
