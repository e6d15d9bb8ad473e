"""Predicts which records a refusal reorders: batches that were first sent before others, but appended after them.

Pure. The order of first attempts comes from the wire. Offsets come from the journal, or else from the wire. Records are
followed by their identities where the wire log has them, because a client may send refused records again in another
batch (librdkafka puts them back into its queue). A batch without identities is followed by its CRC.
Shown by tests/reports/test_reports_predict.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from reports.evidence.topic_events import Interval, appended, batch_key, succeeded, wire_lines
from reports.read.cell import Cell
from runlog.records.partition import Appended
from runlog.records.wire import WireExchange

NO_STARTS: Final[Mapping[int, int]] = MappingProxyType({})  # every log begins at 0
Identity = tuple[int, int, int]  # producer, incarnation, seq
BatchKey = tuple[str, int, int]  # client id, partition, CRC


@dataclass(slots=True, kw_only=True)
class _Batch:
    """One batch of a client as wire and journal saw it."""

    client_id: str
    partition: int
    records: int = 0
    first_mono_ns: int | None = None
    first_correlation_id: int | None = None
    base_offset: int | None = None
    t_us: int = 0
    identities: list[Identity] = field(default_factory=list)  # in the order of the batch; empty when unknown


@dataclass(slots=True, kw_only=True)
class _Piece:
    """What keeps together on its way into the log: one record of known identity, or a whole batch."""

    batch: _Batch  # the one of its first attempt
    position: int
    records: int
    base_offset: int | None = None


def reordered_intervals(
    cell: Cell, *, removed: list[Interval], starts: Mapping[int, int] = NO_STARTS
) -> tuple[list[Interval], str]:
    """Offsets of the records that must be late, and how that was found out. `removed`: what truncations took away.
    `starts`: where the final log of each partition begins. What lies below shows no order any more."""
    wire = _from_first_attempts(wire_lines(cell))
    if not wire:
        return [], "no Produce request was held up or refused on the wire"
    journal = appended(cell)
    batches = _batches_of_wire(wire, starts)
    by_correlation = _correlation_grows_with_time(batches.values()) and _appends_follow_correlation(journal)
    journal_left = [event for event in journal if event.last_offset >= starts.get(event.partition, 0)]
    _merge_journal(batches, journal_left, with_unseen=by_correlation)
    groups: dict[tuple[object, int], list[_Piece]] = defaultdict(list)
    for piece in _pieces(batches.values(), starts, by_correlation=by_correlation):
        if piece.base_offset is not None and not _is_removed(piece, removed):
            groups[(_sender(piece), piece.batch.partition)].append(piece)
    late = [piece for group in groups.values() for piece in _late(group)]
    number = len({id(piece.batch) for piece in late})
    how = (
        f"{number} batch(es) whose first attempt preceded that of a batch appended at a lower offset; "
        f"order of first attempts from the wire, offsets from {'the journal' if journal else 'the wire'}"
    )
    return _joined(late), how


def _sender(piece: _Piece) -> object:
    """The producer whose order counts. Producers of several processes may share a client id, but not an identity."""
    identities = piece.batch.identities
    return identities[piece.position][:2] if identities else piece.batch.client_id


def _late(group: list[_Piece]) -> list[_Piece]:
    """`group` is in order of first attempts; late is what has a successor at a lower offset."""
    found: list[_Piece] = []
    lowest_later: int | None = None
    for piece in reversed(group):
        base = piece.base_offset
        assert base is not None
        if lowest_later is not None and base > lowest_later:
            found.append(piece)
        lowest_later = base if lowest_later is None else min(lowest_later, base)
    return found


def _joined(late: list[_Piece]) -> list[Interval]:
    """Neighbouring offsets as one interval."""
    spans = sorted((piece.batch.partition, piece.base_offset or 0, piece.records) for piece in late)
    joined: list[list[int]] = []
    for partition, base, records in spans:
        if joined and joined[-1][0] == partition and joined[-1][2] == base:
            joined[-1][2] = base + records
        else:
            joined.append([partition, base, base + records])
    return [
        Interval(kind="reordered", partition=partition, from_offset=first, end_offset=end)
        for partition, first, end in joined
    ]


def _pieces(batches: Iterable[_Batch], starts: Mapping[int, int], *, by_correlation: bool) -> list[_Piece]:
    """The pieces in order of first attempts. A record that was sent in several batches counts from the first, and lies
    where it was appended first."""
    ordered = sorted(batches, key=_by_correlation_id if by_correlation else _by_time)
    known: dict[tuple[str, int, Identity], _Piece] = {}
    pieces: list[_Piece] = []
    for batch in ordered:
        if not batch.identities:
            pieces.append(_Piece(batch=batch, position=0, records=batch.records, base_offset=batch.base_offset))
            continue
        for position, identity in enumerate(batch.identities):
            key = (batch.client_id, batch.partition, identity)
            piece = known.get(key)
            if piece is None:
                piece = known[key] = _Piece(batch=batch, position=position, records=1)
                pieces.append(piece)
            if batch.base_offset is not None:
                offset = batch.base_offset + position
                if offset < starts.get(batch.partition, 0):
                    continue
                piece.base_offset = offset if piece.base_offset is None else min(piece.base_offset, offset)
    return pieces


def _from_first_attempts(wire: list[WireExchange]) -> list[WireExchange]:
    """Leaves out batches whose first attempt was not logged: its time is unknown, and so is their order."""
    first: dict[BatchKey, int] = {}
    for line in wire:
        first.setdefault(batch_key(line), line.attempt)
    return [line for line in wire if first[batch_key(line)] <= 1]


def _is_removed(piece: _Piece, removed: list[Interval]) -> bool:
    """Whether a truncation removed it. Its offset was given again, so it shows nothing about order."""
    base, batch = piece.base_offset, piece.batch
    assert base is not None
    return any(
        item.partition == batch.partition
        and item.from_offset <= base < item.end_offset
        # Request and answer of a removed batch are of one clock: its bound does not count between them.
        and (batch.t_us <= item.after_us + item.clock_error_us if item.after_us else batch.t_us < item.before_us)
        for item in removed
    )


def _by_correlation_id(batch: _Batch) -> int:
    return batch.first_correlation_id or 0


def _by_time(batch: _Batch) -> int:
    return batch.first_mono_ns or 0


def _identities(line: WireExchange) -> list[Identity]:
    """The identity of each record; [] unless all are known."""
    runs = line.identities or ()
    found = [(producer, number, seq) for producer, number, first, last in runs for seq in range(first, last + 1)]
    return found if len(found) == line.records else []


def _batches_of_wire(wire: list[WireExchange], starts: Mapping[int, int]) -> dict[BatchKey, _Batch]:
    """`wire` is in order of time, so the first line of a key is its first attempt."""
    batches: dict[BatchKey, _Batch] = {}
    for line in wire:
        key = batch_key(line)
        batch = batches.get(key)
        if batch is None:
            batch = batches[key] = _Batch(
                client_id=line.client_id,
                partition=line.partition,
                records=line.records,
                first_mono_ns=line.mono_ns,
                first_correlation_id=line.correlation_id,
                t_us=line.t_us,
                identities=_identities(line),
            )
        if succeeded(line) and line.base_offset + line.records > starts.get(line.partition, 0):
            base = line.base_offset
            batch.base_offset = base if batch.base_offset is None else min(batch.base_offset, base)
    return batches


def _correlation_grows_with_time(batches: Iterable[_Batch]) -> bool:
    """Whether a client's correlation ids order its requests. They do not if each connection has its own counter."""
    last: dict[tuple[str, int], int] = {}
    for batch in sorted(batches, key=lambda item: item.first_mono_ns or 0):
        if batch.first_correlation_id is None:
            return False
        key = (batch.client_id, batch.partition)
        if batch.first_correlation_id < last.get(key, batch.first_correlation_id):
            return False
        last[key] = batch.first_correlation_id
    return True


def _appends_follow_correlation(journal: list[Appended]) -> bool:
    """Whether the correlation ids of a client's appended batches grow with time.

    A retry is appended under the correlation id of the retry, so one counter for all connections gives growing ids. A
    counter per connection starts again after a failover or a reconnect, and then orders nothing across the two.
    """
    last: dict[tuple[str, int], int] = {}
    for event in sorted(journal, key=lambda item: item.t_us):
        correlation = event.correlation_id
        key = event.client_id, event.partition
        if correlation is None or correlation < last.get(key, correlation):
            return False
        last[key] = correlation
    return True


def _merge_journal(batches: dict[BatchKey, _Batch], journal: list[Appended], *, with_unseen: bool) -> None:
    """The journal knows where each batch was first appended, and batches that passed while no fault was armed."""
    for event in journal:
        key, base = batch_key(event), event.base_offset
        batch = batches.get(key)
        if batch is None:
            if not with_unseen or event.correlation_id is None:
                continue
            batch = batches[key] = _Batch(
                client_id=event.client_id,
                partition=event.partition,
                records=event.last_offset - base + 1,
                first_correlation_id=event.correlation_id,
                t_us=event.t_us,
            )
        batch.base_offset = base if batch.base_offset is None else min(batch.base_offset, base)
