"""Segments of a finished cell to Parquet parts, with a row for every send whose outcome was not recorded.

Run it after the load processes ended, however they ended. New parts are made in `live/anew`. They take the place of
older parts of the cell only when they have every row of these: `harness gather` brings segments again of which an
earlier recovery had a part. Segments are removed last. A crash at any moment loses nothing, and a second run gives the
same parts: markers in `live` say how far the first one came. Shown by tests/runlog/test_runlog_compact.py.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from runlog.files.paths import live_directory
from runlog.records.load import ProducerEnd
from runlog.streams import inflight, segment
from runlog.streams.parquet import ROWS_PER_PART, column_chunks, partition_directory, table_of, write_table
from runlog.streams.schema import ABSENT, RECV, SEND, SendStatus, Stream
from runlog.streams.seq_bits import SeqBits, windows

_MARKER = "compacted"  # all parts are in their places, and segments may go
_REPLACES = "replaces"  # `anew` is complete: its parts, by name, take the place of all others
_ANEW = "anew"
# The parts that are made here have these names. Members make others.
_PATTERNS = ("part-[0-9]*.parquet", "part-unknown*.parquet")
_WHOSE = {SEND.name: "producer", RECV.name: "consumer"}
_SeqArray = NDArray[np.int64]
_Identity = tuple[int, int]
_SEQS_MAX = 1 << 37  # a day and a half at a million records a second
_POINTS_MAX = 4_096  # of each producer


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    rows: dict[str, int] = field(default_factory=dict)
    torn_rows: int = 0
    producers: tuple[ProducerEnd, ...] = ()


class CompactionError(ValueError):
    """The segments cannot become Parquet. Nothing was changed."""


class LostRowsError(CompactionError):
    """The segments have less than the parts that were made before."""


def compact_cell(run_dir: Path, cell_id: str, *, rows_per_part: int = ROWS_PER_PART) -> CompactionResult:
    """Turn RUN/cells/<cell_id>/live/* into Parquet parts and remove it. Nothing live gives an empty result.
    CompactionError if parts of this cell are there that have more, or a sequence number is none; OSError, after which
    it may be tried again."""
    live = live_directory(run_dir, cell_id)
    if not live.is_dir():
        return CompactionResult()
    result = CompactionResult()
    if not (live / _MARKER).exists() and not (live / _REPLACES).exists():
        if not has_segments(live):
            return CompactionResult()
        result = _make_anew(run_dir, cell_id, live, rows_per_part)
    if (live / _REPLACES).exists():
        _put_in_place(run_dir, cell_id, live)
    _remove(live)
    return result


def compact_anew(run_dir: Path, cell_id: str) -> CompactionResult:
    """The same for all segments of the cell, which were brought once more: a marker of an earlier compaction, which had
    only some of them, says nothing about these."""
    live = live_directory(run_dir, cell_id)
    if has_segments(live):
        (live / _MARKER).unlink(missing_ok=True)
    return compact_cell(run_dir, cell_id)


def has_segments(live: Path) -> bool:
    """Whether load processes left something there that is not in Parquet yet, or not removed yet."""
    patterns = (f"*{segment.SUFFIX}", f"*{inflight.SUFFIX}", _MARKER, _REPLACES)
    return any(True for pattern in patterns for _ in live.glob(pattern))


def _make_anew(run_dir: Path, cell_id: str, live: Path, rows_per_part: int) -> CompactionResult:
    anew = live / _ANEW
    if anew.exists():
        shutil.rmtree(anew)  # A compaction that broke off left it.
    rows: dict[str, int] = {}
    torn_rows = 0
    sent: dict[_Identity, _Sent] = defaultdict(_Sent)
    for stream in (SEND, RECV):
        for number, group in enumerate(_groups(live, stream, rows_per_part)):
            torn_rows += sum(content.torn_rows for content in group)
            part = np.concatenate([content.rows for content in group])
            if stream is SEND:
                _note_sent(part, sent)
            _write_rows(anew, stream, cell_id, part, f"{number:06d}")
            rows[stream.name] = rows.get(stream.name, 0) + len(part)
    producers = _add_unknown_rows(anew, cell_id, live, sent, rows, rows_per_part)
    for stream in (SEND, RECV):
        _check_nothing_is_lost(run_dir, anew, stream, cell_id)
    names = [f"{stream.name}/{path.name}" for stream in (SEND, RECV) for path in _parts(anew, stream, cell_id)]
    _write_whole(live / _REPLACES, "".join(f"{name}\n" for name in names))
    return CompactionResult(rows=rows, torn_rows=torn_rows, producers=producers)


def _put_in_place(run_dir: Path, cell_id: str, live: Path) -> None:
    names = set((live / _REPLACES).read_text().split())
    for stream in (SEND, RECV):
        directory = partition_directory(run_dir, stream, cell_id)
        for path in _parts(live / _ANEW, stream, cell_id):
            directory.mkdir(parents=True, exist_ok=True)
            os.replace(path, directory / path.name)
        for path in _parts(run_dir, stream, cell_id):
            if f"{stream.name}/{path.name}" not in names:
                path.unlink()
    (live / _MARKER).touch()
    (live / _REPLACES).unlink()


def _parts(root: Path, stream: Stream, cell_id: str) -> list[Path]:
    directory = partition_directory(root, stream, cell_id)
    return sorted(path for pattern in _PATTERNS for path in directory.glob(pattern))


def _check_nothing_is_lost(run_dir: Path, anew: Path, stream: Stream, cell_id: str) -> None:
    """Rows are only ever added to segments, so whoever has fewer of them than before has lost some."""
    before, now = (_rows_by_owner(_parts(root, stream, cell_id), stream) for root in (run_dir, anew))
    for (number, incarnation), rows in sorted(before.items()):
        if now[number, incarnation] < rows:
            raise LostRowsError(
                f"{_WHOSE[stream.name]} {number}: the segments have {now[number, incarnation]:,} rows of stream "
                f"{stream.name}, the Parquet that was made before has {rows:,}; it stays"
            )


def _rows_by_owner(parts: list[Path], stream: Stream) -> Counter[_Identity]:
    """Rows with an outcome, by number and incarnation of the producer; those of a consumer have no incarnation. Parts
    that cannot be read have none."""
    found: Counter[_Identity] = Counter()
    for path in parts:
        try:
            columns = ["producer", "incarnation", "status"] if stream is SEND else ["consumer"]
            table = pq.read_table(path, columns=columns, partitioning=None)
        except (OSError, pa.ArrowException):
            continue
        number, *more = (table.column(name).to_numpy() for name in columns)
        if stream is SEND:
            incarnation, status = more
            is_known = status != SendStatus.UNKNOWN
            number, incarnation = number[is_known], incarnation[is_known]
        else:
            incarnation = np.zeros(len(number), dtype=np.int64)
        identities, counts = np.unique(np.column_stack([number, incarnation]), axis=0, return_counts=True)
        found.update({(int(one), int(two)): int(rows) for (one, two), rows in zip(identities, counts, strict=True)})
    return found


def _write_whole(path: Path, text: str) -> None:
    """On disk, and never a part of it."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _groups(live: Path, stream: Stream, rows_per_part: int) -> Iterator[list[segment.SegmentContent]]:
    group: list[segment.SegmentContent] = []
    count = 0
    for content in segment.read_segments(live, stream):
        group.append(content)
        count += len(content.rows)
        if count >= rows_per_part:
            yield group
            group, count = [], 0
    if count:
        yield group


def _write_rows(run_dir: Path, stream: Stream, cell_id: str, rows: segment.Rows, part: str) -> None:
    table = table_of(stream, {column.name: rows[column.name] for column in stream.columns})
    write_table(partition_directory(run_dir, stream, cell_id) / f"part-{part}.parquet", table)


@dataclass(slots=True)
class _Sent:
    """What stays of the rows of one producer: it does not grow with them."""

    high_seq: int = -1
    high_intended_us: int = 0
    _points: list[tuple[int, int]] = field(default_factory=list)  # of every `_step`th row
    _step: int = 1
    _rows: int = 0

    def take(self, seqs: _SeqArray, intended_us: _SeqArray) -> None:
        highest = int(seqs.argmax())
        if seqs[highest] > self.high_seq:
            self.high_seq, self.high_intended_us = int(seqs[highest]), int(intended_us[highest])
        kept = slice(-self._rows % self._step, None, self._step)
        self._rows += len(seqs)
        self._points += zip(seqs[kept].tolist(), intended_us[kept].tolist(), strict=True)
        while len(self._points) > _POINTS_MAX:
            self._points, self._step = self._points[::2], self._step * 2

    def points(self) -> list[tuple[int, int]]:
        """Enough known ones (seq, intended_us) to place a send whose ring slot was overwritten."""
        return [*self._points, (self.high_seq, self.high_intended_us)] if self._points else []


def _note_sent(rows: segment.Rows, sent: dict[_Identity, _Sent]) -> None:
    for producer, incarnation in np.unique(rows[["producer", "incarnation"]]).tolist():
        mine = rows[(rows["producer"] == producer) & (rows["incarnation"] == incarnation)]
        sent[producer, incarnation].take(mine["seq"].astype(np.int64), mine["intended_us"].astype(np.int64))


def _add_unknown_rows(
    anew: Path, cell_id: str, live: Path, sent: dict[_Identity, _Sent], rows: dict[str, int], rows_per_part: int
) -> tuple[ProducerEnd, ...]:
    """Which records have no row is told by bits, for a window of sequence numbers at a time, from the parts that were
    just written. So neither the rows nor the records of a cell decide how much memory this takes."""
    states = {(state.producer, state.incarnation): state for state in inflight.read_rings(live)}
    highest = {
        identity: max(states[identity].high_seq if identity in states else -1, sent[identity].high_seq)
        for identity in sorted(set(states) | set(sent))
    }
    for (producer, incarnation), high in highest.items():
        if high >= _SEQS_MAX:  # Each number without a row would get one, until the disk is full.
            raise CompactionError(
                f"producer {producer}, incarnation {incarnation}: sequence number {high:,} is damaged"
            )
    unknown = _UnknownParts(anew, cell_id, rows_per_part)
    for window in windows(highest):
        seen = {identity: SeqBits(window[0], min(window[1], high + 1)) for identity, high in highest.items()}
        for chunk in column_chunks(anew, SEND, cell_id, ("producer", "incarnation", "seq"), seqs=window):
            for producer, incarnation in set(
                zip(chunk["producer"].tolist(), chunk["incarnation"].tolist(), strict=True)
            ):
                mine = (chunk["producer"] == producer) & (chunk["incarnation"] == incarnation)
                seen[producer, incarnation].mark(chunk["seq"][mine])
        for identity, bits in seen.items():
            for missing in bits.missing():
                unknown.add(_unknown_rows(identity, missing, states.get(identity), sent[identity].points()))
    unknown.write()
    if unknown.rows:
        rows[SEND.name] = rows.get(SEND.name, 0) + unknown.rows
    return tuple(
        ProducerEnd(producer=producer, incarnation=incarnation, high_seq=high)
        for (producer, incarnation), high in highest.items()
    )


class _UnknownParts:
    """Rows without an outcome, in parts of their own: part-unknown, part-unknown-000001 and so on."""

    def __init__(self, anew: Path, cell_id: str, rows_per_part: int) -> None:
        self._anew, self._cell_id, self._rows_per_part = anew, cell_id, rows_per_part
        self._held: list[segment.Rows] = []
        self._parts = 0
        self.rows = 0

    def add(self, unknown: segment.Rows) -> None:
        self._held.append(unknown)
        self.rows += len(unknown)
        if sum(map(len, self._held)) >= self._rows_per_part:
            self.write()

    def write(self) -> None:
        """Writes what is held, if there is any."""
        if not self._held:
            return
        part = f"unknown-{self._parts:06d}" if self._parts else "unknown"
        _write_rows(self._anew, SEND, self._cell_id, np.concatenate(self._held), part)
        self._held = []
        self._parts += 1


def _unknown_rows(
    identity: _Identity, missing: _SeqArray, state: inflight.InflightState | None, known: list[tuple[int, int]]
) -> segment.Rows:
    unknown = np.zeros(len(missing), dtype=segment.row_dtype(SEND))
    unknown["producer"], unknown["incarnation"] = identity
    unknown["seq"] = missing
    unknown["partition"] = ABSENT
    unknown["status"] = SendStatus.UNKNOWN
    unknown["error"] = ABSENT
    unknown["acked_us"] = ABSENT
    unknown["offset"] = ABSENT
    unknown["appended_us"] = ABSENT
    points = np.array(sorted(known), dtype=np.int64).reshape(-1, 2)
    if len(points):
        unknown["intended_us"] = np.interp(missing, points[:, 0], points[:, 1]).astype(np.int64)
    unknown["sent_us"] = unknown["intended_us"]
    if state is not None and len(state.seqs):
        unknown["size_bytes"] = state.size_bytes[-1]
        slots = np.minimum(np.searchsorted(state.seqs, missing), len(state.seqs) - 1)
        in_ring = state.seqs[slots] == missing
        for name, values in (("intended_us", state.intended_us), ("sent_us", state.sent_us)):
            unknown[name][in_ring] = values[slots[in_ring]]
        unknown["size_bytes"][in_ring] = state.size_bytes[slots[in_ring]]
    return unknown


def _remove(live: Path) -> None:
    """Remove what compaction consumed; the marker goes last. Files of others stay, and so does the directory then."""
    for pattern in (f"*{segment.SUFFIX}", f"*{segment.SPARE_SUFFIX}", f"*{inflight.SUFFIX}", "*.claim"):
        for path in live.glob(pattern):
            path.unlink()
    if (live / _ANEW).exists():
        shutil.rmtree(live / _ANEW)
    (live / _MARKER).unlink(missing_ok=True)
    if not any(live.iterdir()):
        live.rmdir()
