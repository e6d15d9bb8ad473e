"""One segment file and its indexes: append whole batches, find one by offset or by time, cut.

Owns: byte positions. It knows nothing of epochs, producers or other segments. Files are named by 20-digit base offset.
Shown by tests/broker_log/test_log_segment.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from broker.log.damage import next_whole_batch
from broker.log.errors import LogCorruptError
from broker.log.filesystem import Buffer, File, FileSystem
from broker.log.index import ENTRY_BYTES, OffsetIndex
from broker.log.timeindex import ENTRY, NO_TIMESTAMP, TimeIndex
from broker.log.transaction_index import SUFFIX as TRANSACTION_INDEX_SUFFIX
from broker.log.transaction_index import TransactionIndex
from broker.wire.errors import CorruptBatchError
from broker.wire.records import (
    BATCH_OVERHEAD_BYTES,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    RawBatch,
    check_header,
    parse_batch_header,
)

STARTS_KEPT = 256
WALK_CHUNK_BYTES = 8 * 1024  # two index intervals
_WALK_HEADER = struct.Struct(">qi11xi")  # base offset, batch length, last offset delta
RELATIVE_OFFSET_MAX = 2**31 - 1
# A position is an int32 in Kafka's index.
SEGMENT_BYTES_MAX = 2**31 - 1
INDEX_KINDS = (".index", ".timeindex", TRANSACTION_INDEX_SUFFIX)


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


class Segment:
    """Invariant: the file holds whole batches with rising offsets, the last of them ending at `next_offset` - 1.

    The file is never longer than `size_bytes`, except between a crash and `recover`.
    """

    __slots__ = (
        "_file",
        "_filesystem",
        "_index",
        "_path_stem",
        "_starts",
        "_suffix",
        "_times",
        "aborted",
        "base_offset",
        "first_timestamp",
        "larger_index_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "size_bytes",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        suffix: str = "",  # every file name ends with it while compaction makes the segment
    ) -> None:
        self._filesystem = filesystem
        self._path_stem = f"{directory}/{file_name(base_offset, '')}"
        self._suffix = suffix
        self._file: File = filesystem.open(self._path(".log"))
        self._index = OffsetIndex(index_interval_bytes)
        self._times = TimeIndex()
        self._starts: dict[int, int] = {}  # base offset -> position of the last appends, which most readers want
        self.first_timestamp = NO_TIMESTAMP  # largest timestamp of the first batch; the roll time counts from it
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.aborted = TransactionIndex(filesystem, self._path(TRANSACTION_INDEX_SUFFIX))
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size_bytes = 0
        self.larger_index_bytes = 0  # size of the larger index if it had one more entry
        self._measure_indexes()

    def _measure_indexes(self) -> None:
        self.larger_index_bytes = max((len(self._index) + 1) * ENTRY_BYTES, (len(self._times) + 1) * ENTRY.size)

    def _path(self, kind: str) -> str:
        return self._path_stem + kind + self._suffix

    def rename(self, suffix: str) -> None:
        """Give every file another suffix, the log file last. Once the log has its name, the others have theirs.

        Raises OSError only while the log still has its old name.
        """
        kinds = [kind for kind in INDEX_KINDS if self._filesystem.exists(self._path(kind))]
        for kind in (*kinds, ".log"):
            self._filesystem.rename(self._path(kind), self._path_stem + kind + suffix)
        self._suffix = suffix
        self.aborted.moved(self._path(TRANSACTION_INDEX_SUFFIX))
        try:
            opened = self._filesystem.open(self._path(".log"))
        except OSError:
            return  # One cause is too many open files. The open file is the right one, although under its old name.
        self._file.close()
        self._file = opened

    def append(self, buffer: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Write whole batches whose offsets are final; raises OSError with the segment unchanged."""
        position = self.size_bytes
        try:
            self._file.write_at(position, buffer)
        except OSError:
            self._file.truncate(position)  # a part of the write may be in the file
            raise
        starts = self._starts
        starts[headers[0].base_offset] = position
        if len(starts) > STARTS_KEPT:
            del starts[next(iter(starts))]
        for header in headers:
            size = header.batch_length + LENGTH_OVERHEAD_BYTES
            self._note(header, position, size)
            position += size
        assert position == self.size_bytes + len(buffer)
        self.size_bytes = position
        self.next_offset = headers[-1].next_offset

    def _note(self, header: BatchHeader, position: int, size_bytes: int) -> None:
        """Keep the indexes and the largest timestamp in step with a batch at the end of the file."""
        timestamp = header.max_timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, header.last_offset
        if position == 0:
            self.first_timestamp = timestamp
        if self._index.batch_appended(header.last_offset - self.base_offset, position, size_bytes):
            self._times.add(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            self._measure_indexes()

    def read(self, offset: int, max_bytes: int, max_offset: int, minimum_one_batch: bool) -> bytes:
        """Whole batches below `max_offset`, at most `max_bytes`, beginning with the batch that holds `offset`.

        With `minimum_one_batch` the first batch is returned whatever its size. b"" if there is nothing.
        """
        start = self.position_of(offset)
        limit = self.size_bytes if max_offset >= self.next_offset else self.position_of(max_offset)
        if start >= limit:
            return b""
        end = limit if start + max_bytes >= limit else self._batch_end(start, start + max_bytes, limit)
        if end == start:
            if not minimum_one_batch:
                return b""
            end = start + self.header_at(start).size_bytes
        return self._file.read_at(start, end - start)

    def position_of(self, offset: int) -> int:
        """Position of the batch that holds `offset`, or of the first one after it. `size_bytes` if there is none."""
        if offset >= self.next_offset:
            return self.size_bytes
        position = self._starts.get(offset, -1)
        if position >= 0:
            return position
        for position, _, last_offset in self._walk(self._index.position_before(offset - self.base_offset)):
            if last_offset >= offset:
                return position
        return self.size_bytes

    def _batch_end(self, start: int, wanted_end: int, limit: int) -> int:
        """The last batch boundary in [start, wanted_end]; wanted_end < limit."""
        end = max(start, self._index.position_at_or_before(wanted_end))
        for _, next_position, _ in self._walk(end):
            if next_position > wanted_end:
                break
            end = next_position
        assert end <= limit
        return end

    def _walk(self, position: int) -> Iterator[tuple[int, int, int]]:
        """(position, next position, last offset) of each batch from `position` on, with few reads for small batches."""
        chunk, chunk_start = b"", position
        while position < self.size_bytes:
            at = position - chunk_start
            if at + BATCH_OVERHEAD_BYTES > len(chunk):
                chunk, chunk_start, at = self._file.read_at(position, WALK_CHUNK_BYTES), position, 0
            try:
                base_offset, length, last_offset_delta = _WALK_HEADER.unpack_from(chunk, at)
            except struct.error:
                length = -1
            next_position = position + LENGTH_OVERHEAD_BYTES + length
            if length < 0 or next_position > self.size_bytes:
                raise LogCorruptError(f"{self._path_stem}.log: no whole batch at byte {position}")
            yield position, next_position, base_offset + last_offset_delta
            position = next_position

    def read_bytes_at(self, position: int, size: int) -> bytes:
        return self._file.read_at(position, size)

    def header_at(self, position: int) -> BatchHeader:
        """Raises LogCorruptError: only whole batches were ever written."""
        try:
            return parse_batch_header(self._file.read_at(position, BATCH_OVERHEAD_BYTES))
        except CorruptBatchError as error:
            raise LogCorruptError(f"{self._path_stem}.log: no batch at byte {position}: {error}") from error

    def batches(self, position: int = 0, *, bodies: bool) -> Iterator[RawBatch]:
        """Every batch from `position` (a batch start) on. Without `bodies` a batch's buffer is its header only."""
        while position < self.size_bytes:
            header = self.header_at(position)
            size = header.size_bytes if bodies else BATCH_OVERHEAD_BYTES
            yield RawBatch(header, memoryview(self._file.read_at(position, size)), position)
            position += header.size_bytes

    def recover(self, *, may_have_holes: bool = False) -> tuple[list[BatchHeader], int, str]:
        """Read the whole file, check every batch, cut at the first bad byte and rebuild the index.

        Returns (good headers, number of bytes cut off, reason; the reason is empty if nothing was cut). Raises
        LogCorruptError if whole batches follow the bad byte, because no crash of a process leaves that. A loss of power
        can leave it (`may_have_holes`).
        """
        file_bytes = self._file.size_bytes()
        self._index.truncate_to(0)
        self._times.truncate_to(0)
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.next_offset, self.size_bytes = self.base_offset, 0
        headers: list[BatchHeader] = []
        reason = ""
        while self.size_bytes < file_bytes:
            try:
                header = self._check_batch(self.size_bytes, file_bytes)
            except (CorruptBatchError, ValueError) as error:
                reason = str(error)
                break
            self._note(header, self.size_bytes, header.size_bytes)
            self.size_bytes += header.size_bytes
            self.next_offset = header.next_offset
            headers.append(header)
        cut_bytes = file_bytes - self.size_bytes
        if cut_bytes and not may_have_holes:
            self._refuse_rot(reason)
        if cut_bytes:
            self._file.truncate(self.size_bytes)
        self.aborted.load(base_offset=self.base_offset, next_offset=self.next_offset)
        self.aborted.truncate_to(self.base_offset)  # the log writes it again when it replays this segment
        return headers, cut_bytes, reason

    def _refuse_rot(self, reason: str) -> None:
        following = next_whole_batch(self._file, self.size_bytes + 1, min_offset=self.next_offset)
        if following is None:
            return
        position, header = following
        raise LogCorruptError(
            f"{self._path('.log')}: damaged at byte {self.size_bytes} (offset {self.next_offset}): {reason}. A whole "
            f"batch follows at byte {position} (offset {header.base_offset}): no crash of a process leaves that, the "
            "disk has changed what was written. Nothing was cut, for it may have been acknowledged"
        )

    def _check_batch(self, position: int, file_bytes: int) -> BatchHeader:
        header = parse_batch_header(self._file.read_at(position, BATCH_OVERHEAD_BYTES))
        if position + header.size_bytes > file_bytes:
            raise CorruptBatchError(f"a batch of {header.size_bytes} bytes at byte {position} ends after its file")
        check_header(header, position, is_stored=True)
        self._check_offsets(header, position)
        batch = RawBatch(header, memoryview(self._file.read_at(position, header.size_bytes)), position)
        if not batch.is_crc_valid():
            raise CorruptBatchError(f"wrong CRC of the batch at byte {position}")
        return header

    def _check_offsets(self, header: BatchHeader, position: int) -> None:
        """Offsets must rise and fit the indexes. No CRC covers a base offset."""
        if header.base_offset < self.next_offset or header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            raise CorruptBatchError(f"base offset {header.base_offset} at byte {position} after {self.next_offset - 1}")

    def load_clean(self) -> bool:
        """Trust the file after a clean close. False if the index is missing or does not fit: then `recover`."""
        self.size_bytes = self._file.size_bytes()
        if not self._index.load(self._filesystem, self._path(".index"), segment_size_bytes=self.size_bytes):
            return False
        position = self._index.position_at_or_before(self.size_bytes)
        try:
            position = self._follow_to_end(position)
        except LogCorruptError:
            return False
        end = self.next_offset - self.base_offset
        if position != self.size_bytes or not self._times.load(
            self._filesystem, self._path(".timeindex"), relative_end_offset=end
        ):
            return False
        if self.first_timestamp >= 0 and not len(self._times):
            return False  # a loss of power took its entries
        self._take_indexed_timestamp()
        self.aborted.load(base_offset=self.base_offset, next_offset=self.next_offset)
        return True

    def _follow_to_end(self, position: int) -> int:
        """Read the headers from an indexed batch on, to find the end of the segment and its largest timestamp."""
        self.next_offset = self.base_offset
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.first_timestamp = self.header_at(0).max_timestamp if self.size_bytes else NO_TIMESTAMP
        while position < self.size_bytes:
            header = self.header_at(position)
            try:
                self._check_offsets(header, position)
            except CorruptBatchError as error:
                raise LogCorruptError(f"{self._path_stem}.log: {error}") from error
            position += header.size_bytes
            self.next_offset = header.next_offset
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        return position

    def _take_indexed_timestamp(self) -> None:
        """`_follow_to_end` has read only the batches after the last index entry. The time index covers the others."""
        timestamp, relative_offset = self._times.last
        if timestamp >= self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, self.base_offset + relative_offset
        self._measure_indexes()

    def truncate_to(self, offset: int) -> None:
        """Cut at the start of the batch that holds `offset`."""
        position = self.position_of(offset)
        self._starts.clear()
        self._file.truncate(position)
        self._index.truncate_to(position)
        self._times.truncate_to(max(0, offset - self.base_offset))
        self.aborted.truncate_to(offset)
        self.size_bytes = position
        self._follow_to_end(self._index.position_at_or_before(position))
        self._take_indexed_timestamp()

    def has_room_for(self, size_bytes: int, last_offset: int, segment_bytes: int) -> bool:
        if self.size_bytes == 0:
            return True
        return self.size_bytes + size_bytes <= segment_bytes and last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def heads_from(self, timestamp_ms: int, from_offset: int) -> Iterator[RawBatch]:
        """Each batch without its records, from the one that holds `from_offset` on. Batches before the first that may
        reach this time are left out."""
        if self.max_timestamp < timestamp_ms:
            return
        start = max(from_offset, self.base_offset + self._times.offset_before(timestamp_ms))
        yield from self.batches(self.position_of(start), bodies=False)

    def whole(self, batch: RawBatch) -> RawBatch:
        """The same batch with its records. `batch` came from `batches` or `heads_from` just now."""
        data = self._file.read_at(batch.position, batch.header.size_bytes)
        return RawBatch(batch.header, memoryview(data), batch.position)

    def sync(self) -> None:
        self._file.sync()
        self.aborted.sync()

    def save_index(self) -> None:
        """Write both indexes. The time index ends with the segment's largest timestamp. They are not synced, because
        they can be rebuilt."""
        self._times.add(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self._times.save(self._filesystem, self._path(".timeindex"))
        self._index.save(self._filesystem, self._path(".index"))

    def index_bytes(self) -> int:
        return len(self._index) * ENTRY_BYTES

    def close(self) -> None:
        self._file.close()
        self.aborted.close()

    def delete_indexes(self) -> None:
        """Close everything and remove all files except the log file, because another segment takes its name."""
        self.close()
        for kind in INDEX_KINDS:
            self._filesystem.remove(self._path(kind))

    def delete(self) -> None:
        self.delete_indexes()
        self._filesystem.remove(self._path(".log"))
