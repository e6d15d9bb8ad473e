"""Counts the rows that one load process logged, and adds them to Locust's statistics twice a second.

Rows are read back from the live segments, so counting costs the sending threads nothing. Locust's figures are for its
live view only: whole milliseconds, two digits. The report is made from the run log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from locust.stats import StatsEntry
from numpy.typing import NDArray

from runlog.streams.schema import RECV, SEND, SendStatus
from runlog.streams.segment import Rows, SegmentFollower
from workloads.histogram import LogHistogram
from workloads.stages import Stages

_ROWS_PER_LOOK = 8_192
# A fold takes in this much of each writer. It is enough for 1,600,000 rows a second and writer at fifty folds a second.
# 100 rows take some 10 us, and a sending thread gets the interpreter in between.
_LOOKS_PER_FOLD = 4
_SMALL = 10_000
_LOOKS_MAX = 1_024  # in the fold at the end


class Counters:
    """The counters. Not thread-safe: only for the main thread."""

    def __init__(self, live: Path) -> None:
        self._live = live
        self._send: dict[str, SegmentFollower] = {}
        self._recv: dict[str, SegmentFollower] = {}
        self.by_status = dict.fromkeys(SendStatus, 0)
        self.refusals: dict[int, int] = {}  # sends that were not acknowledged and have an error, by its code
        self.received = 0
        self.received_by_reader: dict[int, int] = {}
        self.latency = LogHistogram()  # acknowledged sends, from the intended time
        self.end_to_end = LogHistogram()
        self.stages = Stages()
        self.window_us: tuple[int, int] | None = None  # the measured one; set before its first row is written

    def fold(
        self, send_writers: list[str], recv_writers: list[str], locust_stats: Any, *, everything: bool = False
    ) -> None:
        """Take in rows written since the last call, a bounded number or `everything`. `locust_stats` is Locust's
        RequestStats, which has no types."""
        looks = _LOOKS_MAX if everything else _LOOKS_PER_FOLD
        for writer in send_writers:
            follower = self._send.setdefault(writer, SegmentFollower(self._live, SEND, writer))
            for rows in _new_rows(follower, looks):
                counted = np.bincount(rows["status"], minlength=len(SendStatus))
                for status in SendStatus:
                    self.by_status[status] += int(counted[status])
                is_acked = rows["status"] == SendStatus.ACKED
                if counted[SendStatus.ACKED] < len(rows):
                    codes, counts = np.unique(rows["error"][~is_acked], return_counts=True)
                    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
                        if code:
                            self.refusals[code] = self.refusals.get(code, 0) + count
                if self.window_us is not None:
                    self.stages.add_sends(rows, *self.window_us)
                took_us = rows["acked_us"] - rows["intended_us"]
                self.latency.add(took_us[is_acked])
                failed = int(counted[SendStatus.FAILED])
                _fold_latencies(locust_stats, "send", took_us, failed, int(rows["size_bytes"].sum()))
        for writer in recv_writers:
            follower = self._recv.setdefault(writer, SegmentFollower(self._live, RECV, writer))
            for rows in _new_rows(follower, looks):
                self.received += len(rows)
                if self.window_us is not None:
                    self.stages.add_receipts(rows, *self.window_us)
                self.end_to_end.add(rows["polled_us"] - rows["intended_us"])
                for reader, count in enumerate(np.bincount(rows["reader"]).tolist()):
                    if count:
                        self.received_by_reader[reader] = self.received_by_reader.get(reader, 0) + count
                _fold_latencies(locust_stats, "recv", rows["polled_us"] - rows["intended_us"], 0, 0)


def _new_rows(follower: SegmentFollower, looks: int) -> Iterator[Rows]:
    for _look in range(looks):
        rows = follower.read_new(_ROWS_PER_LOOK)
        if not len(rows):
            return
        yield rows


def _fold_latencies(
    locust_stats: Any, name: str, latencies_us: NDArray[np.int64], failed: int, size_bytes: int
) -> None:
    milliseconds = np.maximum(latencies_us, 0) // 1_000
    values, counts = _counted(milliseconds)
    # Locust keeps two digits above 100 ms, so that its dictionaries stay small.
    digit = np.where(values < 100, 1, 10 ** np.maximum(np.floor(np.log10(np.maximum(values, 1))) - 1, 0))
    rounded, places = np.unique((values // digit * digit).astype(np.int64), return_inverse=True)
    counts = np.bincount(places, weights=counts).astype(np.int64)
    now_s = time.time()
    entry = StatsEntry(locust_stats, name, "KAFKA")
    entry.num_requests = len(latencies_us)
    entry.num_failures = failed
    entry.total_response_time = int(milliseconds.sum())
    entry.min_response_time = int(milliseconds.min())
    entry.max_response_time = int(milliseconds.max())
    entry.total_content_length = size_bytes
    entry.response_times = dict(zip(rounded.tolist(), counts.tolist(), strict=True))
    entry.num_reqs_per_sec = {int(now_s): len(latencies_us)}
    entry.num_fail_per_sec = {int(now_s): failed} if failed else {}
    entry.start_time = entry.last_request_timestamp = now_s
    locust_stats.get(name, "KAFKA").extend(entry)
    locust_stats.total.extend(entry)


def _counted(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each value and how often it occurs. Small ones are not sorted for that."""
    if values.max() > _SMALL:
        return np.unique(values, return_counts=True)
    counts = np.bincount(values)
    found = np.flatnonzero(counts)
    return found, counts[found]
