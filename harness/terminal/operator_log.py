"""What a worker tells its operator: lines on stderr, written by a thread that nobody waits for.

A terminal may be stopped (Ctrl-S), the reader of a pipe may be gone, and the disk of a log may be full. None of these
may keep a broker paused or end a load, so `say` neither waits nor raises.

Shown by tests/harness/test_harness_operator_log.py.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import IO, Final

LINES_MAX: Final = 1_000  # that wait for the terminal; older ones are left out then
CLOSE_S: Final = 2.0  # What waits at the end has this time.
_UNPRINTABLE: Final = re.compile(r"[^ -~]")


def printable(text: str) -> str:
    """What comes from another host may hold anything: nothing of it reaches the terminal but text."""
    return _UNPRINTABLE.sub("?", text)


class Saying:
    """`stream`: default stderr. Without one (`2>&-`), nothing is written. `shape` makes the line from a text. `close`
    waits for the last lines, but not long."""

    def __init__(self, stream: IO[str] | None = None, shape: Callable[[str], str] = printable) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shape = shape
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._write_lines, name="saying", daemon=True)
        self._thread.start()

    def say(self, text: str) -> None:
        with self._changed:
            self._lines.append(text)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout=CLOSE_S)

    def _write_lines(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._lines) or self._is_closed)
                if not self._lines:
                    return
                line = self._lines.popleft()
            write_if_possible(self._stream, self._shape(line) + "\n")


def write_if_possible(stream: IO[str] | None, text: str) -> None:
    """Nobody may be there to read it. That is no reason to do less."""
    if stream is None:
        return
    try:
        _write(stream, text)
    except (OSError, ValueError):  # ValueError: it is closed
        return


def _write(stream: IO[str], text: str) -> None:
    """Past the buffer of the stream. What nobody takes would stay in it, and its process could not end."""
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:  # A test has such a stream.
        stream.write(text)
        stream.flush()
        return
    left = text.encode(getattr(stream, "encoding", None) or "utf-8", "replace")
    while left:
        left = left[os.write(descriptor, left) :]
