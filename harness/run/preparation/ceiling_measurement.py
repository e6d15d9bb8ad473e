"""Self-certification: measures, before a suite asks for any rate, what the load generator reaches by itself.

Real load processes send as fast as they can, in a closed loop, to one of our brokers that stores nothing. What cannot
be certified is a note in the manifest, not an error. Shapes and their meaning: ceilings.py. Shown by
tests/harness/test_harness_certify.py.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.errors import CellError, EnvironmentFault
from harness.planned_cell import PlannedCell
from harness.run.context import RunContext
from harness.run.generator.ceilings import (
    DRAIN_MS,
    MEASURE_MS,
    Certification,
    flat_out,
    one_of_each,
    shape_text,
    to_measure,
)
from harness.run.generator.load_plan import load_plan
from harness.run.generator.workload_process import WorkloadProcess
from harness.run.preparation.null_broker import NullBroker
from harness.run.recording.host_load import HostSampler
from runlog.quality.criteria import CRITERIA
from runlog.records.load import Health, LoadDone, LoadEnded, LoadError, LoadPhase, PhaseBegan
from runlog.records.run import CertificateRecord, CertificationStatus
from runlog.records.stats import HostFigure
from workloads.clients.protocol import READY_TIMEOUT_S

DIRECTORY: Final = "certification"
WARMUP_MS: Final = 500
WARMUP_OF_JVM_MS: Final = 4_000  # until hot code is compiled
OVERTIME_S: Final = 10.0
ATTEMPTS_MAX: Final = 2  # A measurement that others disturbed is made again. The higher ceiling counts.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """What was measured of one load. `seconds` is 0 if it never came to its measured window."""

    seconds: float
    broker_cpu_s: float
    foreign_share: float | None
    health: Health


class Certifier:
    """Measures what the cells need, one shape after the other, on one broker. `new_load` gives load processes."""

    def __init__(self, context: RunContext, new_load: Callable[[], WorkloadProcess]) -> None:
        self._context, self._new_load = context, new_load
        self._directory = context.run_dir / DIRECTORY

    def certify(self, cells: Sequence[PlannedCell], found: Certification) -> None:
        """Fills `found`; never raises for what broker or load do."""
        wanted = one_of_each(cells)
        if not wanted:
            found.status, found.why = CertificationStatus.NOT_NEEDED, "no cell of this run is judged by its rate"
            return
        self._context.progress.phase("certify the generator")
        began_s = time.monotonic()
        try:
            with NullBroker(
                self._directory / "cluster", lease=self._context.lease, should_stop=self._context.stop.is_set
            ) as broker:
                self._measure_all(broker, wanted, found)
            found.status = CertificationStatus.DONE
        except (EnvironmentFault, CellError, OSError) as error:
            found.status = CertificationStatus.FAILED
            found.why = f"the generator could not be certified: {error}"
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
            found.seconds = time.monotonic() - began_s

    def _measure_all(self, broker: NullBroker, wanted: Mapping[str, PlannedCell], found: Certification) -> None:
        for number, key, planned in to_measure(wanted, found, should_stop=self._context.stop.is_set):
            try:
                measured = self._measure(broker, planned, f"shape-{number}")
            except CellError as error:
                found.shapes[key] = f"{planned.title} could not be certified: {error}"
                continue
            found.shapes[key] = measured
            doubt = " (others ran meanwhile: the true figure is higher)" if measured.disturbed else ""
            self._context.progress.say(
                f"generator alone, {planned.client}, {measured.shape}, with the settings of {planned.title}: "
                f"{measured.records_per_s:,.0f} records/s{doubt}; with other settings it has another ceiling"
            )

    def _measure(self, broker: NullBroker, planned: PlannedCell, name: str) -> CertificateRecord:
        found: list[CertificateRecord] = []
        while len(found) < ATTEMPTS_MAX and (not found or found[-1].disturbed):
            found.append(self._attempt(broker, planned, name, len(found) + 1))
        best = max(found, key=lambda each: each.records_per_s)
        return replace(best, attempts=len(found), disturbed=all(each.disturbed for each in found))

    def _attempt(self, broker: NullBroker, planned: PlannedCell, name: str, attempt: int) -> CertificateRecord:
        topic = f"{name}-{attempt}"
        (self._directory / "cells" / topic).mkdir(parents=True, exist_ok=True)
        warmup_ms = WARMUP_OF_JVM_MS if planned.client == "java" else WARMUP_MS
        workload = flat_out(planned.workload, warmup_ms=warmup_ms)
        broker.create_topic(topic, planned.partitions)
        load = self._new_load()
        try:
            load.begin(
                load_plan(
                    planned,
                    run_dir=self._directory,
                    cell_id=topic,
                    t0_monotonic_ns=self._context.clock.t0_monotonic_ns,
                    bootstrap_servers=broker.bootstrap_servers,
                    topic=topic,
                    workload=workload,
                )
            )
            limit_s = (warmup_ms + MEASURE_MS + DRAIN_MS) / 1e3 + READY_TIMEOUT_S + OVERTIME_S
            window = self._window(load, broker, limit_s=limit_s)
        finally:
            load.stop(1.0)
            shutil.rmtree(self._directory / "cells" / topic, ignore_errors=True)
        broker.delete_topic(topic)
        health, foreign = window.health, window.foreign_share
        measured = None if health.stages is None else health.stages.intended_to_ack
        if measured is None or window.seconds <= 0:
            raise CellError("nothing was acknowledged in the measured window")
        return CertificateRecord(
            id=name,
            client=planned.client,
            shape=shape_text(planned),
            properties=dict(planned.properties),
            records_per_s=round(measured.n / window.seconds, 1),
            window_s=round(window.seconds, 3),
            attempts=attempt,
            cpu_share_by_process=health.cpu_share_by_process or (),
            broker_cpu_share=round(window.broker_cpu_s / window.seconds, 3),
            gc_ms=health.gc_ms,
            gc_ms_max=health.gc_ms_max,
            hub_lag_us_p99=health.hub_lag_us_p99,
            foreign_share=foreign,
            disturbed=foreign is not None and foreign > CRITERIA.foreign_share_max,
        )

    def _window(self, load: WorkloadProcess, broker: NullBroker, *, limit_s: float) -> _Window:
        """Until the load is done. CellError when it fails, takes too long, or the run is stopped."""
        host, measure_us = HostSampler(), 0
        broker_cpu_s, seconds, foreign = 0.0, 0.0, None
        deadline_s = time.monotonic() + limit_s
        while True:
            match load.next_event(0.2):
                case PhaseBegan(phase=LoadPhase.MEASURE, t_us=t_us):
                    measure_us, broker_cpu_s = t_us, broker.cpu_s()
                    host.sample()
                case PhaseBegan(phase=LoadPhase.DRAIN, t_us=t_us) if measure_us:
                    seconds, broker_cpu_s = (t_us - measure_us) / 1e6, broker.cpu_s() - broker_cpu_s
                    foreign = (host.sample() or {}).get(HostFigure.FOREIGN_SHARE)
                case LoadDone(health=health):
                    return _Window(seconds=seconds, broker_cpu_s=broker_cpu_s, foreign_share=foreign, health=health)
                case LoadError() | LoadEnded() as event:
                    raise CellError(load.problem_of(event))
            if self._context.stop.is_set():
                raise CellError("interrupted")
            if time.monotonic() > deadline_s:
                raise CellError("the load process did not finish in time")
