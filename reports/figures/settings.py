"""Effective settings of all cells: those that they share, and a table of those that differ. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.judge.judged import Judged
from reports.read.cell import Cell
from runlog.records.codec import to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsRow:
    cell_id: str
    title: str
    values: tuple[str, ...]  # by the names that differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    shared: tuple[tuple[str, str], ...]
    different: tuple[str, ...]
    rows: tuple[SettingsRow, ...]


def settings_of(judged: Sequence[Judged]) -> Settings:
    cells = [item.facts.cell for item in judged]
    flat = {cell.cell_id: _flat(cell) for cell in cells}
    shared: list[tuple[str, str]] = []
    different: list[str] = []
    for name in sorted({name for values in flat.values() for name in values}):
        found = {values.get(name, "–") for values in flat.values()}
        if len(found) == 1:
            shared.append((name, found.pop()))
        else:
            different.append(name)
    rows = tuple(
        SettingsRow(
            cell_id=cell.cell_id,
            title=cell.title,
            values=tuple(flat[cell.cell_id].get(name, "–") for name in different),
        )
        for cell in cells
    )
    return Settings(shared=tuple(shared), different=tuple(different), rows=rows)


def _flat(cell: Cell) -> dict[str, str]:
    record, effective = cell.record, cell.record.outcome.effective
    topic = {
        "name": record.topic.name,
        "partitions": record.topic.partitions,
        "replication_factor": record.topic.replication_factor,
        **record.topic.config,
        **effective.topic,
    }
    own = {"client": record.client, "engine": record.engine, "path": record.path, "seed": record.seed}
    groups: dict[str, Mapping[str, object]] = {
        "client": cell.effective_client,
        "topic": topic,
        "broker": effective.broker,
        "workload": to_json(record.workload),
        "cell": own,
    }
    return {
        f"{group}: {name}": json.dumps(value) if isinstance(value, dict | list) else str(value)
        for group, values in groups.items()
        for name, value in values.items()
        if value is not None and value != ""
    }
