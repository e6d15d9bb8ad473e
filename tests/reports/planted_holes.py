"""Holes in planted cases: rows or lines of a written cell are taken away, and the harness says so, as it would.

Each hole is made in a part of the cell's course (`PHASES`), or everywhere, or here and there. The lists of files are
written anew, so that the hole is told by its record alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from runlog.records.codec import to_json
from runlog.records.holes import Hole, HoleKind
from runlog.records.hosts import HostState, LoadHostRecord
from runlog.streams.inventory import take_inventory

Row = dict[str, Any]
PHASES: Final[Mapping[str, Callable[[Sequence[Row], random.Random], list[Row]]]] = {
    # what is left
    "head": lambda rows, rng: list(rows[len(rows) // 3 :]),
    "middle": lambda rows, rng: [*rows[: len(rows) // 3], *rows[2 * len(rows) // 3 :]],
    "tail": lambda rows, rng: list(rows[: 2 * len(rows) // 3]),
    "all": lambda rows, rng: [],
    "scattered": lambda rows, rng: [row for row in rows if rng.random() < 0.6],
}
_STREAM_OF: Final = {
    HoleKind.SEND_ROWS: ("send", "acked_us"),
    HoleKind.RECV_ROWS: ("recv", "polled_us"),
    HoleKind.LOG_ROWS: ("log", "intended_us"),
    HoleKind.BATCHES_ROWS: ("batches", "base_offset"),
    HoleKind.COPIES_ROWS: ("copies", "offset"),
    HoleKind.AUDIT_ROWS: ("audit", "polled_us"),
}
_NOT_OF_JOURNALS: Final = {
    "high_watermark": HoleKind.HIGH_WATERMARKS,
    "leader": HoleKind.LEADERS,
    "exited": HoleKind.PROCESS_ENDS,
    "replica_divergence": HoleKind.REPLICAS,
}
_HISTORY: Final = (HoleKind.HISTORY, HoleKind.HISTORY_FILE)
HOSTS: Final = ("left", "right")  # producers by their number: even ones on the left


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    kind: HoleKind
    phase: str
    has_load_hosts: bool


def plans() -> list[Plan]:
    """Every kind in every phase, with and without load hosts. Each round has every kind once. A load host is lost only
    where there is one."""
    phases, kinds = list(PHASES), list(HoleKind)
    return [
        Plan(
            kind=kind,
            phase=phases[(round_number + number) % len(phases)],
            has_load_hosts=kind is HoleKind.LOAD_HOST or (round_number // len(phases) + number) % 2 == 0,
        )
        for round_number in range(2 * len(phases))
        for number, kind in enumerate(kinds)
    ]


def make_hole(run_dir: Path, whole: str, holed: str, plan: Plan) -> None:
    """In the cell `holed`. Both are told to have run on load hosts, if the plan says so."""
    rng = random.Random(f"{holed}/{plan}")
    if plan.has_load_hosts:
        for cell_id in (whole, holed):
            _change(run_dir, cell_id, lambda outcome: outcome.update(load_hosts=_hosts(HostState.DONE)))
    if plan.kind is HoleKind.LOAD_HOST:
        _lose_host(run_dir, holed, plan, rng)
        return
    if plan.kind is HoleKind.FINAL_READ:
        _change(run_dir, holed, lambda outcome: outcome["final_read"].update(complete=False, reason="no leader"))
        _thin(run_dir, holed, "log", "offset", PHASES[plan.phase], rng)
        _thin(run_dir, holed, "batches", "base_offset", PHASES[plan.phase], rng)
        return
    kind = plan.kind
    if kind in (HoleKind.UNKNOWN, HoleKind.CELL_FILE):  # it may be anywhere: somewhere it is
        kind = rng.choice([*_STREAM_OF, HoleKind.CLUSTER_FILE, HoleKind.HISTORY])
    if kind in _STREAM_OF:
        _thin(run_dir, holed, *_STREAM_OF[kind], PHASES[plan.phase], rng)
    else:
        _thin_lines(run_dir, holed, kind, PHASES[plan.phase], rng)
    hole = Hole(kind=plan.kind, what=f"nobody has {plan.kind} of the {plan.phase}")
    _change(run_dir, holed, lambda outcome: outcome.update(holes=[to_json(hole)]))


def _hosts(right: HostState) -> list[Row]:
    return [
        to_json(
            LoadHostRecord(
                name=name,
                state=right if name == "right" else HostState.DONE,
                reason="was not heard of" if name == "right" and right is not HostState.DONE else "",
                producers=tuple(range(number, 100, 2)),
                is_gathered=name == "left" or right is HostState.DONE,
            )
        )
        for number, name in enumerate(HOSTS)
    ]


def _lose_host(run_dir: Path, cell_id: str, plan: Plan, rng: random.Random) -> None:
    """Sends of the producers there, and what its readers got."""

    def lose(rows: Sequence[Row], rng: random.Random) -> list[Row]:
        own = [row for row in rows if row["producer"] % 2]
        return [row for row in rows if not row["producer"] % 2] + PHASES[plan.phase](own, rng)

    _thin(run_dir, cell_id, "send", "acked_us", lose, rng)
    _thin(run_dir, cell_id, "recv", "polled_us", PHASES[plan.phase], rng)
    _change(run_dir, cell_id, lambda outcome: outcome.update(load_hosts=_hosts(HostState.DEAD)))


def _thin(
    run_dir: Path,
    cell_id: str,
    stream: str,
    by: str,
    keep: Callable[[Sequence[Row], random.Random], list[Row]],
    rng: random.Random,
) -> None:
    """All parts of a stream become one, in order of `by`, with the rows that `keep` leaves."""
    parts = sorted((run_dir / stream / f"cell={cell_id}").glob("*.parquet"))
    if not parts:
        return
    table = pa.concat_tables([pq.ParquetFile(part).read() for part in parts])
    rows = keep(sorted(table.to_pylist(), key=lambda row: row[by]), rng)
    for part in parts[1:]:
        part.unlink()
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), parts[0])
    _list_anew(run_dir, cell_id)


def _thin_lines(
    run_dir: Path,
    cell_id: str,
    kind: HoleKind,
    keep: Callable[[Sequence[Row], random.Random], list[Row]],
    rng: random.Random,
) -> None:
    """Lines of the kind; what no planted case has stays as it is."""
    path = run_dir / "cells" / cell_id / ("history.jsonl" if kind in _HISTORY else "cluster.jsonl")
    lines = sorted((json.loads(line) for line in path.read_text().splitlines()), key=lambda line: line["t_us"])
    own = [line for line in lines if kind in (*_HISTORY, HoleKind.CLUSTER_FILE) or _kind_of(line) is kind]
    left = keep(own, rng)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines if line not in own or line in left))
    _list_anew(run_dir, cell_id)


def _kind_of(line: Row) -> HoleKind:
    if line["kind"] == "truncated" and line["source"] in ("log_dump", "wire"):
        return HoleKind.DEAD_LOGS
    return _NOT_OF_JOURNALS.get(line["kind"], HoleKind.JOURNALS)


def _change(run_dir: Path, cell_id: str, change: Callable[[Row], object]) -> None:
    path = run_dir / "cells" / cell_id / "cell.json"
    document = json.loads(path.read_text())
    change(document["outcome"])
    path.write_text(json.dumps(document))


def _list_anew(run_dir: Path, cell_id: str) -> None:
    path = run_dir / "cells" / cell_id / "cell.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "files": to_json(take_inventory(run_dir, cell_id))}))
