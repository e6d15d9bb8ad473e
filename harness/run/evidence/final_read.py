"""The final read: every partition from its log's start to its end, by an independent reader, into log
and batches.

Records of transactions are in `log` if a marker commits them, and in `uncommitted` otherwise. The markers decide, not a
consumer.

It is the ground truth of a cell. It is complete only if the batches join without a gap from the log's start to the end
offset. The leader must give this end offset before, and still give it after the last batch was asked for. Followers may
still fetch what acks=1 left, so the high watermark may rise. Then the read goes on with what is new.

Retention does not stop for the read. If it deletes what was to be read next, the read goes on at the new start of the
log, and notes that start. A compacted topic has gaps. Shown by tests/harness/test_harness_final_read.py.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from broker.door.batches import (
    FETCHED_BYTES_MAX,
    DecodedRecord,
    RawBatch,
    control_key,
    decode_fetched,
    uncompressed_size_bytes,
)
from broker.door.protocol import ProtocolError
from harness.run.evidence.markers import COMMITTED, OPEN, outcome_of
from runlog.files.clock import RunClock
from runlog.records.cell import FinalReadRecord
from runlog.streams.parquet import write_part
from runlog.streams.payload import parse_fast
from runlog.streams.record_keys import fingerprint, key_name
from runlog.streams.schema import BATCHES, LOG, UNCOMMITTED, Stream

RECORDS_PER_PART: Final = 500_000
OPEN_ROWS_MAX: Final = 500_000  # in memory, about 200 MB
_ROW_BYTES: Final = 8 * len(LOG.columns)
# How often the read follows an end offset that rose. There are no more writes, so it rises only while followers catch
# up.
ROUNDS_MAX: Final = 100


class Columns:
    """Rows of one stream gathered column by column, written as a part when there are many."""

    def __init__(self, run_dir: Path, stream: Stream, cell_id: str) -> None:
        self._run_dir, self._stream, self._cell_id = run_dir, stream, cell_id
        self._columns: dict[str, list[int]] = {column.name: [] for column in stream.columns}
        self._appenders = [values.append for values in self._columns.values()]
        self._first = next(iter(self._columns.values()))
        self._parts = 0

    def add(self, *values: int) -> None:
        """One row in the order of the schema's columns."""
        for append, value in zip(self._appenders, values, strict=True):
            append(value)
        if len(self._first) >= RECORDS_PER_PART:
            self.flush()

    def flush(self) -> None:
        if self._first:
            write_part(self._run_dir, self._stream, self._cell_id, self._columns, part=f"{self._parts:06d}")
            self._parts += 1
            for values in self._columns.values():
                values.clear()


class LogReader(Protocol):
    """How the log is reached. The run has a reader over broker.client, tests have one over bytes."""

    def start_offset(self, partition: int) -> int: ...
    def end_offset(self, partition: int) -> int: ...
    def batches(self, partition: int, to_offset: int, *, from_offset: int | None = None) -> Iterable[RawBatch]: ...


_Row = tuple[int, ...]


class _Logs:
    """Where the records of the partition that is being read go. Those of open transactions wait for their marker. When
    they are many, as behind a marker that a broker lost, they wait in a file."""

    def __init__(self, run_dir: Path, cell_id: str) -> None:
        self._run_dir = run_dir
        self._log, self._uncommitted = Columns(run_dir, LOG, cell_id), Columns(run_dir, UNCOMMITTED, cell_id)
        self._open: dict[int, list[_Row]] = {}  # by producer id, rows of `log`
        self._waiting = 0  # rows in `_open`
        self._file: IO[bytes] | None = None
        self._spilled: dict[int, list[tuple[int, int]]] = {}  # by producer id: place in the file, rows
        self.uncommitted = 0

    def add(self, producer_id: int | None, row: _Row) -> None:
        """A row of `log`. None: it was sent without a transaction."""
        if producer_id is None:
            self._log.add(*row)
        else:
            self._open.setdefault(producer_id, []).append(row)
            self._waiting += 1
            if self._waiting >= OPEN_ROWS_MAX:
                self._spill()

    def end(self, producer_id: int, outcome: int) -> None:
        for row in self._rows_of(producer_id):
            if outcome == COMMITTED:
                self._log.add(*row)
            else:
                self._add_uncommitted(row, outcome)

    def end_partition(self) -> None:
        """What is still open stays so."""
        for producer_id in {**self._open, **self._spilled}:
            self.end(producer_id, OPEN)
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._run_dir)  # noqa: SIM115  # `end_partition` closes it
        for producer_id in list(self._open):
            rows = self._open[producer_id]
            place = self._file.seek(0, os.SEEK_END)
            self._file.write(np.array(rows, dtype=np.int64).tobytes())
            self._file.flush()
            # The file has them now. If the disk is full, rows are in one of the two places and not in both.
            self._spilled.setdefault(producer_id, []).append((place, len(rows)))
            self._waiting -= len(self._open.pop(producer_id))

    def _rows_of(self, producer_id: int) -> Iterator[_Row]:
        """In the order of their offsets, and only once."""
        for place, count in self._spilled.pop(producer_id, ()):
            assert self._file is not None
            self._file.seek(place)
            values = np.frombuffer(self._file.read(count * _ROW_BYTES), dtype=np.int64)
            yield from map(tuple, values.reshape(count, len(LOG.columns)).tolist())
        rows = self._open.pop(producer_id, [])
        self._waiting -= len(rows)
        yield from rows

    def flush(self) -> None:
        self._log.flush()
        self._uncommitted.flush()

    def _add_uncommitted(self, row: _Row, outcome: int) -> None:
        partition, offset, _epoch, _base, producer, incarnation, seq, _intended, crc_ok = row
        self._uncommitted.add(partition, offset, producer, incarnation, seq, crc_ok, outcome)
        self.uncommitted += 1


@dataclass(slots=True, kw_only=True)
class _Tally:
    is_compacted: bool  # then offsets may be missing between batches
    keys: Sequence[bytes] = ()  # what the load was to send: record seq has that at seq % len; empty if not known
    own_keys: Set[bytes] = frozenset()  # the same without order
    has_other_keys: bool = False
    records: int = 0
    foreign: int = 0
    starts: dict[int, int] = field(default_factory=dict)  # The key is the partition.
    size_bytes: dict[int, int] = field(default_factory=dict)  # The key is the partition.
    problems: list[str] = field(default_factory=list)
    corrupt: list[str] = field(default_factory=list)


def read_log(
    run_dir: Path,
    cell_id: str,
    *,
    reader: LogReader,
    partitions: Iterable[int],
    clock: RunClock,
    is_compacted: bool = False,
    keys: NDArray[np.int64] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> FinalReadRecord:
    """Read all partitions into Parquet. Never raises for errors of the cluster. An incomplete read says why.

    `is_compacted`: the topic's cleanup.policy has compact. `keys`: those that the load was to send then, as numbers by
    `seq % TURNS`; each undamaged record is compared with its own."""
    log, batches = _Logs(run_dir, cell_id), Columns(run_dir, BATCHES, cell_id)
    end_offsets: dict[int, int] = {}
    names = [] if keys is None else [key_name(number) for number in keys.tolist()]
    tally = _Tally(is_compacted=is_compacted, keys=names, own_keys=frozenset(names))
    for partition in partitions:
        try:
            end_offset, position = reader.end_offset(partition), reader.start_offset(partition)
            tally.starts[partition], tally.size_bytes[partition] = position, 0
            for _ in range(ROUNDS_MAX):
                before = end_offset
                position = _read_partition(reader, partition, position, before, log, batches, clock, tally, should_stop)
                end_offsets[partition] = end_offset = reader.end_offset(partition)
                # Once more if it has risen, also if a fetch brought all of that, because it may go on rising.
                if position < before or end_offset <= before or should_stop():
                    break
        except (OSError, ProtocolError, RuntimeError, TimeoutError) as error:
            tally.problems.append(f"partition {partition}: {type(error).__name__}: {error}")
            log.end_partition()
            continue
        log.end_partition()
        if position != end_offset:
            tally.problems.append(
                f"partition {partition}: read to offset {position}, end offset {before} before, {end_offset} after"
            )
        if should_stop():
            tally.problems.append("interrupted")
            break
    log.flush()
    batches.flush()
    return FinalReadRecord(
        complete=not tally.problems,
        reason="; ".join(tally.problems),
        end_offsets=end_offsets,
        start_offsets=tally.starts,
        size_bytes=tally.size_bytes,
        records=tally.records,
        foreign=tally.foreign,
        uncommitted=log.uncommitted,
        keys_crc=None if keys is None or tally.has_other_keys else fingerprint(keys),
        corrupt=tuple(tally.corrupt),
    )


def _read_partition(
    reader: LogReader,
    partition: int,
    start: int,
    end_offset: int,
    log: _Logs,
    batches: Columns,
    clock: RunClock,
    tally: _Tally,
    should_stop: Callable[[], bool],
) -> int:
    """Returns the offset after the last record that was read. A gap between batches ends the reading there."""
    position = start
    for batch in reader.batches(partition, end_offset, from_offset=start):
        if should_stop():  # read_log says so
            return position
        header = batch.header
        if header.base_offset > position and (moved_to := _moved_start(reader, partition, position, tally)):
            start = position = moved_to
        # Records may have been deleted up to the middle of the first batch. The leader still serves the rest of that
        # batch.
        is_cut = header.base_offset < position == start < header.next_offset
        is_gap = tally.is_compacted and header.base_offset > position
        if header.base_offset != position and not is_cut and not is_gap:
            tally.problems.append(f"partition {partition}: a batch at offset {header.base_offset}, expected {position}")
            return position
        is_whole = batch.is_crc_valid()
        if not is_whole:
            tally.corrupt.append(f"partition {partition}: offsets {header.base_offset} to {header.last_offset}")
        if header.is_control:
            log.end(header.producer_id, outcome_of(control_key(batch)))
        producer_id = header.producer_id if header.is_transactional else None
        decoded = [] if header.is_control else _decoded(batch, is_whole, tally)  # a marker is nobody's record
        records = [record for record in decoded if record[0] >= start]
        for offset, _timestamp, key, value, _headers in records:
            parsed = None if value is None else parse_fast(value)
            if parsed is None:
                tally.foreign += 1
                # With a key of ours it may have superseded records of ours, and nobody knows which others did.
                tally.has_other_keys |= key in tally.own_keys
                continue
            producer, incarnation, seq, intended_ns, crc_ok = parsed
            if tally.keys and is_whole and key != tally.keys[seq % len(tally.keys)]:
                tally.has_other_keys = True
            row = (
                partition, offset, header.partition_leader_epoch, header.base_offset,
                producer, incarnation, seq, clock.to_us(intended_ns), int(crc_ok and is_whole),
            )  # fmt: skip
            log.add(producer_id, row)
        tally.records += len(records)
        tally.size_bytes[partition] += header.size_bytes
        batches.add(
            partition, header.base_offset, header.last_offset, header.partition_leader_epoch, len(records),
            header.size_bytes, uncompressed_size_bytes(batch, decompressed_bytes_max=FETCHED_BYTES_MAX),
            int(header.codec), header.producer_id,
            header.producer_epoch, header.base_sequence, header.crc,
        )  # fmt: skip
        position = header.next_offset
    if position < end_offset and not tally.problems:
        position = _moved_start(reader, partition, position, tally) or position
    return position


def _moved_start(reader: LogReader, partition: int, position: int, tally: _Tally) -> int | None:
    """The log's start, if what was to come next was deleted meanwhile. The read then begins there."""
    start = reader.start_offset(partition)
    if start <= position:
        return None
    tally.starts[partition], tally.size_bytes[partition] = start, 0
    return start


def _decoded(batch: RawBatch, is_whole: bool, tally: _Tally) -> list[DecodedRecord]:
    """A batch with a wrong CRC is a finding. The part of it that can be read tells whose records they are."""
    try:
        return decode_fetched(batch)
    except ProtocolError as error:
        if is_whole:
            raise
        tally.problems.append(f"the batch at offset {batch.header.base_offset} cannot be read: {error}")
        return []
