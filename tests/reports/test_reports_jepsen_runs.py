"""Histories of runs: what was planted into a run directory is found again, and every line is one of Jepsen's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports.jepsen.check import Checked, check
from reports.jepsen.export import ExportError, history_lines
from reports.jepsen.from_run import COLUMNS, operations_of, transaction_version_of
from reports.jepsen.operations import Action, History, Operation, Outcome, history_of, read_history
from reports.jepsen.terms import terms_of, told_settings
from reports.read.cell import Cell
from reports.read.run_files import read_run
from runlog.records.cell import CellRecord
from runlog.records.codec import from_document
from runlog.records.history import TransactionEnded, TransactionOutcome
from tests.reports.synthetic_run import Damage, SyntheticCell, write_run

DAMAGE = Damage(lost_batches=3, duplicated_batches=4, recovered=5, unexpected=2, dup_delivered=3)


def _history(run: Path) -> History:
    (cell,) = read_run(run).cells
    return read_history("\n".join(history_lines(run, cell)))


def _checked(history: History) -> Checked:
    return check(history, terms_of(told_settings(history.settings)))


def _identities(checked: Checked, anomaly: str) -> set[tuple[int, ...]]:
    return {tuple(map(int, str(case.identity[1]).split("-"))) for case in checked.cases(anomaly)}


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_what_was_planted_into_a_run_is_found_in_its_history(tmp_path: Path, seed: int) -> None:
    cell = SyntheticCell(cell_id="a", damage=DAMAGE, seed=seed).build()
    history = _history(write_run(tmp_path / "run", [cell]))
    checked = _checked(history)
    assert _identities(checked, "lost-write") == cell.truth.sets["lost"]
    assert _identities(checked, "duplicate") == cell.truth.sets["duplicated"]
    assert _identities(checked, "unexpected-read") == cell.truth.sets["unexpected"]
    assert not checked.cases("unseen")
    sends = Counter(op.type for op in history.operations if op.f == Action.SEND)
    assert (sends[Outcome.OK], sends[Outcome.INFO]) == (cell.truth.acked, cell.truth.unknown)
    assert told_settings(history.settings)["acks"] == "1"


@pytest.mark.thorough
def test_a_calm_run_shows_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [SyntheticCell(cell_id="a").build()])
    assert _checked(_history(run)).found == ()


@pytest.mark.thorough
def test_lines_are_in_order_of_time_and_each_process_does_one_thing_at_a_time(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [SyntheticCell(cell_id="a", damage=DAMAGE).build()])
    (cell,) = read_run(run).cells
    columns = {name: _columns(run, name) for name in COLUMNS}
    operations = list(operations_of(cell, columns))
    assert [operation.index for operation in operations] == list(range(len(operations)))
    times = [operation.time_ns for operation in operations]
    assert times == sorted(times)
    busy: dict[int | str, Operation] = {}
    lost: set[int | str] = set()
    for operation in operations:
        if not operation.is_client:
            continue
        assert operation.process not in lost, "Jepsen gives a process that crashed no further operation"
        if operation.type is Outcome.INVOKE:
            assert operation.process not in busy
            busy[operation.process] = operation
        else:
            begun = busy.pop(operation.process)
            assert (begun.f, begun.time_ns < operation.time_ns) == (operation.f, True)
            if operation.type is Outcome.INFO:
                lost.add(operation.process)
    assert not busy
    assert lost, "sends of unknown fate were planted"
    history_of(operations)  # raises where it is none


def _columns(run: Path, stream: str) -> dict[str, Any]:
    from runlog.streams.parquet import read_stream

    table = read_stream(run, stream, "a")
    return {name: table.column(name).to_numpy().astype(np.int64) for name in COLUMNS[stream]}


def test_a_cell_without_rows_is_refused(tmp_path: Path) -> None:
    cell = SyntheticCell(cell_id="a").build()
    run = write_run(tmp_path / "run", [cell])
    with pytest.raises(ExportError, match="cell b: its run log has no rows"):
        history_lines(run, Cell(cell_id="b", record=read_run(run).cells[0].record))


# --- transactions of copiers ---


def _rows(stream: str, *rows: dict[str, int]) -> dict[str, Any]:
    return {name: np.array([row.get(name, 0) for row in rows], dtype=np.int64) for name in COLUMNS[stream]}


def _copier_cell(*ended: TransactionEnded, copies_complete: bool = True) -> Cell:
    document = {
        "cell_id": "c",
        "topic": {"name": "t", "partitions": 2},
        "workload": {"readers": [{"name": "copy", "copies": True}, {"name": "audit", "reads": "copies"}]},
        "outcome": {
            "final_read": {"complete": True, "reason": "", "end_offsets": {"0": 3, "1": 0}},
            "copies": {"complete": copies_complete},
        },
    }
    return Cell(cell_id="c", record=from_document(CellRecord, document), history_lines=ended)


def _ended(number: int, outcome: TransactionOutcome, at_us: int) -> TransactionEnded:
    return TransactionEnded(
        t_us=at_us, incarnation=0, copier=7, number=number, outcome=outcome, asked_us=at_us - 5, member="m"
    )


_SENT = [{"seq": seq, "offset": seq, "sent_us": 10 + seq, "acked_us": 20 + seq} for seq in range(3)]
_LOGGED = [{"seq": seq, "offset": seq} for seq in range(3)]


def _copy(seq: int, partition: int, offset: int, number: int, outcome: int) -> dict[str, int]:
    return {"seq": seq, "partition": partition, "offset": offset, "copier": 7, "txn": number, "outcome": outcome}


def _of_copies(cell: Cell, copies: list[dict[str, int]], audit: list[dict[str, int]]) -> Checked:
    columns = {
        "send": _rows("send", *_SENT),
        "recv": _rows("recv"),
        "log": _rows("log", *_LOGGED),
        "copies": _rows("copies", *copies),
        "audit": _rows("audit", *audit),
    }
    return _checked(history_of(operations_of(cell, columns)))


def _got(seq: int, partition: int, offset: int) -> dict[str, int]:
    return {"seq": seq, "partition": partition, "offset": offset, "consumer": 9, "reader": 1, "polled_us": 900}


COMMITTED, ABORTED = TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED


def test_a_transaction_reads_the_originals_and_sends_their_copies() -> None:
    cell = _copier_cell(_ended(1, COMMITTED, 500))
    columns = {
        "send": _rows("send", *_SENT),
        "recv": _rows("recv"),
        "log": _rows("log", *_LOGGED),
        "copies": _rows("copies", _copy(0, 0, 0, 1, 1), _copy(1, 1, 0, 1, 1)),
        "audit": _rows("audit"),
    }
    (txn,) = [op for op in history_of(operations_of(cell, columns)).operations if op.f == Action.TXN]
    assert txn.type is Outcome.OK
    assert txn.reads == {0: [(0, "0-0-0"), (1, "0-0-1")]}
    assert [tuple(send) for send in txn.sends] == [(2, 0, "0-0-0@7-0-1"), (3, 0, "0-0-1@7-0-1")]
    assert txn.client == "copier-7"


def test_a_copy_of_an_aborted_transaction_that_was_read_is_an_aborted_read() -> None:
    """The same records are copied again by the next transaction, which is committed: that copy is not meant."""
    cell = _copier_cell(_ended(1, ABORTED, 500), _ended(2, COMMITTED, 600))
    copies = [_copy(0, 0, 0, 1, 0), _copy(1, 0, 1, 1, 0), _copy(0, 0, 3, 2, 1), _copy(1, 0, 4, 2, 1)]
    calm = _of_copies(cell, copies, [_got(0, 0, 3), _got(1, 0, 4)])
    assert calm.found == ()
    found = _of_copies(cell, copies, [_got(1, 0, 1), _got(0, 0, 3), _got(1, 0, 4)])
    assert [case.identity for case in found.cases("G1a")] == [(2, "0-0-1@7-0-1")]


@pytest.mark.parametrize(("reader", "is_aborted_read"), [(0, True), (1, False)])
def test_only_a_committed_reader_must_not_get_what_was_aborted(reader: int, is_aborted_read: bool) -> None:
    """The history of a run says isolation.level=read_committed, and the suite has a reader that has another one."""
    document = {
        "cell_id": "c",
        "topic": {"name": "t", "partitions": 1},
        "workload": {
            "commit_interval_ms": 100,
            "readers": [{"name": "a"}, {"name": "b", "properties": {"isolation.level": "read_uncommitted"}}],
        },
        "outcome": {"final_read": {"complete": True, "reason": "", "end_offsets": {"0": 3}}},
    }
    cell = Cell(cell_id="c", record=from_document(CellRecord, document))
    got = [{"seq": seq, "offset": seq, "consumer": 9, "reader": reader, "polled_us": 900 + seq} for seq in (0, 1, 2)]
    sent = [*_SENT[:1], {**_SENT[1], "status": 3, "offset": -1}, *_SENT[2:]]
    columns = {
        "send": _rows("send", *sent),
        "recv": _rows("recv", *got),
        "log": _rows("log", _LOGGED[0], _LOGGED[2]),
        "uncommitted": _rows("uncommitted", _LOGGED[1]),
        "copies": _rows("copies"),
        "audit": _rows("audit"),
    }
    found = _checked(history_of(operations_of(cell, columns)))
    assert [case.identity for case in found.cases("G1a")] == ([(0, "0-0-1")] if is_aborted_read else [])
    assert is_aborted_read or found.found == ()


def test_a_transaction_of_which_a_part_is_aborted_is_torn() -> None:
    cell = _copier_cell(_ended(1, COMMITTED, 500))
    found = _of_copies(cell, [_copy(0, 0, 0, 1, 1), _copy(1, 1, 0, 1, 0)], [])
    assert len(found.cases("torn-txn")) == 1
    assert [case.identity for case in found.cases("lost-write")] == [(3, "0-0-1@7-0-1")]


def test_nothing_is_claimed_of_a_copiers_topic_that_was_not_read_to_its_end() -> None:
    cell = _copier_cell(_ended(1, COMMITTED, 500), copies_complete=False)
    found = _of_copies(cell, [_copy(0, 0, 0, 1, 1), _copy(1, 1, 0, 1, 0)], [])
    assert not found.cases("torn-txn")
    assert [case.identity for case in found.cases("unseen")] == [(3, "0-0-1@7-0-1")]


def test_a_copy_that_was_delivered_and_is_nowhere_was_never_sent() -> None:
    cell = _copier_cell(_ended(1, COMMITTED, 500))
    found = _of_copies(cell, [_copy(0, 0, 0, 1, 1)], [_got(0, 0, 0), _got(2, 0, 5)])
    assert [case.identity for case in found.cases("unexpected-read")] == [(2, "0-0-2@?")]


@pytest.mark.parametrize(
    ("client", "engine", "release", "version"),
    [
        ("java", "kafka", "Apache Kafka 4.3.1", 2), ("java", "kafka", "3.9.1", 1), ("reference", "reference", "", 2),
        ("confluent", "kafka", "4.3.1", 1), ("java==3.7.0", "kafka", "4.3.1", 1), ("java", "external", "", 1),
    ],
)  # fmt: skip
def test_transactions_have_the_newest_version_where_client_and_brokers_know_it(
    client: str, engine: str, release: str, version: int
) -> None:
    document = {"cell_id": "c", "client": client, "engine": engine, "engine_version": release}
    assert transaction_version_of(Cell(cell_id="c", record=from_document(CellRecord, document))) == version
