"""Which records get a story in the report, and the rows that each of them left in the run log.

Shown by tests/reports/test_reports_page.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reports.analyse import queries
from reports.analyse.record_sets import Kept
from reports.evidence.group_story import DELIVERY_STORIES
from reports.read.model import (
    MISROUTED,
    PREDICTED_KINDS,
    CopyRow,
    IdentityRange,
    IdentitySet,
    LogRow,
    RecvRow,
    SendRow,
    SetComparison,
    Story,
)
from reports.read.tables import LONG, TEXT, small_table

STORIES_PER_KIND: Final = 2
_Sets = Mapping[str, Mapping[str, SetComparison]]  # cell -> kind
_Row = Mapping[Hashable, Any]  # A row of a pandas frame.
_Key = tuple[str, int, int, int]  # cell, producer, incarnation, seq


def stories(kept: Kept, cell_ids: Iterable[str], sets: _Sets) -> dict[str, tuple[Story, ...]]:
    """The stories by cell. A cell without damage has none."""
    known = set(cell_ids)
    examples = [item for item in _examples(sets) if item[0] in known]
    if not examples:
        return {}
    rows = _rows(kept, sorted({_key(cell, one) for cell, _, one in examples}))
    found: dict[str, list[Story]] = defaultdict(list)
    for cell, kind, one in examples:
        own = rows[_key(cell, one)]
        found[cell].append(
            Story(
                kind=kind,
                producer=one.producer,
                incarnation=one.incarnation,
                seq=one.first_seq,
                send=tuple(sorted(own.send, key=lambda row: row.offset)),
                log=tuple(sorted(own.log, key=lambda row: row.offset)),
                recv=tuple(sorted(own.recv, key=lambda row: row.offset)),
                copies=tuple(sorted(own.copies, key=lambda row: row.offset)),
            )
        )
    return {cell: tuple(items) for cell, items in found.items()}


def _examples(sets: _Sets) -> list[tuple[str, str, IdentityRange]]:
    """For each cell and kind of damage the records whose story is told: from the middle of the largest ranges."""
    chosen: list[tuple[str, str, IdentityRange]] = []
    for cell, kinds in sets.items():
        for kind in (*PREDICTED_KINDS, MISROUTED, *DELIVERY_STORIES):
            observed = kinds[kind].observed if kind in kinds else IdentitySet()
            largest = sorted(observed.ranges, key=lambda item: -item.count)[:STORIES_PER_KIND]
            for item in largest:
                middle = (item.first_seq + item.last_seq) // 2
                one = IdentityRange(
                    producer=item.producer, incarnation=item.incarnation, first_seq=middle, last_seq=middle
                )
                chosen.append((cell, kind, one))
    return chosen


def _key(cell: str, one: IdentityRange) -> _Key:
    return cell, one.producer, one.incarnation, one.first_seq


@dataclass(slots=True)
class _Rows:
    send: list[SendRow] = field(default_factory=list)
    log: list[LogRow] = field(default_factory=list)
    recv: list[RecvRow] = field(default_factory=list)
    copies: list[CopyRow] = field(default_factory=list)


def _rows(kept: Kept, keys: list[_Key]) -> dict[_Key, _Rows]:
    columns = {"cell": TEXT, "producer": LONG, "incarnation": LONG, "seq": LONG}
    small_table(kept.spark, "examples", columns, list(keys))
    found = {key: _Rows() for key in keys}
    for row in kept.collect(queries.STORIES).to_dict("records"):
        _ADD[str(row["stream"])](found[_key_of(row)], row)
    for row in kept.collect(queries.COPY_STORIES).to_dict("records"):
        _add_copy(found[_key_of(row)], row)
    return found


def _key_of(row: _Row) -> _Key:
    return str(row["cell"]), int(row["producer"]), int(row["incarnation"]), int(row["seq"])


def _add_send(rows: _Rows, row: _Row) -> None:
    rows.send.append(
        SendRow(
            partition=int(row["partition"]),
            offset=int(row["offset"]),
            status=int(row["code"]),
            intended_us=int(row["intended_us"]),
            sent_us=int(row["sent_us"]),
            acked_us=int(row["t_us"]),
        )
    )


def _add_log(rows: _Rows, row: _Row) -> None:
    rows.log.append(LogRow(partition=int(row["partition"]), offset=int(row["offset"]), leader_epoch=int(row["code"])))


def _add_recv(rows: _Rows, row: _Row) -> None:
    rows.recv.append(
        RecvRow(
            partition=int(row["partition"]),
            offset=int(row["offset"]),
            consumer=int(row["code"]),
            polled_us=int(row["t_us"]),
        )
    )


def _add_copy(rows: _Rows, row: _Row) -> None:
    rows.copies.append(
        CopyRow(
            partition=int(row["partition"]),
            offset=int(row["offset"]),
            copier=int(row["copier"]),
            copier_incarnation=int(row["copier_incarnation"]),
            txn=int(row["txn"]),
            outcome=int(row["outcome"]),
        )
    )


_ADD: Final[Mapping[str, Callable[[_Rows, _Row], None]]] = {"send": _add_send, "log": _add_log, "recv": _add_recv}
