"""The head line: verdict, cells, records, cluster, client, and how much other programs disturbed the host. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.cell import product
from reports.judge.checks import FAIL, PASS, Check
from reports.judge.damage_checks import is_any_allowed
from reports.judge.judged import Judged, overall
from reports.judge.noise import disturbance, host_noise
from reports.read.model import PREDICTED_KINDS
from runlog.quality.noise import FOREIGN_SHARE, STEAL_SHARE
from runlog.records.cell import CellKind

_OF_SWEEP: Final = (CellKind.SWEEP, CellKind.CEILING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A cell that is not as expected, with its first reason."""

    cell_id: str
    title: str
    result: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """`is_warning`: figures of speed were measured while others took the host."""

    text: str
    is_warning: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    result: str
    cells: str
    records: str
    culprits: tuple[Culprit, ...]  # failed before inconclusive
    cluster: str
    client: str
    host: HostState


def head_of(judged: Sequence[Judged], problems: Sequence[str] = (), limits: Sequence[Check] = ()) -> Head:
    culprits = [
        Culprit(
            cell_id=item.facts.cell.cell_id,
            title=item.facts.cell.title,
            result=item.verdict.result,
            reason=next(iter(item.verdict.reasons), ""),
        )
        for item in sorted(judged, key=lambda item: item.verdict.result != FAIL)
        if item.verdict.result != PASS
    ]
    return Head(
        result=overall(judged, problems, limits),
        cells=f"{_cells(judged)}{_with_damage(judged)}",
        records=_records(judged),
        culprits=tuple(culprits),
        cluster=_cluster(judged),
        client=_client(judged),
        host=_host(judged),
    )


def _cells(judged: Sequence[Judged]) -> str:
    if not judged:
        return "no cells"
    count = len(judged)
    results = [item.verdict.result for item in judged]
    if set(results) == {PASS}:
        return f"{_counted(count, 'cell')} as expected"
    failed, passed = results.count(FAIL), results.count(PASS)
    parts = [f"{failed} failed"] if failed else []
    if count - failed - passed:
        parts.append(f"{count - failed - passed} inconclusive")
    return f"{', '.join(parts)} of {_counted(count, 'cell')}"


def _with_damage(judged: Sequence[Judged]) -> str:
    """Beside `as expected` stands that records were damaged, as their cells' settings permit it."""
    if any(item.verdict.result != PASS for item in judged):
        return ""
    struck = [(item.facts, kind) for item in judged for kind in PREDICTED_KINDS if item.facts.set_count(kind)]
    if not struck:
        return ""
    is_any = any(is_any_allowed(facts, kind) for facts, kind in struck)
    return f" (damage that was {'allowed' if is_any else 'predicted'} included)"


def _records(judged: Sequence[Judged]) -> str:
    """How many records are accounted for. A log that was not read to its end does not account for every record."""
    whole = [item for item in judged if item.facts.cell.is_read_to_end]
    records = sum(item.facts.counts.sent_total for item in whole)
    if not records:
        return "no record accounted for"
    unread = len(judged) - len(whole)
    text = f"{records:,} records accounted for, one by one"
    return f"{text}; the logs of {_counted(unread, 'cell')} were not read to their end" if unread else text


def _cluster(judged: Sequence[Judged]) -> str:
    return ", ".join(dict.fromkeys(_engine(item) for item in judged)) or "unknown cluster"


def _engine(item: Judged) -> str:
    record = item.facts.cell.record
    name = product(record.engine, record.engine_version)
    return f"{name}, cluster of {_counted(record.brokers, 'broker')}" if record.brokers else name


def _client(judged: Sequence[Judged]) -> str:
    names = list(dict.fromkeys(item.facts.cell.record.client or "unknown" for item in judged))
    return f"client{'s' if len(names) > 1 else ''} {', '.join(names) or 'unknown'}"


def _host(judged: Sequence[Judged]) -> HostState:
    """What others took of the host while cells were measured, at its worst."""
    shares = [share for item in judged if (share := _share_of_others(item)) is not None]
    if not shares:
        return HostState(text="host noise not recorded", is_warning=False)
    struck = [item for item in judged if disturbance(item.facts)]
    if not struck:
        return HostState(text=f"quiet host (others took at most {max(shares):.0%})", is_warning=False)
    noun = "cell" if len(judged) == 1 else "cells"
    return HostState(
        text=f"host disturbed in {_of(len(struck), len(judged))} {noun}{_of_sweep(struck, judged)}, "
        f"others took up to {max(shares):.0%}",
        is_warning=any(item.facts.cell.kind is not CellKind.CHAOS for item in struck),
    )


def _of_sweep(struck: Sequence[Judged], judged: Sequence[Judged]) -> str:
    """How many of the cells that the doubts count, where that is not all: figures of speed come from the sweep."""
    swept = [item for item in judged if item.facts.cell.kind in _OF_SWEEP]
    if len(swept) in (0, len(judged)):
        return ""
    return f" ({_of(sum(item.facts.cell.kind in _OF_SWEEP for item in struck), len(swept))} of the sweep)"


def _of(count: int, whole: int) -> str:
    return f"all {whole:,}" if count == whole > 1 else f"{count:,} of {whole:,}"


def _share_of_others(item: Judged) -> float | None:
    """The share of all cores that other programs and other guests of the machine took."""
    noise = host_noise(item.facts, window_only=True)
    found = [noise[name] for name in (FOREIGN_SHARE, STEAL_SHARE) if name in noise]
    return sum(found) if found else None


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count != 1 else ''}"
