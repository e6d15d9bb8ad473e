"""For tests that stop it: a real `harness` at a terminal of its own, everything that it starts, and how far it is.

Every process of a run inherits a state directory that belongs to the test alone, which is how they are found.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.patience import Patience, cpu_seen, files_seen, wait_process

REPOSITORY: Final = Path(__file__).resolve().parents[2]
CTRL_C: Final = b"\x03"

# One cell with a fault that stays until it is healed; as short as it can be and still have every phase.
SCENARIO: Final = """
name: short
title: A follower is cut off for a while
damage: none
source: written for this test
topic: {partitions: 1, replication_factor: 3, config: {min.insync.replicas: 1}}
properties: {acks: "1", enable.idempotence: false, linger.ms: 5}
workload: {rate_per_s: 500, record_size_bytes: 200, producers: 1, warmup_ms: 200, measure_ms: MEASURE, drain_ms: 3000}
timeline:
  - {id: cut, at: 100ms, fault: link_cut, target: followers->leader}
  - {id: still, fault: pause, target: "follower:1"}
  - {id: wait, after: still, delay: HELD}
  - {id: mend, heal: cut}
cases:
  only: {title: "acks=1"}
"""
SUITE: Final = """
name: short
workload: {rate_per_s: 500, record_size_bytes: 200, warmup_ms: 200, measure_ms: 700, drain_ms: 3000}
"""


def write_suite(directory: Path, *, measure_ms: int = 1500, held_ms: int = 500) -> Path:
    scenario = directory / "short-scenario.yaml"
    scenario.write_text(SCENARIO.replace("MEASURE", str(measure_ms)).replace("HELD", f"{held_ms}ms"))
    suite = directory / "short.yaml"
    suite.write_text(SUITE + f"chaos: [{{scenario: {scenario}}}]\n")
    return suite


class HarnessProcess:
    """`python -m harness ARGUMENTS` in a session of its own whose terminal is a pty, for a real Ctrl-C."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory, self.state_home = directory, directory / "state"
        self._files = files_seen(directory)
        self._screen = bytearray()
        self._lock = threading.Lock()
        self._terminal, inner = pty.openpty()
        self.stdout_path = directory / f"stdout-{time.monotonic_ns()}"

        def own_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        with self.stdout_path.open("wb") as stdout:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "harness", *arguments],
                stdin=inner,
                stdout=stdout,
                stderr=inner,
                start_new_session=True,
                preexec_fn=own_terminal,
                cwd=directory,
                env=self.environment(),
            )
        os.close(inner)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_STATE_HOME": str(self.state_home), "PYTHONPATH": str(REPOSITORY)}

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._terminal, 65536)
            except OSError:  # EIO: the last process with this terminal has gone
                return
            with self._lock:
                self._screen += data

    @property
    def screen(self) -> str:
        with self._lock:
            return self._screen.decode(errors="replace")

    @property
    def text(self) -> str:
        """The screen without its line breaks: sentences are broken where the terminal ends."""
        return " ".join(self.screen.split())

    @property
    def stdout(self) -> str:
        return self.stdout_path.read_text()

    def await_text(self, text: str) -> None:
        self.await_that(lambda: text in self.text, f"{text!r} on the screen")

    def await_that(self, condition: Callable[[], bool], what: str) -> None:
        patience, cpu, look_s = Patience(what), cpu_seen(self.popen.pid), 0.0
        while not condition():
            assert self.popen.poll() is None, f"ended with {self.popen.returncode} before {what}:\n{self.screen}"
            if time.monotonic() >= look_s:  # a look at all files costs more than the condition
                with self._telling_the_screen():
                    patience.check((cpu(), self._seen()))
                look_s = time.monotonic() + 1.0
            time.sleep(0.01)

    def _seen(self) -> object:
        with self._lock:
            shown = len(self._screen)
        return shown, self._files()

    @contextlib.contextmanager
    def _telling_the_screen(self) -> Iterator[None]:
        try:
            yield
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.screen}") from None

    def press_ctrl_c(self) -> None:
        """The terminal sends SIGINT to its foreground process group."""
        os.write(self._terminal, CTRL_C)

    def send(self, number: signal.Signals) -> None:
        """To the process alone."""
        self.popen.send_signal(number)

    def wait(self) -> int:
        with self._telling_the_screen():
            code = wait_process(self.popen, "the end of the harness", seen=self._seen)
        self._reader.join(timeout=20.0)  # what it has not read yet, a test would miss
        return code

    def family(self) -> dict[int, str]:
        return family(self.state_home)

    def close(self) -> None:
        """End whatever is left, so that a failed test leaves nothing behind."""
        for pid in self.family():
            _kill(pid)
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait(10)
        self._reader.join(timeout=10.0)  # it must not read from whoever gets the number of the descriptor next
        assert not self._reader.is_alive(), "somebody still has the terminal of a harness that has ended"
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def family(state_home: Path) -> dict[int, str]:
    """Pid and command of every process that was started with this state directory."""
    wanted = f"XDG_STATE_HOME={state_home}".encode()
    found = {}
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) == os.getpid():
            continue
        try:
            if wanted in (directory / "environ").read_bytes().split(b"\0"):
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(directory.name)] = command.strip()
        except OSError:
            continue
    return found


def listening_sockets(pids: dict[int, str]) -> set[str]:
    """Inodes of the TCP listeners of these processes."""
    own = set()
    for pid in pids:
        try:
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                target = os.readlink(entry)
                if target.startswith("socket:["):
                    own.add(target[8:-1])
        except OSError:
            continue
    return own & _all_listeners()


def _all_listeners() -> set[str]:
    inodes = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(name).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                inodes.add(fields[9])
    return inodes


def still_listening(inodes: set[str]) -> set[str]:
    return inodes & _all_listeners()


def leases(state_home: Path) -> list[Path]:
    return sorted((state_home / "kafka-harness" / "leases").glob("*"))


Start = Callable[..., HarnessProcess]
