"""What a cell moved in bytes, what its brokers spent on it, and how near it was to its capacity. Pure.

Shown by tests/reports/test_reports_volume.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from reports.evidence.asked import asked_per_s
from reports.judge.broker_cpu import broker_cpu
from reports.read.model import CellFacts
from runlog.records.cell import CellKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """MB are 10^6 bytes of the records' values, before compression. None: the run does not show it."""

    mb_per_s: float | None
    broker_cpu_ms_per_mb: float | None  # All brokers count, without their just-in-time compilers.
    capacity_share: float | None  # the rate that was asked, of the capacity of its configuration


def volume_of(facts: CellFacts, capacity_records_per_s: float | None = None) -> Volume:
    size_bytes = _mean_size_bytes(facts)
    cpu, asked = broker_cpu(facts), asked_per_s(facts)
    is_paced = facts.cell.kind is not CellKind.CEILING
    return Volume(
        mb_per_s=None if size_bytes is None else round(facts.throughput_records_per_s * size_bytes / 1e6, 3),
        broker_cpu_ms_per_mb=None if cpu is None or not size_bytes else round(cpu.lasting_us * 1e3 / size_bytes, 3),
        capacity_share=round(asked / capacity_records_per_s, 4)
        if capacity_records_per_s and asked and is_paced
        else None,
    )


def _mean_size_bytes(facts: CellFacts) -> float | None:
    """Of the acknowledged records. With acks=0 nobody acknowledges one, and only a fixed size is known."""
    if facts.counts.acked and facts.counts.acked_bytes:
        return facts.counts.acked_bytes / facts.counts.acked
    workload = facts.cell.record.workload
    is_fixed = workload.sizes is None and workload.corpus is None
    return float(workload.record_size_bytes) if workload.record_size_bytes and is_fixed else None
