"""The writer of files of JSON lines.

Each event is one write(2), so a kill tears at most the last line, and readers leave that one out. A disk that gets full
may take a part of a line, which is no error of write(2): the rest is tried at once, and has the error. This module does
not know what a line means: runlog.records does, and reads them. Shown by tests/runlog/test_runlog_events.py.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Event = dict[str, Any]  # JSON objects: their values are what JSON allows


class JsonlWriter:
    """Appends events to one file from any thread. If the file ends in a torn line, a new line is begun first."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._is_torn = False  # the last line was written in part, so the next one begins with a line break
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")

    def append(self, event: Mapping[str, Any]) -> None:
        """Write one event; after close() nothing happens. OSError when the disk refuses."""
        line = json.dumps(event, separators=(",", ":"), default=str).encode() + b"\n"
        with self._lock:
            if self._descriptor >= 0:
                self._write(b"\n" + line if self._is_torn else line)

    def _write(self, left: bytes) -> None:
        while left:
            left = left[os.write(self._descriptor, left) :]
            self._is_torn = bool(left)

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
