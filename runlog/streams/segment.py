"""Live segments: fixed-width rows in a memory-mapped file, one writer per process, stream and thread.

A row is one `pack_into` whose last byte is a commit mark. Dirty pages belong to the kernel, so a SIGKILL of the writer
loses no finished row, and an interrupted row has no mark. (A loss of power is different: nothing is synced.) Files are
allocated in full before they are mapped, so that a full disk is an OSError here and not a SIGBUS later. This module
knows nothing of Parquet. `tests/runlog/test_runlog_segment.py` kills a writer by a real SIGKILL.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runlog.streams.schema import SCHEMA_VERSION, STREAMS, Stream

_READ_VERSIONS = (2, SCHEMA_VERSION)  # rows of live segments are the same in both

SUFFIX = ".seg"
SPARE_SUFFIX = ".spare"
COMMIT_MARK = 0xC5
ROWS_PER_SEGMENT = 131_072
# About 268 million rows per writer. A cell has far fewer. The limit bounds the disk space that a defect can use.
SEGMENTS_MAX = 2_048
_MAGIC = b"KHSEGMT1"
_FILE_HEADER = struct.Struct("<8sHH16s")
_HEADER_BYTES = 64
_NUMPY_TYPES = {"h": "<i2", "i": "<i4", "q": "<i8", "b": "i1", "I": "<u4", "d": "<f8"}

Rows = NDArray[Any]  # a structured array: its fields are the stream's columns


class SegmentError(ValueError):
    """A file is not a segment of this schema."""


class SegmentsFull(RuntimeError):
    """A writer reached its bound of segments."""


def row_dtype(stream: Stream) -> np.dtype[Any]:
    """The columns of a stream, packed, without the commit mark."""
    return np.dtype([(column.name, _NUMPY_TYPES[column.struct_code]) for column in stream.columns])


def live_row_dtype(stream: Stream) -> np.dtype[Any]:
    """A row in a segment: the columns, then the commit mark."""
    fields: list[Any] = [(column.name, _NUMPY_TYPES[column.struct_code]) for column in stream.columns]
    return np.dtype([*fields, ("commit_mark", "u1")])


class SegmentWriter:
    """Appends rows of one stream. Not thread-safe: callers that share one need a lock."""

    __slots__ = (
        "_buffer", "_descriptor", "_directory", "_end", "_has_spares", "_is_closed", "_map", "_pack_into", "_path",
        "_position", "_row", "_rows_per_segment", "_segments_max", "_segments_opened", "_spare", "_stream",
        "_width", "_writer",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        stream: Stream,
        writer: str,
        *,
        rows_per_segment: int = ROWS_PER_SEGMENT,
        segments_max: int = SEGMENTS_MAX,
    ) -> None:
        if not stream.live:
            raise SegmentError(f"stream {stream.name} is not written row by row")
        if "-" in writer or "/" in writer or not writer:
            raise SegmentError(f"writer name {writer!r} must not be empty nor hold '-' or '/'")
        self._directory = directory
        self._stream = stream
        self._writer = writer
        self._row = struct.Struct(stream.struct_format + "B")
        self._pack_into = self._row.pack_into
        self._width = self._row.size
        self._rows_per_segment = rows_per_segment
        self._segments_max = segments_max
        self._segments_opened = 0
        self._spare: tuple[Path, mmap.mmap, int] | None = None  # the next file, when it was prepared
        self._has_spares = True
        self._is_closed = False
        self._map: mmap.mmap | None = None
        self._descriptor = -1  # of the same file
        self._buffer: mmap.mmap | bytearray = bytearray()  # the open map
        self._path: Path | None = None
        self._position = 0
        self._end = 0
        directory.mkdir(parents=True, exist_ok=True)

    def append(self, *row: int | float) -> None:
        """Write one row in the stream's column order. SegmentsFull at the bound, OSError when the disk is full."""
        position = self._position
        if position == self._end:
            position = self._rotate()
        self._pack_into(self._buffer, position, *row, COMMIT_MARK)
        self._position = position + self._width

    def append_send(
        self, producer: int, incarnation: int, seq: int, partition: int, status: int, error: int, size_bytes: int,
        intended_us: int, sent_us: int, acked_us: int, offset: int, appended_us: int,
    ) -> None:  # fmt: skip
        """`append` of a SEND row at half the cost (210 against 420 ns on a busy machine): no tuple on the way."""
        position = self._position
        if position == self._end:
            position = self._rotate()
        self._pack_into(
            self._buffer, position, producer, incarnation, seq, partition, status, error, size_bytes,
            intended_us, sent_us, acked_us, offset, appended_us, COMMIT_MARK,
        )  # fmt: skip
        self._position = position + self._width

    def append_recv(
        self, consumer: int, generation: int, partition: int, offset: int, producer: int, incarnation: int, seq: int,
        intended_us: int, polled_us: int, crc_ok: int, appended_us: int, reader: int,
    ) -> None:  # fmt: skip
        """`append` of a RECV row, in the same way."""
        position = self._position
        if position == self._end:
            position = self._rotate()
        self._pack_into(
            self._buffer, position, consumer, generation, partition, offset, producer, incarnation, seq,
            intended_us, polled_us, crc_ok, appended_us, reader, COMMIT_MARK,
        )  # fmt: skip
        self._position = position + self._width

    def append_rows(self, rows: Rows) -> None:
        """Writes many rows at once, an array of `live_row_dtype`, by a system call: there a new page costs a quarter of
        what it costs through the map. The mark of the first row is set last. No reader looks behind a row without it,
        so a kill in between leaves none of the rows, and no reader sees one that is incomplete."""
        done = 0
        while done < len(rows):
            position = self._position
            if position == self._end:
                position = self._rotate()
            count = min(len(rows) - done, (self._end - position) // self._width)
            part = rows[done : done + count]
            part["commit_mark"] = COMMIT_MARK
            part["commit_mark"][0] = 0
            # If the call fails, the file ends here: the next row goes to another one, and what was written is cut off.
            end, self._end = self._end, position
            written = os.pwrite(self._descriptor, part.view(np.uint8).data, position)
            assert written == part.nbytes  # the file was allocated in full
            self._buffer[position + self._width - 1] = COMMIT_MARK
            self._end = end
            self._position = position + count * self._width
            done += count

    def prepare(self) -> None:
        """Allocate the next file before it is needed. This takes milliseconds, and a thread that holds a lock should
        not wait for it. Another thread may call it, but only one at a time. Rows can do without it, so a disk that does
        not take it is no error here, and is asked no more."""
        if self._spare is None and self._has_spares and not self._is_closed and self._map is not None:
            path = self._directory / f"{self._stream.name}-{self._writer}{SPARE_SUFFIX}"
            try:
                path.unlink(missing_ok=True)
                self._spare = (path, *_create_mapped(path, _HEADER_BYTES + self._rows_per_segment * self._width))
            except OSError:
                self._has_spares = False

    def close(self) -> None:
        """Nothing is written after this. Safe to call twice."""
        self._is_closed = True
        self._close_segment()
        spare, self._spare = self._spare, None
        if spare is not None:
            spare[1].close()
            os.close(spare[2])
            spare[0].unlink(missing_ok=True)

    def _close_segment(self) -> None:
        """Unmap and give back the unused space."""
        if self._map is None or self._path is None:
            return
        self._map.close()
        os.ftruncate(self._descriptor, self._position)
        os.close(self._descriptor)
        self._map, self._descriptor = None, -1
        self._buffer = bytearray()
        self._path = None
        self._position = self._end = 0

    def _rotate(self) -> int:
        self._close_segment()
        if self._segments_opened >= self._segments_max:
            raise SegmentsFull(
                f"{self._stream.name} writer {self._writer}: {self._segments_max} segments of "
                f"{self._rows_per_segment} rows are full"
            )
        path = self._directory / f"{self._stream.name}-{self._writer}-{self._segments_opened:06d}{SUFFIX}"
        size = _HEADER_BYTES + self._rows_per_segment * self._width
        spare, self._spare = self._spare, None
        if spare is None:
            self._map, self._descriptor = _create_mapped(path, size)
        else:
            os.rename(spare[0], path)
            _, self._map, self._descriptor = spare
        self._buffer = self._map
        _FILE_HEADER.pack_into(self._map, 0, _MAGIC, SCHEMA_VERSION, self._width, self._stream.name.encode())
        self._path = path
        self._segments_opened += 1
        self._position = _HEADER_BYTES
        self._end = size
        return _HEADER_BYTES


def _create_mapped(path: Path, size_bytes: int) -> tuple[mmap.mmap, int]:
    """The map, and a descriptor of the file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
        return mmap.mmap(descriptor, size_bytes), descriptor
    except BaseException:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            path.unlink()  # its name must be free when there is room again
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentContent:
    """What one file holds: its finished rows, and whether a row was cut short."""

    path: Path
    stream: Stream
    writer: str
    index: int
    rows: Rows
    torn_rows: int


def read_segment(path: Path) -> SegmentContent:
    """Read the finished rows of one file, whether its writer closed it, was killed or is still writing."""
    name_parts = path.name.removesuffix(SUFFIX).split("-")
    data = path.read_bytes()
    if len(data) < _HEADER_BYTES or len(name_parts) != 3:
        return _empty_content(path, name_parts)
    magic, version, width, stream_name = _FILE_HEADER.unpack_from(data)
    if magic == b"\0" * 8:  # killed between the allocation and the file header
        return _empty_content(path, name_parts)
    stream = STREAMS.get(stream_name.rstrip(b"\0").decode(errors="replace"))
    if magic != _MAGIC or stream is None:
        raise SegmentError(f"{path} is not a run-log segment")
    dtype = live_row_dtype(stream)
    if version not in _READ_VERSIONS or width != dtype.itemsize:
        raise SegmentError(
            f"{path} has schema version {version} and rows of {width} bytes, "
            f"expected {SCHEMA_VERSION} and {dtype.itemsize}"
        )
    count = (len(data) - _HEADER_BYTES) // width
    marked = np.frombuffer(data, dtype=dtype, count=count, offset=_HEADER_BYTES)
    finished = _finished_prefix(marked)
    rows = np.empty(finished, dtype=row_dtype(stream))
    for column in stream.columns:
        rows[column.name] = marked[column.name][:finished]
    next_row = _HEADER_BYTES + finished * width
    torn = int(finished < count and any(data[next_row : next_row + width]))
    return SegmentContent(
        path=path, stream=stream, writer=name_parts[1], index=int(name_parts[2]), rows=rows, torn_rows=torn
    )


def _finished_prefix(marked: Rows) -> int:
    unfinished = np.flatnonzero(marked["commit_mark"] != COMMIT_MARK)
    return int(unfinished[0]) if len(unfinished) else len(marked)


def _empty_content(path: Path, name_parts: list[str]) -> SegmentContent:
    if len(name_parts) != 3 or name_parts[0] not in STREAMS or not name_parts[2].isdigit():
        raise SegmentError(f"{path} is not a run-log segment")
    stream = STREAMS[name_parts[0]]
    rows = np.empty(0, dtype=row_dtype(stream))
    return SegmentContent(
        path=path, stream=stream, writer=name_parts[1], index=int(name_parts[2]), rows=rows, torn_rows=0
    )


def list_segments(directory: Path, stream: Stream | None = None) -> list[Path]:
    """Segment files in a directory, in the order in which they were written by each writer."""
    prefix = f"{stream.name}-" if stream is not None else ""
    return sorted(path for path in directory.glob(f"{prefix}*{SUFFIX}"))


def read_segments(directory: Path, stream: Stream) -> Iterator[SegmentContent]:
    """Every segment of one stream, one in memory at a time."""
    for path in list_segments(directory, stream):
        yield read_segment(path)


class SegmentFollower:
    """Reads the rows that one live writer added since the last read. The writer pays nothing for this."""

    def __init__(self, directory: Path, stream: Stream, writer: str) -> None:
        self._prefix = directory / f"{stream.name}-{writer}-"
        self._marked = live_row_dtype(stream)
        self._index = 0
        self._position = _HEADER_BYTES

    def read_new(self, rows_max: int = 4_096) -> Rows:
        """Finished rows not returned before (with their commit mark), at most `rows_max`; empty when there are none.

        Each call reads up to `rows_max` rows of a file that is allocated in full, so a small bound is a cheap look.
        """
        while True:
            path = Path(f"{self._prefix}{self._index:06d}{SUFFIX}")
            rows = self._read(path, rows_max)
            if len(rows) or not self._next_exists():
                return rows
            # The writer may have filled this file after the read, and before we looked for the next file.
            rows = self._read(path, rows_max)
            if len(rows):
                return rows
            self._index += 1
            self._position = _HEADER_BYTES

    def _next_exists(self) -> bool:
        return os.path.exists(f"{self._prefix}{self._index + 1:06d}{SUFFIX}")

    def _read(self, path: Path, rows_max: int) -> Rows:
        try:
            with path.open("rb", buffering=0) as file:
                data = os.pread(file.fileno(), rows_max * self._marked.itemsize, self._position)
        except FileNotFoundError:
            return np.empty(0, dtype=self._marked)
        marked = np.frombuffer(data, dtype=self._marked, count=len(data) // self._marked.itemsize)
        rows = marked[: _finished_prefix(marked)]
        self._position += rows.nbytes
        return rows
