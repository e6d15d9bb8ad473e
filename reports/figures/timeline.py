"""The timeline of a cell: faults as windows, awaited conditions as moments, each with its proof. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from reports.read.cell import Cell
from runlog.records.fault import PLANNED_US, WAIT, FaultLine, FaultPhase

# For plots and for the programs that read the file; the words beside the chart say the same.
_NOT_TOLD = frozenset({"label", "colour", "took_us", PLANNED_US})
_COUNTED: Final = {"matched": "requests looked at", "acted": "requests acted on"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """Seconds count from the cell's start."""

    t: float
    t_end: float
    label: str
    proof: str
    proved: bool
    wait: bool  # an awaited condition, not a fault
    number: str  # as in the chart


def timeline_steps(cell: Cell) -> tuple[TimelineStep, ...]:
    """The steps by time. A fault lasts from applied to healed or to the cell's end, a condition is a moment."""
    first_us, last_us = cell.span_us()
    steps: dict[str, TimelineStep] = {}
    for line in cell.fault_lines:
        step = steps.get(line.id) or _begun(line, first_us, last_us)
        steps[line.id] = _moved_on(step, line, first_us)
    ordered = sorted(steps.values(), key=lambda step: step.t)
    return tuple(replace(step, number=str(number)) for number, step in enumerate(ordered, start=1))


def _begun(line: FaultLine, first_us: int, last_us: int) -> TimelineStep:
    is_wait = line.kind == WAIT
    at = seconds(line.t_us, first_us)
    return TimelineStep(
        t=at,
        t_end=at if is_wait else seconds(last_us, first_us),
        label=_label(line),
        proof="not proved",
        proved=False,
        wait=is_wait,
        number="",
    )


def _moved_on(step: TimelineStep, line: FaultLine, first_us: int) -> TimelineStep:
    if line.phase is FaultPhase.HEALED:
        return replace(step, t_end=seconds(line.t_us, first_us))
    if line.phase is FaultPhase.PROVED:
        return replace(step, proved=True, proof=_detail_text(line.detail) or "proved")
    if line.phase is FaultPhase.NOT_EFFECTIVE:
        return replace(step, proof=": ".join(filter(None, ("had no effect", _detail_text(line.detail)))))
    return step


def seconds(t_us: int, first_us: int) -> float:
    """Since the cell's start, in whole milliseconds."""
    return round((t_us - first_us) / 1e6, 3)


def _label(line: FaultLine) -> str:
    if line.kind == WAIT:
        return f"condition: {line.target}"
    names = ", ".join(line.resolved)
    at = f" on {line.target}" if line.target else ""
    return f"{line.label or line.kind}{at}" + (f" ({names})" if names not in ("", line.target) else "")


def _detail_text(detail: Mapping[str, object]) -> str:
    """Facts of a fault in words: `name value; name value`, microseconds as seconds. What holds nothing is left out."""
    return "; ".join(text for key, value in detail.items() if key not in _NOT_TOLD and (text := _fact(key, value)))


def _fact(key: str, value: object) -> str:
    if isinstance(value, Mapping):
        facts = [_inner(str(name), item) for name, item in value.items()]
        return f"{key}: {', '.join(filter(None, facts))}" if any(facts) else ""
    if isinstance(value, list | tuple):
        return f"{key} {', '.join(map(str, value))}"
    if key.endswith("_us") and isinstance(value, int | float):
        return f"{key.removesuffix('_us').replace('_', ' ')} {value / 1e6:.2f} s"
    return f"{_COUNTED.get(key, key)} {value}"


def _inner(name: str, value: object) -> str:
    """Inside of a fact: what is deeper stands in brackets."""
    if isinstance(value, Mapping):
        own = [f"{_COUNTED.get(key, key)} {item}" for key, item in value.items()]
        return f"{name} ({', '.join(own)})" if own else ""
    return f"{name} {value}"
