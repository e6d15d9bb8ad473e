"""Counts of what one load process logged, and the same folded into Locust's statistics twice a second.

Rows are read back from the live segments, so counting costs the sending threads nothing. Locust's figures are for its
live view only: whole milliseconds, two digits. The report is made from the run log.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from locust.stats import StatsEntry
from numpy.typing import NDArray

from runlog.schema import RECV, SEND, SendStatus
from runlog.segment import Rows, SegmentFollower
from workloads.histogram import LogHistogram

_LOOKS_MAX = 256  # reads per fold and writer: a million rows; the rest waits for the next fold


class Counters:
    """Not thread-safe: lives on the main thread."""

    def __init__(self, live: Path) -> None:
        self._live = live
        self._send: dict[str, SegmentFollower] = {}
        self._recv: dict[str, SegmentFollower] = {}
        self.by_status = dict.fromkeys(SendStatus, 0)
        self.received = 0
        self.received_by_reader: dict[int, int] = {}
        self.latency = LogHistogram()  # acknowledged sends, from the intended time
        self.end_to_end = LogHistogram()

    def fold(self, send_writers: list[str], recv_writers: list[str], locust_stats: Any) -> None:
        """Take in all rows written since the last call. `locust_stats` is Locust's untyped RequestStats."""
        for writer in send_writers:
            follower = self._send.setdefault(writer, SegmentFollower(self._live, SEND, writer))
            for rows in _new_rows(follower):
                for status in SendStatus:
                    self.by_status[status] += int(np.count_nonzero(rows["status"] == status))
                is_acked = rows["status"] == SendStatus.ACKED
                self.latency.add((rows["acked_us"] - rows["intended_us"])[is_acked])
                failed = int(np.count_nonzero(rows["status"] == SendStatus.FAILED))
                _fold_latencies(
                    locust_stats, "send", rows["acked_us"] - rows["intended_us"], failed, int(rows["size_bytes"].sum())
                )
        for writer in recv_writers:
            follower = self._recv.setdefault(writer, SegmentFollower(self._live, RECV, writer))
            for rows in _new_rows(follower):
                self.received += len(rows)
                self.end_to_end.add(rows["polled_us"] - rows["intended_us"])
                for reader, count in enumerate(np.bincount(rows["reader"]).tolist()):
                    if count:
                        self.received_by_reader[reader] = self.received_by_reader.get(reader, 0) + count
                _fold_latencies(locust_stats, "recv", rows["polled_us"] - rows["intended_us"], 0, 0)


def _new_rows(follower: SegmentFollower) -> list[Rows]:
    parts: list[Rows] = []
    for _look in range(_LOOKS_MAX):
        rows = follower.read_new()
        if not len(rows):
            break
        parts.append(rows)
    return parts


def _fold_latencies(
    locust_stats: Any, name: str, latencies_us: NDArray[np.int64], failed: int, size_bytes: int
) -> None:
    milliseconds = np.maximum(latencies_us, 0) // 1_000
    # Locust keeps two digits above 100 ms, so that its dictionaries stay small.
    digit = np.where(milliseconds < 100, 1, 10 ** np.maximum(np.floor(np.log10(np.maximum(milliseconds, 1))) - 1, 0))
    rounded = (milliseconds // digit * digit).astype(np.int64)
    now_s = time.time()
    values, counts = np.unique(rounded, return_counts=True)
    entry = StatsEntry(locust_stats, name, "KAFKA")
    entry.num_requests = len(latencies_us)
    entry.num_failures = failed
    entry.total_response_time = int(milliseconds.sum())
    entry.min_response_time = int(milliseconds.min())
    entry.max_response_time = int(milliseconds.max())
    entry.total_content_length = size_bytes
    entry.response_times = dict(zip(values.tolist(), counts.tolist(), strict=True))
    entry.num_reqs_per_sec = {int(now_s): len(latencies_us)}
    entry.num_fail_per_sec = {int(now_s): failed} if failed else {}
    entry.start_time = entry.last_request_timestamp = now_s
    locust_stats.get(name, "KAFKA").extend(entry)
    locust_stats.total.extend(entry)
