"""Progress on stderr: one live line on a terminal, a plain line per change of phase elsewhere. Never on stdout.

Knows nothing of where the figures come from.
"""

from __future__ import annotations

import sys
import time
from typing import IO, Any

_WIDTH_MAX = 118


class Progress:
    def __init__(self, total_cells: int, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._total, self._index = total_cells, 0
        self._title = ""
        self._phase = ""
        self._started_s = time.monotonic()
        self._cell_started_s = self._started_s
        self._left_estimate_s = 0.0
        self._last: tuple[float, int] | None = None
        self._dirty = False

    def say(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        self._stream.write(text + "\n")
        self._stream.flush()

    def begin_cell(self, index: int, title: str, left_estimate_s: float) -> None:
        """`index` from 1; `left_estimate_s` for this cell and all that follow."""
        self._index, self._title, self._phase, self._last = index, title, "", None
        self._cell_started_s, self._left_estimate_s = time.monotonic(), left_estimate_s

    def phase(self, name: str) -> None:
        self._phase = name
        if self._live:
            self._draw("")

    def figures(self, counters: dict[str, Any]) -> None:
        """What the load process reports twice a second."""
        now_s, acked = time.monotonic(), int(counters.get("acked", 0))
        rate = ""
        if self._last is not None and now_s > self._last[0]:
            rate = f"{max(0.0, (acked - self._last[1]) / (now_s - self._last[0])):,.0f} acked/s"
        self._last = (now_s, acked)
        trouble = [f"{counters[name]:,} {name}" for name in ("failed", "unknown") if counters.get(name)]
        if self._live:
            self._draw(", ".join([part for part in (rate, *trouble) if part]))

    def end_cell(self, status: str, detail: str = "") -> None:
        took_s = time.monotonic() - self._cell_started_s
        self.say(
            f"[{self._index}/{self._total}] {self._title}: {status} in {took_s:.1f} s{': ' + detail if detail else ''}"
        )

    def _draw(self, figures: str) -> None:
        left_s = max(0.0, self._left_estimate_s - (time.monotonic() - self._cell_started_s))
        text = f"[{self._index}/{self._total}] {self._title} · {self._phase}"
        text += f" · {figures}" if figures else ""
        text += f" · about {left_s:.0f} s left"
        self._stream.write("\r\x1b[2K" + text[:_WIDTH_MAX])
        self._stream.flush()
        self._dirty = True

    def _clear(self) -> None:
        if self._dirty:
            self._stream.write("\r\x1b[2K")
            self._dirty = False
