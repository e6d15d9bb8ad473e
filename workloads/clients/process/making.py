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
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MAKE_TIMEOUT_S: Final = 600  # One step has this long. The first build of a Go module compiles its dependencies too.
_LOCK_TIMEOUT_S: Final = 3 * MAKE_TIMEOUT_S  # what another process may need for the same
_LOCK_TICK_S: Final = 0.1
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
    with _alone(place):
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
def _alone(place: Path) -> Iterator[None]:
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
    client: str, words: Sequence[str], directory: Path, *, environment: Mapping[str, str | None] | None = None
) -> str:
    """What the command printed to standard output. StepFailed or BuildError tell how it failed. None in `environment`
    stands for a variable that the command shall not have. Whatever it started ends with it."""
    own = {**os.environ, **(environment or {})}
    what = f"client {client}: {' '.join(words)}"
    try:
        process = subprocess.Popen(
            list(words),
            cwd=directory,
            env={name: value for name, value in own.items() if value is not None},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise BuildError(f"{what} failed: {error}") from error
    try:
        out, err = process.communicate(timeout=MAKE_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{what}: not done within {MAKE_TIMEOUT_S} s") from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        said = (out + err)[-_OUTPUT_SHOWN:].strip()
        raise StepFailed(f"{what} failed:\n{said}", out + err)
    return out
