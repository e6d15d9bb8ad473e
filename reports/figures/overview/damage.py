"""The matrix of damage. Each row is a fault: settings that permit damage are on the left, the others on the right.
Pure.

The expectations of a cell decide its side, and the rules of `judge/lawful.py` that of damage which was not expected. If
none of the three kinds of damage may occur, its settings do not permit damage.
Shown by tests/reports/test_reports_overview.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from reports.evidence.configuration import Configuration, configuration_of, promise_of
from reports.figures.cell import CellFigures
from reports.figures.damage import KindOfDamage
from reports.figures.overview.small_timeline import SmallTimeline, small_timeline
from reports.judge.checks import FAIL, PASS
from reports.judge.judged import Judged
from reports.judge.lawful import LAWFUL
from reports.read.model import MISROUTED, PREDICTED_KINDS
from runlog.records.cell import Expectation

_SHORT: Final = {"max.in.flight.requests.per.connection": "max.in.flight"}
NO_FAULT: Final = "no fault"
_RESOLVED: Final = re.compile(r" \([^()]*\)$")  # the brokers or links of a target, which only the cell's page names
_KIND_OF: Final = {"loss": "lost", "duplication": "duplicated", "reordering": "reordered"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`2,034 lost`, and beside it the comparison with the prediction: `= predicted`."""

    text: str
    of: str  # How many records there were. Empty if nothing can be counted.
    against: str
    is_damage: bool
    is_unexpected: bool  # not what was predicted or allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageCell:
    cell_id: str
    title: str
    setting: str  # the settings that decide about the damage
    differing: tuple[str, ...]  # all settings in which the cells under this fault differ, as this one has them
    promise: Configuration  # the settings of producer and topic
    result: str
    findings: tuple[Finding, ...]
    why: str  # The scenario's reason. If the cell is no pass, it is the first reason of the verdict.
    timeline: SmallTimeline | None

    @property
    def is_damaged(self) -> bool:
        return any(finding.is_damage for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageRow:
    fault: str
    kinds: tuple[str, ...]  # the kinds of damage that the fault is about
    steps: str  # the steps, from the fault log
    permits: tuple[DamageCell, ...]
    does_not: tuple[DamageCell, ...]

    @property
    def cells(self) -> tuple[DamageCell, ...]:
        return (*self.permits, *self.does_not)


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageMatrix:
    """`rows` is empty for a run without faults. `calm` then says what happened to the records."""

    rows: tuple[DamageRow, ...]
    calm: str

    @property
    def has_permitting(self) -> bool:
        return any(row.permits for row in self.rows)

    @property
    def has_forbidding(self) -> bool:
        return any(row.does_not for row in self.rows)

    @property
    def has_timeline(self) -> bool:
        return any(cell.timeline for row in self.rows for cell in row.cells)


def damage_matrix(judged: Sequence[Judged], cells: Sequence[CellFigures]) -> DamageMatrix:
    """`cells` are the figures of `judged`, in its order."""
    pairs = list(zip(judged, cells, strict=True))
    groups: dict[str, list[tuple[Judged, CellFigures]]] = {}
    for item, cell in pairs:
        if cell.kind == "chaos":
            groups.setdefault(cell.scenario or cell.title, []).append((item, cell))
    rows = [_row(name, group) for name, group in groups.items()]
    calm = [pair for pair in pairs if pair[1].kind != "chaos"]
    struck = [pair for pair in calm if _has_damage(pair[1])]
    if struck:
        rows.append(_row(NO_FAULT, struck))
    return DamageMatrix(rows=tuple(rows), calm=_calm(calm, struck=len(struck)))


def _row(name: str, group: Sequence[tuple[Judged, CellFigures]]) -> DamageRow:
    kinds = _kinds(group)
    configurations = [configuration_of(item.facts.cell) for item, _ in group]
    settings = _settings(kinds, configurations, [cell for _, cell in group])
    sides: dict[bool, list[DamageCell]] = {True: [], False: []}
    differing = _differing([item for item, _ in group])
    for place, (item, cell) in enumerate(group):
        sides[_permits(cell)].append(
            replace(_damage_cell(item, cell, settings[place], kinds), differing=differing[place])
        )
    labels = dict.fromkeys(
        _RESOLVED.sub("", step.label).replace("->", " to ") for _, cell in group for step in cell.faults
    )
    return DamageRow(
        fault=name.replace("-", " ").replace("_", " "),
        kinds=kinds,
        steps=", then ".join(labels),
        permits=tuple(sides[True]),
        does_not=tuple(sides[False]),
    )


def _kinds(group: Sequence[tuple[Judged, CellFigures]]) -> tuple[str, ...]:
    """The kinds of damage that the fault is about: those that one of its cells may show, otherwise those that its
    scenario names."""
    found = [
        kind
        for kind in PREDICTED_KINDS
        if any(cell.damage[kind].expected != Expectation.NONE or cell.damage[kind].observed for _, cell in group)
    ]
    named = [_KIND_OF.get(item.facts.cell.record.damage or "", "") for item, _ in group]
    return tuple(found or dict.fromkeys(filter(None, named)))


def _permits(cell: CellFigures) -> bool:
    """A cell that expects no damage and has some is a fail. Its settings may permit it all the same."""
    return any(
        found.expected != Expectation.NONE or (found.observed and found.ruling.lawful == LAWFUL)
        for found in cell.damage.values()
    )


def _has_damage(cell: CellFigures) -> bool:
    return bool(cell.set_count(MISROUTED)) or any(found.observed for found in cell.damage.values())


# --- what decides ---------------------------------------------------------------------------------------------------


def _settings(kinds: Sequence[str], configurations: Sequence[Configuration], cells: Sequence[CellFigures]) -> list[str]:
    """The settings that decide this kind of damage. If two cells agree in them, also other settings in which they
    differ."""
    short = [_deciding(kinds, own, configurations) for own in configurations]
    if len(set(short)) == len(short):
        return short
    return [
        text if short.count(text) == 1 else f"{text} · {(cell.case or cell.title).replace('-', ' ')}"
        for text, cell in zip(short, cells, strict=True)
    ]


def _differing(group: Sequence[Judged]) -> list[tuple[str, ...]]:
    """For each cell, the settings of producer and topic in which the cells differ, also those that do not decide this
    kind of damage."""
    own = [{**item.facts.cell.record.topic.config, **item.facts.cell.effective_client} for item in group]
    asked = [{**item.facts.cell.record.topic.config, **item.facts.cell.record.properties} for item in group]
    names = sorted({name for one in asked for name in one})
    unlike = [name for name in names if len({one.get(name) for one in own}) > 1]
    return [tuple(f"{_SHORT.get(name, name)}={one.get(name, 'default')}" for name in unlike) for one in own]


def _deciding(kinds: Sequence[str], own: Configuration, all_of_them: Sequence[Configuration]) -> str:
    parts: list[str] = []
    if "lost" in kinds or not kinds:
        parts.append(f"acks={own.acks}")
        if own.acks == "all" and own.replication_factor > 1:
            parts.append(f"min ISR {own.min_isr}")
        if own.replication_factor == 1:
            parts.append("one replica")
    if "reordered" in kinds:
        parts.append(f"{own.max_in_flight} in flight")
    if ("duplicated" in kinds) or ("reordered" in kinds and own.max_in_flight > 1):
        parts.append(f"idempotence {'on' if own.idempotence else 'off'}")
    if len({other.unclean_election for other in all_of_them}) > 1 or own.unclean_election:
        parts.append("unclean election" if own.unclean_election else "clean election")
    return ", ".join(parts)


# --- what was seen --------------------------------------------------------------------------------------------------


def _damage_cell(item: Judged, cell: CellFigures, setting: str, kinds: Sequence[str]) -> DamageCell:
    passed = cell.verdict.result == PASS
    because = cell.about.because if cell.about else ""
    return DamageCell(
        cell_id=cell.id,
        title=cell.title,
        setting=setting,
        differing=(),
        promise=promise_of(configuration_of(item.facts.cell)),
        result=cell.verdict.result,
        findings=_findings(cell, kinds),
        why=because if passed else next(iter(cell.verdict.reasons), ""),
        timeline=small_timeline(cell.over_time),
    )


def _findings(cell: CellFigures, kinds: Sequence[str]) -> tuple[Finding, ...]:
    told = [
        _finding(kind, found)
        for kind, found in cell.damage.items()
        if found.observed or found.predicted or (found.observed is None and found.expected != Expectation.NONE)
    ]
    misrouted = cell.set_count(MISROUTED)
    if misrouted:
        told.append(
            Finding(
                text=f"{misrouted:,} in the wrong topic or partition",
                of="",
                against="suspect the client",
                is_damage=True,
                is_unexpected=True,
            )
        )
    sent = cell.counts.sent_total
    of = f"of {sent:,} records" if sent else ""
    if told:
        return tuple(replace(finding, of=of if finding.is_damage else "") for finding in told)
    if cell.lost is None:
        return (_plain("whether records were lost cannot be told: the log was not read to its end"),)
    if cell.verdict.result not in (PASS, FAIL):
        return (_plain("nothing can be said"),)
    none = _plain(f"none {' or '.join(kinds)}" if kinds else "nothing lost, duplicated or reordered")
    return (replace(none, of=of),)


def _plain(text: str) -> Finding:
    return Finding(text=text, of="", against="", is_damage=False, is_unexpected=False)


def _finding(kind: str, found: KindOfDamage) -> Finding:
    if found.observed is None:
        return _plain(f"{kind}: unknown, the log was not read to its end")
    if found.allowed:
        against, is_unexpected = "any number is allowed", False
    elif found.equal:
        against, is_unexpected = "= predicted", found.expected == Expectation.NONE
    else:
        against, is_unexpected = f"≠ {found.predicted:,} predicted", True
    return Finding(
        text=f"{found.observed:,} {kind}" if found.observed else f"none {kind}",
        of="",
        against=against,
        is_damage=bool(found.observed),
        is_unexpected=is_unexpected,
    )


# --- without a fault ------------------------------------------------------------------------------------------------


def _calm(calm: Sequence[tuple[Judged, CellFigures]], *, struck: int) -> str:
    """What happened to the records of the cells without faults."""
    if not calm:
        return ""
    unread = sum(not cell.is_read_to_end for _, cell in calm)
    whole = [cell for _, cell in calm if cell.is_read_to_end]
    records = sum(cell.counts.sent_total for cell in whole)
    cells = f"{len(calm)} cell{'s' if len(calm) != 1 else ''} without faults"
    if struck:
        return f"{struck} of {cells} had damage."
    doubt = f" The logs of {unread} were not read to their end, so that loss cannot be told there." if unread else ""
    if not whole:
        return f"{cells}: loss cannot be told, because no log was read to its end."
    return f"{cells}: {records:,} records sent and read back, none lost, duplicated or reordered.{doubt}"
