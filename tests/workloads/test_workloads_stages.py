"""The stages between the five times of a record: planted times come out, what has no end is counted beside."""

from __future__ import annotations

import numpy as np
import pytest

from runlog.records.codec import to_json
from runlog.streams.schema import RECV, SEND, SendStatus
from runlog.streams.segment import Rows, row_dtype
from workloads.stages import Stages

WINDOW_US = (1_000_000, 2_000_000)


def _sends(count: int, *, appended: bool = True) -> Rows:
    rows = np.zeros(count, dtype=row_dtype(SEND))
    rows["intended_us"] = np.linspace(*WINDOW_US, count, endpoint=False).astype(np.int64)
    rows["sent_us"] = rows["intended_us"] + 100
    rows["appended_us"] = rows["sent_us"] + 3_000 if appended else -1
    rows["acked_us"] = rows["sent_us"] + 5_000
    return rows


def test_planted_stages_come_out_and_add_up() -> None:
    stages = Stages()
    stages.add_sends(_sends(2_000), *WINDOW_US)
    received = np.zeros(2_000, dtype=row_dtype(RECV))
    received["intended_us"] = _sends(2_000)["intended_us"]
    received["appended_us"] = received["intended_us"] + 3_100
    received["polled_us"] = received["appended_us"] + 700
    stages.add_receipts(received, *WINDOW_US)
    told = to_json(stages.figures())
    planted = {
        "schedule_lag": 100, "send_to_append": 3_000, "append_to_ack": 2_000, "send_to_ack": 5_000,
        "intended_to_ack": 5_100, "append_to_poll": 700, "intended_to_poll": 3_800,
    }  # fmt: skip
    for name, expected_us in planted.items():
        assert told[name]["n"] == 2_000
        assert told[name]["mean_us"] == expected_us
        assert told[name]["p50_us"] == pytest.approx(expected_us, rel=0.02)
        assert told[name]["p99_us"] == pytest.approx(expected_us, rel=0.02)
        assert "p999_us" not in told[name]  # two samples lie beyond it
    assert told["censored"] == {"failed": 0, "unknown": 0}


def test_sends_without_an_end_are_censored_and_still_count_for_the_schedule() -> None:
    rows = _sends(100, appended=False)
    rows["status"][:7] = SendStatus.FAILED
    rows["status"][7:10] = SendStatus.UNKNOWN
    stages = Stages()
    stages.add_sends(rows, *WINDOW_US)
    told = to_json(stages.figures())
    assert told["censored"] == {"failed": 7, "unknown": 3}
    assert told["schedule_lag"]["n"] == 100
    assert told["send_to_ack"]["n"] == 90
    assert "send_to_append" not in told


def test_rows_outside_the_window_are_left_out_and_negative_stages_are_counted() -> None:
    rows = _sends(200)
    rows["intended_us"][:50] -= 1_000_000
    rows["appended_us"] = rows["sent_us"] - 400  # the stamp is the whole millisecond before
    first, second = Stages(), Stages()
    first.add_sends(rows[:100], *WINDOW_US)
    second.add_sends(rows[100:], *WINDOW_US)
    merged = Stages()
    for part in (first, second):
        merged.merge(part.told())
    told = to_json(merged.figures())
    assert told["send_to_append"] == {"n": 150, "mean_us": 0.0, "p50_us": 0, "p90_us": 0, "max_us": 0, "negative": 150}
