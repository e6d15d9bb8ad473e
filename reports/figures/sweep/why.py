"""Why a setting acts: the behaviour of client and brokers with it, compared with the baseline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from reports.figures.sweep.number_words import significant
from reports.figures.sweep.observations import NO_FIGURES, Configuration, Observation, by_value
from runlog.records.sweep import Behaviour

_TOLD: Final = 0.15  # a figure that moved by less than this explains nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    name: str
    read: Callable[[Behaviour], float | None]
    scale: float = 1.0
    unit: str = ""


_FIGURES: Final = (
    _Figure(name="records a batch", read=lambda own: own.records_per_batch),
    _Figure(name="batch fill", read=lambda own: own.fill, scale=100, unit=" %"),
    _Figure(name="requests/s", read=lambda own: own.requests_per_s),
    _Figure(name="a batch waits for linger or a free request", read=lambda own: own.queue_ms, unit=" ms"),
    _Figure(name="request round trip", read=lambda own: own.request_ms, unit=" ms"),
    _Figure(name="bytes a record", read=lambda own: own.wire_bytes_per_record, unit=" B"),
    _Figure(name="retries", read=lambda own: own.retries),
    _Figure(name="broker CPU", read=lambda own: own.broker_cpu_without_compiler_us_per_record, unit=" µs a record"),
)


def explain(observations: Sequence[Observation], baseline: Configuration | None) -> list[str]:
    """One sentence a value that differs from the baseline in one setting alone; without a baseline none."""
    if baseline is None:
        return []
    groups: dict[Configuration, list[Behaviour]] = {}
    for item in observations:
        if item.state not in NO_FIGURES and not item.at_ceiling:
            groups.setdefault(item.configuration, []).append(item.behaviour)
    if baseline not in groups:
        return []
    base = dict(baseline)
    lines: list[tuple[str, tuple[int, float, str], str]] = []
    for configuration, own in groups.items():
        changed = [(name, value) for name, value in configuration if base.get(name) != value]
        if len(changed) != 1:
            continue
        name, value = changed[0]
        moved = [text for one in _FIGURES if (text := _moved(one, groups[baseline], own))]
        said = "; ".join(moved) or "nothing that is measured here moved by more than 15 %"
        lines.append((name, by_value(value), f"{name} {base.get(name)} → {value}: {said}"))
    return [text for _, _, text in sorted(lines)]


def _moved(one: _Figure, before: Sequence[Behaviour], after: Sequence[Behaviour]) -> str:
    old, new = _mean(one, before), _mean(one, after)
    if old is None or new is None or abs(new - old) <= _TOLD * max(abs(old), 1e-9):
        return ""
    return f"{one.name} {significant(old)} → {significant(new)}{one.unit}"


def _mean(one: _Figure, group: Sequence[Behaviour]) -> float | None:
    values = [value * one.scale for own in group if (value := one.read(own)) is not None]
    return fmean(values) if values else None
