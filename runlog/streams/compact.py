"""Segments of a finished cell to Parquet parts, with a row for every send whose outcome was not recorded.

Run it after the load processes ended, however they ended. A second run after a crash of the first gives the same
parts: names follow from the segments, and segments are removed only after a marker says that all parts are in place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from runlog.records.load import ProducerEnd
from runlog.streams import inflight, segment
from runlog.streams.parquet import ROWS_PER_PART, partition_directory, table_of, write_table
from runlog.streams.schema import ABSENT, RECV, SEND, SendStatus, Stream

_MARKER = "compacted"
_SeqArray = NDArray[np.int64]
_Identity = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    rows: dict[str, int] = field(default_factory=dict)
    torn_rows: int = 0
    producers: tuple[ProducerEnd, ...] = ()


def compact_cell(run_dir: Path, cell_id: str, *, rows_per_part: int = ROWS_PER_PART) -> CompactionResult:
    """Turn RUN/cells/<cell_id>/live/* into Parquet parts and remove it. Nothing live gives an empty result."""
    live = run_dir / "cells" / cell_id / "live"
    if not live.is_dir():
        return CompactionResult()
    if (live / _MARKER).exists():
        _remove(live)
        return CompactionResult()
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
            _write_rows(run_dir, stream, cell_id, part, f"{number:06d}")
            rows[stream.name] = rows.get(stream.name, 0) + len(part)
    producers = _add_unknown_rows(run_dir, cell_id, live, seqs, times, rows)
    (live / _MARKER).touch()
    _remove(live)
    return CompactionResult(rows=rows, torn_rows=torn_rows, producers=producers)


def compact_anew(run_dir: Path, cell_id: str) -> CompactionResult:
    """The same for all segments of the cell. An earlier compaction had only some of them; its parts are replaced."""
    (run_dir / "cells" / cell_id / "live" / _MARKER).unlink(missing_ok=True)
    for stream in (SEND, RECV):
        directory = partition_directory(run_dir, stream, cell_id)
        for pattern in ("part-[0-9]*.parquet", "part-unknown.parquet"):
            for path in directory.glob(pattern):
                path.unlink()
    return compact_cell(run_dir, cell_id)


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
    (live / _MARKER).unlink()
    if not any(live.iterdir()):
        live.rmdir()
