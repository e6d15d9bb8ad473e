"""Bytes of a pipe as lines and frames with a bound, and the last words of a process. Pure.

Shown by tests/workloads/test_workloads_process_peer.py and test_workloads_process_frames.py.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from workloads.clients.process.frames import FIRST_BYTES, end_of_frame

STDERR_BYTES_MAX: Final = 64 << 10
_BEGINNING_BYTES: Final = 1_000


class LineTooLong(ValueError):
    """`beginning`: of the line or frame that is longer than the bound."""

    def __init__(self, beginning: bytes) -> None:
        super().__init__("a line is longer than the bound")
        self.beginning = beginning


class Lines:
    """Cuts a stream of bytes into lines and frames. What stands after the last end of one waits for the rest."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer in which no line ends

    def feed(self, data: bytes) -> list[bytes]:
        """The lines, with their ends, and the frames that are whole now. LineTooLong as soon as one is beyond the
        bound."""
        buffer, found, start = self._buffer, [], 0
        buffer += data
        while start < len(buffer):
            if buffer[start] in FIRST_BYTES:
                end = end_of_frame(buffer, start)
            else:
                # A line ends at \n alone: a carriage return may stand inside.
                end = buffer.find(b"\n", start + self._searched) + 1
                self._searched = 0 if end else len(buffer) - start
            if (end or len(buffer)) - start > self._bytes_max:
                raise LineTooLong(bytes(buffer[start : start + _BEGINNING_BYTES]))
            if not end or end > len(buffer):
                break
            found.append(bytes(buffer[start:end]))
            start = end
        del buffer[:start]
        return found

    def rest(self) -> bytes:
        """What came after the last end of a line. Nothing if it is a part of a frame: whoever wrote it was killed."""
        return b"" if self._buffer[:1] and self._buffer[0] in FIRST_BYTES else bytes(self._buffer)


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
