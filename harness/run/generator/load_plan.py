"""The instructions for a load process. They are made in one place for a measured cell, for the warm-up before it and
for the certificate of the generator. If there were several places, one could forget something that a client needs (the
warm-up once had no JVM for client `java`). Shown by tests/harness/test_harness_warm_up.py and the runs of the
clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.planned_cell import PlannedCell
from harness.run.generator.client_runtime import client_runtime
from workloads.model import Workload


def load_plan(
    planned: PlannedCell,
    *,
    run_dir: Path,
    cell_id: str,
    t0_monotonic_ns: int,
    bootstrap_servers: str,
    topic: str,
    workload: Workload,
    properties: Mapping[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A JSON document of `workloads.model.Plan`: the cell's client, settings, partitions and seed; the rest as given.
    EnvironmentFault if something is missing that the client needs beside its properties."""
    return {
        "run_dir": str(run_dir),
        "cell_id": cell_id,
        "t0_monotonic_ns": t0_monotonic_ns,
        "client": planned.client,
        "bootstrap_servers": bootstrap_servers,
        "topic": topic,
        "partitions": planned.partitions,
        "properties": dict(planned.properties if properties is None else properties),
        "workload": workload.model_dump(mode="json"),
        "seed": planned.draw_seed,
        "runtime": client_runtime(planned.client),
        **more,
    }
