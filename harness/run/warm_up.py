"""A load that nobody counts, on a cluster whose brokers grow faster while they run.

A JVM compiles what is hot: Apache Kafka answers its first thousands of requests several times slower than later ones
(benchmarks/README.md shows the series). Without this, whichever cells the seed puts first would look slow, and a second
run would not confirm the first. So the load goes on until the brokers' CPU time per record no longer falls. Cells with
faults restart brokers, which are young again whatever came before: before those the load is short. Brokers without a
just-in-time compiler get none. Shown by tests/harness/test_harness_warm_up.py.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from harness.clusters.admin import Admin
from harness.clusters.base import Cluster
from harness.errors import CellError
from harness.plan import PlannedCell
from harness.run.context import RunContext
from harness.run.recorders import process_sample
from harness.run.workload_process import WorkloadProcess

TOPIC: Final = "harness-warm-up"
CELL_ID: Final = "warm-up"
LONGEST_MS: Final = 180_000
LONGEST_BEFORE_FAULTS_MS: Final = 12_000
DRAIN_MS: Final = 3_000
RATE_FACTOR: Final = 2.0  # harder than what follows, so that it takes less time
OVERTIME_S: Final = 30.0
SLICE_S: Final = 4.0
SLICES_COMPARED: Final = 6  # a pause of the compiler is not its end
LEAST_FALL: Final = 0.05


def longest_ms(planned: PlannedCell) -> int:
    return LONGEST_BEFORE_FAULTS_MS if planned.has_faults else LONGEST_MS


@dataclass(slots=True)
class Warmth:
    """The brokers' CPU time per acknowledged record, slice by slice (us)."""

    cpu_us_per_record: list[float] = field(default_factory=list)
    _acked: int = 0
    _cpu_s: float = 0.0
    _next_s: float = 0.0

    def begin(self, now_s: float, cpu_s: float) -> None:
        self._cpu_s, self._next_s = cpu_s, now_s + SLICE_S

    def is_due(self, now_s: float) -> bool:
        return now_s >= self._next_s

    def take(self, now_s: float, acked: int, cpu_s: float) -> None:
        """One slice is over. A slice without acknowledgements says nothing."""
        if acked > self._acked:
            self.cpu_us_per_record.append((cpu_s - self._cpu_s) * 1e6 / (acked - self._acked))
        self._acked, self._cpu_s, self._next_s = acked, cpu_s, now_s + SLICE_S

    def has_settled(self) -> bool:
        """The last slices together are not clearly cheaper than as many before them."""
        costs = self.cpu_us_per_record
        if len(costs) < 2 * SLICES_COMPARED:
            return False
        return sum(costs[-SLICES_COMPARED:]) > (1 - LEAST_FALL) * sum(costs[-2 * SLICES_COMPARED : -SLICES_COMPARED])

    def describe(self) -> str:
        costs = self.cpu_us_per_record
        if len(costs) < 2:
            return ""
        last = costs[-SLICES_COMPARED:]
        words = f"brokers took {costs[0]:.0f} us of CPU per record at first and {sum(last) / len(last):.0f} at the end"
        return words if self.has_settled() else f"{words}, perhaps still falling"


class HasPids(Protocol):
    def pids(self) -> Mapping[int, int]: ...


def cpu_of(cluster: HasPids) -> float:
    """CPU seconds of all brokers; 0 where they are not ours to look at."""
    samples = (process_sample(pid) for pid in cluster.pids().values())
    return sum(sample[0] for sample in samples if sample is not None)


def plan_of(planned: PlannedCell, context: RunContext, bootstrap_servers: str) -> dict[str, Any]:
    """The load of the first cell at twice its rate, with its settings, since other batches run other code; into a topic
    and a directory of its own."""
    properties = dict(planned.properties)
    if properties.get("acks") == "0":
        properties["acks"] = "1"  # what nobody acknowledges cannot be counted
    workload = planned.workload.model_dump(mode="json")
    workload |= {
        "warmup_ms": 0,
        "measure_ms": longest_ms(planned),
        "drain_ms": DRAIN_MS,
        "schedule": {"kind": "constant"},
    }
    workload["rate_per_s"] = workload["rate_per_s"] * RATE_FACTOR
    return {
        "run_dir": str(context.run_dir / CELL_ID),
        "cell_id": CELL_ID,
        "t0_monotonic_ns": context.clock.t0_monotonic_ns,
        "client": planned.client,
        "bootstrap_servers": bootstrap_servers,
        "topic": TOPIC,
        "partitions": planned.partitions,
        "properties": properties,
        "consumer_properties": {},
        "workload": workload,
        "seed": planned.seed,
    }


def warm_up(
    cluster: Cluster,
    plan: Mapping[str, Any],
    load: WorkloadProcess,
    *,
    replication_factor: int,
    should_stop: Callable[[], bool] = lambda: False,
) -> str:
    """Load `cluster` by `plan` (`plan_of`) and throw the records away; returns a line for the manifest. A failure is a
    note, not an error: the cells will show what is wrong, with their own evidence."""
    admin = Admin(cluster.direct_addresses)
    directory = Path(plan["run_dir"])
    (directory / "cells" / CELL_ID).mkdir(parents=True, exist_ok=True)
    longest_s = (plan["workload"]["measure_ms"] + plan["workload"]["drain_ms"]) / 1000
    acked = 0
    problem = ""
    warmth = Warmth()
    began_s = time.monotonic()
    try:
        admin.create_topic(TOPIC, partitions=plan["partitions"], replication_factor=replication_factor, config={})
        cluster.wait_healthy(TOPIC, timeout_s=OVERTIME_S, replication_factor=replication_factor)
        load.begin(plan)
        began_s = time.monotonic()
        warmth.begin(began_s, cpu_of(cluster))
        is_ending = False
        while not should_stop():
            event = load.next_event(0.2) or {}
            acked = max(acked, int(event.get("acked", 0)))
            is_ending = is_ending or event.get("phase") == "drain"
            if not is_ending and warmth.is_due(now_s := time.monotonic()):
                warmth.take(now_s, acked, cpu_of(cluster))
                if is_ending := warmth.has_settled():
                    load.ask_to_stop()
            if event.get("event") in ("done", "end"):
                break
            if event.get("event") == "error":
                problem = str(event.get("message"))
            if time.monotonic() >= began_s + longest_s + OVERTIME_S:
                problem = "the load process did not finish in time"
                break
    except CellError as error:
        problem = str(error)
    finally:
        load.stop(1.0)
        if not should_stop():
            admin.delete_topic(TOPIC)
        shutil.rmtree(directory, ignore_errors=True)
    words = f"{acked:,} records acknowledged in {time.monotonic() - began_s:.0f} s before anything was measured"
    return "; ".join(part for part in (words, warmth.describe(), problem) if part)
