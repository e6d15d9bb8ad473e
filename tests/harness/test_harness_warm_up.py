"""The load that nobody counts: harder than the cell, into a topic and a directory of its own, on a steady schedule.

That it runs, and is told in the manifest, is shown by test_harness_kafka.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from harness.run.context import RunContext
from harness.run.warm_up import CELL_ID, RATE_FACTOR, TOPIC, WARM_UP_MS, plan_of
from tests.harness.test_harness_lint import SOUND
from workloads.model import Plan, Spike


def test_the_plan_is_the_cells_load_at_twice_its_rate_apart_from_the_run(tmp_path: Path) -> None:
    spike = Spike(kind="spike", spike_rate_per_s=9.0, at_ms=1, duration_ms=5)
    spiky = SOUND.workload.model_copy(update={"schedule": spike})
    planned = replace(SOUND, workload=spiky)
    context = cast(RunContext, SimpleNamespace(run_dir=tmp_path, clock=SimpleNamespace(t0_monotonic_ns=5)))
    document: dict[str, Any] = plan_of(planned, context, "127.0.0.1:1")
    plan = Plan.model_validate(document)
    assert plan.workload.rate_per_s == RATE_FACTOR * planned.workload.rate_per_s
    assert (plan.topic, plan.cell_id, plan.run_dir) == (TOPIC, CELL_ID, tmp_path / CELL_ID)
    assert (plan.workload.warmup_ms, plan.workload.measure_ms) == (0, WARM_UP_MS)
    assert plan.workload.schedule.kind == "constant"
