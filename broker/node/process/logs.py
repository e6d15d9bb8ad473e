"""Log lines for people: `time level event key=value ...` on stderr. Events for analysis go to the journal instead."""

from __future__ import annotations

import sys
import time


class Logger:
    """Writes lines of one node. A line is one write, so lines of several processes on one file do not mix."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id

    def info(self, event: str, **facts: object) -> None:
        self._line("INFO", event, facts)

    def warning(self, event: str, **facts: object) -> None:
        self._line("WARN", event, facts)

    def error(self, event: str, **facts: object) -> None:
        self._line("ERROR", event, facts)

    def handler_failed(self, api_key: int, cause: str) -> None:
        """A request failed because of a defect of the broker. Only that request fails. The log line helps to find the
        defect."""
        self.error("handler_failed", api_key=int(api_key), cause=repr(cause))

    def _line(self, level: str, event: str, facts: dict[str, object]) -> None:
        pairs = " ".join(f"{name}={value}" for name, value in facts.items())
        now = time.time()
        clock = time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
        sys.stderr.write(f"{clock} {level} node={self._node_id} {event} {pairs}\n".replace(" \n", "\n"))
        sys.stderr.flush()
