"""The accounting of the benchmark notices what is planted, and a stated bound is held against the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.load_host_clocks import Planted, clocks_page, held
from benchmarks.load_host_records import Accounting, account, records_page, suite_of
from harness.suite import load_suite
from runlog.streams.parquet import write_part
from runlog.streams.schema import ABSENT, LOG, SEND, SendStatus

PLANTED = Planted(skew_ns=5_000_000, drift_ppm=50.0, origin_ns=1_000, there_ms=0.0, back_ms=0.0, jitter_ms=0.0)
ACKED, FAILED, UNKNOWN = SendStatus.ACKED, SendStatus.FAILED, SendStatus.UNKNOWN


def counted(tmp_path: Path, sent: list[tuple[int, int, int]], in_log: list[tuple[int, int]]) -> Accounting:
    """`sent`: producer, sequence, status. `in_log`: producer, sequence."""
    rows = {column.name: np.zeros(len(sent), dtype=np.int64) for column in SEND.columns}
    rows["producer"], rows["seq"], rows["status"] = (np.array(values) for values in zip(*sent, strict=True))
    write_part(tmp_path, SEND, "c1", rows)
    rows = {column.name: np.full(len(in_log), ABSENT if column.name == "offset" else 0) for column in LOG.columns}
    rows["producer"], rows["seq"] = (np.array(values) for values in zip(*in_log, strict=True))
    write_part(tmp_path, LOG, "c1", rows)
    return account(tmp_path, "c1")


SENT = [(0, 0, ACKED), (0, 1, ACKED), (0, 2, UNKNOWN), (1, 0, ACKED), (1, 1, FAILED), (1, 2, UNKNOWN)]
IN_LOG = [(0, 0), (0, 1), (1, 0), (1, 2)]


def test_what_is_whole_is_called_whole(tmp_path: Path) -> None:
    found = counted(tmp_path, SENT, IN_LOG)
    assert found.is_whole
    assert (found.sent, found.rows, found.acked, found.failed, found.unknown) == (6, 6, 3, 1, 2)
    assert (found.in_log, found.unknown_in_log) == (4, 1)
    page = records_page(found, FACTS, "head")
    assert "**6 records over three workers: every record is accounted for.**" in page


@pytest.mark.parametrize(
    ("sent", "in_log", "what"),
    [
        ([each for each in SENT if each[:2] != (0, 1)], IN_LOG[:1] + IN_LOG[2:], "missing_rows"),
        ([*SENT, SENT[0]], IN_LOG, "repeated_rows"),
        (SENT, IN_LOG[1:], "acked_not_in_log"),
        (SENT, [*IN_LOG, (1, 3)], "in_log_not_sent"),
        (SENT, [*IN_LOG, (2, 0)], "in_log_not_sent"),
        (SENT, [*IN_LOG, (1, 1)], "failed_in_log"),
        (SENT, [*IN_LOG, (0, 0)], "repeated_in_log"),
    ],
)
def test_each_planted_fault_is_counted_as_what_it_is(
    tmp_path: Path, sent: list[tuple[int, int, int]], in_log: list[tuple[int, int]], what: str
) -> None:
    found = counted(tmp_path, sent, in_log)
    wrong = ("missing_rows", "repeated_rows", "acked_not_in_log", "in_log_not_sent", "failed_in_log", "repeated_in_log")
    assert {name: getattr(found, name) for name in wrong} == {name: int(name == what) for name in wrong}
    assert not found.is_whole
    assert "NOT every record" in records_page(found, FACTS, "head")


FACTS: dict[str, Any] = {
    "seconds": 1.0,
    "disturbed": ["at 1 acknowledgements: the link of two was cut for 10 s"],
    "cell": "done: ",
    "load hosts": [
        {"name": "one", "state": "cut", "reason": "its link was lost", "is_gathered": True, "files": 3, "bytes": 9}
    ],
}


def test_a_stated_bound_is_held_against_the_truth_at_the_moment_it_was_stated_for() -> None:
    second = 1_000_000_000
    assert PLANTED.offset_us(1_000) == 5_000.0
    assert PLANTED.offset_us(1_000 + 10 * second) == pytest.approx(5_500.0)
    clock = {"offset_us": 5_490.0, "error_us": 12.0, "problem": ""}
    off_us, holds = held(PLANTED, clock, 1_000 + 10 * second, 1_000 + 10 * second + 20_000_000)
    assert off_us == pytest.approx(10.0)
    assert holds
    assert not held(PLANTED, {**clock, "error_us": 9.0}, 1_000 + 10 * second, 1_000 + 10 * second)[1]
    assert not held(PLANTED, {**clock, "problem": "it was set"}, 1_000 + 10 * second, 1_000 + 10 * second)[1]


def test_the_suite_is_one_and_is_long_enough(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(suite_of(10_000_000, 45_000, 100))
    workload = load_suite(str(tmp_path / "suite.yaml"), ()).workload
    assert workload.rate_per_s * workload.measure_ms / 1000 * (2.8 / 3) > 10_000_000


def test_a_page_without_trials_says_so() -> None:
    assert "**0 of 0 trials" in clocks_page([], "head")
