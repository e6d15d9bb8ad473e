"""Progress on stderr: one live line on a terminal, a plain line per change of phase elsewhere. Never on stdout.

Knows nothing of where the figures come from.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

_WIDTH_DEFAULT = 120
LAG_SHOWN_US = 2_000  # a generator that is later than this does not load as it was asked to


class Progress:
    def __init__(self, total_cells: int, stream: IO[str] | None = None) -> None:
        self.clean: Callable[[str], str] = str  # set once the run knows its secrets
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
        self._faults: dict[str, str] = {}

    def say(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        self._stream.write(self.clean(text) + "\n")
        self._stream.flush()

    def begin_cell(self, index: int, title: str, left_estimate_s: float) -> None:
        """`index` from 1; `left_estimate_s` for this cell and all that follow."""
        self._index, self._title, self._phase, self._last = index, title, "", None
        self._faults.clear()
        self._cell_started_s, self._left_estimate_s = time.monotonic(), left_estimate_s

    def phase(self, name: str) -> None:
        self._phase = name
        if self._live:
            self._draw("")

    def fault(self, event: Mapping[str, Any]) -> None:
        """One line of faults.jsonl: what acts is shown until it is healed. Called from the timeline's thread."""
        name = str(event.get("kind", "fault"))
        if event.get("phase") == "applied":
            self._faults[str(event.get("id"))] = name
        elif event.get("phase") in ("healed", "not_effective"):
            self._faults.pop(str(event.get("id")), None)

    def figures(self, counters: Mapping[str, Any]) -> None:
        """What the load process reports twice a second."""
        now_s, acked = time.monotonic(), int(counters.get("acked", 0))
        parts: list[str] = []
        if self._last is not None and now_s > self._last[0]:
            parts.append(f"{max(0.0, (acked - self._last[1]) / (now_s - self._last[0])):,.0f} acked/s")
        self._last = (now_s, acked)
        if "latency_us_p99" in counters:
            parts.append(f"p50 {_ms(counters['latency_us_p50'])}, p99 {_ms(counters['latency_us_p99'])} ms")
        if "end_to_end_us_p99" in counters:
            parts.append(f"read p99 {_ms(counters['end_to_end_us_p99'])} ms")
        if counters.get("backlog"):
            parts.append(f"{counters['backlog']:,} behind")
        if counters.get("schedule_lag_us_p99", 0) >= LAG_SHOWN_US:
            parts.append(f"generator late {_ms(counters['schedule_lag_us_p99'])} ms")
        parts += [f"{counters[name]:,} {name}" for name in ("failed", "unknown") if counters.get(name)]
        if self._live:
            self._draw(" · ".join(parts))

    def end_cell(self, status: str, detail: str = "") -> None:
        took_s = time.monotonic() - self._cell_started_s
        self.say(
            f"[{self._index}/{self._total}] {self._title}: {status} in {took_s:.1f} s{': ' + detail if detail else ''}"
        )

    def _draw(self, figures: str) -> None:
        left_s = max(0.0, self._left_estimate_s - (time.monotonic() - self._cell_started_s))
        faults = f" · FAULT {', '.join(list(self._faults.values()))}" if self._faults else ""
        head = f"[{self._index}/{self._total}] {self._title} · {self._phase} · about {left_s:.0f} s left{faults}"
        text = f"{head} · {figures}" if figures else head
        text = self.clean(text)
        width = max(40, shutil.get_terminal_size((_WIDTH_DEFAULT, 24)).columns - 1)
        self._stream.write("\r\x1b[2K" + (text if len(text) <= width else text[: width - 1] + "…"))
        self._stream.flush()
        self._dirty = True

    def _clear(self) -> None:
        if self._dirty:
            self._stream.write("\r\x1b[2K")
            self._dirty = False


def _ms(value_us: int) -> str:
    return f"{value_us / 1e3:.1f}" if value_us < 100_000 else f"{value_us / 1e3:,.0f}"
