"""results/confirm.json: what `harness confirm RUN` predicted and measured, in the results of the new run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ConfirmationResult(StrEnum):
    UNKNOWN = "not measured"
    CONFIRMED = "confirmed"
    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """One measure, in its unit. `measured` is a geometric mean with its 95 % interval; null if there was no figure."""

    measure: str
    title: str
    unit: str
    predicted: tuple[float, float | None, float | None]  # value, low, high; null: the sweep does not show it
    measured: tuple[float, float, float] | None
    repetitions: int
    allowed_share: float | None = None  # a difference up to this share of the prediction is none; null: not known
    result: ConfirmationResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerAside:
    """CPU of the brokers' compilers, in microseconds per record. It is shown and not judged."""

    predicted: float
    measured: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedAnalyses:
    """Ids of the analyses of the sweep that recommended, and of the new run."""

    sweep: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRecord:
    sweep: str  # directory of the run with the sweep
    analyses: ConfirmedAnalyses
    cell: str  # without its repetition
    basis: str  # what the intervals of the prediction include
    measures: tuple[Confirmation, ...]
    compiler_us_per_record: CompilerAside | None
