"""A load that nobody counts, on a cluster whose brokers grow faster while they run.

A JVM compiles what is hot: Apache Kafka answers its first thousands of requests several times slower than later ones
(benchmarks/README.md shows the series). Without this, whichever cells the seed puts first would look slow. Brokers
without a just-in-time compiler get none. Shown by tests/harness/test_harness_warm_up.py.
"""

from __future__ import annotations

import shutil
import time
from typing import Any, Final

from harness.clusters.admin import Admin
from harness.clusters.base import Cluster
from harness.errors import CellError
from harness.plan import PlannedCell
from harness.run.context import RunContext
from harness.run.workload_process import WorkloadProcess

TOPIC: Final = "harness-warm-up"
CELL_ID: Final = "warm-up"
WARM_UP_MS: Final = 12_000
DRAIN_MS: Final = 3_000
RATE_FACTOR: Final = 2.0  # harder than what follows, so that it takes less time
OVERTIME_S: Final = 30.0
_PROPERTIES: Final = {"acks": "all", "linger.ms": "5", "batch.size": "16384", "enable.idempotence": "true"}


def plan_of(planned: PlannedCell, context: RunContext, bootstrap_servers: str) -> dict[str, Any]:
    """The load of the first cell at twice its rate, into a topic and a directory of its own."""
    workload = planned.workload.model_dump(mode="json")
    workload |= {"warmup_ms": 0, "measure_ms": WARM_UP_MS, "drain_ms": DRAIN_MS, "schedule": {"kind": "constant"}}
    workload["rate_per_s"] = workload["rate_per_s"] * RATE_FACTOR
    return {
        "run_dir": str(context.run_dir / CELL_ID),
        "cell_id": CELL_ID,
        "t0_monotonic_ns": context.clock.t0_monotonic_ns,
        "client": planned.client,
        "bootstrap_servers": bootstrap_servers,
        "topic": TOPIC,
        "partitions": planned.partitions,
        "properties": _PROPERTIES,
        "consumer_properties": {},
        "workload": workload,
        "seed": planned.seed,
    }


def warm_up(cluster: Cluster, planned: PlannedCell, context: RunContext, load: WorkloadProcess) -> str:
    """Load `cluster` and throw the records away; returns a line for the manifest. A failure is a note, not an error:
    the cells will show what is wrong, with their own evidence."""
    context.progress.phase("cluster warm-up")
    admin = Admin(cluster.direct_addresses)
    directory = context.run_dir / CELL_ID
    (directory / "cells" / CELL_ID).mkdir(parents=True, exist_ok=True)
    acked = 0
    problem = ""
    try:
        admin.create_topic(
            TOPIC, partitions=planned.partitions, replication_factor=planned.replication_factor, config={}
        )
        cluster.wait_healthy(TOPIC, timeout_s=OVERTIME_S, replication_factor=planned.replication_factor)
        load.begin(plan_of(planned, context, cluster.bootstrap_servers))
        deadline_s = time.monotonic() + (WARM_UP_MS + DRAIN_MS) / 1000 + OVERTIME_S
        while not context.stop.is_set():
            event = load.next_event(0.2) or {}
            acked = max(acked, int(event.get("acked", 0)))
            if event.get("event") in ("done", "end"):
                break
            if event.get("event") == "error":
                problem = str(event.get("message"))
            if time.monotonic() >= deadline_s:
                problem = "the load process did not finish in time"
                break
    except CellError as error:
        problem = str(error)
    finally:
        load.stop(1.0)
        if not context.stop.is_set():
            admin.delete_topic(TOPIC)
        shutil.rmtree(directory, ignore_errors=True)
    words = f"{acked:,} records acknowledged before anything was measured"
    return f"{words}; {problem}" if problem else words
