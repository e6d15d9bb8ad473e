"""Writes to a file of ours, beside the traffic that is not ours.

A proxy must not hold or lose a byte because our disk is full, broken or slow. So a thread writes. Whoever has bytes
hands them over, never waits and never gets an error. After an error nothing more is written, and `problem` says why.
Shown by tests/chaos/test_chaos_side_file.py and test_chaos_full_disk.py.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from typing import Final

PENDING_BYTES_MAX: Final = 32 << 20  # a disk that is behind by more is as good as none
CLOSE_TIMEOUT_S: Final = 2.0  # a disk that hangs must not keep the process


class SideFile:
    """`descriptor` is opened for appending. The caller closes it, after `close`. `on_problem` is called once for each
    problem, in the thread that finds it."""

    def __init__(
        self,
        descriptor: int,
        *,
        on_problem: Callable[[str], object] = lambda _problem: None,
        pending_bytes_max: int = PENDING_BYTES_MAX,
    ) -> None:
        self._descriptor, self._on_problem, self._pending_bytes_max = descriptor, on_problem, pending_bytes_max
        self._changed = threading.Condition()
        # All below is read and written under the lock of `_changed`.
        self._pending: list[bytes] = []
        self._pending_bytes = 0  # with those that are being written
        self._is_line_torn = False  # the last write was cut off, so the next line begins with a line break
        self._is_closed = False
        self._problem = ""
        self._thread: threading.Thread | None = None  # started by the first bytes

    @property
    def problem(self) -> str:
        """Why bytes are missing in the file; empty while none are."""
        return self._problem

    def put(self, lines: bytes) -> None:
        """Write whole lines soon. After a problem they are dropped."""
        with self._changed:
            if self._problem or self._is_closed:
                return
            if self._pending_bytes + len(lines) > self._pending_bytes_max:
                problem = f"{self._pending_bytes} bytes wait for a disk that is too slow or hangs"
            else:
                self._pending.append(lines)
                self._pending_bytes += len(lines)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="side-file", daemon=True)
                    self._thread.start()
                self._changed.notify_all()
                return
        self.stop(problem)

    def stop(self, problem: str) -> None:
        """Write nothing more, because of `problem`. The first one counts."""
        with self._changed:
            is_first = self._settle(problem)
        if is_first:
            self._on_problem(problem)

    def resume(self) -> None:
        """Try again: a full disk may have room by now."""
        with self._changed:
            self._problem = ""

    def wait_written(self, timeout_s: float) -> bool:
        """Wait until nothing is left to write. False if the time was not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending_bytes, timeout_s)

    def switch(self, descriptor: int, timeout_s: float) -> int | None:
        """Go on in another file, once this one has all lines. Returns the descriptor that was used until now, for the
        caller to close; None if the disk has not taken the lines in time, and then nothing has changed."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._pending_bytes, timeout_s):
                return None
            before, self._descriptor = self._descriptor, descriptor
            self._is_line_torn = False
            return before

    def close(self) -> None:
        """Write what is left, if the disk takes it in time."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._is_closed)
                if not self._pending:
                    return
                data = (b"\n" if self._is_line_torn else b"") + b"".join(self._pending)
                size_bytes = self._pending_bytes
                self._pending.clear()
            left, problem = _written(self._descriptor, data)
            with self._changed:
                written = len(data) - len(left)
                self._is_line_torn = bool(left) and (data[written - 1] != ord("\n") if written else self._is_line_torn)
                self._pending_bytes -= size_bytes
                is_first = bool(problem) and self._settle(problem)
                self._changed.notify_all()
            if is_first:
                self._on_problem(problem)

    def _settle(self, problem: str) -> bool:
        """Under the lock. False if there was a problem before."""
        if self._problem:
            return False
        self._problem = problem
        self._pending_bytes -= sum(map(len, self._pending))
        self._pending.clear()
        self._changed.notify_all()
        return True


def _written(descriptor: int, data: bytes) -> tuple[memoryview, str]:
    """What could not be written, and why."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError as error:
        return left, str(error)
    return left, ""


class SideText(io.TextIOBase):
    """A text stream over a side file, to put in the place of sys.stderr. Each write is handed over."""

    def __init__(self, file: SideFile) -> None:
        super().__init__()
        self._file = file

    @property
    def encoding(self) -> str:  # type: ignore[override]  # mypy takes it for an attribute
        return "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._file.put(text.encode(errors="backslashreplace"))
        return len(text)
