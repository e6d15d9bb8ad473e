"""Log lines about actions of unknown peers: at most one in a second, with a count. A line for each action could fill
the disk."""

from __future__ import annotations

from broker.node.process.clock import monotonic_ms
from broker.node.process.logs import Logger

TOLD_EVERY_MS = 1_000


class SparseWarnings:
    def __init__(self, logger: Logger, event: str) -> None:
        self._logger, self._event = logger, event
        self._count = 0  # number of events since the last line
        self._told_ms = -TOLD_EVERY_MS

    def tell(self, **facts: object) -> None:
        """`facts` describe the last event."""
        self._count += 1
        now_ms = monotonic_ms()
        if now_ms - self._told_ms >= TOLD_EVERY_MS:
            self._logger.warning(self._event, **facts, count=self._count)
            self._count, self._told_ms = 0, now_ms
