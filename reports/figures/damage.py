"""Damage of a cell: predicted and observed sets, their rulings, and the other anomalies that were seen. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reports.evidence.configuration import Configuration
from reports.judge.anomalies import ANOMALIES
from reports.judge.damage_checks import expectation, is_any_allowed
from reports.judge.lawful import IMPOSSIBLE, LAWFUL, Ruling, rule
from reports.read.model import PREDICTED_KINDS, CellFacts, IdentitySet, SetComparison
from runlog.records.cell import Expectation

RANGES_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPart:
    name: str
    count: int
    ranges: tuple[str, ...]  # the first of them
    more: int  # identities that are in none of these ranges
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOfDamage:
    """One of the three kinds that are predicted."""

    kind: str
    comparison: SetComparison
    expected: Expectation
    parts: tuple[SetPart, ...]
    predicted: int
    observed: int | None  # None: a log that was not read to its end cannot tell what was lost
    allowed: bool  # any number is accepted, and none is predicted
    ruling: Ruling

    @property
    def how(self) -> str:
        return self.comparison.how

    @property
    def judged(self) -> str:
        """What happened, held against what the settings allow."""
        if self.ruling.lawful == IMPOSSIBLE:
            return "it cannot happen with these settings"
        if self.observed:
            return "the settings allow it" if self.ruling.lawful == LAWFUL else "each breaks a promise"
        if self.observed is None:
            return "whether any happened is not known"
        allowed = "the settings would allow it" if self.ruling.lawful == LAWFUL else "one would break a promise"
        return f"none happened; {allowed}"

    @property
    def equal(self) -> bool:
        return self.comparison.equal


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherAnomaly:
    """Damage that was seen, beside the three kinds that are predicted."""

    count: int
    title: str
    rule: str  # what it is
    lawful: str
    example: str


def kinds_of_damage(facts: CellFacts, configuration: Configuration) -> dict[str, KindOfDamage]:
    return {kind: _kind(facts, kind, configuration) for kind in PREDICTED_KINDS}


def _kind(facts: CellFacts, kind: str, configuration: Configuration) -> KindOfDamage:
    comparison = facts.predictions[kind]
    return KindOfDamage(
        kind=kind,
        comparison=comparison,
        expected=expectation(facts, kind),
        parts=(
            _part("only predicted", comparison.only_predicted),
            _part("both", comparison.both),
            _part("only observed", comparison.only_observed),
        ),
        predicted=comparison.predicted.count,
        observed=facts.lost if kind == "lost" else comparison.observed.count,
        allowed=is_any_allowed(facts, kind),
        ruling=rule(kind, configuration),
    )


def _part(name: str, identities: IdentitySet) -> SetPart:
    shown = identities.ranges[:RANGES_SHOWN]
    return SetPart(
        name=name,
        count=identities.count,
        ranges=tuple(item.text() for item in shown),
        more=identities.count - sum(item.count for item in shown),
        hash=identities.hash_text,
    )


def other_anomalies(facts: CellFacts, configuration: Configuration) -> tuple[OtherAnomaly, ...]:
    return tuple(
        OtherAnomaly(
            count=facts.anomaly_count(anomaly.name),
            title=anomaly.title.lower(),
            rule=anomaly.rule,
            lawful=rule(anomaly.name, configuration).lawful,
            example=next(iter(facts.findings[anomaly.name].examples), "") if anomaly.name in facts.findings else "",
        )
        for anomaly in ANOMALIES
        if anomaly.name not in PREDICTED_KINDS and facts.anomaly_count(anomaly.name)
    )
