"""Sentences about the choice that another priority would make, and the effects of that choice. Pure.

An effect of one setting is reported only from two configurations that differ in this setting alone. If the recommended
one was not measured with the other value, the effect is that against the baseline, and the sentence says that both
together were not measured. Shown by tests/reports/test_reports_priorities.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.statistics.variance import Estimate
from reports.figures.sweep.cell_means import CellMeans
from reports.figures.sweep.choosing import CHEAPER
from reports.figures.sweep.front import Point
from reports.figures.sweep.number_words import decided_change
from reports.figures.sweep.observations import (
    BROKER_CPU,
    CAPACITY,
    MAY_LOSE,
    NOT_SUSTAINED,
    P99,
    SAFE,
    WIRE_BYTES,
    Configuration,
    configuration_text,
)
from reports.figures.sweep.recommendation import Inputs

WOULD_CHANGE: Final = "What would change it: "  # how the sentence begins
_WISHES: Final = (
    (CAPACITY, "if capacity counts most", "carries"),
    (BROKER_CPU, "if broker CPU counts most", "takes"),
    (WIRE_BYTES, "if bytes on the wire count most", "takes"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """`other` against `base`, as it is told. `settings` are those in which the two differ."""

    base: Configuration
    other: Point
    against: str
    settings: tuple[str, ...]
    # In words, why there is no measured counterpart of the whole configuration. Empty if there is one.
    unmeasured: str

    def change(self, means: CellMeans) -> Estimate | None:
        return means.between(self.base, self.other.configuration)

    @property
    def told_against(self) -> str:
        """After the figures: against what they are, and what is not known."""
        if len(self.settings) > 1:
            return f"against {self.against}, from which it differs in {_listed(self.settings)}"
        return f"against {self.against}{f', and {self.unmeasured}' if self.unmeasured else ''}"


def would_change(chosen: Point, inputs: Inputs) -> str:
    parts = _without_safety(chosen, inputs)
    for name, words, verb in _WISHES:
        parts += _offer(name, f"{words}, ", verb, chosen, inputs)
    held = sorted({item.title for item in inputs.observations if item.state == NOT_SUSTAINED})
    if held:
        them = "one configuration" if len(held) == 1 else f"{len(held)} configurations"
        back = "it" if len(held) == 1 else "them"
        parts.append(f"{them} did not carry the rate: a lower rate would bring {back} back in")
    parts.append(f"all of it holds at {inputs.load}: at another rate or size batches fill differently")
    return f"{WOULD_CHANGE}{'; '.join(parts)}."


def _offer(name: str, words: str, verb: str, chosen: Point, inputs: Inputs) -> list[str]:
    """The safe configuration that is best in one measure, if that is clear of the recommended one."""
    means, p99 = inputs.means.get(name), inputs.means.get(P99)
    offers = [p for p in inputs.points if p.safety == SAFE and p is not chosen and name in p.levels]
    if means is None or not offers or (name == CAPACITY and not means.repeated):
        return []
    sign = -1 if name == CAPACITY else 1
    best = min(offers, key=lambda point: sign * point.levels[name].value)
    if not _is_clear(means.between(chosen.configuration, best.configuration), name):
        return []
    pair = _fair_pair(chosen, best, inputs)
    if not _is_clear(pair.change(means), name):  # what it has before the recommended one is not the work of its setting
        pair = _as_a_whole(chosen, best)
    gained = pair.change(means)
    assert gained is not None, "one of the two pairs was clear"
    cost = pair.change(p99) if p99 is not None and name != CAPACITY else None
    price = f" at p99 {decided_change(cost)}" if cost is not None else ""
    return [f"{words}{_short(best)} {verb} {decided_change(gained)}{price}, {pair.told_against}"]


def _is_clear(difference: Estimate | None, name: str) -> bool:
    """Better, and by enough to be worth a change."""
    if difference is None:
        return False
    if name == CAPACITY:
        return difference.excludes_zero and difference.value > 0
    return difference.excludes_zero and difference.value < -CHEAPER


def _without_safety(chosen: Point, inputs: Inputs) -> list[str]:
    """What the p99 would be if acknowledged records might be lost."""
    p99 = inputs.means.get(P99)
    loose = [point for point in inputs.points if point.safety == MAY_LOSE and P99 in point.levels]
    if p99 is None or not loose:
        return []
    pairs = [_fair_pair(chosen, point, inputs) for point in loose]
    alone = [pair for pair in pairs if len(pair.settings) == 1]
    direct = [pair for pair in alone if not pair.unmeasured]
    pair = min(direct or alone or pairs, key=lambda pair: pair.other.levels[P99].value)
    difference = pair.change(p99)
    if difference is None:
        return []
    damage, name = pair.other.damage, _with_what_it_needs(pair.other, inputs)
    if difference.excludes_zero and difference.value < 0:
        harm = f" (cells with its acks under faults: {damage.counted})" if damage.cells else ""
        text = f"{name} has p99 {decided_change(difference)}, {pair.told_against}{harm}"
        return [f"if losing acknowledged records is acceptable, {text}"]
    return [
        f"{name}, which may lose acknowledged records, bought no p99 that this run could see: "
        f"{decided_change(difference)}, {pair.told_against}"
    ]


def _fair_pair(chosen: Point, other: Point, inputs: Inputs) -> _Pair:
    """The pair that shows the effect of what `other` changes. Without such a pair, the two whole configurations."""
    settings = _differing(chosen.configuration, other.configuration)
    base = inputs.baseline
    if len(settings) < 2 or base is None:
        return _as_a_whole(chosen, other)
    changed = _differing(base, other.configuration)
    if len(changed) != 1:
        return _as_a_whole(chosen, other)
    both = {**dict(chosen.configuration), changed[0]: dict(other.configuration)[changed[0]]}
    measured = next((point for point in inputs.points if dict(point.configuration) == both), None)
    if measured is not None:
        return _as_a_whole(chosen, measured)
    kept = tuple((name, value) for name, value in chosen.configuration if name in settings and name not in changed)
    return _Pair(
        base=base,
        other=other,
        against="the baseline",
        settings=changed,
        unmeasured=f"together with {configuration_text(kept)} it was not measured",
    )


def _as_a_whole(chosen: Point, other: Point) -> _Pair:
    return _Pair(
        base=chosen.configuration,
        other=other,
        against="the recommended one",
        settings=_differing(chosen.configuration, other.configuration),
        unmeasured="",
    )


def _differing(one: Configuration, other: Configuration) -> tuple[str, ...]:
    first, second = dict(one), dict(other)
    return tuple(name for name in sorted({*first, *second}) if first.get(name) != second.get(name))


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _short(point: Point) -> str:
    return point.title.split(" (")[0]


def _with_what_it_needs(point: Point, inputs: Inputs) -> str:
    """`acks=1 with enable.idempotence=false`: what a value needs is changed together with it."""
    notes = [item.note for item in inputs.observations if item.configuration == point.configuration and item.note]
    return " ".join([_short(point), *(note.split(":")[0] for note in notes[:1])])
