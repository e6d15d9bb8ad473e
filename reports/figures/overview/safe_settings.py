"""Which settings kept every record under the faults of a run: by the kind of damage, and as whole configurations. Pure.

A setting that kept the order may still duplicate, so a fragment such as "1 in flight" is named with the kind of damage
that it was tried against. Shown by tests/reports/test_reports_overview.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.figures.overview.damage import NO_FAULT, DamageCell, DamageRow
from reports.judge.checks import PASS
from reports.read.model import PREDICTED_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeSettings:
    """Settings under which faults caused no damage of one kind: `lost`, `duplicated` or `reordered`."""

    kind: str
    settings: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"nothing {self.kind} with {'; '.join(self.settings)}"


def safe_settings(rows: Sequence[DamageRow]) -> tuple[SafeSettings, ...]:
    """What was damaged under one fault is not called safe because it was not under another."""
    found: list[SafeSettings] = []
    for kind in PREDICTED_KINDS:
        tried = [cell for row in rows if kind in row.kinds for cell in row.cells]
        struck = {cell.setting for cell in tried if not _is_sound(cell)}
        kept = dict.fromkeys(cell.setting for cell in tried if cell.setting not in struck)
        if kept:
            found.append(SafeSettings(kind=kind, settings=tuple(kept)))
    return tuple(found)


def safe_whole(rows: Sequence[DamageRow]) -> str:
    """The configurations that met every fault and were damaged by none, or that there is none. Empty where there was
    but one fault: its row says it."""
    faults = [row for row in rows if row.fault != NO_FAULT]
    if len(faults) < 2:
        return ""
    struck = {cell.promise for row in rows for cell in row.cells if not _is_sound(cell)}
    met = [{cell.promise for cell in row.cells} for row in faults]
    whole = [one for one in dict.fromkeys(cell.promise for cell in faults[0].cells) if all(one in own for own in met)]
    safe = [one.text() for one in whole if one not in struck]
    if not safe:
        return f"no one configuration met all {len(faults)} faults without damage: safety is known piece by piece only"
    return f"met all {len(faults)} faults without damage: {'; '.join(safe)}"


def _is_sound(cell: DamageCell) -> bool:
    return cell.result == PASS and not cell.is_damaged
