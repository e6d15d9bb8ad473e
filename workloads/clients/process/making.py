"""Makes a directory of the cache once: whole or not at all, by one process at a time, within a bound.

What somebody makes grows beside its place and is moved there when it is complete, so a process that died has left
nothing that is used. A lock keeps a second one from making the same. Shown by
tests/workloads/test_workloads_process_build.py and test_workloads_versions.py.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

MAKE_TIMEOUT_S: Final = 600  # One step has this long. The first build of a Go module compiles its dependencies too.
# One that compiles much C and Rust: two minutes of processor time, of which a busy host gives little.
COMPILE_TIMEOUT_S: Final = 1_800
_LOCK_TIMEOUT_S: Final = 2 * COMPILE_TIMEOUT_S  # what another process may need for the same
_LOCK_TICK_S: Final = 0.1
_TOLD_EVERY_S: Final = 15.0
_OUTPUT_SHOWN: Final = 2_000


class BuildError(RuntimeError):
    """A client cannot be built; the message says what is missing and how to get it."""


class StepFailed(BuildError):
    """A command ended with another exit code than 0. `output`: all that it said."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


def made(place: Path, fill: Callable[[Path], None]) -> Path:
    """The directory `place`. If it is not there, `fill` gets an empty directory, which becomes it."""
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with alone(place):
        if place.is_dir():
            return place
        growing = place.with_name(f".{place.name}.growing")
        shutil.rmtree(growing, ignore_errors=True)  # A process that died left it.
        growing.mkdir()
        try:
            fill(growing)
            os.rename(growing, place)
        finally:
            shutil.rmtree(growing, ignore_errors=True)
    return place


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """One at a time. The kernel takes the lock back from a process that dies; its empty file stays, because whoever
    removed it could remove one that a third process waits for."""
    deadline_s = time.monotonic() + _LOCK_TIMEOUT_S
    descriptor = os.open(place.with_name(f".{place.name}.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        while not _try_lock(descriptor):
            if time.monotonic() > deadline_s:
                raise BuildError(f"{place}: another process has been making it for {_LOCK_TIMEOUT_S} s")
            time.sleep(_LOCK_TICK_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def run_step(
    client: str,
    words: Sequence[str],
    directory: Path,
    *,
    environment: Mapping[str, str | None] | None = None,
    timeout_s: float | None = None,
) -> str:
    """What the command printed to standard output. StepFailed or BuildError tell how it failed. None in `environment`
    stands for a variable that the command shall not have; without `timeout_s` it has MAKE_TIMEOUT_S. Whatever it
    started ends with it. While it lasts, standard error says now and then what it does."""
    own = {**os.environ, **(environment or {})}
    what = f"client {client}: {' '.join(words)}"
    # Files and not pipes: nobody reads while we wait, and a child that goes on holds nothing open that we wait for.
    with tempfile.TemporaryFile() as out_file, tempfile.TemporaryFile() as err_file:
        try:
            process = subprocess.Popen(
                list(words),
                cwd=directory,
                env={name: value for name, value in own.items() if value is not None},
                stdin=subprocess.DEVNULL,
                stdout=out_file,
                stderr=err_file,
                start_new_session=True,
            )
        except OSError as error:
            raise BuildError(f"{what} failed: {error}") from error
        try:
            _wait_for_end(process, what, MAKE_TIMEOUT_S if timeout_s is None else timeout_s, err_file)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out, err = _said(out_file), _said(err_file)
    if process.returncode != 0:
        said = (out + err)[-_OUTPUT_SHOWN:].strip()
        raise StepFailed(f"{what} failed:\n{said}", out + err)
    return out


def _wait_for_end(process: subprocess.Popen[bytes], what: str, timeout_s: float, err_file: IO[bytes]) -> None:
    """BuildError when its time is over."""
    begun = time.monotonic()
    while True:
        left_s = begun + timeout_s - time.monotonic()
        try:
            process.wait(timeout=max(min(left_s, _TOLD_EVERY_S), 0))
        except subprocess.TimeoutExpired as error:
            lasted_s = time.monotonic() - begun
            if lasted_s >= timeout_s:
                raise BuildError(f"{what}: not done within {timeout_s} s{_doing(err_file)}") from error
            _tell(f"{what}: {lasted_s:.0f} s of at most {timeout_s:.0f} s{_doing(err_file)}")
        else:
            return


def _doing(err_file: IO[bytes]) -> str:
    """The last line that the command wrote, for example what cargo compiles; empty if it is silent."""
    size = os.fstat(err_file.fileno()).st_size
    tail = os.pread(err_file.fileno(), _OUTPUT_SHOWN, max(size - _OUTPUT_SHOWN, 0))  # The command's position stays.
    lines = tail.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"; {last}" if last else ""


def _tell(text: str) -> None:
    """Nobody has to read it."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _said(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
