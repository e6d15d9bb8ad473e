"""`harness worker` on this machine, as many as a test wants, and `harness` as their master."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harness.clusters.ports import free_port
from tests.patience import run_command
from workloads.hosts.keys import write_keys

END_S = 120.0
RUN_QUIET_S = 120.0  # without any change: the master waits a minute for a load host of which it hears nothing
SLOW = ("schedule lag p99", "were not sent in time", "its link was lost")  # said of a load host without enough CPU
PASS_OR_INCONCLUSIVE = (0, 4)  # of a run; what is said of its cells decides


class Workers:
    """`close` ends them. Each has a state directory and a log of its own, all share one spool. `store`: their
    --store; `more`: of their environment. `prefixes`: what starts each of them. `master`: where their master listens.
    """

    def __init__(
        self,
        directory: Path,
        *names: str,
        store: str = "",
        more: Mapping[str, str] | None = None,
        keys: tuple[Path, Path] | None = None,
        prefixes: Mapping[str, Sequence[str]] | None = None,
        master: str = "127.0.0.1",
    ) -> None:
        self.directory, self.names, self._store, self._more = directory, names, store, more or {}
        self.master_key, self._worker_key = keys or write_keys(directory / "keys")
        self.port, self._master, self._prefixes = free_port(), master, prefixes or {}
        self.spool = directory / "spool"
        self._processes = {name: self._started(name) for name in names}

    @property
    def options(self) -> list[str]:
        """Of the master's command."""
        return [
            "--load-hosts", str(len(self.names)), "--load-listen", f"{self._master}:{self.port}", "--load-key",
            str(self.master_key),
        ]  # fmt: skip

    def _started(self, name: str) -> subprocess.Popen[bytes]:
        with self.log(name) as log:
            return subprocess.Popen(
                [
                    *self._prefixes.get(name, ()), sys.executable, "-m", "harness", "worker", "--master",
                    f"{self._master}:{self.port}", "--key",
                    str(self._worker_key), "--name", name, "--spool", str(self.spool),
                    *(["--store", self._store] if self._store else []),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**environment(self.directory, name), **self._more},
                start_new_session=True,
            )  # fmt: skip

    def log(self, name: str) -> IO[bytes]:
        """Where what it says goes."""
        return (self.directory / f"{name}.log").open("ab")

    def terminate(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGTERM)
        self._processes[name].wait(timeout=END_S)

    def kill(self, name: str) -> None:
        """All of its processes at once, as if the host lost its power."""
        os.killpg(self._processes[name].pid, signal.SIGKILL)
        self._processes[name].wait(timeout=END_S)

    def start_again(self, name: str) -> None:
        self._processes[name] = self._started(name)

    def close(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            process.wait(timeout=END_S)


def environment(directory: Path, name: str) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(directory / f"state-{name}")}


def harness(
    directory: Path, arguments: Sequence[str], more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return run_command(
        [sys.executable, "-m", "harness", *arguments],
        quiet_s=RUN_QUIET_S,
        env={**environment(directory, "run"), **(more or {})},
    )


def assert_passed(cells: Iterable[Mapping[str, Any]]) -> None:
    """Each did. A cell whose load host was too slow, as on a busy host, is inconclusive and says that it was."""
    for cell in cells:
        was_slow = any(word in reason for reason in cell["reasons"] for word in SLOW)
        assert cell["verdict"] == "pass" or (cell["verdict"] == "inconclusive" and was_slow), cell


def said(done: subprocess.CompletedProcess[str]) -> str:
    """What a failing test must show: the table of verdicts is in stdout, problems are in stderr."""
    return f"exit code {done.returncode}\n{done.stderr[-3000:]}\n{done.stdout[-5000:]}"


def started_harness(
    directory: Path, arguments: Sequence[str], more: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """In a session of its own; its stderr is the file `run.stderr`."""
    with (directory / "run.stderr").open("w") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "harness", *arguments],
            stdout=subprocess.PIPE, stderr=stderr, text=True,
            env={**environment(directory, "run"), **(more or {})},
            start_new_session=True,
        )  # fmt: skip
