"""Effective settings of all cells: those that they share, and those that differ. Pure.

A screen has a table of those that differ, a row for each cell. Paper is too narrow for dozens of columns: it has a line
for each setting. Shown by tests/reports/test_reports_page.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reports.judge.judged import Judged
from reports.read.cell import Cell
from runlog.records.codec import to_json

_VALUES_MAX: Final = 8  # Paper shows so many values of one setting.
_NAMED_MAX: Final = 3  # cells of one value
_GROUPS: Final = ("client", "topic", "workload", "broker", "cell")
_FIRST: Final = ("acks", "enable.idempotence", "max.in.flight.requests.per.connection", "batch.size", "linger.ms",
                 "compression.type", "replication_factor", "min.insync.replicas", "partitions")  # fmt: skip
_PLACES: Final = frozenset(
    {("topic", "name"), ("cell", "seed"), ("client", "client.id"), ("client", "bootstrap.servers")}
)
_PLACE: Final = re.compile(r"listener|port|host|dir|voters|bootstrap|\bid$|cluster\.id|node\.id|broker\.id")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsRow:
    cell_id: str
    title: str
    values: tuple[str, ...]  # One for each name that differs.


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    shared: tuple[tuple[str, str], ...]
    different: tuple[str, ...]
    rows: tuple[SettingsRow, ...]
    in_words: tuple[tuple[str, str], ...]  # the same as the rows: a setting that differs, and which cells have what
    places: tuple[
        tuple[str, str], ...
    ]  # likewise of ports, names and seeds: no row has them, and no test is about them


def settings_of(judged: Sequence[Judged]) -> Settings:
    cells = [item.facts.cell for item in judged]
    flat = {cell.cell_id: _flat(cell) for cell in cells}
    shared: list[tuple[str, str]] = []
    different: list[str] = []
    places: list[str] = []
    for name in sorted({name for values in flat.values() for name in values}, key=_order):
        found = {values.get(name, "–") for values in flat.values()}
        if len(found) == 1:
            shared.append((name, found.pop()))
        else:
            (places if _is_place(name) else different).append(name)
    rows = tuple(
        SettingsRow(
            cell_id=cell.cell_id,
            title=cell.title,
            values=tuple(flat[cell.cell_id].get(name, "–") for name in different),
        )
        for cell in cells
    )
    in_words = tuple(
        (name, _words([(row.title, row.values[place]) for row in rows])) for place, name in enumerate(different)
    )
    return Settings(
        shared=tuple(shared),
        different=tuple(different),
        rows=rows,
        in_words=in_words,
        places=tuple(
            (name, _words([(cell.title, flat[cell.cell_id].get(name, "–")) for cell in cells])) for name in places
        ),
    )


def _order(name: str) -> tuple[int, int, str]:
    """What a reader asks for first: the client's settings, the knobs before the others; brokers and the cell last."""
    group, _, setting = name.partition(": ")
    return (_GROUPS.index(group), _FIRST.index(setting) if setting in _FIRST else len(_FIRST), name)


def _is_place(name: str) -> bool:
    """Whether the setting is a place or a name. These differ because clusters and topics are made anew."""
    group, _, setting = name.partition(": ")
    return (group, setting) in _PLACES or (group == "broker" and _PLACE.search(setting) is not None)


def _words(column: Sequence[tuple[str, str]]) -> str:
    """A text from (title, value) of each cell: the rarer values with their cells, then the value of all others."""
    cells_of: dict[str, list[str]] = {}
    for title, value in column:
        cells_of.setdefault(value, []).append(title)
    if len(cells_of) > _VALUES_MAX:
        return f"{len(cells_of)} values in {len(column)} cells: the table is on the screen"
    *rarer, (most, _) = sorted(cells_of.items(), key=lambda item: len(item[1]))
    return "; ".join([*(f"{value} in {_cells(titles)}" for value, titles in rarer), f"{most} in the others"])


def _cells(titles: Sequence[str]) -> str:
    """Repetitions have the same title."""
    own = list(dict.fromkeys(titles))
    return ", ".join(own) if len(own) <= _NAMED_MAX else f"{len(titles)} cells"


def _flat(cell: Cell) -> dict[str, str]:
    record, effective = cell.record, cell.record.outcome.effective
    topic = {
        "name": record.topic.name,
        "partitions": record.topic.partitions,
        "replication_factor": record.topic.replication_factor,
        **record.topic.config,
        **effective.topic,
    }
    own = {
        "client": record.client,
        "engine": record.engine,
        "path": record.path,
        "security": record.security,
        "seed": record.seed,
    }
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
