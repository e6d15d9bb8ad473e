"""The share of the host's processors that was used since one last asked, by whomever. Shown by
tests/harness/test_harness_explore_room.py.
"""

from __future__ import annotations

from harness.run.recording.host_load import host_ticks


class HostShare:
    def __init__(self) -> None:
        self._last = host_ticks()

    def used(self) -> float:
        """0.0 to 1.0. A processor that another guest of the same machine has taken is none that we could use. 1.0 if
        no tick has passed: then nothing is known to be free."""
        last, self._last = self._last, host_ticks()
        total = self._last.total - last.total
        return min(1.0, (self._last.busy - last.busy) / total) if total > 0 else 1.0
