"""Bytes of a pipe as lines with a bound, and the last words of a process. Pure.

Shown by tests/workloads/test_workloads_process_peer.py.
"""

from __future__ import annotations

from collections import deque
from typing import Final

STDERR_BYTES_MAX: Final = 64 << 10


class LineTooLong(ValueError):
    """`beginning`: of the line that is longer than the bound."""

    def __init__(self, beginning: bytes) -> None:
        super().__init__("a line is longer than the bound")
        self.beginning = beginning


class Lines:
    """Cuts a stream of bytes into lines. What stands after the last end of a line waits for the rest."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._size_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now, with their ends. LineTooLong as soon as one is beyond the bound."""
        found: list[bytes] = []
        for piece in _pieces(data):
            self._parts.append(piece)
            self._size_bytes += len(piece)
            if self._size_bytes > self._bytes_max:
                raise LineTooLong(b"".join(self._parts)[:1_000])
            if piece.endswith(b"\n"):
                found.append(b"".join(self._parts))
                self._parts.clear()
                self._size_bytes = 0
        return found

    def rest(self) -> bytes:
        """What came after the last end of a line."""
        return b"".join(self._parts)


def _pieces(data: bytes) -> list[bytes]:
    """Whole lines and the rest. `splitlines` of bytes would end a line at a carriage return too."""
    *lines, rest = data.split(b"\n")
    return [*(line + b"\n" for line in lines), *([rest] if rest else ())]


class Tail:
    """The last bytes of a stream, at most STDERR_BYTES_MAX and one read more."""

    def __init__(self) -> None:
        self._size_bytes = 0
        self._parts: deque[bytes] = deque()

    def add(self, data: bytes) -> None:
        self._parts.append(data)
        self._size_bytes += len(data)
        while self._size_bytes - len(self._parts[0]) >= STDERR_BYTES_MAX:
            self._size_bytes -= len(self._parts.popleft())

    def text(self, lines: int) -> str:
        """The last lines; empty if nothing was written."""
        whole = b"".join(self._parts)[-STDERR_BYTES_MAX:].decode(errors="replace").strip()
        return "\n".join(whole.splitlines()[-lines:])
