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
from runlog.streams.parquet import ROWS_PER_PART, partition_directory, table_of, write_table
from runlog.streams.schema import ABSENT, RECV, SEND, SendStatus, Stream

_MARKER = "compacted"  # all parts are in their places, and segments may go
_REPLACES = "replaces"  # `anew` is complete: its parts, by name, take the place of all others
_ANEW = "anew"
# The parts that are made here have these names. Members make others.
_PATTERNS = ("part-[0-9]*.parquet", "part-unknown.parquet")
_WHOSE = {SEND.name: "producer", RECV.name: "consumer"}
_SeqArray = NDArray[np.int64]
_Identity = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    rows: dict[str, int] = field(default_factory=dict)
    torn_rows: int = 0
    producers: tuple[ProducerEnd, ...] = ()


class LostRowsError(ValueError):
    """The segments have less than the parts that were made before. Nothing was changed."""


def compact_cell(run_dir: Path, cell_id: str, *, rows_per_part: int = ROWS_PER_PART) -> CompactionResult:
    """Turn RUN/cells/<cell_id>/live/* into Parquet parts and remove it. Nothing live gives an empty result.
    LostRowsError if parts of this cell are there that have more; OSError, after which it may be tried again."""
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
    seqs: dict[_Identity, list[_SeqArray]] = defaultdict(list)
    times: dict[_Identity, list[tuple[int, int]]] = defaultdict(list)
    for stream in (SEND, RECV):
        for number, group in enumerate(_groups(live, stream, rows_per_part)):
            torn_rows += sum(content.torn_rows for content in group)
            part = np.concatenate([content.rows for content in group])
            if stream is SEND:
                _collect_seqs(part, seqs, times)
            _write_rows(anew, stream, cell_id, part, f"{number:06d}")
            rows[stream.name] = rows.get(stream.name, 0) + len(part)
    producers = _add_unknown_rows(anew, cell_id, live, seqs, times, rows)
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


def _collect_seqs(
    rows: segment.Rows, seqs: dict[_Identity, list[_SeqArray]], times: dict[_Identity, list[tuple[int, int]]]
) -> None:
    identities = np.unique(rows[["producer", "incarnation"]])
    for producer, incarnation in identities.tolist():
        mine = rows[(rows["producer"] == producer) & (rows["incarnation"] == incarnation)]
        seqs[producer, incarnation].append(mine["seq"].astype(np.int64))
        # Enough known points to place a send whose ring slot was overwritten.
        step = max(1, len(mine) // 1_000)
        points = mine[["seq", "intended_us"]][::step].tolist()
        times[producer, incarnation].extend(points)


def _add_unknown_rows(
    run_dir: Path,
    cell_id: str,
    live: Path,
    seqs: dict[_Identity, list[_SeqArray]],
    times: dict[_Identity, list[tuple[int, int]]],
    rows: dict[str, int],
) -> tuple[ProducerEnd, ...]:
    states = {(state.producer, state.incarnation): state for state in inflight.read_rings(live)}
    ends: list[ProducerEnd] = []
    added: list[segment.Rows] = []
    for identity in sorted(set(states) | set(seqs)):
        logged = np.concatenate(seqs[identity]) if seqs.get(identity) else np.empty(0, dtype=np.int64)
        state = states.get(identity)
        high_seq = max(state.high_seq if state else -1, int(logged.max()) if len(logged) else -1)
        seen = np.zeros(high_seq + 1, dtype=bool)
        seen[logged] = True
        missing = np.flatnonzero(~seen)
        if len(missing):
            added.append(_unknown_rows(identity, missing, state, times.get(identity, [])))
        producer, incarnation = identity
        ends.append(ProducerEnd(producer=producer, incarnation=incarnation, high_seq=high_seq))
    if added:
        unknown = np.concatenate(added)
        _write_rows(run_dir, SEND, cell_id, unknown, "unknown")
        rows[SEND.name] = rows.get(SEND.name, 0) + len(unknown)
    return tuple(ends)


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
