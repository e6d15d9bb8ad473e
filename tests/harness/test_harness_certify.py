"""Self-certification: which cells share a ceiling, who needs a measurement of its own, and one with real processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaos.lease import Lease
from harness.planned_cell import PlannedCell
from harness.run.context import RunContext
from harness.run.generator.ceilings import (
    OWN_SHAPE_SHARE,
    Certification,
    asked_per_s,
    flat_out,
    one_of_each,
    shape_key,
)
from harness.run.generator.workload_process import WorkloadProcess
from harness.run.preparation.ceiling_measurement import DIRECTORY, Certifier
from harness.run.rate_contract import judge
from harness.suite import Contract
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag
from runlog.files.clock import RunClock
from runlog.records.cell import CellKind, CertificateReference
from runlog.records.load import Health
from runlog.records.run import CertificateRecord, CertificationStatus
from runlog.records.search import Clause
from tests.harness.test_harness_lint import SOUND, cell, recorded
from tests.harness.test_harness_search import WINDOW_US, four_seconds, reading, streams
from workloads.model import Workload


def certified(records_per_s: float, *cells: PlannedCell) -> Certification:
    one = CertificateRecord(
        id="shape-1", client="reference", shape="s", properties={}, records_per_s=records_per_s, window_s=2.0,
        attempts=1,
    )  # fmt: skip
    return Certification(status=CertificationStatus.DONE, shapes={shape_key(each): one for each in cells})


def test_cells_that_differ_in_rate_window_and_readers_alone_have_one_shape() -> None:
    same = [cell(), cell(rate_per_s=9_999), cell(measure_ms=77), cell(consumers=0), cell(warmup_ms=5)]
    assert len({shape_key(one) for one in same}) == 1
    others = [cell(batch_size=5), cell(record_size_bytes=99), cell(partitions=9), cell(keys="uniform"),
              cell(producers=2), recorded(SOUND, client="confluent")]  # fmt: skip
    assert len({shape_key(one) for one in [SOUND, *others]}) == 1 + len(others)


def test_of_each_shape_the_most_demanding_cell_stands_for_it_and_the_baseline_comes_first() -> None:
    other = recorded(cell(batch_size=5), baseline=False)
    faster = cell(rate_per_s=5_000)
    chaos = recorded(SOUND, kind=CellKind.CHAOS)
    assert list(one_of_each([other, cell(), faster, chaos]).values()) == [faster, other]


@pytest.mark.parametrize(
    ("schedule", "asked"),
    [
        ({"kind": "poisson"}, 2_000),
        ({"kind": "sine", "amplitude_share": 0.5, "period_ms": 10}, 3_000),
        ({"kind": "ramp", "from_rate_per_s": 7_000, "to_rate_per_s": 10}, 7_000),
        ({"kind": "spike", "spike_rate_per_s": 50_000, "at_ms": 0, "duration_ms": 5}, 50_000),
        ({"kind": "steps", "steps": [{"rate_per_s": 5, "duration_ms": 1}, {"rate_per_s": 9, "duration_ms": 1}]}, 9),
        ({"kind": "closed", "outstanding": 5}, float("inf")),
    ],
)
def test_what_a_schedule_asks_for_is_its_highest_rate(schedule: dict[str, object], asked: float) -> None:
    assert asked_per_s(cell(schedule=schedule)) == asked


def test_a_modest_cell_borrows_a_ceiling_and_a_demanding_one_has_its_own_or_none() -> None:
    found = certified(100_000.0, SOUND)
    assert found.of(SOUND) == CertificateReference(id="shape-1", records_per_s=100_000.0, exact=True, disturbed=False)
    assert found.of(cell(batch_size=5)).exact is False
    demanding = cell(batch_size=5, rate_per_s=int(100_000 * OWN_SHAPE_SHARE) + 1)
    assert found.of(demanding).records_per_s is None
    assert "faults" in (found.of(recorded(SOUND, kind=CellKind.CHAOS)).why or "")
    found.shapes[shape_key(demanding)] = "the client refused"
    assert found.of(demanding) == CertificateReference(why="the client refused")
    skipped = Certification(status=CertificationStatus.SKIPPED, why="--no-certify")
    assert skipped.of(SOUND) == CertificateReference(why="--no-certify")


def test_the_load_of_a_certification_is_the_producing_half_as_fast_as_it_goes() -> None:
    workload = Workload(rate_per_s=5, producers=2, consumers=3, processes=5, topics=2, records_per_burst=7)
    fast = flat_out(workload, warmup_ms=9)
    assert (fast.producers, fast.consumers, fast.processes, fast.topics) == (2, 0, 2, 1)
    assert fast.is_closed_loop
    assert (fast.warmup_ms, fast.records_per_burst) == (9, 1)


def test_a_try_of_a_search_near_the_ceiling_is_the_clients_limit() -> None:
    send, log = streams()
    judged = [
        judge(reading([send]), reading([log]), contract=Contract(), workload=four_seconds(), seed=1,
              window_us=WINDOW_US, health=Health(cpu_share=0.1), ceiling_per_s=ceiling)
        for ceiling in (None, 1_400.0, 1_300.0)
    ]  # fmt: skip
    assert [one.broken for one in judged] == [(), (), (Clause.GENERATOR,)]
    assert "77% of the 1,300" in judged[2].reasons[0]


@pytest.mark.long
@pytest.mark.slow
def test_real_load_processes_against_a_broker_that_stores_nothing(tmp_path: Path) -> None:
    context = RunContext(
        run_dir=tmp_path, clock=RunClock.starting_now(), stop=StopFlag(), progress=Progress(0),
        lease=Lease(tmp_path / "leases"), argv=(), seed=1, engine="reference",
    )  # fmt: skip
    refused = recorded(cell(batch_size="none at all", rate_per_s=1_000_000), baseline=False)
    found = Certification()
    try:
        Certifier(context, lambda: WorkloadProcess(tmp_path / "load.stderr.log")).certify([SOUND, refused], found)
    finally:
        context.lease.close()
    assert found.status is CertificationStatus.DONE, found.why
    document = found.record()
    (certificate,) = document.certificates
    assert certificate.records_per_s > 2_000  # a busy host carries fifty times as many
    assert 0 < certificate.cpu_share_by_process[0] <= 2
    assert 0 < (certificate.broker_cpu_share or 0) < 2
    assert 1.9 < (certificate.window_s or 0) < 10
    assert "batch.size" in document.problems[0]
    assert found.of(SOUND).exact is True
    assert not (tmp_path / DIRECTORY).exists()
    assert not any(entry.startswith("broker") for entry in os.listdir(tmp_path))
