"""A client that puts records into the wrong topic, in real processes: what its cell fails with, and what not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runlog.records.verdicts import Result
from tests.harness.load_workers import RUN_QUIET_S
from tests.patience import communicate

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.spark]

SUITE = """
name: swapped
client: swaps_topics
workload: {rate_per_s: 500, record_size_bytes: 100, producers: 1, topics: 2, warmup_ms: 300, measure_ms: 3000}
topic: {partitions: 2, replication_factor: 1}
cluster: {brokers: 1}
sweep: {baseline: {linger.ms: 5, acks: all}, vary: {linger.ms: [0]}, repetitions: 1, repeat_share: 0}
"""
CLIENT = '''
"""Every tenth record goes into the other topic."""
from types import SimpleNamespace
from workloads.clients import reference
from workloads.clients.reference.load import ReferenceProducer

class Producer(ReferenceProducer):
    def send(self, topic, value, key, seq):
        if seq % 10 == 0:
            topic = next(other for other in self._topics if other != topic)
        return super().send(topic, value, key, seq)

swaps_topics = SimpleNamespace(make_producer=Producer, make_consumer=reference.make_consumer)
'''
BLAMES_THE_BROKER = ("offset_reused", "ack_misplaced", "send_realtime_violation", "lost", "reordered", "duplicated")


def installed(directory: Path) -> None:
    """The client, as a package of its own would leave it there."""
    (directory / "swapping_client.py").write_text(CLIENT)
    info = directory / "swapping_client-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: swapping-client\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kafka_harness.clients]\nswaps_topics = swapping_client:swaps_topics\n")


def test_a_client_that_swaps_topics_is_what_its_cell_fails_with(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    installed(packages)
    (tmp_path / "suite.yaml").write_text(SUITE)
    run_dir = tmp_path / "run"
    paths = os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH")]))
    words = ["run", str(tmp_path / "suite.yaml"), "--no-certify", "--run-dir", str(run_dir)]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *words], env={**os.environ, "PYTHONPATH": paths}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    output, _ = communicate(process, "the end of the run", quiet_s=RUN_QUIET_S)
    assert process.returncode == 1, output
    cell, _ = json.loads((run_dir / "results" / "verdicts.json").read_text())["cells"]
    assert cell["anomalies"]["misrouted"] >= cell["acked"] // 11, cell["anomalies"]
    assert cell["observed_sets"]["misrouted"]["count"] == cell["anomalies"]["misrouted"]
    assert not [name for name in BLAMES_THE_BROKER if name in cell["anomalies"]], cell["anomalies"]
    failed = [check["name"] for check in cell["checks"] if check["result"] == Result.FAIL]
    assert failed == ["none in the wrong topic or partition"]
    assert "suspect the client" in cell["reasons"][0]
    assert "in the wrong topic or partition" in output
    for name in ("junit.xml", "summary.md", "report.html"):
        assert "in the wrong topic or partition" in (run_dir / name).read_text(), name
    header, *rows = (run_dir / "results" / "cells.csv").read_text().splitlines()
    assert rows[0].split(",")[header.split(",").index("misrouted")] != "0"
