"""The history of one cell of a run, in the shape of Jepsen's Kafka workload.

Pure: takes the cell and the columns of its streams, and gives operations in order of time. What becomes what:

- A send of a producer is an operation `:send` of one value. A producer has many in flight, and a process of Jepsen
  does one thing at a time. So a producer has as many processes as it had sends in flight, and one whose fate is unknown
  takes its process with it.
- A poll begins where the consumer's poll before ended, because nobody recorded when it was asked for. So it claims
  least.
- A transaction of a copier is an operation `:txn` that polls the originals and sends their copies. What it read is
  known from what it copied. Copies that are nowhere in the copiers' topic are not in the history.
- The final read is a process of its own that polls every log from its start. Of the copiers' topic it reads what is
  committed.
- Faults, and the settings that decide what is lawful, are operations of the process :nemesis.

A value is the identity of a record, PRODUCER-INCARNATION-SEQ. That of a copy ends in @COPIER-INCARNATION-TRANSACTION,
so it is unique. A key is the number of a partition; the copiers' topic has the numbers after those of the load.
Shown by tests/reports/test_reports_jepsen_runs.py.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reports.evidence.configuration import configuration_of
from reports.evidence.history import committed_readers
from reports.evidence.removals import removals
from reports.jepsen.check import REMOVED
from reports.jepsen.edn import Form, Map
from reports.jepsen.operations import Action, Operation, Outcome, Poll, Send
from reports.jepsen.terms import READ_COMMITTED, settings_of
from reports.read.cell import Cell
from runlog.records.fault import FaultPhase
from runlog.records.history import TransactionBegan, TransactionEnded, TransactionOutcome
from runlog.records.workload import GROUP, SHARE
from runlog.streams.schema import SendStatus

Column = NDArray[np.int64]
Columns = Mapping[str, Column]
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "send": ("producer", "incarnation", "seq", "partition", "status", "sent_us", "acked_us", "offset"),
    "recv": ("consumer", "generation", "partition", "offset", "producer", "incarnation", "seq", "polled_us", "reader"),
    "log": ("partition", "offset", "producer", "incarnation", "seq"),
    "uncommitted": ("partition", "offset", "producer", "incarnation", "seq"),
    "copies": (
        "partition", "offset", "producer", "incarnation", "seq", "copier", "copier_incarnation", "txn", "outcome",
    ),
    "audit": ("consumer", "generation", "partition", "offset", "producer", "incarnation", "seq", "polled_us", "reader"),
}  # fmt: skip
RECORDS_OF_A_POLL: Final = 1_000  # of the final read
NEMESIS: Final = "nemesis"
_STEP_NS: Final = 1_000  # between what has no time of its own
_OUTCOMES: Final = {
    SendStatus.ACKED: Outcome.OK,
    SendStatus.FAILED: Outcome.FAIL,
    SendStatus.UNKNOWN: Outcome.INFO,
    SendStatus.ABORTED: Outcome.FAIL,
}
_TRANSACTION_OUTCOMES: Final = {
    TransactionOutcome.COMMITTED: Outcome.OK,
    TransactionOutcome.ABORTED: Outcome.FAIL,
    TransactionOutcome.UNKNOWN: Outcome.INFO,
}
_COMMITTED: Final = 1
_NEW_EPOCH_CLIENTS: Final = ("reference", "java")  # know transaction.version 2 in the version that is shipped
_END, _BEGIN = 0, 1  # at one time, what ends comes first

Build = Callable[[int, bool], Operation]  # of a number, and whether its end is wanted
Identity = tuple[int, int, int]
Transaction = tuple[int, int, int]  # copier, its incarnation, number


@dataclass(slots=True)
class _Spans:
    """Operations of one kind: when each begins and ends, its process, and what `_build` needs to make it."""

    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)

    def add(self, begin_ns: int, end_ns: int, process: int) -> None:
        assert begin_ns < end_ns
        self.begins.append(begin_ns)
        self.ends.append(end_ns)
        self.processes.append(process)


def operations_of(cell: Cell, columns: Mapping[str, Columns], *, run: str = "") -> Iterator[Operation]:
    """`columns`: of each stream of COLUMNS, all of equal length. Empty streams are as long as nothing."""
    return _Writer(cell, columns, run).operations()


class _Writer:
    def __init__(self, cell: Cell, columns: Mapping[str, Columns], run: str) -> None:
        self._cell, self._columns, self._run = cell, columns, run
        self._count = 0  # processes so far
        self._first_copy_key = _first_copy_key(cell, columns)
        self._copies = _CopyPlaces(columns["copies"])
        self._places = _places(columns)
        # The history says that readers have isolation.level=read_committed. What other readers got of transactions that
        # were aborted is lawful for them, and stands in no history.
        self._committed = frozenset(committed_readers(cell))
        undone = columns.get("uncommitted", {})
        self._undone = {
            (int(undone["partition"][row]), int(undone["offset"][row]), _identity(undone, row))
            for row in range(len(undone["seq"]) if undone else 0)
        }
        times = [columns["send"]["sent_us"], columns["recv"]["polled_us"], columns["audit"]["polled_us"]]
        first = min((int(column.min()) for column in times if len(column)), default=0)
        last = max((int(column.max()) for column in (*times, columns["send"]["acked_us"]) if len(column)), default=0)
        lines_us = [line.t_us for line in cell.history_lines if isinstance(line, TransactionBegan | TransactionEnded)]
        self._start_ns = min([first, *lines_us]) * 1_000 - 4 * _STEP_NS
        self._end_ns = max([last, *lines_us]) * 1_000 + 4 * _STEP_NS

    def operations(self) -> Iterator[Operation]:
        yield from self._numbered(self._in_order())

    def _numbered(self, operations: Iterator[Operation]) -> Iterator[Operation]:
        shift_ns = -min(self._start_ns, 0)  # Jepsen's times begin at 0
        for index, operation in enumerate(operations):
            yield replace(operation, index=index, time_ns=operation.time_ns + shift_ns)

    def _in_order(self) -> Iterator[Operation]:
        yield self._settings()
        parts = [self._sends(), self._transactions(), *self._readers("recv"), *self._readers("audit"), self._faults()]
        yield from heapq.merge(*parts, key=_order)
        yield from self._final_read()

    def _process(self) -> int:
        self._count += 1
        return self._count - 1

    def _settings(self) -> Operation:
        cell = self._cell
        told: dict[str, Form] = {"run": self._run, "cell": cell.cell_id}
        told |= settings_of(configuration_of(cell), READ_COMMITTED, transaction_version_of(cell))
        topic = cell.record.topic.name or "topic"
        told["keys"] = Map({key: f"{topic} {key}" for key in self._load_keys()})
        if copies := self._copy_keys():
            first = self._first_copy_key
            told["copies"] = Map({key: f"copies of {topic} {key - first}" for key in copies})
        ranges: dict[int, list[tuple[int, int]]] = {}
        for item in removals(cell).found:
            ranges.setdefault(item.partition, []).append((item.from_offset, item.end_offset))
        if ranges:
            told[REMOVED] = Map({key: tuple(found) for key, found in ranges.items()})
        return Operation(
            index=0, time_ns=self._start_ns, type=Outcome.INFO, process=NEMESIS, f=Action.SETTINGS, settings=told
        )

    def _load_keys(self) -> list[int]:
        found = {int(key) for key in self._cell.record.outcome.final_read.end_offsets}
        for stream in ("send", "recv", "log"):
            found |= {int(key) for key in np.unique(self._columns[stream]["partition"])}
        return sorted(key for key in found if key >= 0)

    def _copy_keys(self) -> list[int]:
        found = {int(key) for stream in ("copies", "audit") for key in np.unique(self._columns[stream]["partition"])}
        return sorted(key + self._first_copy_key for key in found)

    def _sends(self) -> Iterator[Operation]:
        rows = self._columns["send"]
        order = np.argsort(rows["sent_us"], kind="stable")
        spans, outcomes = _Spans(), [_OUTCOMES[SendStatus(int(status))] for status in rows["status"][order]]
        lanes = _Lanes(self)
        for row, outcome in zip(order, outcomes, strict=True):
            begin = int(rows["sent_us"][row]) * 1_000
            acked_us = int(rows["acked_us"][row])
            end = self._end_ns if outcome is Outcome.INFO and acked_us < 0 else max(acked_us * 1_000, begin + 1)
            owner = (int(rows["producer"][row]), int(rows["incarnation"][row]))
            spans.add(begin, end, lanes.take(owner, begin, end, is_lost=outcome is Outcome.INFO))

        def build(number: int, is_end: bool) -> Operation:
            row = order[number]
            identity = _identity(rows, row)
            partition = int(rows["partition"][row])
            if partition < 0:
                place = self._places.get(identity)
                partition = place[0] if place else -1
            outcome = outcomes[number] if is_end else Outcome.INVOKE
            told = int(rows["offset"][row])
            offset = told if outcome is Outcome.OK and told >= 0 else None
            key = partition if partition >= 0 else None
            value = (Send(key, offset, _value(identity)),)
            return Operation(
                index=0,
                time_ns=0,
                type=outcome,
                process=0,
                f=Action.SEND,
                value=value,
                client=f"producer-{identity[0]}",
            )

        return _merged(spans, build)

    def _transactions(self) -> Iterator[Operation]:
        rows = self._columns["copies"]
        by_transaction: dict[Transaction, list[int]] = {}
        for row in np.lexsort((rows["offset"], rows["partition"])):
            number = int(rows["txn"][row])
            if number >= 0:
                who = (int(rows["copier"][row]), int(rows["copier_incarnation"][row]), number)
                by_transaction.setdefault(who, []).append(int(row))
        began: dict[Transaction, int] = {}
        ended: dict[Transaction, TransactionEnded] = {}
        for line in self._cell.history_lines:
            if isinstance(line, TransactionBegan):
                began[line.copier, line.incarnation, line.number] = line.t_us * 1_000
            elif isinstance(line, TransactionEnded):
                ended[line.copier, line.incarnation, line.number] = line
        known = []
        for who in by_transaction:
            end_line = ended.get(who)
            end = self._end_ns if end_line is None else end_line.t_us * 1_000
            begin = began.get(who, self._start_ns if end_line is None else min(end_line.asked_us * 1_000, end - 1))
            known.append((begin, max(end, begin + 1), who))
        known.sort()
        spans, outcomes, lanes = _Spans(), [], _Lanes(self)
        for begin, end, who in known:
            end_line = ended.get(who)
            outcome = Outcome.INFO if end_line is None else _TRANSACTION_OUTCOMES[end_line.outcome]
            outcomes.append(outcome)
            spans.add(begin, end, lanes.take(who[:2], begin, end, is_lost=outcome is Outcome.INFO))

        def build(number: int, is_end: bool) -> Operation:
            who = known[number][2]
            parts: list[Send | Poll] = []
            reads: dict[int, list[tuple[int | None, Form]]] = {}
            for row in by_transaction[who]:
                identity = _identity(rows, row)
                if place := self._places.get(identity):
                    reads.setdefault(place[0], []).append((place[1], _value(identity)))
                parts.append(
                    Send(
                        self._first_copy_key + int(rows["partition"][row]),
                        int(rows["offset"][row]) if is_end else None,
                        _copy_value(identity, who),
                    )
                )
            polled = {key: tuple(sorted(pairs, key=_offset_order)) for key, pairs in sorted(reads.items())}
            return Operation(
                index=0,
                time_ns=0,
                type=outcomes[number] if is_end else Outcome.INVOKE,
                process=0,
                f=Action.TXN,
                value=(Poll(tuple(polled.items()) if is_end else ()), *parts),
                client=f"copier-{who[0]}",
            )

        return _merged(spans, build)

    def _readers(self, stream: str) -> list[Iterator[Operation]]:
        """Of each consumer its assignment and its polls."""
        rows = self._columns[stream]
        modes = [reader.mode for reader in self._cell.record.workload.reader_groups]
        parts = []
        for consumer in np.unique(rows["consumer"]):
            own = np.flatnonzero(rows["consumer"] == consumer)
            own = own[np.argsort(rows["polled_us"][own], kind="stable")]
            number = int(rows["reader"][own[0]])
            if stream == "recv" and self._undone and number not in self._committed:
                own = own[[not self._is_undone(rows, int(row)) for row in own]]
                if not len(own):
                    continue
            mode = modes[number] if 0 <= number < len(modes) else ""
            parts.append(self._reader(stream, int(consumer), own, is_subscribed=mode in (GROUP, SHARE)))
        return parts

    def _is_undone(self, rows: Columns, row: int) -> bool:
        return (int(rows["partition"][row]), int(rows["offset"][row]), _identity(rows, row)) in self._undone

    def _reader(self, stream: str, consumer: int, own: Column, *, is_subscribed: bool) -> Iterator[Operation]:
        rows, process = self._columns[stream], self._process()
        keys = tuple(self._load_keys() if stream == "recv" else self._copy_keys())
        base = Operation(
            index=0,
            time_ns=self._start_ns + _STEP_NS,
            type=Outcome.INVOKE,
            process=process,
            f=Action.SUBSCRIBE if is_subscribed else Action.ASSIGN,
            keys=keys,
            client=f"consumer-{consumer}",
        )
        return self._polls_of(stream, base, own, rows)

    def _polls_of(self, stream: str, base: Operation, own: Column, rows: Columns) -> Iterator[Operation]:
        yield base
        before_ns = base.time_ns + 1
        yield replace(base, time_ns=before_ns, type=Outcome.OK)
        polled = rows["polled_us"][own]
        starts = np.flatnonzero(np.diff(polled, prepend=polled[0] - 1))
        generation = int(rows["generation"][own[0]])
        for begin, end in zip(starts, [*starts[1:], len(own)], strict=True):
            poll = own[begin:end]
            at_ns = int(rows["polled_us"][poll[0]]) * 1_000
            reads: dict[int, list[tuple[int | None, Form]]] = {}
            for row in poll:
                key, value = self._read_value(stream, rows, int(row))
                reads.setdefault(key, []).append((int(rows["offset"][row]), value))
            changed = int(rows["generation"][poll[-1]])
            operation = replace(base, time_ns=before_ns, f=Action.POLL, keys=(), value=(Poll(()),))
            yield operation
            yield replace(
                operation,
                time_ns=at_ns,
                type=Outcome.OK,
                value=(Poll(tuple((key, tuple(pairs)) for key, pairs in reads.items())),),
                rebalanced=tuple(reads) if changed != generation else (),
            )
            before_ns, generation = at_ns, changed

    def _read_value(self, stream: str, rows: Columns, row: int) -> tuple[int, str]:
        identity, partition = _identity(rows, row), int(rows["partition"][row])
        if stream == "recv":
            return partition, _value(identity)
        who = self._copies.transaction_at(partition, int(rows["offset"][row]), identity)
        return partition + self._first_copy_key, _copy_value(identity, who)

    def _final_read(self) -> Iterator[Operation]:
        process, at_ns = self._process(), self._end_ns + _STEP_NS
        log, copies = self._columns["log"], self._columns["copies"]
        outcome = self._cell.record.outcome
        to_end = self._load_keys() if outcome.final_read.complete else []
        if outcome.copies.complete:
            to_end += self._copy_keys()
        base = Operation(
            index=0, time_ns=at_ns, type=Outcome.INVOKE, process=process, f=Action.ASSIGN,
            keys=(*self._load_keys(), *self._copy_keys()), seeks=True, client="final-read",
        )  # fmt: skip
        yield base
        yield replace(base, time_ns=at_ns + 1, type=Outcome.OK)
        polls = self._final_polls(log, copies)
        poll = replace(base, f=Action.POLL, keys=(), seeks=False)
        for found in polls:
            at_ns += _STEP_NS
            yield replace(poll, time_ns=at_ns, value=(Poll(()),))
            yield replace(poll, time_ns=at_ns + 1, type=Outcome.OK, value=(Poll(found),))
        at_ns += _STEP_NS  # the poll that returns nothing, because the end is reached
        yield replace(poll, time_ns=at_ns, value=(Poll(()),))
        yield replace(poll, time_ns=at_ns + 1, type=Outcome.OK, value=(Poll(()),), read_to_end=tuple(to_end))

    def _final_polls(
        self, log: Columns, copies: Columns
    ) -> Iterator[tuple[tuple[int, tuple[tuple[int | None, Form], ...]], ...]]:
        for rows, first_key in ((log, 0), (copies, self._first_copy_key)):
            order = np.lexsort((rows["offset"], rows["partition"]))
            if first_key:
                order = order[rows["outcome"][order] == _COMMITTED]
            partitions = rows["partition"][order]
            for partition in np.unique(partitions):
                own = order[partitions == partition]
                for begin in range(0, len(own), RECORDS_OF_A_POLL):
                    pairs: list[tuple[int | None, Form]] = []
                    for row in own[begin : begin + RECORDS_OF_A_POLL]:
                        identity = _identity(rows, row)
                        value = _copy_value(identity, _transaction(rows, row)) if first_key else _value(identity)
                        pairs.append((int(rows["offset"][row]), value))
                    yield ((int(partition) + first_key, tuple(pairs)),)

    def _faults(self) -> Iterator[Operation]:
        for line in self._cell.fault_lines:
            if line.phase not in (FaultPhase.APPLIED, FaultPhase.HEALED):
                continue
            at_ns = min(max(line.t_us * 1_000, self._start_ns), self._end_ns)
            told: dict[str, Form] = {"phase": line.phase.value, "id": line.id, "targets": tuple(line.resolved)}
            yield Operation(index=0, time_ns=at_ns, type=Outcome.INFO, process=NEMESIS, f=line.kind, settings=told)


def _order(operation: Operation) -> tuple[int, int]:
    return operation.time_ns, _BEGIN if operation.type is Outcome.INVOKE else _END


class _Lanes:
    """Processes of clients that do several things at a time: each of theirs does one."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer
        self._free: dict[tuple[int, ...], list[tuple[int, int]]] = {}  # owner -> (free from, process)

    def take(self, owner: tuple[int, ...], begin_ns: int, end_ns: int, *, is_lost: bool) -> int:
        """Must be asked in order of `begin_ns`. A process is lost with an operation whose outcome nobody knows."""
        free = self._free.setdefault(owner, [])
        process = heapq.heappop(free)[1] if free and free[0][0] <= begin_ns else self._writer._process()
        if not is_lost:
            heapq.heappush(free, (end_ns, process))
        return process


def _merged(spans: _Spans, build: Build) -> Iterator[Operation]:
    """Both halves of all operations in order of time. `build` makes one half of one operation."""
    count = len(spans.begins)
    times = np.array([*spans.ends, *spans.begins], dtype=np.int64)
    for position in np.argsort(times, kind="stable"):  # ends stand before begins of the same time
        number, is_end = (int(position), True) if position < count else (int(position) - count, False)
        yield replace(build(number, is_end), time_ns=int(times[position]), process=spans.processes[number])


class _CopyPlaces:
    """Which transaction a copy belongs to, by its place."""

    def __init__(self, copies: Columns) -> None:
        self._copies = copies
        places = zip(copies["partition"].tolist(), copies["offset"].tolist(), strict=True)
        self._rows = {place: row for row, place in enumerate(places)}

    def transaction_at(self, partition: int, offset: int, identity: Identity) -> Transaction | None:
        row = self._rows.get((partition, offset))
        return _transaction(self._copies, row) if row is not None and _identity(self._copies, row) == identity else None


def _places(columns: Mapping[str, Columns]) -> dict[Identity, tuple[int, int | None]]:
    """Where the originals of copies are, and records whose partition the send does not tell. The offset is None if a
    record is at several."""
    send, log, copies = columns["send"], columns["log"], columns["copies"]
    wanted = {_identity(copies, row) for row in range(len(copies["seq"]))}
    wanted |= {_identity(send, int(row)) for row in np.flatnonzero(send["partition"] < 0)}
    places: dict[Identity, tuple[int, int | None]] = {}
    if not wanted:
        return places
    for acked in np.flatnonzero(send["status"] == SendStatus.ACKED):
        if (identity := _identity(send, acked)) in wanted and send["partition"][acked] >= 0:
            told = int(send["offset"][acked])
            places[identity] = int(send["partition"][acked]), told if told >= 0 else None
    found: Counter[Identity] = Counter()
    for row in range(len(log["seq"])):
        if (identity := _identity(log, row)) in wanted:
            found[identity] += 1
            places[identity] = int(log["partition"][row]), int(log["offset"][row]) if found[identity] == 1 else None
    return places


def _first_copy_key(cell: Cell, columns: Mapping[str, Columns]) -> int:
    planned = (cell.record.topic.partitions or 0) * cell.record.workload.topics
    seen = [int(columns[name]["partition"].max()) + 1 for name in ("send", "recv", "log") if len(columns[name]["seq"])]
    ends = [int(key) + 1 for key in cell.record.outcome.final_read.end_offsets]
    return max([planned, 1, *seen, *ends])


def transaction_version_of(cell: Cell) -> int:
    """What brokers and the copiers' client agree on. 1 if it is not known: that permits more."""
    release = re.search(r"(\d+)\.\d+", cell.record.engine_version)
    is_new = cell.record.engine in ("reference", "docker") or (release is not None and int(release.group(1)) >= 4)
    return 2 if is_new and cell.record.client in _NEW_EPOCH_CLIENTS else 1


def _identity(rows: Columns, row: int | np.int64) -> Identity:
    return int(rows["producer"][row]), int(rows["incarnation"][row]), int(rows["seq"][row])


def _transaction(rows: Columns, row: int | np.int64) -> Transaction | None:
    number = int(rows["txn"][row])
    return None if number < 0 else (int(rows["copier"][row]), int(rows["copier_incarnation"][row]), number)


def _value(identity: Identity) -> str:
    return "{}-{}-{}".format(*identity)


def _copy_value(identity: Identity, transaction: Transaction | None) -> str:
    return f"{_value(identity)}@" + ("?" if transaction is None else "{}-{}-{}".format(*transaction))


def _offset_order(pair: tuple[int | None, Form]) -> int:
    return -1 if pair[0] is None else pair[0]
