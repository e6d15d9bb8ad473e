"""Measures the ceilings of the load hosts before the first cell: each against a broker on its own loopback.

All hosts measure at the same time, each the share that it has of a cell. Their ceilings add up. When a host is lost,
the sum of those that remain counts from then on. Shown by tests/harness/test_harness_load_hosts.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from harness.errors import EnvironmentFault, HarnessError
from harness.planned_cell import PlannedCell
from harness.run.context import RunContext
from harness.run.generator.ceilings import (
    MEASURE_MS,
    Certification,
    flat_out,
    one_of_each,
    shape_text,
    to_measure,
)
from harness.run.generator.load_plan import load_plan
from harness.run.hosts.load_hosts import LoadHosts, added_up
from harness.run.preparation.ceiling_measurement import WARMUP_MS, WARMUP_OF_JVM_MS
from runlog.records.load import HostCeiling
from runlog.records.run import CertificateRecord, CertificationStatus

_NOWHERE: Final = "127.0.0.1:1"  # each host puts its own broker in this place


class HostCeilings:
    """Fills a Certification, and keeps it true when hosts are lost."""

    def __init__(self, context: RunContext, hosts: LoadHosts) -> None:
        self._context, self._hosts = context, hosts
        self._parts: dict[str, tuple[HostCeiling, ...]] = {}  # The key is that of the shape.

    def certify(self, cells: Sequence[PlannedCell], found: Certification) -> None:
        """Never raises for what load hosts do."""
        wanted = one_of_each(cells)
        if not wanted:
            found.status, found.why = CertificationStatus.NOT_NEEDED, "no cell of this run is judged by its rate"
            return
        self._context.progress.phase("certify the load hosts")
        began_s = time.monotonic()
        try:
            self._measure_all(wanted, found)
            found.status = CertificationStatus.DONE
        except HarnessError as error:
            found.status, found.why = CertificationStatus.FAILED, f"the load hosts could not be certified: {error}"
        finally:
            found.seconds = time.monotonic() - began_s

    def count_only(self, alive: frozenset[str], found: Certification) -> None:
        """From now on only these hosts carry the load."""
        for key, parts in self._parts.items():
            record = found.shapes.get(key)
            if isinstance(record, CertificateRecord):
                found.shapes[key] = replace(record, records_per_s=added_up(parts, alive))

    def _measure_all(self, wanted: dict[str, PlannedCell], found: Certification) -> None:
        for number, key, planned in to_measure(wanted, found, should_stop=self._context.stop.is_set):
            parts = self._measure(planned)
            try:
                total = added_up(parts, frozenset(part.host for part in parts))
            except ValueError as error:
                found.shapes[key] = f"{planned.title} could not be certified: {error}"
                continue
            self._parts[key] = parts
            measured = CertificateRecord(
                id=f"shape-{number}",
                client=planned.client,
                shape=f"{shape_text(planned)}, on {len(parts)} load hosts",
                properties=dict(planned.properties),
                records_per_s=total,
                window_s=MEASURE_MS / 1e3,
                attempts=1,
                cpu_share_by_process=tuple(share for part in parts for share in part.cpu_share_by_process),
            )
            found.shapes[key] = measured
            each = ", ".join(f"{part.host} {part.records_per_s:,.0f}" for part in parts)
            self._context.progress.say(f"load hosts alone, {planned.client}: {total:,.0f} records/s ({each})")

    def _measure(self, planned: PlannedCell) -> tuple[HostCeiling, ...]:
        warmup_ms = WARMUP_OF_JVM_MS if planned.client == "java" else WARMUP_MS
        plan = load_plan(
            planned,
            run_dir=self._context.run_dir,
            cell_id=planned.cell_id,
            t0_monotonic_ns=self._context.clock.t0_monotonic_ns,
            bootstrap_servers=_NOWHERE,
            topic="ceiling",
            workload=flat_out(planned.workload, warmup_ms=warmup_ms),
        )
        ceilings = self._hosts.measure_ceilings({**plan, "runtime": {}})
        if not ceilings:
            raise EnvironmentFault("no load host was there")
        return ceilings
