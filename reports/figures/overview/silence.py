"""The time without acknowledgements when a leader was lost. Unavailability is a cost of safety too. Pure.

Shown by tests/reports/test_reports_overview.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.evidence.configuration import acks_of
from reports.figures.gaps import gap_text
from reports.figures.timeline import timeline_steps
from reports.judge.checks import PASS
from reports.judge.judged import Judged

_LOSS: Final = "loss"  # Such a scenario is there to lose records.
_ALIKE: Final = 1.1  # outages that differ by less are taken for equally long


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outage:
    acks: str
    gap: str  # seconds
    lasted_s: float  # from the first fault to the last one's end


def silences(judged: Sequence[Judged]) -> list[str]:
    """One line for each scenario of loss that ran with acks=all and with acks=1, once each."""
    groups: dict[str, list[_Outage]] = {}
    for item in judged:
        record = item.facts.cell.record
        outage = _outage(item) if record.damage == _LOSS and item.verdict.result == PASS else None
        if outage is not None:
            groups.setdefault(record.scenario or "", []).append(outage)
    return [
        _words(name, {own.acks: own for own in group})
        for name, group in groups.items()
        if sorted(own.acks for own in group) == ["1", "all"]
    ]


def _outage(item: Judged) -> _Outage | None:
    steps = [step for step in timeline_steps(item.facts.cell) if not step.wait]
    if item.facts.gap_us is None or not steps:
        return None
    lasted_s = max(step.t_end for step in steps) - min(step.t for step in steps)
    gap = gap_text(item.facts.gap_us, item.facts.cell.record.outcome.load_hosts)
    return _Outage(acks=acks_of(item.facts.cell), gap=gap, lasted_s=lasted_s)


def _words(scenario: str, own: dict[str, _Outage]) -> str:
    safe, loose = own["all"], own["1"]
    shorter, longer = sorted((safe.lasted_s, loose.lasted_s))
    unlike = (
        "; the faults did not last equally long, and each was seen once, so the difference is not that of acks alone"
        if longer > _ALIKE * shorter
        else "; each was seen once"
    )
    return (
        f"longest silence under {scenario.replace('-', ' ')}: {safe.gap} s with acks=all, where the faults "
        f"lasted {safe.lasted_s:.2f} s, and {loose.gap} s with acks=1, where they lasted {loose.lasted_s:.2f} s"
        f"{unlike}"
    )
