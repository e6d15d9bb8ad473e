"""Where the time of a record goes, in the measured window: the stages between its five times, as mergeable histograms.

- intended -> sent: schedule lag, which is the generator's own.
- sent -> appended: queue, linger, wire and the leader's append.
- appended -> acked: replication and the way back.
- appended -> received: fetch wait.

Without LogAppendTime the two stages around the append are one. Sends that failed or stayed unknown have no end, so they
are counted separately, as censored. The leader's timestamp is in whole milliseconds and may be up to that much before
the append. So a stage may be negative. Such values count as zero in the histogram and are counted in `negative`. Pure
but for numpy. Shown by tests/workloads/test_workloads_stages.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from runlog.records import load as records
from runlog.streams.schema import SendStatus
from runlog.streams.segment import Rows
from workloads.histogram import Histogram, LogHistogram

# stage: (from column, to column) of send, then of recv
SEND_STAGES = {
    "schedule_lag": ("intended_us", "sent_us"),
    "send_to_ack": ("sent_us", "acked_us"),
    "send_to_append": ("sent_us", "appended_us"),
    "append_to_ack": ("appended_us", "acked_us"),
    "intended_to_ack": ("intended_us", "acked_us"),
}
RECV_STAGES = {
    "append_to_poll": ("appended_us", "polled_us"),
    "intended_to_poll": ("intended_us", "polled_us"),
}
_SEND_TIMES = ("intended_us", "sent_us", "acked_us", "appended_us")
_RECV_TIMES = ("intended_us", "appended_us", "polled_us")
_Times = NDArray[np.int64]
SAMPLES_BEYOND_MIN = 10  # a percentile is given only if at least this many samples lie beyond it


class StagesTold(BaseModel):
    """The stages of one load process, as they go to another process."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    histograms: dict[str, Histogram]
    negative: dict[str, int]
    censored: dict[str, int]


class Stages:
    """The stages of one load process, or of several, merged."""

    def __init__(self) -> None:
        self._histograms = {name: LogHistogram() for name in (*SEND_STAGES, *RECV_STAGES)}
        self._negative = dict.fromkeys(self._histograms, 0)
        self._censored = {"failed": 0, "unknown": 0}

    def add_sends(self, rows: Rows, start_us: int, end_us: int) -> None:
        """Rows whose intended time lies in the window; others are left out."""
        times = _inside({name: rows[name] for name in (*_SEND_TIMES, "status", "error")}, start_us, end_us)
        status, error = times.pop("status"), times.pop("error")
        if not len(status):
            return
        self._add("schedule_lag", times, SEND_STAGES)
        is_acked = status == SendStatus.ACKED
        if not is_acked.all():
            # Nobody waits for what was to be aborted.
            is_failed = (status == SendStatus.FAILED) | ((status == SendStatus.ABORTED) & (error != 0))
            self._censored["failed"] += int(np.count_nonzero(is_failed))
            self._censored["unknown"] += int(np.count_nonzero(status == SendStatus.UNKNOWN))
            times = {name: column[is_acked] for name, column in times.items()}
        for name in SEND_STAGES:
            if name != "schedule_lag":
                self._add(name, times, SEND_STAGES)

    def add_receipts(self, rows: Rows, start_us: int, end_us: int) -> None:
        times = _inside({name: rows[name] for name in _RECV_TIMES}, start_us, end_us)
        for name in RECV_STAGES:
            self._add(name, times, RECV_STAGES)

    def _add(self, name: str, times: Mapping[str, _Times], stages: Mapping[str, tuple[str, str]]) -> None:
        start, end = times[stages[name][0]], times[stages[name][1]]
        if "appended_us" in stages[name]:
            known = times["appended_us"] >= 0
            if not known.any():
                return
            start, end = start[known], end[known]
        took_us = end - start
        self._negative[name] += int(np.count_nonzero(took_us < 0))
        self._histograms[name].add(took_us)

    def told(self) -> StagesTold:
        """To be merged elsewhere."""
        return StagesTold(
            histograms={name: found.told() for name, found in self._histograms.items()},
            negative=self._negative,
            censored=self._censored,
        )

    def merge(self, other: StagesTold) -> None:
        for name, histogram in other.histograms.items():
            self._histograms[name].merge(histogram)
            self._negative[name] += other.negative[name]
        for name, count in other.censored.items():
            self._censored[name] += count

    def figures(self) -> records.Stages:
        """What the account at the end tells: n, mean, percentiles that the sample carries, the largest, negatives."""
        return records.Stages(
            censored=records.Censored(failed=self._censored["failed"], unknown=self._censored["unknown"]),
            schedule_lag=self._figures("schedule_lag"),
            send_to_append=self._figures("send_to_append"),
            append_to_ack=self._figures("append_to_ack"),
            send_to_ack=self._figures("send_to_ack"),
            intended_to_ack=self._figures("intended_to_ack"),
            append_to_poll=self._figures("append_to_poll"),
            intended_to_poll=self._figures("intended_to_poll"),
        )

    def _figures(self, name: str) -> records.StageFigures | None:
        """The figures of a stage. None if it was not measured."""
        histogram = self._histograms[name]
        count = histogram.count
        if not count:
            return None

        def quantile_us(share: float) -> float | None:
            return histogram.quantile_us(share) if count * (1 - share) >= SAMPLES_BEYOND_MIN else None

        return records.StageFigures(
            n=count,
            mean_us=round(histogram.mean_us(), 1),
            p50_us=quantile_us(0.5),
            p90_us=quantile_us(0.9),
            p99_us=quantile_us(0.99),
            p999_us=quantile_us(0.999),
            max_us=histogram.max_us,
            negative=self._negative[name],
        )


def _inside(columns: Mapping[str, _Times], start_us: int, end_us: int) -> dict[str, _Times]:
    """The rows whose intended time lies in the window, as columns of their own: copies of whole rows cost more."""
    intended_us = columns["intended_us"]
    inside = (intended_us >= start_us) & (intended_us < end_us)
    if inside.all():
        return {name: np.ascontiguousarray(column) for name, column in columns.items()}
    return {name: column[inside] for name, column in columns.items()}
