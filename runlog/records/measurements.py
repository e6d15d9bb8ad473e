"""results/measurements.json: the figures of each cell, and whether they may be used. `harness compare` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from runlog.records.cell import CellKind
from runlog.records.verdicts import Result
from runlog.records.workload import WorkloadRecord

MEASUREMENTS_VERSION: Final = 1


class FigureState(StrEnum):
    """Whether the figures of a sweep's cell may be used."""

    OK = "ok"
    UNSTEADY = "unsteady"  # Only older reports have it. Today such a cell counts, and is marked.
    NOT_SUSTAINED = "not sustained"  # the cell did not carry its load
    CLIENT_BOUND = "client-bound"  # the client was the limit
    INCONCLUSIVE = "inconclusive"  # the verdict does not trust the cell
    FAILED = "failed"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One cell. `name` is its id without the repetition. Cells of two runs with the same name are compared."""

    cell_id: str
    name: str
    title: str
    kind: CellKind
    round: int
    state: FigureState
    reason: str
    verdict: Result
    verdict_reason: str
    values: Mapping[str, float]  # The key is the measure. Sweep cells have them.
    gap_ms: float | None
    damage: Mapping[str, int]
    client: str
    engine: str
    path: str
    durability: Mapping[str, str]  # what an acknowledgement promises
    load: WorkloadRecord  # as cell.json has it
    properties: Mapping[str, str]
    compiler_us_per_record: float | None  # not included in broker_cpu; null: included, if there is a compiler
    noise: Mapping[str, float] = field(default_factory=dict)  # means of the figures of the host
    fork: int = 1  # number of the cluster that a sweep's cell ran on
    security: str = ""  # as in cell.json; empty: not recorded
    gap_clock_error_ms: float | None = None  # how much gap_ms can be wrong by the load hosts' clocks; null: not at all


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementsRecord:
    schema_version: int
    analysis_id: str  # It names the analysis that wrote the file. Empty: an older version did not write it.
    cells: tuple[Measurement, ...] | None
