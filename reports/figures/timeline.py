"""What the timeline of a cell did: faults as windows, awaited conditions as moments, with what proved each. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from reports.read.cell import Cell, Json

# For plots and for the programs that read the file; the words beside the chart say the same.
_NOT_TOLD = frozenset({"label", "colour", "took_us"})


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
    """By time. A fault lasts from applied to healed or to the cell's end, a condition is a moment."""
    first_us, last_us = cell.span_us()
    steps: dict[str, TimelineStep] = {}
    for line in cell.faults:
        name = str(line.get("id"))
        step = steps.get(name) or _begun(line, first_us, last_us)
        steps[name] = _moved_on(step, line, first_us)
    ordered = sorted(steps.values(), key=lambda step: step.t)
    return tuple(replace(step, number=str(number)) for number, step in enumerate(ordered, start=1))


def _begun(line: Json, first_us: int, last_us: int) -> TimelineStep:
    is_wait = line.get("kind") == "wait"
    at = seconds(line, first_us)
    return TimelineStep(
        t=at,
        t_end=at if is_wait else round((last_us - first_us) / 1e6, 3),
        label=_label(line),
        proof="not proved",
        proved=False,
        wait=is_wait,
        number="",
    )


def _moved_on(step: TimelineStep, line: Json, first_us: int) -> TimelineStep:
    phase = line.get("phase")
    if phase == "healed":
        return replace(step, t_end=seconds(line, first_us))
    if phase == "proved":
        return replace(step, proved=True, proof=detail_text(line.get("detail")))
    if phase == "not_effective":
        return replace(step, proof=f"had no effect: {detail_text(line.get('detail'))}")
    return step


def seconds(line: Json, first_us: int) -> float:
    """Of an event or a fault, since the cell's start."""
    return round((int(line.get("t_us", first_us)) - first_us) / 1e6, 3)


def _label(line: Json) -> str:
    target, resolved = line.get("target"), line.get("resolved")
    if line.get("kind") == "wait":
        return f"condition: {target}"
    names = ", ".join(map(str, resolved)) if isinstance(resolved, list | tuple) else str(resolved or "")
    at = f" on {target}" if target not in (None, "") else ""
    label = line.get("detail", {}).get("label") if isinstance(line.get("detail"), dict) else None
    return f"{label or line.get('kind')}{at}" + (f" ({names})" if names not in ("", str(target)) else "")


def detail_text(detail: object) -> str:
    """Facts of a fault in words: `name value; name value`, microseconds as seconds."""
    if not isinstance(detail, dict):
        return str(detail) if detail else "proved"
    told = []
    for key, value in detail.items():
        if key in _NOT_TOLD:
            continue
        if key.endswith("_us") and isinstance(value, int | float):
            told.append(f"{key.removesuffix('_us').replace('_', ' ')} {value / 1e6:.2f} s")
        elif isinstance(value, dict):
            told.append(f"{key}: {', '.join(f'{name} {item}' for name, item in value.items())}")
        elif isinstance(value, list | tuple):
            told.append(f"{key} {', '.join(map(str, value))}")
        else:
            told.append(f"{key} {value}")
    return "; ".join(told) or "proved"
