"""Our engine beside kafka-producer-perf-test: its lines are read, ours are counted its way too, and both really run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.perf_test import TOOL, main, perf_test_command
from benchmarks.perf_test_figures import AS_FAST_AS_IT_GOES, Document, PerfTestError, count, parse, render
from harness.errors import CellError
from runlog.streams.schema import SendStatus

JARS = Path(os.environ.get("HARNESS_CACHE_DIR", Path(__file__).parents[2] / ".cache")) / "kafka" / "libs"
OUTPUT = """Warmup first 6000 records. Steady state results will print after the complete test summary.
9999 records sent, 1999.8 records/sec (1.95 MB/sec), 4.1 ms avg latency, 210.0 ms max latency.
In steady state.
22000 records sent, 1999.636430 records/sec (1.95 MB/sec), 3.90 ms avg latency, 211.00 ms max latency, 3 ms 50th, \
7 ms 95th, 40 ms 99th, 190 ms 99.9th.
16000 steady state records sent, 1999.625070 records/sec (1.95 MB/sec), 3.11 ms avg latency, 25.00 ms max latency, \
3 ms 50th, 6 ms 95th, 9 ms 99th, 14 ms 99.9th.
"""


def test_the_steady_state_line_is_read_and_not_that_with_the_warm_up() -> None:
    found = parse(OUTPUT, rate_per_s=2_000, number=1)
    assert (found.records, found.records_per_s, found.p50_ms, found.p999_ms) == (16_000, 1999.62507, 3.0, 14.0)
    with pytest.raises(PerfTestError, match="no steady-state figures"):
        parse(OUTPUT.split("16000")[0], rate_per_s=2_000, number=1)


def test_rows_are_counted_in_three_ways_and_what_has_no_end_is_told() -> None:
    intended = np.arange(0, 4_000_000, 1_000, dtype=np.int64)
    sent = intended + 2_500  # the generator was late: the tool would not know
    rows = {"intended_us": intended, "sent_us": sent, "acked_us": sent + 1_900,
            "status": np.zeros(len(intended), dtype=np.int64)}  # fmt: skip
    rows["status"][1_500:1_510] = SendStatus.UNKNOWN
    window = (1_000_000, 3_000_000)
    corrected, handed, theirs = count(rows, window, tool="ours", rate_per_s=1_000, number=1)
    assert (corrected.p99_ms, handed.p99_ms) == (4.4, 1.9)
    assert theirs.p99_ms == 2.0  # from 2.5 to 4.4 ms: two ticks of a clock of whole milliseconds
    assert {one.not_counted for one in (corrected, handed, theirs)} == {10}
    assert corrected.records == 1_990
    assert corrected.records_per_s == pytest.approx(995, abs=5)
    assert len(count(rows, window, tool="ours", rate_per_s=AS_FAST_AS_IT_GOES, number=1)) == 2
    rows["status"][:] = SendStatus.FAILED
    with pytest.raises(CellError, match="nothing was acknowledged"):
        count(rows, window, tool="ours", rate_per_s=1_000, number=1)


def test_both_get_the_same_settings_rate_and_warm_up() -> None:
    command = perf_test_command(
        "java", JARS, bootstrap="h:1", topic="t", rate_per_s=1_000, warmup_s=3, seconds=5, record_bytes=99
    )  # fmt: skip
    text = " ".join(command)
    assert "--num-records 8000 --warmup-records 3000 --record-size 99 --throughput 1000" in text
    assert "acks=all" in command
    assert "batch.size=16384" in command


def test_the_page_has_medians_and_says_what_the_tool_does_not_tell() -> None:
    figures = [parse(OUTPUT, rate_per_s=2_000, number=number) for number in (1, 2, 3)]
    document = Document(
        date="d", command="c", cluster="k", host={}, record_bytes=1, warmup_s=3.0, seconds=2.0, figures=figures
    )
    page = render(document)
    assert "| kafka-producer-perf-test | send() to callback, whole ms | 2,000 (2,000–2,000) |" in page
    assert "not told" in page


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(240)
@pytest.mark.skipif(not any(JARS.glob("kafka-tools-*.jar")), reason="no Kafka jars: make setup-dev")
@pytest.mark.skipif(shutil.which("java") is None, reason="no Java")
def test_both_really_run_on_one_cluster(tmp_path: Path) -> None:
    arguments = ["--cluster", "reference", "--brokers", "1", "--clients", "reference", "--rates", "500"]
    code = main([*arguments, "--warmup", "0.5", "--seconds", "1", "--rounds", "1", "--results", str(tmp_path)])
    (result,) = tmp_path.glob("*-perf-test-reference.json")
    document = json.loads(result.read_text())
    assert code == 0, document["problems"]
    by_tool = {one["tool"]: one for one in document["figures"]}
    assert by_tool[TOOL]["records"] == 500
    assert by_tool["ours, reference"]["records"] == 500
    assert {one["counted"] for one in document["figures"]} >= {"from the intended time", "as the tool counts"}
