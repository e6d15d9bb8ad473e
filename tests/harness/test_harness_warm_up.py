"""The warm-up load, which is not counted: harder than the cell, into a topic and a directory of its own, on a steady
schedule, as long as the brokers' CPU cost still falls.

test_harness_kafka.py shows that it runs and is recorded in the manifest.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from harness.clusters.cluster import Cluster
from harness.run.context import RunContext
from harness.run.generator import load_plan
from harness.run.preparation.warm_up import (
    CELL_ID,
    ONLY_ROUND_MS,
    RATE_FACTOR,
    ROUND_MS,
    ROUNDS_COMPARED,
    ROUNDS_MAX,
    SHARE_MAX,
    TOPIC,
    Warmth,
    plan_of,
    rounds_before,
)
from runlog.quality.criteria import CRITERIA
from tests.harness.test_harness_lint import SOUND, recorded
from workloads.model import Plan, Poisson, Spike
from workloads.schedule import build

CLUSTER = cast(
    Cluster, SimpleNamespace(bootstrap_servers="127.0.0.1:1", client_properties={"security.protocol": "SSL"})
)


def context_in(directory: Path) -> RunContext:
    clock = SimpleNamespace(t0_monotonic_ns=5)
    return cast(RunContext, SimpleNamespace(run_dir=directory, clock=clock, mark="harness-1"))


def test_the_plan_is_the_cells_load_at_twice_its_rate_apart_from_the_run(tmp_path: Path) -> None:
    spike = Spike(kind="spike", spike_rate_per_s=9.0, at_ms=1, duration_ms=5)
    spiky = SOUND.workload.model_copy(update={"schedule": spike})
    planned = replace(SOUND, workload=spiky)
    context = context_in(tmp_path)
    document: dict[str, Any] = plan_of(planned, context, CLUSTER)
    plan = Plan.model_validate(document)
    assert plan.workload.rate_per_s == RATE_FACTOR * planned.workload.rate_per_s
    assert (plan.topic, plan.cell_id, plan.run_dir) == (f"harness-1-{TOPIC}", CELL_ID, tmp_path / CELL_ID)
    assert (plan.workload.warmup_ms, plan.workload.measure_ms) == (0, ROUND_MS)
    assert plan.workload.schedule.kind == "constant"


def test_the_settings_are_the_cells_but_something_is_acknowledged(tmp_path: Path) -> None:
    context = context_in(tmp_path)
    silent = recorded(SOUND, properties={"acks": "0", "enable.idempotence": "false", "linger.ms": "7"})
    document: dict[str, Any] = plan_of(silent, context, CLUSTER)
    settings = {"acks": "1", "enable.idempotence": "false", "linger.ms": "7"}
    assert document["properties"] == {**settings, "security.protocol": "SSL"}, "and what the cluster asks of clients"


def test_each_repetition_has_arrivals_of_its_own_which_the_settings_of_a_round_share(tmp_path: Path) -> None:
    """All repetitions had one sequence of Poisson arrivals, so that its own bursts looked like the settings'."""
    poisson = replace(SOUND, workload=SOUND.workload.model_copy(update={"schedule": Poisson(kind="poisson")}))

    def arrivals(repetition: int, linger: str) -> list[int]:
        cell = recorded(poisson, repetition=repetition, properties={"linger.ms": linger})
        plan = Plan.model_validate(
            load_plan.load_plan(
                cell, run_dir=tmp_path, cell_id="c", t0_monotonic_ns=0, bootstrap_servers="h:1", topic="t",
                workload=cell.workload,
            )
        )  # fmt: skip
        return [int(each) for each in build(plan.workload, plan.seed).times_ns(np.arange(50))]

    assert arrivals(1, "0") == arrivals(1, "5")
    assert arrivals(1, "0") != arrivals(2, "0")


def test_the_client_gets_what_it_needs_beside_its_properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_plan, "client_runtime", lambda client: {"java.command": f"the JVM of {client}"})
    context = context_in(tmp_path)
    document = plan_of(recorded(SOUND, client="java"), context, CLUSTER)
    assert document["runtime"] == {"java.command": "the JVM of java"}


def test_before_faults_which_restart_brokers_and_before_what_measures_nothing_there_is_one_round(
    tmp_path: Path,
) -> None:
    context = context_in(tmp_path)
    faulty = recorded(SOUND, has_faults=True)
    assert (rounds_before(SOUND), rounds_before(faulty)) == (ROUNDS_MAX, 1)
    least_ms = int(CRITERIA.steady_window_us_min / 1000)
    for measure_ms, rounds in ((least_ms - 1, 1), (least_ms, ROUNDS_MAX)):
        workload = SOUND.workload.model_copy(update={"measure_ms": measure_ms})
        assert rounds_before(replace(SOUND, workload=workload)) == rounds
    assert plan_of(faulty, context, CLUSTER)["workload"]["measure_ms"] == ONLY_ROUND_MS


def after(*costs_us: float, compiler_us: float = 0.0) -> Warmth:
    """Rounds whose CPU per record without the compiler is this, and the compiler's part beside it."""
    warmth = Warmth()
    for cost_us in costs_us:
        warmth.take(1_000, (cost_us + compiler_us) / 1_000, compiler_us / 1_000)
    return warmth


FALLING = (900.0, 600.0, 450.0, 420.0, 390.0, 370.0, 350.0, 340.0)
FLAT = (295.0, 310.0, 295.0, 290.0, 305.0, 310.0, 300.0, 295.0)


def test_it_ends_when_records_no_longer_grow_cheaper() -> None:
    assert ROUNDS_COMPARED == len(FALLING) == len(FLAT)
    assert not after(*FALLING).has_settled()
    assert not after(*FALLING, *FLAT).has_settled(), "the half before is dearer"
    assert after(*FALLING, *FLAT, *FLAT).has_settled()
    assert after(*FALLING[:3]).describe().endswith("us: 900, 600, 450, perhaps still falling")
    assert after(*FLAT, *FLAT).describe().endswith("295, 310, 295, 290, 305, 310, 300, 295")


def test_it_does_not_end_while_the_compiler_takes_much() -> None:
    at_work = after(*FLAT, *FLAT, compiler_us=150.0)
    assert at_work.compiler_share() == pytest.approx(150 / (300 + 150))
    assert not at_work.has_settled()
    assert at_work.describe().endswith(
        "; of it the compilers' " + ", ".join(["150"] * 16) + ", compilers still take 33%"
    )
    for cost_us in FLAT:  # and now it rests: only the last rounds count
        at_work.take(1_000, cost_us / 1_000, 0.0)
    assert at_work.has_settled()
    assert "still" not in at_work.describe()
    assert after(*FLAT, *FLAT, compiler_us=300 * SHARE_MAX / 2).has_settled()


def test_bursts_of_the_compiler_do_not_hide_that_records_grow_cheaper() -> None:
    warmth = after(*(400.0 for _ in FLAT))
    for cost_us in FLAT:  # as dear as before by the whole, which the compiler took
        warmth.take(1_000, 400.0 / 1_000, (400.0 - cost_us) / 1_000)
    assert warmth.compiler_share() > SHARE_MAX
    assert "perhaps still falling, compilers still take 2" in warmth.describe()


def test_neither_one_cheap_round_nor_one_dear_one_decides() -> None:
    flat = (300.0,) * ROUNDS_COMPARED
    few = flat[1:]
    assert after(*flat, 270.0, *few).has_settled()
    assert after(*flat, 900.0, *few).has_settled()
    assert not after(*flat, *(270.0 for _ in flat)).has_settled()


def test_a_round_without_acknowledgements_says_nothing() -> None:
    warmth = Warmth()
    warmth.take(0, 3.0, 1.0)
    assert warmth.cpu_us_per_record == []
    assert warmth.describe() == ""
