"""The ceilings of the load generator on this host, as values: shapes, certificates, and the ceiling of each cell.

A *shape* is what a record costs the generator: client, settings, records, partitions, processes. For a shape, the
ceiling is what real load processes reach against a broker that stores nothing. All cells of the shape have this
ceiling. A shape that asks for at most a quarter of a ceiling that was measured gets no measurement of its own, because
a difference between shapes then decides nothing. The ceiling is about producing. The readers of a cell share its
process and take a part of it. Pure; ceiling_measurement.py measures. Shown by tests/harness/test_harness_certify.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.planned_cell import PlannedCell
from runlog.records.cell import CertificateReference
from runlog.records.run import CertificateRecord, CertificationRecord, CertificationStatus
from workloads import model
from workloads.model import RATE_MAX_PER_S, Closed, Workload

MEASURE_MS: Final = 2_000
DRAIN_MS: Final = 2_000
OUTSTANDING: Final = 65_536  # large enough that no linger can hold the client back
_NOT_BY_RATE: Final[Mapping[str, str]] = {
    "chaos": "a cell with faults is not judged by its rate",
    "ceiling": "a ceiling is judged by the processor time of the generator in its own window",
}
# A shape that asks for less than this share of a ceiling needs no measurement of its own.
OWN_SHAPE_SHARE: Final = 0.25
SHAPES_MAX: Final = 8  # measured in one run, some 4 s each


@dataclass(slots=True, kw_only=True)
class Certification:
    """What the run knows about its generator. `shapes` maps a key to its certificate, or to the reason why there is
    none."""

    status: CertificationStatus = CertificationStatus.NONE
    why: str = ""
    seconds: float = 0.0
    shapes: dict[str, CertificateRecord | str] = field(default_factory=dict)

    def of(self, planned: PlannedCell) -> CertificateReference:
        """`certificate` of cell.json: the cell's ceiling, and whether it was measured for its own shape."""
        if planned.kind in _NOT_BY_RATE:
            return CertificateReference(why=_NOT_BY_RATE[planned.kind])
        found = self.shapes.get(shape_key(planned))
        if isinstance(found, CertificateRecord):
            return _reference(found, exact=True)
        measured = [each for each in self.shapes.values() if isinstance(each, CertificateRecord)]
        if found is None and measured and asked_per_s(planned) <= OWN_SHAPE_SHARE * measured[0].records_per_s:
            return _reference(measured[0], exact=False)
        return CertificateReference(why=found or self.why or "its shape was not measured")

    def record(self) -> CertificationRecord:
        found = self.shapes.values()
        return CertificationRecord(
            status=self.status,
            why=self.why,
            seconds=round(self.seconds, 1),
            certificates=tuple(each for each in found if isinstance(each, CertificateRecord)),
            problems=tuple(each for each in found if isinstance(each, str)),
        )


def _reference(found: CertificateRecord, *, exact: bool) -> CertificateReference:
    return CertificateReference(id=found.id, records_per_s=found.records_per_s, exact=exact, disturbed=found.disturbed)


def asked_per_s(planned: PlannedCell) -> float:
    """The highest rate that the cell asks for. Infinite if only the client or the cluster sets a limit."""
    workload = planned.workload
    match workload.schedule:
        case model.Ramp(from_rate_per_s=first, to_rate_per_s=last):
            return max(first, last)
        case model.Steps(steps=steps):
            return max(step.rate_per_s for step in steps)
        case model.Spike(spike_rate_per_s=spike):
            return max(workload.rate_per_s, spike)
        case model.Sine(amplitude_share=share):
            return workload.rate_per_s * (1 + share)
        case model.Replay() | model.Closed():
            return float("inf")
        case _:
            return workload.rate_per_s


def flat_out(workload: Workload, *, warmup_ms: int) -> Workload:
    """The producing half of a workload, as fast as possible. The reading half would need a broker that stores
    records."""
    return Workload.model_validate(
        {
            **workload.model_dump(),
            "rate_per_s": RATE_MAX_PER_S,
            "schedule": Closed(kind="closed", outstanding=OUTSTANDING),
            "consumers": 0,
            "readers": (),
            "topics": 1,
            "commit_interval_ms": 0,  # a broker that stores nothing has no log of transactions
            "transaction_records": 0,
            "transaction_abort_share": 0.0,
            "records_per_burst": 1,
            "processes": min(workload.processes, workload.producers),
            "warmup_ms": warmup_ms,
            "measure_ms": MEASURE_MS,
            "drain_ms": DRAIN_MS,
        }
    )


def shape_key(planned: PlannedCell) -> str:
    """Cells with equal keys cost the generator the same for each record."""
    workload = flat_out(planned.workload, warmup_ms=0).model_dump(mode="json")
    return json.dumps([planned.client, sorted(planned.properties.items()), planned.partitions, workload])


def shape_text(planned: PlannedCell) -> str:
    workload = planned.workload
    if workload.corpus is not None:
        records = f"records of {workload.corpus.name}"
    elif workload.sizes is not None:
        records = f"records of {workload.sizes.kind} sizes"
    else:
        records = f"{workload.record_size_bytes:,} B records"
    keys = "" if workload.keys == "none" else f", keys {workload.keys}"
    processes = min(workload.processes, workload.producers)
    spread = f", {workload.producers} producers in {processes} processes" if workload.producers > 1 else ""
    return f"{records}{keys}, {planned.partitions} partitions{spread}"


def to_measure(
    wanted: Mapping[str, PlannedCell], found: Certification, *, should_stop: Callable[[], bool]
) -> Iterator[tuple[int, str, PlannedCell]]:
    """(number, key, a cell of it) of each shape that has to be measured, while `found` fills.

    A shape that asks for much less than the first ceiling needs no measurement of its own. Beyond SHAPES_MAX a shape
    gets the reason why it has none.
    """
    number = 0
    for key, planned in wanted.items():
        if should_stop():
            return
        first = next((each for each in found.shapes.values() if isinstance(each, CertificateRecord)), None)
        if first is not None and asked_per_s(planned) <= OWN_SHAPE_SHARE * first.records_per_s:
            continue
        number += 1
        if number > SHAPES_MAX:
            found.shapes[key] = f"more than {SHAPES_MAX} shapes: {planned.title} was not certified"
        else:
            yield number, key, planned


def one_of_each(cells: Sequence[PlannedCell]) -> dict[str, PlannedCell]:
    """For each shape, the cell with the highest rate. The baseline's shape comes first, because modest shapes use its
    ceiling."""
    found: dict[str, PlannedCell] = {}
    judged_by_rate = (cell for cell in cells if cell.kind not in _NOT_BY_RATE)
    for planned in sorted(judged_by_rate, key=lambda cell: not cell.baseline):
        key = shape_key(planned)
        if key not in found or asked_per_s(planned) > asked_per_s(found[key]):
            found[key] = planned
    return found
