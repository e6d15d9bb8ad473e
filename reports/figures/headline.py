"""What the first sentences of a report say: state of the run, damage under faults, price of safety. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.figures.sweep.analysis import SweepAnalysis
from reports.judge.judged import Judged
from reports.judge.verdict import FAIL, INCONCLUSIVE, PASS, expectation
from reports.read.model import PREDICTED_KINDS, CellFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The worst result, and how many cells have it; of a pass there is no first cell."""

    result: str
    count: int
    cells: int
    records: int  # sent in all cells
    first_id: str = ""
    first_title: str = ""
    first_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDamage:
    setting: str
    cells: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDamage:
    """Of cells where this kind of damage was predicted and seen."""

    kind: str
    by_setting: tuple[SettingDamage, ...]
    is_as_predicted: bool
    predicted: int
    first_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    kinds: tuple[KindDamage, ...]
    safe: int  # cells under faults where no damage may be
    clean: int  # those of them without any


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceOfAcks:
    """p99 of acks=all as a multiple of that of acks=1, all else equal, with the 95 % interval where it is known."""

    ratio: float
    low: float | None
    high: float | None
    is_clear: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    state: RunState
    damage: Damage | None
    price: PriceOfAcks | None


def headline_of(judged: Sequence[Judged], analysis: SweepAnalysis | None = None) -> Headline:
    return Headline(state=_state(judged), damage=_damage(judged), price=_price(analysis))


def _state(judged: Sequence[Judged]) -> RunState:
    records = sum(item.facts.counts.sent_total for item in judged)
    for result in (FAIL, INCONCLUSIVE):
        own = [item for item in judged if item.verdict.result == result]
        if own:
            return RunState(
                result=result,
                count=len(own),
                cells=len(judged),
                records=records,
                first_id=own[0].facts.cell.cell_id,
                first_title=own[0].facts.cell.title,
                first_reason=own[0].verdict.reasons[0],
            )
    return RunState(result=PASS, count=len(judged), cells=len(judged), records=records)


def _damage(judged: Sequence[Judged]) -> Damage | None:
    kinds = [found for kind in PREDICTED_KINDS if (found := _damage_of_kind(kind, judged)) is not None]
    safe = [item.facts for item in judged if item.facts.cell.kind == "chaos" and _is_safe(item.facts)]
    if not kinds and not safe:
        return None
    clean = sum(facts.lost == 0 and all(facts.set_count(kind) == 0 for kind in PREDICTED_KINDS) for facts in safe)
    return Damage(kinds=tuple(kinds), safe=len(safe), clean=clean)


def _damage_of_kind(kind: str, judged: Sequence[Judged]) -> KindDamage | None:
    cells = [
        item.facts
        for item in judged
        if expectation(item.facts, kind) == "predicted" and item.facts.predictions[kind].observed.count
    ]
    if not cells:
        return None
    counts: dict[str, list[int]] = {}
    for facts in cells:
        counts.setdefault(_setting(facts, kind), []).append(facts.predictions[kind].observed.count)
    return KindDamage(
        kind=kind,
        by_setting=tuple(
            SettingDamage(setting=setting, cells=len(own), count=sum(own)) for setting, own in counts.items()
        ),
        is_as_predicted=all(facts.predictions[kind].equal for facts in cells),
        predicted=sum(facts.predictions[kind].predicted.count for facts in cells),
        first_id=cells[0].cell.cell_id,
    )


def _is_safe(facts: CellFacts) -> bool:
    return all(expectation(facts, kind) == "none" for kind in PREDICTED_KINDS)


def _setting(facts: CellFacts, kind: str) -> str:
    properties = facts.cell.effective_client
    if kind == "lost":
        return f"acks={properties.get('acks', 'all')}"
    if kind == "duplicated":
        return f"enable.idempotence={properties.get('enable.idempotence', 'false')}"
    in_flight = properties.get("max.in.flight.requests.per.connection", "5")
    return f"{in_flight} requests in flight without idempotence"


def _price(analysis: SweepAnalysis | None) -> PriceOfAcks | None:
    """None where each of them ran once."""
    means = analysis.means.get("p99") if analysis else None
    if means is None or not means.repeated:
        return None
    for configuration in means.configurations:
        settings = dict(configuration)
        if settings.get("acks") != "1":
            continue
        safe = next((c for c in means.configurations if _is_all(settings, dict(c))), None)
        difference = means.between(configuration, safe) if safe is not None else None
        if difference is None:
            continue
        low, high = difference.bounds
        return PriceOfAcks(ratio=difference.ratio[0], low=low, high=high, is_clear=difference.excludes_zero)
    return None


def _is_all(loose: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return other.get("acks") in ("all", "-1") and {**other, "acks": "1"} == dict(loose)
