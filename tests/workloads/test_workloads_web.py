"""Locust's web view of a running load: its figures are those of the load, its Stop button ends the load well."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.ports import free_port
from runlog.streams.compact import compact_cell
from runlog.streams.schema import SEND, SendStatus
from tests.workloads.load_process import Load
from tests.workloads.reference_broker import ReferenceBroker

pytestmark = pytest.mark.slow


def _get(port: int, path: str, data: bytes | None = None) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data=data, timeout=60) as response:
        body: bytes = response.read()
        return body


def _send_figures(port: int) -> dict[str, Any]:
    stats = json.loads(_get(port, "/stats/requests"))["stats"]
    return next((entry for entry in stats if entry["name"] == "send"), {"num_requests": 0})


def test_the_view_shows_the_load_and_stop_ends_it(tmp_path: Path) -> None:
    port = free_port()
    broker = ReferenceBroker(tmp_path)
    try:
        broker.create_topics("web")
        workload = {"rate_per_s": 500, "warmup_ms": 100, "measure_ms": 60_000, "drain_ms": 3_000}
        load = Load(tmp_path, broker.address, workload, topic="web", web_port=port)
        load.wait_phase("measure")
        deadline_s = time.monotonic() + 60
        while _send_figures(port)["num_requests"] < 300:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        assert b"<title>Locust</title>" in _get(port, "/")
        taken = Load(tmp_path / "2", broker.address, workload, topic="web", web_port=port)
        assert taken.finish() == 1
        assert f"needs port {port}" in taken.events[-1]["message"]
        with pytest.raises(urllib.error.HTTPError, match="409"):
            _get(port, "/swarm", data=b"user_count=9&spawn_rate=9")
        _get(port, "/stop", data=b"")
        assert load.finish() == 0
        compact_cell(tmp_path, "c1")
        sent = load.rows(SEND.name)
        assert 300 <= len(sent) < 30_000
        assert {row["status"] for row in sent} == {SendStatus.ACKED}
    finally:
        broker.stop()
