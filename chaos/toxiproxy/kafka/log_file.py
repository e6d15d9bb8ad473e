"""A file of JSON lines beside the traffic. A thread writes it, and no error of it reaches the traffic.

After an error the file stops, tells so once on stderr, and says why to who asks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from chaos.toxiproxy.side_file import SideFile


class LogFile:
    """`name` is the word for it on stderr, for example `wire_log`. Without a path nothing is ever written."""

    def __init__(self, path: Path | None, name: str) -> None:
        self._path, self._name = path, name
        self._descriptor = _opened(path) if path else None
        self._file = None if self._descriptor is None else SideFile(self._descriptor, on_problem=self._tell)

    @property
    def is_there(self) -> bool:
        """Whether there is a file, although it may have stopped."""
        return self._file is not None

    @property
    def is_open(self) -> bool:
        """Whether lines are written."""
        return self._file is not None and not self._file.problem

    def problem_after(self, timeout_s: float) -> str:
        """Why lines are missing in the file; empty if it has all lines until now. Waits for the disk, at most
        `timeout_s`."""
        if self._file is None:
            return f"this server writes no {self._name.replace('_', ' ')}"
        if not self._file.wait_written(timeout_s):
            self._file.stop(f"the disk has not taken all lines within {timeout_s:g} s")
        return self._file.problem

    def put(self, lines: bytes) -> None:
        """Write whole lines soon."""
        if self._file is not None:
            self._file.put(lines)

    def reopen(self, timeout_s: float) -> None:
        """Go on in a new file of the same name: somebody has moved the old one away, as logrotate does. The old one has
        all lines until now. OSError if there can be no new one, or if the disk has not taken all lines in time."""
        if self._file is None or self._path is None:
            return
        descriptor = _opened(self._path)
        before = self._file.switch(descriptor, timeout_s)
        if before is None:
            os.close(descriptor)
            raise TimeoutError(f"the disk has not taken all lines within {timeout_s:g} s")
        self._descriptor = descriptor
        os.close(before)

    def resume(self) -> None:
        """A new record begins, so the log tries again if it had stopped."""
        if self._file is not None:
            self._file.resume()

    def stop(self, problem: str) -> None:
        """Write nothing more, because of `problem`."""
        if self._file is not None:
            self._file.stop(problem)

    def close(self) -> None:
        if self._file is not None and self._descriptor is not None:
            self._file.close()
            os.close(self._descriptor)
            self._file = self._descriptor = None

    def _tell(self, problem: str) -> None:
        print(f"event={self._name}_stopped file={self._path} cause={problem}", file=sys.stderr, flush=True)


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
