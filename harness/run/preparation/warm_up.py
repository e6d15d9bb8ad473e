"""A load that is not measured, for clusters whose brokers become faster while they run.

A JVM compiles hot code. Apache Kafka answers its first thousands of requests several times slower than later ones
(benchmarks/README.md shows the series). Without a warm-up, the cells that the seed puts first would look slow, and a
second run would not confirm the first.

- Rounds go on until the brokers' CPU time per record, without the compiler, no longer falls and the compiler's share of
  it is small. The compiler works in bursts, with pauses between them.
- A round is like a cell, with new connections and a topic that is made and deleted. After one long
  load of 100 s the figures no longer fell, but the next cells still took up to four times their later CPU.
- Cells with faults restart brokers, which are then cold again. Before such cells there is one round, and one before
  cells that are too short to be judged. Brokers without a just-in-time compiler get none.
- A longer warm-up does not help: brokers that were loaded for 448 s instead of 182 s measured the same
  (benchmarks/results/2026-11-22-sweep-kafka.md).

Shown by tests/harness/test_harness_warm_up.py.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.clusters.cluster import Cluster
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.own_topics import OwnTopics
from harness.errors import CellError
from harness.planned_cell import PlannedCell, own_name
from harness.run.context import RunContext
from harness.run.generator.load_plan import load_plan
from harness.run.generator.workload_process import WorkloadProcess
from harness.run.recording.jvm_threads import JvmThreads
from harness.run.recording.recorders import HasPids, process_sample
from runlog.quality.criteria import CRITERIA
from runlog.records.load import LoadDone, LoadEnded, LoadError, ProgressTold
from workloads.clients.protocol import READY_TIMEOUT_S
from workloads.model import Constant

TOPIC: Final = "warm-up"  # after the mark of the run
CELL_ID: Final = "warm-up"
ROUND_MS: Final = 2_500
ONLY_ROUND_MS: Final = 12_000
ROUNDS_MAX: Final = 60
DRAIN_MS: Final = 3_000
RATE_FACTOR: Final = 2.0  # It is so many times the following load's rate, so that it takes less time.
HEALTHY_TIMEOUT_S: Final = 30.0
OVERTIME_S: Final = 10.0
ROUNDS_COMPARED: Final = 8  # a pause of the compiler is not its end
LEAST_FALL: Final = 0.05
# The compiler works at its own pace. At the lower rate of the cells its share is higher by the same factor.
SHARE_MAX: Final = CRITERIA.compiler_share_max / RATE_FACTOR


def rounds_before(planned: PlannedCell) -> int:
    """One if brokers will be young again, or if the window is too short to be judged anyway."""
    measures = planned.workload.measure_ms * 1000 >= CRITERIA.steady_window_us_min
    return ROUNDS_MAX if measures and not planned.record.has_faults else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    line: str  # The manifest gets it.
    problem: str  # why it ended too early; empty if it did not


@dataclass(slots=True)
class Warmth:
    """The brokers' CPU time per acknowledged record, round by round (us), and what their compilers took of it."""

    cpu_us_per_record: list[float] = field(default_factory=list)
    compiler_us_per_record: list[float] = field(default_factory=list)

    def take(self, acked: int, cpu_s: float, compiler_s: float) -> None:
        """One round is over. A round without acknowledgements is not used."""
        if acked > 0:
            self.cpu_us_per_record.append(cpu_s * 1e6 / acked)
            self.compiler_us_per_record.append(compiler_s * 1e6 / acked)

    def has_settled(self) -> bool:
        """CPU per record is no longer falling, and the compiler takes little."""
        return self._is_level() and self.compiler_share() <= SHARE_MAX

    def compiler_share(self) -> float:
        """The compilers' part of the brokers' CPU in the last rounds."""
        whole = sum(self.cpu_us_per_record[-ROUNDS_COMPARED:])
        return sum(self.compiler_us_per_record[-ROUNDS_COMPARED:]) / whole if whole > 0 else 0.0

    def _is_level(self) -> bool:
        """Whether the last rounds, without compilers, are not clearly cheaper than the same number of rounds
        before them."""
        few = ROUNDS_COMPARED
        both = zip(self.cpu_us_per_record, self.compiler_us_per_record, strict=True)
        costs = [whole - compiler for whole, compiler in both]
        return len(costs) >= 2 * few and sum(costs[-few:]) > (1 - LEAST_FALL) * sum(costs[-2 * few : -few])

    def describe(self) -> str:
        """With every round, so that anybody who doubts a cell can see whether the brokers had come to rest
        before it."""
        if not self.cpu_us_per_record:
            return ""
        line = f"brokers' CPU per record by rounds, us: {_series(self.cpu_us_per_record)}"
        if any(self.compiler_us_per_record):
            line += f"; of it the compilers' {_series(self.compiler_us_per_record)}"
        if len(self.cpu_us_per_record) < 2 or self.has_settled():
            return line
        if not self._is_level():
            line += ", perhaps still falling"
        if self.compiler_share() > SHARE_MAX:
            line += f", compilers still take {self.compiler_share():.0%}"
        return line


def _series(figures: list[float]) -> str:
    return ", ".join(f"{figure:.0f}" for figure in figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersCpu:
    """CPU seconds of all brokers, and of their compilers (0 without one). 0 if the brokers' processes are not visible
    to us."""

    total_s: float = 0.0
    compiler_s: float = 0.0


class BrokersMeter:
    """Reads the CPU of a cluster's brokers, whose processes stay the same."""

    def __init__(self, cluster: HasPids) -> None:
        self._jvms = [JvmThreads(pid) for pid in cluster.pids().values()]

    def read(self) -> BrokersCpu:
        own = [jvm.look() for jvm in self._jvms]  # before the whole, which includes it
        samples = [process_sample(jvm.pid) for jvm in self._jvms]
        return BrokersCpu(
            total_s=sum(sample[0] for sample in samples if sample is not None),
            compiler_s=sum(jvm.compiler_s for jvm in own if jvm is not None),
        )


def plan_of(planned: PlannedCell, context: RunContext, cluster: Cluster) -> dict[str, Any]:
    """The load of the first cell at twice its rate, with the same settings, because other batches run other code. It
    has its own topic and directory."""
    properties = {**cluster.client_properties, **planned.properties}
    if properties.get("acks") == "0":
        properties["acks"] = "1"  # records without an acknowledgement cannot be counted
    changed: dict[str, Any] = {
        "warmup_ms": 0,
        "measure_ms": ROUND_MS if rounds_before(planned) > 1 else ONLY_ROUND_MS,
        "drain_ms": DRAIN_MS,
        "schedule": Constant(kind="constant"),
        "rate_per_s": planned.workload.rate_per_s * RATE_FACTOR,
    }
    return load_plan(
        planned,
        run_dir=context.run_dir / CELL_ID,
        cell_id=CELL_ID,
        t0_monotonic_ns=context.clock.t0_monotonic_ns,
        bootstrap_servers=cluster.bootstrap_servers,
        topic=own_name(context.mark, TOPIC),
        workload=planned.workload.model_copy(update=changed),
        properties=properties,
    )


def warm_up(
    cluster: Cluster,
    plan: Mapping[str, Any],
    new_load: Callable[[], WorkloadProcess],
    *,
    rounds: int,
    replication_factor: int,
    longest_s: float,
    should_stop: Callable[[], bool] = lambda: False,
) -> WarmUp:
    """Load `cluster` by `plan` (`plan_of`) and discard the records. No round begins after `longest_s`, because on a
    busy host each round takes longer. A failure is a note and not an error. The cells will show with their own evidence
    what is wrong."""
    directory = Path(plan["run_dir"])
    warmth = Warmth()
    acked = 0
    problem = ""
    meter = BrokersMeter(cluster)
    began_s = time.monotonic()
    for number in range(rounds):
        is_late = time.monotonic() - began_s >= longest_s
        if should_stop() or problem or warmth.has_settled() or is_late:
            break
        before = meter.read()
        (directory / "cells" / CELL_ID).mkdir(parents=True, exist_ok=True)
        this_round = {**plan, "topic": f"{plan['topic']}-{number}"}
        acked_now, problem = _round(cluster, this_round, new_load(), replication_factor, should_stop, meter)
        shutil.rmtree(directory, ignore_errors=True)
        after = meter.read()
        warmth.take(acked_now, after.total_s - before.total_s, after.compiler_s - before.compiler_s)
        acked += acked_now
    words = f"{acked:,} records acknowledged in {time.monotonic() - began_s:.0f} s before anything was measured"
    return WarmUp(line="; ".join(part for part in (words, warmth.describe(), problem) if part), problem=problem)


def _round(
    cluster: Cluster,
    plan: Mapping[str, Any],
    load: WorkloadProcess,
    replication_factor: int,
    should_stop: Callable[[], bool],
    meter: BrokersMeter,
) -> tuple[int, str]:
    """(records acknowledged, what went wrong)."""
    topics = OwnTopics(Admin(cluster.direct_addresses))
    topic = plan["topic"]
    longest_s = (plan["workload"]["measure_ms"] + plan["workload"]["drain_ms"]) / 1000 + READY_TIMEOUT_S + OVERTIME_S
    acked = 0
    problem = ""
    try:
        topics.create(topic, partitions=plan["partitions"], replication_factor=replication_factor, config={})
        cluster.wait_healthy(topic, timeout_s=HEALTHY_TIMEOUT_S, replication_factor=replication_factor)
        load.begin(plan)
        deadline_s = time.monotonic() + longest_s
        while not should_stop():
            event = load.next_event(0.2)
            meter.read()  # a compiler thread that ends keeps the CPU that was seen at the last look
            if isinstance(event, ProgressTold):
                acked = max(acked, event.progress.acked)
            if isinstance(event, LoadDone | LoadEnded):
                break
            if isinstance(event, LoadError):
                problem = event.message
            if time.monotonic() >= deadline_s:
                problem = "the load process did not finish in time"
                break
    except CellError as error:
        problem = str(error)
    finally:
        load.stop(1.0)
        if not should_stop():
            topics.delete_all()
    return acked, problem
