"""`python -m workloads` as a real process, with librdkafka against librdkafka's mock cluster in another process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runlog.streams.compact import compact_cell
from runlog.streams.schema import RECV, SEND, SendStatus
from tests.patience import run_command
from tests.workloads.load_process import TOPIC, Event, Load

pytestmark = pytest.mark.slow
MOCK = Path(__file__).with_name("mock_cluster.py")


class MockCluster:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(MOCK), TOPIC],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.addresses = self.process.stdout.readline().strip()
        assert self.addresses

    def pause(self, seconds: float) -> None:
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def fall_silent(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(timeout=60)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    mock = MockCluster()
    yield mock
    mock.stop()


def _workload(**changes: Any) -> Event:
    fields = {"rate_per_s": 1_000, "record_size_bytes": 200, "producers": 2, "consumers": 1}
    return {**fields, "warmup_ms": 500, "measure_ms": 2_000, "drain_ms": 60_000, **changes}


@pytest.mark.parametrize(
    ("client", "processes"),
    [
        ("confluent", 2),
        *(pytest.param(client, 1, marks=pytest.mark.long) for client in ("confluent", "reference")),
    ],
)
def test_every_scheduled_record_is_acked_logged_once_and_read(
    tmp_path: Path, cluster: MockCluster, client: str, processes: int
) -> None:
    load = Load(tmp_path, cluster.addresses, _workload(processes=processes), client=client)
    assert load.finish() == 0, load.events[-3:]
    result = compact_cell(tmp_path, "c1")
    sent = load.rows(SEND.name)
    assert len(sent) == 2_500
    assert {row["status"] for row in sent} == {SendStatus.ACKED}
    assert {(row["producer"], row["seq"]) for row in sent} == {(p, s) for p in (0, 1) for s in range(1_250)}
    assert len({(row["partition"], row["offset"]) for row in sent}) == 2_500
    assert all(row["intended_us"] <= row["sent_us"] <= row["acked_us"] for row in sent)
    received = load.rows(RECV.name)
    assert {(row["partition"], row["offset"], row["producer"], row["seq"]) for row in received} == {
        (row["partition"], row["offset"], row["producer"], row["seq"]) for row in sent
    }
    assert all(row["crc_ok"] == 1 for row in received)
    measured = [row for row in sent if row["intended_us"] >= load.phase_us("measure")]
    assert len(measured) == pytest.approx(2_000, abs=2)
    assert load.phase_us("drain") - load.phase_us("measure") == 2_000_000
    phases = [event["phase"] for event in load.events if event["event"] == "phase"]
    assert phases == ["connect", "warmup", "measure", "drain", "done"]
    assert [producer["high_seq"] for producer in load.done["producers"]] == [1_249, 1_249]
    assert [summary.high_seq for summary in result.producers] == [1_249, 1_249]
    assert load.done["effective"]["client"]["linger.ms"] == "2"
    assert load.done["effective"]["client"]["client.library"]
    assert load.done["health"]["schedule_lag_us_p50"] > 0
    assert load.done["health"]["unsent"] == 0
    assert load.done["health"]["cpu_share"] > 0


@pytest.mark.parametrize("client", ["confluent", pytest.param("reference", marks=pytest.mark.long)])
def test_a_stall_of_the_cluster_shows_in_latency_from_the_intended_time(
    tmp_path: Path, cluster: MockCluster, client: str
) -> None:
    load = Load(tmp_path, cluster.addresses, _workload(consumers=0, measure_ms=4_000), client=client)
    load.wait_phase("measure")
    cluster.pause(1.0)
    assert load.finish() == 0, [event for event in load.events if event["event"] == "error"]
    compact_cell(tmp_path, "c1")
    latencies = sorted(
        row["acked_us"] - row["intended_us"]
        for row in load.rows(SEND.name)
        if row["intended_us"] >= load.phase_us("measure")
    )
    assert len(latencies) == pytest.approx(4_000, abs=2)  # the stall took no record out of the sample
    assert latencies[int(len(latencies) * 0.99)] > 500_000
    assert latencies[len(latencies) // 10] < latencies[int(len(latencies) * 0.99)] / 2  # otherwise all went well


def test_sigterm_stops_sending_drains_and_ends_well(tmp_path: Path, cluster: MockCluster) -> None:
    load = Load(tmp_path, cluster.addresses, _workload(measure_ms=60_000))
    load.wait_progress(lambda told: bool(told["sent"] > 700))
    started_s = time.monotonic()
    load.process.send_signal(signal.SIGTERM)
    assert load.finish() == 0
    assert time.monotonic() - started_s < 40  # it takes 5 s at most where it has the host for itself
    compact_cell(tmp_path, "c1")
    sent = load.rows(SEND.name)
    assert 700 < len(sent) < 60_500
    assert {row["status"] for row in sent} == {SendStatus.ACKED}


def test_a_killed_load_process_leaves_unknown_sends_and_never_a_gap(tmp_path: Path, cluster: MockCluster) -> None:
    load = Load(tmp_path, cluster.addresses, _workload(measure_ms=60_000, consumers=0))
    load.wait_progress(lambda told: bool(told["acked"] > 700))
    cluster.fall_silent()
    load.wait_progress(lambda told: bool(told["sent"] - told["acked"] > 500))  # these are in flight
    load.process.kill()
    load.finish()
    compact_cell(tmp_path, "c1")
    sent = load.rows(SEND.name)
    for producer in (0, 1):
        mine = sorted(row["seq"] for row in sent if row["producer"] == producer)
        assert mine == list(range(len(mine)))
    by_status = {status: sum(row["status"] == status for row in sent) for status in SendStatus}
    assert by_status[SendStatus.FAILED] == 0
    assert by_status[SendStatus.ACKED] > 0
    assert by_status[SendStatus.UNKNOWN] > 10
    unknown = [row for row in sent if row["status"] == SendStatus.UNKNOWN]
    assert all(row["acked_us"] == -1 and row["intended_us"] > 0 for row in unknown)


def test_a_cluster_that_dies_does_not_hold_up_the_end(tmp_path: Path, cluster: MockCluster) -> None:
    load = Load(tmp_path, cluster.addresses, _workload(measure_ms=5_000, drain_ms=1_000))
    load.wait_phase("measure")
    cluster.stop()
    started_s = time.monotonic()
    assert load.finish() == 0
    assert time.monotonic() - started_s < 100  # a client gives a record up after 120 s
    result = compact_cell(tmp_path, "c1")
    sent = load.rows(SEND.name)
    statuses = {row["status"] for row in sent}
    assert SendStatus.UNKNOWN in statuses
    assert statuses <= {SendStatus.ACKED, SendStatus.UNKNOWN}, "what was under way may have been written"
    for summary in result.producers:
        assert sum(row["producer"] == summary.producer for row in sent) == summary.high_seq + 1


def test_acks_0_is_never_called_acked(tmp_path: Path, cluster: MockCluster) -> None:
    load = Load(tmp_path, cluster.addresses, _workload(measure_ms=500, consumers=0), {"acks": 0})
    assert load.finish() == 0
    compact_cell(tmp_path, "c1")
    sent = load.rows(SEND.name)
    assert len(sent) == 1_000
    assert {(row["status"], row["error"], row["offset"]) for row in sent} == {(SendStatus.UNKNOWN, 0, -1)}
    assert all(row["acked_us"] >= row["sent_us"] for row in sent)


@pytest.mark.parametrize("client", [pytest.param("confluent", marks=pytest.mark.long), "reference"])
def test_a_property_that_the_client_cannot_set_ends_the_run_with_its_name(
    tmp_path: Path, cluster: MockCluster, client: str
) -> None:
    load = Load(tmp_path, cluster.addresses, _workload(), {"max.block.ms": 1}, client=client)
    assert load.finish() == 1
    (error,) = [event for event in load.events if event["event"] == "error"]
    assert f"client {client} cannot set max.block.ms" in error["message"]


def _behind_a_small_buffer(tmp_path: Path, cluster: MockCluster, client: str, **workload: int) -> Load:
    return Load(
        tmp_path,
        cluster.addresses,
        _workload(consumers=0, record_size_bytes=1_000, **workload),
        {"buffer.memory": 64_000, "batch.size": 16_384},
        client=client,
    )


@pytest.mark.parametrize("client", ["confluent", pytest.param("reference", marks=pytest.mark.long)])
def test_a_full_buffer_delays_records_but_loses_none_and_is_no_fault_of_the_generator(
    tmp_path: Path, cluster: MockCluster, client: str
) -> None:
    load = _behind_a_small_buffer(tmp_path, cluster, client, measure_ms=4_000)
    load.wait_phase("measure")
    cluster.pause(1.0)
    assert load.finish() == 0, [event for event in load.events if event["event"] == "error"]
    compact_cell(tmp_path, "c1")
    sent = load.rows(SEND.name)
    assert len(sent) == 4_500
    assert {row["status"] for row in sent} == {SendStatus.ACKED}
    assert max(row["sent_us"] - row["intended_us"] for row in sent) > 500_000
    health = load.done["health"]
    assert health["backpressure_sends"] > 300
    assert health["schedule_lag_us_p50"] < 250_000, "of a busy host, and not of a pause four times as long"


@pytest.mark.parametrize("client", [pytest.param("confluent", marks=pytest.mark.long), "reference"])
def test_what_a_silent_cluster_never_took_is_told_from_what_the_generator_left(
    tmp_path: Path, cluster: MockCluster, client: str
) -> None:
    """The brokers fall silent in the window and stay so past the drain, behind a full buffer of the client."""
    load = _behind_a_small_buffer(tmp_path, cluster, client, measure_ms=4_000, drain_ms=1_000)
    load.wait_phase("measure")
    cluster.fall_silent()
    assert load.finish() == 0, [event for event in load.events if event["event"] == "error"]
    compact_cell(tmp_path, "c1")
    health = load.done["health"]
    assert health["unsent"] == 4_500 - len(load.rows(SEND.name))
    assert health["unsent"] > 500
    assert health["unsent_for_space"] == health["unsent"]


def test_no_plan_is_a_clean_end() -> None:
    ended = run_command([sys.executable, "-m", "workloads"], input="")
    assert (ended.returncode, ended.stdout) == (0, '{"event":"ready"}\n')


def test_a_broken_plan_is_refused() -> None:
    ended = run_command([sys.executable, "-m", "workloads"], input='{"run_dir": "x"}\n')
    assert ended.returncode == 2
    assert "cell_id" in json.loads(ended.stdout.splitlines()[-1])["message"]
