"""What reports and comparisons said of configurations that are equal, and how often they may. Pure.

Shown by tests/benchmarks/test_benchmarks_same.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.claims import Claim
from runlog.quality.noise import FOREIGN_SHARE, STEAL_SHARE
from runlog.records.measurements import Measurement

WRONG_MAX: Final = 0.05  # what is said with 95 % may be wrong so often
_NAMED: Final = ("better", "worse")
_CHOICES: Final = ("Clear choice", "Likely choice")
# Other sentences of a recommendation that name a difference between configurations.
_REMARKS: Final = ("counts most, ", "Worth a run: ", "is acceptable, ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quietness:
    """Means over the cells of a run, as shares of all cores."""

    run: str
    foreign: float | None
    stolen: float | None


def of_sweeps(documents: Sequence[dict[str, Any]]) -> list[Claim]:
    """`documents` are results/sweep.json of runs whose configurations are equal."""
    effects = [effect for document in documents for effect in document["effects"]]
    sentences = [document["recommendation"]["sentences"] for document in documents]
    clear = sum(any(one.startswith(_CHOICES) for one in own) for own in sentences)
    remarks = sum(one.count(words) for own in sentences for one in own for words in _REMARKS)
    return [
        Claim(
            text="an effect between equals is called better or worse (a triangle)",
            count=sum(effect["judgement"] in _NAMED for effect in effects),
            total=len(effects),
            at_most=WRONG_MAX,
        ),
        Claim(
            text="one of equals is recommended as a clear or likely choice",
            count=clear,
            total=len(documents),
            at_most=WRONG_MAX,
        ),
        Claim(
            text="a recommendation names another difference between equals (three may be named in each)",
            count=remarks,
            total=len(_REMARKS) * len(documents),
            at_most=WRONG_MAX,
        ),
    ]


def of_comparisons(documents: Sequence[dict[str, Any]]) -> list[Claim]:
    """`documents` are what `harness compare` wrote of pairs of runs of one build."""
    rows = [row for document in documents for row in document["rows"] if row["p"] is not None]
    return [
        Claim(
            text="`harness compare` calls one of two like runs worse",
            count=sum(document["result"] == "worse" for document in documents),
            total=len(documents),
            at_most=WRONG_MAX,
        ),
        Claim(
            text="... or better",
            count=sum(document["result"] == "better" for document in documents),
            total=len(documents),
            at_most=WRONG_MAX,
        ),
        Claim(
            text="a figure that it tested is called better or worse",
            count=sum(row["result"] in _NAMED for row in rows),
            total=len(rows),
            at_most=WRONG_MAX,
        ),
    ]


def results_of(documents: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Result -> comparisons that ended so."""
    found = [str(document["result"]) for document in documents]
    return {result: found.count(result) for result in ("better", "worse", "same", "undecided")}


def quietness_of(run: str, cells: Sequence[Measurement]) -> Quietness:
    return Quietness(run=run, foreign=_mean(cells, FOREIGN_SHARE), stolen=_mean(cells, STEAL_SHARE))


def _mean(cells: Sequence[Measurement], name: str) -> float | None:
    found = [cell.noise[name] for cell in cells if name in cell.noise]
    return sum(found) / len(found) if found else None
