"""The frames of the fast form: records and outcomes as rows of fixed width, little endian.

Owns the layout that docs/reference/client-protocol.md describes. A frame stands where a line may stand, and its first
byte, which is its kind, begins no line. Pure. Shown by tests/workloads/test_workloads_process_frames.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from runlog.streams.schema import SendStatus
from workloads.clients.process.messages import (
    LINE_BYTES_MAX,
    Acknowledged,
    AcknowledgedRecord,
    NotAcknowledged,
    OpenRecord,
)
from workloads.clients.protocol import TIMED_OUTCOME, RecordBatch

HEAD: Final = struct.Struct("<iiq")  # kind, number of rows, bytes that follow
RECORDS: Final = 1
OUTCOMES: Final = 2
FIRST_BYTES: Final = bytes((RECORDS, OUTCOMES))
FRAME_RECORDS_MAX: Final = 10_000
RECORD_ROW: Final = np.dtype(
    [("seq", "<i8"), ("topic", "<i4"), ("partition", "<i4"), ("key_bytes", "<i4"), ("value_bytes", "<i4")]
)
# The fields of TIMED_OUTCOME, in its order and widths; times are microseconds.
OUTCOME_ROW: Final = np.dtype(
    [
        ("seq", "<i8"), ("sent_us", "<i8"), ("at_us", "<i8"), ("offset", "<i8"), ("timestamp_ms", "<i8"),
        ("partition", "<i4"), ("code", "<i2"), ("fate", "<i2"),
    ]
)  # fmt: skip
FATES: Final = ("acknowledged", "failed", "unknown")  # by the number in a row, which is that of SendStatus


def records_frame(batch: RecordBatch) -> bytes:
    rows = np.empty(len(batch), dtype=RECORD_ROW)
    rows["seq"] = batch.seqs
    rows["topic"], rows["partition"] = batch.topics, batch.partitions
    rows["key_bytes"], rows["value_bytes"] = batch.key_sizes, batch.value_sizes
    size_bytes = rows.nbytes + len(batch.keys) + len(batch.values)
    contents = (rows.tobytes(), batch.keys.tobytes(), batch.values.tobytes())
    return b"".join((HEAD.pack(RECORDS, len(rows), size_bytes), *contents))


def end_of_frame(buffer: bytearray, start: int) -> int:
    """Where the frame that begins there ends, if its head is whole; else 0. A head that cannot be ends beyond every
    bound."""
    if len(buffer) - start < HEAD.size:
        return 0
    _kind, _rows, size_bytes = HEAD.unpack_from(buffer, start)
    end: int = start + HEAD.size + (size_bytes if 0 <= size_bytes <= LINE_BYTES_MAX else LINE_BYTES_MAX + 1)
    return end


@dataclass(frozen=True, slots=True)
class Outcomes:
    """`rows` of OUTCOME_ROW."""

    rows: NDArray[Any]

    def timed(self) -> NDArray[Any]:
        """As the sink of a load takes them: rows of TIMED_OUTCOME."""
        timed = self.rows.view(TIMED_OUTCOME).copy()
        timed["sent_ns"] *= 1_000
        timed["acked_ns"] *= 1_000
        return timed

    def events(self) -> Iterator[Acknowledged | NotAcknowledged]:
        """The same as events of one record each, for who judges them one by one."""
        for seq, sent_us, at_us, offset, timestamp_ms, partition, code, fate in self.rows.tolist():
            if fate == SendStatus.ACKED:
                told = AcknowledgedRecord(
                    seq=seq, sent_us=sent_us, partition=partition, offset=offset, timestamp_ms=timestamp_ms
                )
                yield Acknowledged(event="acknowledged", at_us=at_us, records=(told,))
            else:
                record = OpenRecord(seq=seq, sent_us=sent_us)
                word: Literal["failed", "unknown"] = "failed" if fate == SendStatus.FAILED else "unknown"
                yield NotAcknowledged(event=word, at_us=at_us, records=(record,), code=code)


def outcomes_of(frame: bytes) -> Outcomes | str:
    """What is wrong with the frame, if something is."""
    kind, count, size_bytes = HEAD.unpack_from(frame)
    if kind != OUTCOMES:
        return f"a frame of kind {kind}: a client writes kind {OUTCOMES}"
    if count <= 0 or size_bytes != count * OUTCOME_ROW.itemsize or len(frame) != HEAD.size + size_bytes:
        return f"a frame of {count} rows and {size_bytes} bytes: a row has {OUTCOME_ROW.itemsize}"
    rows = np.frombuffer(frame, dtype=OUTCOME_ROW, offset=HEAD.size)
    fate, is_acked = rows["fate"], rows["fate"] == SendStatus.ACKED
    acked = rows if is_acked.all() else rows[is_acked]
    for name, values, least, most in (
        ("fate", fate, 0, len(FATES) - 1),
        ("sent_us", rows["sent_us"], 0, None),
        ("code", rows["code"], -1, None),
        ("partition", acked["partition"], 0, None),
        ("offset", acked["offset"], -1, None),
    ):
        if len(values) and (values.min() < least or (most is not None and values.max() > most)):
            wrong = values.min() if values.min() < least else values.max()
            return f"{name} of a row is {wrong}"
    return Outcomes(rows)
