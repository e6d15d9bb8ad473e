"""The suites of the trials, one `harness run` of each, and what its directory holds.

The truth of a trial is computed without any code of the engine. So latencies are read from the rows alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.known_server.plan import Times
from benchmarks.known_server.relay import KnownServer
from harness.suite import Contract, Range, Search, Suite, Sweep, TopicSpec, Variant
from runlog.records.documents import read_cell, read_run_record
from runlog.streams.parquet import column_chunks
from runlog.streams.schema import SEND, SendStatus
from workloads.model import Workload

RATE_PER_S: Final = 2_000
WINDOW_MS: Final = 3_000
HARNESS_TIMEOUT_S: Final = 3_600.0
# All batches of a stall or a delay find room in flight and in the client's memory, where each takes batch.size. So
# nothing but the plan makes a record wait.
_PROPERTIES: Final = {
    "acks": "1", "enable.idempotence": "false", "retries": "0", "linger.ms": "5", "batch.size": "65536",
    "max.in.flight.requests.per.connection": "500",
}  # fmt: skip
_TOPIC: Final = TopicSpec(partitions=1, replication_factor=1, config={})
_WORKLOAD: Final = Workload(
    rate_per_s=RATE_PER_S, record_size_bytes=100, consumers=0, warmup_ms=500, measure_ms=WINDOW_MS, drain_ms=5_000
)


def sweep_suite(name: str, *, repetitions: int, acks: Sequence[str] = ()) -> Suite:
    """The baseline, and one cell more for each other value of acks."""
    vary: dict[str, list[Variant] | Range] = {"acks": [Variant(value=value) for value in acks]} if acks else {}
    sweep = Sweep(baseline=_PROPERTIES, vary=vary, repetitions=repetitions)
    return Suite(name=name, topic=_TOPIC, workload=_WORKLOAD, sweep=sweep)


def search_suite(name: str) -> Suite:
    search = Search(
        properties=_PROPERTIES, low_per_s=500, high_per_s=16_000, contract=Contract(p99_ms=100), tolerance=0.15,
        probes_max=20, fractions=[0.5], repetitions=1,
    )  # fmt: skip
    return Suite(name=name, topic=_TOPIC, workload=_WORKLOAD, search=search)


def run_suite(server: KnownServer, directory: Path, suite: Suite) -> Path:
    """One `harness run`. Its verdict does not matter here: only that it ended with figures."""
    directory.mkdir(parents=True)
    path = directory / "suite.yaml"
    path.write_text(suite.model_dump_json(by_alias=True, exclude_unset=True), encoding="utf-8")  # JSON is YAML
    run_dir = directory / "run"
    command = [
        sys.executable, "-m", "harness", "run", str(path), "--cluster", "external",
        "--bootstrap-server", server.bootstrap_servers, "--run-dir", str(run_dir),
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.DEVNULL, timeout=HARNESS_TIMEOUT_S, check=False)
    if done.returncode not in (0, 1, 4):
        raise RuntimeError(f"{' '.join(command)} ended with exit code {done.returncode}")
    return run_dir


def verdicts_of(run: Path) -> Any:  # JSON, as a user's script reads it
    return json.loads((run / "results" / "verdicts.json").read_text(encoding="utf-8"))


def cells_of(run: Path) -> list[str]:
    return [cell["cell_id"] for cell in verdicts_of(run)["cells"]]


def latencies_of(run: Path, cell: str) -> tuple[Times, Times]:
    """Of the window's acknowledged records, from the rows alone: intended time (monotonic) and latency, in seconds."""
    t0_ns = read_run_record(run).t0_monotonic_ns
    assert t0_ns is not None, f"{run}: the run has not begun"
    t0_s = t0_ns / 1e9
    window_us = read_cell(run, cell).outcome.window_us
    assert window_us is not None, f"{run}: {cell} was not measured"
    start_us, end_us = window_us
    intended_s: list[NDArray[np.float64]] = []
    latency_s: list[NDArray[np.float64]] = []
    for rows in column_chunks(run, SEND, cell, ("intended_us", "acked_us", "status")):
        intended = rows["intended_us"]
        kept = (intended >= start_us) & (intended < end_us)
        kept &= rows["status"] == int(SendStatus.ACKED)
        intended_s.append(t0_s + intended[kept] / 1e6)
        latency_s.append((rows["acked_us"] - intended)[kept] / 1e6)
    return np.concatenate([np.zeros(0), *intended_s]), np.concatenate([np.zeros(0), *latency_s])
