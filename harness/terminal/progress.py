"""Progress on stderr: one live line on a terminal, a plain line per change of phase elsewhere. Never on stdout.
A reader that is gone or a full disk ends no run.

Knows nothing of where the figures come from.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple

from harness.terminal.operator_log import write_if_possible
from harness.terminal.tables import fitting, width_of
from runlog.records.fault import FaultLine, FaultPhase
from runlog.records.load import Progress as LoadProgress

_WIDTH_DEFAULT = 80
_HANGING = 2  # Further lines begin so far to the right.
_TITLE_MIN = 20  # A title does not become shorter. A figure is left out before.
LAG_SHOWN_US = 2_000  # a generator that is later than this does not load as it was asked to


class _Part(NamedTuple):
    text: str
    spare: int  # the highest is left out first if the line is too short; 0: never


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
        write_if_possible(self._stream, fitting(self.clean(text), self._stream, hanging=_HANGING) + "\n")

    def begin_cell(self, index: int, title: str, left_estimate_s: float) -> None:
        """`index` from 1; `left_estimate_s` for this cell and all that follow."""
        self._index, self._title, self._phase, self._last = index, title, "", None
        self._faults.clear()
        self._cell_started_s, self._left_estimate_s = time.monotonic(), left_estimate_s

    def phase(self, name: str) -> None:
        self._phase = name
        if self._live:
            self._draw(())

    def fault(self, line: FaultLine) -> None:
        """An active fault is shown until it is healed. Called from the timeline's thread."""
        if line.phase is FaultPhase.APPLIED:
            self._faults[line.id] = line.kind
        elif line.phase in (FaultPhase.HEALED, FaultPhase.NOT_EFFECTIVE):
            self._faults.pop(line.id, None)

    def figures(self, load: LoadProgress) -> None:
        """What the load process reports twice a second."""
        now_s, acked = time.monotonic(), load.acked
        parts: list[_Part] = []
        if self._last is not None and now_s > self._last[0]:
            parts.append(_Part(f"{max(0.0, (acked - self._last[1]) / (now_s - self._last[0])):,.0f} acked/s", 1))
        self._last = (now_s, acked)
        counts = ((load.backlog or 0, "behind"), (load.failed, "failed"), (load.unknown, "unknown"))
        parts += [_Part(f"{count:,} {what}", 0) for count, what in counts if count]
        if load.latency_us_p99 is not None and load.latency_us_p50 is not None:
            parts.append(_Part(f"p99 {_ms(load.latency_us_p99)} ms", 1))
            parts.append(_Part(f"p50 {_ms(load.latency_us_p50)} ms", 4))
        if load.end_to_end_us_p99 is not None:
            parts.append(_Part(f"read p99 {_ms(load.end_to_end_us_p99)} ms", 3))
        if load.schedule_lag_us_p99 is not None and load.schedule_lag_us_p99 >= LAG_SHOWN_US:
            parts.append(_Part(f"generator late {_ms(load.schedule_lag_us_p99)} ms", 2))
        if self._live:
            self._draw(parts)

    def end_cell(self, status: str, detail: str = "") -> None:
        took_s = time.monotonic() - self._cell_started_s
        self.say(
            f"[{self._index}/{self._total}] {self._title}: {status} in {took_s:.1f} s{': ' + detail if detail else ''}"
        )

    def _draw(self, figures: Sequence[_Part]) -> None:
        left_s = max(0.0, self._left_estimate_s - (time.monotonic() - self._cell_started_s))
        faults = [_Part(f"FAULT {', '.join(list(self._faults.values()))}", 0)] if self._faults else []
        head = [_Part(self._phase, 2), _Part(f"about {left_s:.0f} s left", 3), *faults]
        width = max(40, (width_of(self._stream) or _WIDTH_DEFAULT) - 1)
        text = live_line(f"[{self._index}/{self._total}]", self.clean(self._title), [*head, *figures], width)
        write_if_possible(self._stream, "\r\x1b[2K" + self.clean(text))
        self._dirty = True

    def _clear(self) -> None:
        if self._dirty:
            write_if_possible(self._stream, "\r\x1b[2K")
            self._dirty = False


def live_line(number: str, title: str, parts: Sequence[_Part], width: int) -> str:
    """One line that fits. Backlog, failures and active faults are always shown. Of the rest, the least important goes
    first, and the title takes the room that is left."""
    kept = [part for part in parts if part.text]
    while True:
        tail = "".join(f" · {part.text}" for part in kept)
        room = width - len(number) - len(tail) - 1
        if room >= min(len(title), _TITLE_MIN) or not any(part.spare for part in kept):
            break
        least = max(part.spare for part in kept)
        kept.remove(next(part for part in reversed(kept) if part.spare == least))
    shown = title if len(title) <= room else f"{title[: room - 1]}…" if room > 1 else ""
    line = f"{number} {shown}{tail}" if shown else f"{number}{tail}"
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _ms(value_us: float) -> str:
    return f"{value_us / 1e3:.1f}" if value_us < 100_000 else f"{value_us / 1e3:,.0f}"
