"""Counts the requests that users of somebody's locustfile tell, by second and in all. Pure but for its clock.

Shown by tests/workloads/test_workloads_own_requests.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import numpy as np

from runlog.records.stats import RequestsInAll, RequestsSample
from workloads.histogram import LogHistogram

SECOND_US: Final = 1_000_000
ERRORS_MAX: Final = 5  # messages that are told; the others are counted in failures
ERROR_CHARACTERS_MAX: Final = 300
NAMES_MAX: Final = 200  # a file that puts an id into each name must not fill the memory: the others are one
OTHERS: Final = "(all other names)"
NAME_CHARACTERS_MAX: Final = 200
RESPONSE_MS_MAX: Final = 1e9  # eleven days: what is more is no time, and neither is what is no number


class _Tally:
    def __init__(self) -> None:
        self.times, self.failures = LogHistogram(), 0

    def add(self, us: int, *, is_failed: bool) -> None:
        self.times.add(np.array([us]))
        self.failures += is_failed


class Requests:
    """Counts what users tell, by request. `now_us`: the clock of the run."""

    def __init__(self, write: Callable[[RequestsSample | RequestsInAll], None], now_us: Callable[[], int]) -> None:
        self._write, self._now_us = write, now_us
        self._whole: dict[tuple[str, str], _Tally] = {}
        self._errors: dict[tuple[str, str], Counter[str]] = {}
        self._second: dict[tuple[str, str], _Tally] = {}
        self._second_us = now_us() // SECOND_US * SECOND_US

    def on_request(
        self, request_type: str, name: str, response_time: float | None, exception: object = None, **_more: object
    ) -> None:
        """A listener of Locust's `events.request`."""
        self.tick()
        key = str(request_type)[:NAME_CHARACTERS_MAX], str(name)[:NAME_CHARACTERS_MAX]
        if key not in self._whole and len(self._whole) >= NAMES_MAX:
            key = "", OTHERS
        took_ms = response_time or 0.0
        us = int(took_ms * 1_000) if 0.0 < took_ms <= RESPONSE_MS_MAX else 0
        for tallies in (self._whole, self._second):
            tallies.setdefault(key, _Tally()).add(us, is_failed=exception is not None)
        if exception is not None:
            words = (
                f"{type(exception).__name__}: {exception}" if isinstance(exception, BaseException) else str(exception)
            )
            errors = self._errors.setdefault(key, Counter())
            if len(errors) < NAMES_MAX or words[:ERROR_CHARACTERS_MAX] in errors:
                errors[words[:ERROR_CHARACTERS_MAX]] += 1

    def tick(self) -> None:
        """Writes the second that is over. Call it at least once a second."""
        now_us = self._now_us() // SECOND_US * SECOND_US
        if now_us == self._second_us:
            return
        for (kind, name), tally in sorted(self._second.items()):
            self._write(
                RequestsSample(
                    t_us=self._second_us,
                    source=kind,
                    request=name,
                    requests=tally.times.count,
                    failures=tally.failures,
                    p50_us=tally.times.quantile_us(0.5),
                    p99_us=tally.times.quantile_us(0.99),
                    max_us=tally.times.max_us,
                )
            )
        self._second, self._second_us = {}, now_us

    def finish(self) -> None:
        """Writes the last second, and the whole."""
        now_us, self._now_us = self._now_us(), lambda: self._second_us + SECOND_US
        self.tick()
        self._tell_whole(now_us)

    def tell_whole(self) -> None:
        """Writes the whole until now. Whoever reads takes the last one that was told."""
        self._tell_whole(self._now_us())

    def _tell_whole(self, now_us: int) -> None:
        for key, tally in sorted(self._whole.items()):
            self._write(
                RequestsInAll(
                    t_us=now_us,
                    source=key[0],
                    request=key[1],
                    requests=tally.times.count,
                    failures=tally.failures,
                    p50_us=tally.times.quantile_us(0.5),
                    p90_us=tally.times.quantile_us(0.9),
                    p99_us=tally.times.quantile_us(0.99),
                    max_us=tally.times.max_us,
                    errors=dict(self._errors.get(key, Counter()).most_common(ERRORS_MAX)),
                )
            )
