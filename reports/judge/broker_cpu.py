"""CPU of a cell's brokers in the measured window, and the parts of their compilers and collectors. Pure.

A JVM compiles hot code in bursts that depend on the age of the process and not on the configuration. So the CPU that is
compared is the CPU without the compiler. The garbage collector stays in, because every record makes garbage. Runs
older than these figures, and brokers without a compiler, have only the total. Shown by
tests/reports/test_reports_broker_cpu.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from reports.judge.holes import Evidence
from reports.judge.under_holes import holes_of, touches
from reports.read.model import Basis, CellFacts
from runlog.quality.criteria import CRITERIA
from runlog.records.cell import CellKind
from runlog.records.stats import Resources

FloatArray = npt.NDArray[np.float64]
# Our name -> that of the samples (harness/run/recording/recorders.py): CPU seconds since the broker's process began.
_COUNTERS: Final[Mapping[str, str]] = {
    "whole": "cpu_s",
    "compiler": "compiler_cpu_s",
    "collector": "collector_cpu_s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCpu:
    """Microseconds of all brokers per acknowledged record. `compiler_us` and `collector_us` are parts of `whole_us`,
    None where no broker has such threads or where they were not recorded."""

    whole_us: float
    compiler_us: float | None
    collector_us: float | None
    lasting_s: tuple[float, ...]  # CPU seconds without the compiler, from sample to sample

    @property
    def lasting_us(self) -> float:
        """The CPU without the compiler."""
        return self.whole_us - (self.compiler_us or 0.0)

    @property
    def compiler_share(self) -> float | None:
        return None if self.compiler_us is None else self.compiler_us / self.whole_us


def broker_cpu(facts: CellFacts) -> BrokerCpu | None:
    """Between the first and the last sample of the window. None without two, if a broker was started again, and if the
    samples have a hole."""
    if any(touches(hole, frozenset({Evidence.SAMPLES})) for hole in holes_of(facts)):
        return None
    samples = _samples(facts)
    brokers = {name for sample in samples.values() for name in sample}
    times = sorted(t_us for t_us, sample in samples.items() if set(sample) == brokers)
    if len(times) < 2 or facts.slots.empty:
        return None
    records = _records(facts, times[0], times[-1])
    whole = _increments(samples, times, "whole")
    if whole is None or (whole < 0).any() or whole.sum() <= 0 or records <= 0:
        return None
    compiler, collector = _increments(samples, times, "compiler"), _increments(samples, times, "collector")
    lasting = whole if compiler is None else whole - compiler
    if lasting.sum() <= 0 or (compiler is not None and (compiler < 0).any()):
        return None
    return BrokerCpu(
        whole_us=_per_record(whole, records),
        compiler_us=None if compiler is None else _per_record(compiler, records),
        collector_us=None if collector is None else _per_record(collector, records),
        lasting_s=tuple(lasting.tolist()),
    )


def still_warming(facts: CellFacts) -> str:
    """Why the brokers of a cell were not at rest; empty if they were, or if nothing shows it. If a fault restarts
    brokers, they are young in every such cell, and such a cell is not compared by its speed."""
    if facts.cell.kind is CellKind.CHAOS:
        return ""
    found = broker_cpu(facts)
    share = found.compiler_share if found is not None else None
    if share is None or share <= CRITERIA.compiler_share_max:
        return ""
    return (
        f"brokers still warming: their just-in-time compilers took {share:.0%} of the brokers' CPU in the measured "
        f"window (limit {CRITERIA.compiler_share_max:.0%})"
    )


def _samples(facts: CellFacts) -> dict[int, dict[str, dict[str, float]]]:
    """Time -> broker -> counters."""
    start_us, end_us = facts.cell.window_us()
    samples: dict[int, dict[str, dict[str, float]]] = {}
    for line in facts.cell.samples:
        if (
            not isinstance(line, Resources)
            or not line.source.startswith("broker-")
            or not start_us <= line.t_us <= end_us
        ):
            continue
        counters = {name: float(line.values[key]) for name, key in _COUNTERS.items() if key in line.values}
        if "whole" in counters:
            samples.setdefault(line.t_us, {})[line.source] = counters
    return samples


def _increments(samples: dict[int, dict[str, dict[str, float]]], times: list[int], name: str) -> FloatArray | None:
    """What all brokers together used from sample to sample. If one broker could not be sampled at one moment, the value
    there is unknown for all. None if no broker has the counter."""
    totals = []
    for t_us in times:
        own = [sample.get(name) for sample in samples[t_us].values()]
        known = [value for value in own if value is not None]
        if len(known) != len(own):
            return None
        totals.append(sum(known))
    return np.array([after - before for before, after in itertools.pairwise(totals)], dtype=np.float64)


def _records(facts: CellFacts, first_us: int, last_us: int) -> float:
    """Acknowledged between the two moments; by whole slots, the outer ones in proportion."""
    column = "acked" if facts.throughput_basis is Basis.ACKNOWLEDGED else "received"
    start = facts.slots["t_us"].to_numpy(dtype=np.float64)
    overlap = np.clip(np.minimum(start + facts.slot_us, last_us) - np.maximum(start, first_us), 0, facts.slot_us)
    return float((facts.slots[column].to_numpy(dtype=np.float64) * overlap / facts.slot_us).sum())


def _per_record(increments: FloatArray, records: float) -> float:
    return float(increments.sum()) * 1e6 / records
