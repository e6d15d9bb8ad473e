"""Where the time of a record goes, in the measured window: the stages between its five times, as mergeable histograms.

intended -> sent: schedule lag, the generator's own. sent -> appended: queue, linger, wire and the leader's append.
appended -> acked: replication and the way back. appended -> received: fetch wait. Without LogAppendTime the two stages
around the append are one. Sends that failed or stayed unknown have no end: they are counted beside, as censored.
The leader's stamp is a whole millisecond before the append, so a stage may come out negative by as much: such values
count as zero in the histogram and are counted in `negative`. Pure but for numpy.
Shown by tests/workloads/test_workloads_stages.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from runlog.schema import SendStatus
from runlog.segment import Rows
from workloads.histogram import LogHistogram

Json = dict[str, Any]  # what json.dumps takes
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
_SHARES = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999}
SAMPLES_BEYOND_MIN = 10  # a percentile is told only if so many samples lie beyond it


class Stages:
    """Of one load process, or merged."""

    def __init__(self) -> None:
        self._histograms = {name: LogHistogram() for name in (*SEND_STAGES, *RECV_STAGES)}
        self._negative = dict.fromkeys(self._histograms, 0)
        self._censored = {"failed": 0, "unknown": 0}

    def add_sends(self, rows: Rows, start_us: int, end_us: int) -> None:
        """Rows whose intended time lies in the window; others are left out."""
        inside = rows[(rows["intended_us"] >= start_us) & (rows["intended_us"] < end_us)]
        if not len(inside):
            return
        acked = inside[inside["status"] == SendStatus.ACKED]
        self._censored["failed"] += int(np.count_nonzero(inside["status"] == SendStatus.FAILED))
        self._censored["unknown"] += int(np.count_nonzero(inside["status"] == SendStatus.UNKNOWN))
        self._add("schedule_lag", inside, SEND_STAGES)
        for name in SEND_STAGES:
            if name != "schedule_lag":
                self._add(name, acked, SEND_STAGES)

    def add_receipts(self, rows: Rows, start_us: int, end_us: int) -> None:
        inside = rows[(rows["intended_us"] >= start_us) & (rows["intended_us"] < end_us)]
        for name in RECV_STAGES:
            self._add(name, inside, RECV_STAGES)

    def _add(self, name: str, rows: Rows, stages: dict[str, tuple[str, str]]) -> None:
        start, end = stages[name]
        if "appended_us" in (start, end):
            rows = rows[rows["appended_us"] >= 0]
        took_us: NDArray[np.int64] = rows[end] - rows[start]
        self._negative[name] += int(np.count_nonzero(took_us < 0))
        self._histograms[name].add(took_us)

    def to_json(self) -> Json:
        """To be merged elsewhere."""
        return {
            "histograms": {name: found.to_json() for name, found in self._histograms.items()},
            "negative": self._negative,
            "censored": self._censored,
        }

    def merge_json(self, document: Json) -> None:
        for name, histogram in document["histograms"].items():
            self._histograms[name].merge_json(histogram)
            self._negative[name] += document["negative"][name]
        for name, count in document["censored"].items():
            self._censored[name] += count

    def figures(self) -> Json:
        """What the account at the end tells: n, percentiles that the sample carries, the largest, negatives."""
        told: Json = {"censored": dict(self._censored)}
        for name, histogram in self._histograms.items():
            count = histogram.count
            if not count:
                continue
            shown = {
                label: histogram.quantile_us(share)
                for label, share in _SHARES.items()
                if count * (1 - share) >= SAMPLES_BEYOND_MIN
            }
            told[name] = {"n": count, **shown, "max_us": histogram.max_us, "negative": self._negative[name]}
        return told
