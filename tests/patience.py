"""How long a test waits: until nothing has changed for a minute, as an idle host counts minutes.

A fixed limit is always wrong on a shared host. One that a busy host keeps makes a hang last for ever on an idle one.
`Patience` ends for two reasons only: what is awaited does not change any more, or it changes for ten minutes and still
does not come. Its clock runs slower on a crowded host: where six processes want two cores, a second counts
as a third of one. Knows nothing of brokers. Shown by tests/repository/test_repository_patience.py.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import psutil

QUIET_S: Final = 60.0  # of an idle host, without any change
WHOLE_S: Final = 600.0  # of an idle host, with changes all the time
_STEP_MAX_S: Final = 5.0  # a host that stops as a whole for longer than this stops the clock too
_POLL_S: Final = 0.02
_LOOK_S: Final = 1.0  # a look at files or processes costs more than a condition
_LOADAVG: Final = Path("/proc/loadavg")
_CPU_NOTICED_S: Final = 0.5  # of processor time: what an idle program uses in a minute is less
Value = TypeVar("Value")


def crowding() -> float:
    """Processes that want a core now, for each core; at least 1. Linux (proc_loadavg(5)), 1 elsewhere."""
    try:
        runnable = int(_LOADAVG.read_text().split()[3].split("/")[0])
    except (OSError, ValueError, IndexError):
        return 1.0
    return max(1.0, runnable / (os.cpu_count() or 1))


class Patience:
    """Ask `check` again and again. It raises AssertionError once it is in vain to wait longer."""

    def __init__(
        self,
        what: str,
        quiet_s: float = QUIET_S,
        whole_s: float = WHOLE_S,
        *,
        clock: Callable[[], float] = time.monotonic,
        crowding: Callable[[], float] = crowding,
    ) -> None:
        self._what, self._quiet_s, self._bound_s = what, quiet_s, whole_s
        self._clock, self._crowding = clock, crowding
        self._looked_s = self._began_s = clock()
        self._seen: object = None
        self._still_s = self._whole_s = 0.0  # as an idle host counts

    def check(self, seen: object = None) -> None:
        """`seen`: whatever changes when there is progress. A change ends the time without one."""
        now_s = self._clock()
        step_s = min(now_s - self._looked_s, _STEP_MAX_S) / self._crowding()
        self._looked_s = now_s
        self._whole_s += step_s
        self._still_s = self._still_s + step_s if seen == self._seen else 0.0
        self._seen = seen
        passed = f"after {now_s - self._began_s:.0f} s"
        assert self._still_s < self._quiet_s, (
            f"{passed}, nothing changed for {self._quiet_s:.0f} s of an idle host: {self._what}"
        )
        assert self._whole_s < self._bound_s, (
            f"{passed}, which are {self._bound_s:.0f} s of an idle host, it changes and does not come: {self._what}"
        )


def wait_until(
    condition: Callable[[], Value],
    what: str,
    quiet_s: float = QUIET_S,
    whole_s: float = WHOLE_S,
    *,
    seen: Callable[[], object] = lambda: None,
    poll_s: float = _POLL_S,
) -> Value:
    """The first true value of `condition`. `seen` tells of progress, and is asked once a second; without it there is no
    progress before the end."""
    patience = Patience(what, quiet_s, whole_s)
    ask_s, last = time.monotonic() + _LOOK_S, seen()
    while not (value := condition()):
        if time.monotonic() >= ask_s:
            ask_s, last = time.monotonic() + _LOOK_S, seen()
        patience.check(last)
        time.sleep(poll_s)
    return value


def files_seen(*directories: Path) -> Callable[[], object]:
    """For `seen`: how many bytes lie below these directories, in how many files."""

    def total() -> tuple[int, int]:
        count = size = 0
        for directory in directories:
            for parent, _, names in os.walk(directory):
                for name in names:
                    try:
                        size += os.stat(os.path.join(parent, name)).st_size
                    except OSError:  # removed meanwhile
                        continue
                    count += 1
        return count, size

    return total


def cpu_seen(pid: int) -> Callable[[], object]:
    """For `seen`: the processor time of a process and of all that it started, in steps that an idle program does not
    reach within `QUIET_S`."""
    return lambda: int(_cpu_s(pid) / _CPU_NOTICED_S)


def _cpu_s(pid: int) -> float:
    """Of a process, of its children that ended and were waited for, and of all its living descendants."""
    try:
        family = [(process := psutil.Process(pid)), *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    used_s = 0.0
    for each in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            used_s += sum(each.cpu_times()[:4])  # user, system, and both of its children
    return used_s


def run_command(
    command: Sequence[str | os.PathLike[str]],
    *,
    quiet_s: float = QUIET_S,
    whole_s: float = WHOLE_S,
    input: str | None = None,
    check: bool = False,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run(..., capture_output=True, text=True)`. A command that uses no processor and prints nothing
    for `quiet_s` of an idle host is killed, and AssertionError tells what it had printed."""
    with _written(input) as given, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdin=given, stdout=out, stderr=err, cwd=cwd, env=env, **options)
        try:
            wait_process(process, f"the end of {command}", quiet_s, whole_s, seen=lambda: (_size(out), _size(err)))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{_text(out)[-4000:]}\n{_text(err)[-4000:]}") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(60)
        done = subprocess.CompletedProcess(command, process.returncode, _text(out), _text(err))
    if check:
        done.check_returncode()
    return done


def wait_process(
    process: subprocess.Popen[Any],
    what: str,
    quiet_s: float = QUIET_S,
    whole_s: float = WHOLE_S,
    *,
    seen: Callable[[], object] = lambda: None,
) -> int:
    """Its exit code. Processor time of the process and of what it started is progress, and so is `seen`."""
    cpu = cpu_seen(process.pid)
    patience = Patience(what, quiet_s, whole_s)
    while True:
        try:
            return process.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            patience.check((cpu(), seen()))


def communicate(
    process: subprocess.Popen[str],
    what: str,
    input: str | None = None,
    quiet_s: float = QUIET_S,
    whole_s: float = WHOLE_S,
) -> tuple[str, str]:
    """As `process.communicate(input)`, for a test that must hold the pipes itself: `run_command` reads files, and does
    not see who else holds the pipes. Output and processor time are progress. It ends no process."""
    cpu, patience = cpu_seen(process.pid), Patience(what, quiet_s, whole_s)
    while True:
        try:
            return process.communicate(input, timeout=_LOOK_S)
        except subprocess.TimeoutExpired as error:
            patience.check((cpu(), len(error.output or ""), len(error.stderr or "")))
            input = None  # all of it is on its way


def _written(text: str | None) -> IO[str]:
    file = tempfile.TemporaryFile("w+")  # noqa: SIM115  # the caller closes it
    file.write(text or "")
    file.seek(0)
    return file


def _size(file: IO[str]) -> int:
    return os.fstat(file.fileno()).st_size


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
