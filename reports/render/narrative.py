"""The first sentences of a report: the verdict, the damage with its prediction, the price of safety."""

from __future__ import annotations

from dataclasses import dataclass

from reports.figures.headline import Damage, Headline, KindDamage, PriceOfAcks, RunState
from reports.judge.verdict import FAIL, INCONCLUSIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    text: str
    target: str  # anchor of the evidence


def verdict_sentences(headline: Headline) -> list[Sentence]:
    """At most three."""
    damage = _damage(headline.damage) if headline.damage else None
    price = _price(headline.price) if headline.price else None
    return [sentence for sentence in (_state(headline.state), damage, price) if sentence is not None]


def _state(state: RunState) -> Sentence:
    if state.result == FAIL:
        text = f"{state.count} of {state.cells} cells failed; first {state.first_title}: {state.first_reason}."
        return Sentence(text=text, target=f"cell-{state.first_id}")
    if state.result == INCONCLUSIVE:
        text = (
            f"{state.count} of {state.cells} cells say nothing either way; first {state.first_title}: "
            f"{state.first_reason}."
        )
        return Sentence(text=text, target=f"cell-{state.first_id}")
    text = f"All {state.cells} cells came out as expected; {state.records:,} records were accounted for one by one."
    return Sentence(text=text, target="cells")


def _damage(damage: Damage) -> Sentence:
    told = "; ".join(_damage_of_kind(kind) for kind in damage.kinds)
    text = f"Under faults, {told}" if told else "Under faults no damage was asked for"
    if damage.safe:
        text += f"; {damage.clean} of the {damage.safe} safe configurations showed none"
    target = f"cell-{damage.kinds[0].first_id}" if damage.kinds else "cells"
    return Sentence(text=text + ".", target=target)


def _damage_of_kind(found: KindDamage) -> str:
    """`acks=1 lost 9,629 in 2 cells, acks=all lost 300 (exactly the predicted)`."""
    told = ", ".join(
        f"{own.setting} {found.kind} {own.count:,}" + (f" in {own.cells} cells" if own.cells > 1 else "")
        for own in found.by_setting
    )
    if found.is_as_predicted:
        return f"{told} (exactly the predicted)"
    return f"{told} (not what was predicted: {found.predicted:,} in all)"


def _price(price: PriceOfAcks) -> Sentence:
    """What acks=all costs against acks=1."""
    told = "" if price.is_clear else ": this run cannot tell whether it costs anything"
    known = price.low is not None and price.high is not None
    sure = f"95 %: {price.low:.2f} to {price.high:.2f}" if known else "its interval is not known"
    text = f"acks=all has {price.ratio:.2f} x the p99 of acks=1, all else equal ({sure}){told}."
    return Sentence(text=text, target="analysis")
