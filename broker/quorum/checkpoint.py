"""The file of a snapshot, in the frame of Kafka's checkpoints (KIP-630): record batches between two control records.

`<end offset, 20 digits>-<epoch, 10 digits>.checkpoint` holds a control batch with a SnapshotHeader record, batches of
values, and a control batch with a SnapshotFooter record. Without the footer the file is not complete. Offsets begin at
0. All batches have the snapshot's epoch. FetchSnapshot sends the same bytes. This module does not know what a value
means. Shown by tests/broker_quorum/test_quorum_snapshots.py.
"""

from __future__ import annotations

import re
import struct

from kio.schema.snapshot_footer_record.v0 import data as footer_types
from kio.schema.snapshot_header_record.v0 import data as header_types
from kio.static.primitive import i16, i64

from broker.quorum.snapshots import Snapshot, SnapshotId
from broker.wire.batch import RawBatch
from broker.wire.encoder import Output, encode_body
from broker.wire.errors import CorruptBatchError
from broker.wire.messages import Message
from broker.wire.records import decode_records, encode_batch, iter_batches, validate_batches

SUFFIX = ".checkpoint"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
RECORDS_PER_BATCH = 1_000  # Kafka's tools hold one batch at a time in memory
_HEADER_TYPE, _FOOTER_TYPE = 3, 4  # types of control records; 2 is LeaderChange


def file_name(snapshot_id: SnapshotId) -> str:
    return f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}{SUFFIX}"


def parse_file_name(name: str) -> SnapshotId | None:
    match = _NAME.fullmatch(name)
    return None if match is None else SnapshotId(end_offset=int(match[1]), epoch=int(match[2]))


def encode_snapshot(snapshot_id: SnapshotId, values: tuple[bytes, ...], *, last_timestamp_ms: int) -> Snapshot:
    """`last_timestamp_ms`: when the last entry in the snapshot was written, or when the snapshot was taken."""
    header = header_types.SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(last_timestamp_ms))
    footer = footer_types.SnapshotFooterRecord(version=i16(0))
    data = b"".join(
        (
            _control(_HEADER_TYPE, header, offset=0, epoch=snapshot_id.epoch),
            *(
                encode_batch(
                    values[first : first + RECORDS_PER_BATCH],
                    timestamps_ms=0,
                    base_offset=1 + first,
                    partition_leader_epoch=snapshot_id.epoch,
                )
                for first in range(0, len(values), RECORDS_PER_BATCH)
            ),
            _control(_FOOTER_TYPE, footer, offset=1 + len(values), epoch=snapshot_id.epoch),
        )
    )
    return Snapshot(snapshot_id=snapshot_id, data=data)


def _control(kind: int, value: Message, *, offset: int, epoch: int) -> bytes:
    output = Output()
    encode_body(value, output)
    return encode_batch(
        [b"".join(output.finish())],
        timestamps_ms=0,
        keys=[struct.pack(">hh", 0, kind)],
        base_offset=offset,
        partition_leader_epoch=epoch,
        control=True,
    )


def decode_snapshot(snapshot: Snapshot) -> tuple[bytes, ...]:
    """The values. Raises CorruptBatchError if the bytes are damaged, or end before the footer."""
    data = snapshot.data
    validate_batches(data)
    batches = list(iter_batches(data))
    kinds = [_control_type(batch) for batch in batches]
    if len(batches) < 2 or (kinds[0], kinds[-1]) != (_HEADER_TYPE, _FOOTER_TYPE):
        raise CorruptBatchError(f"snapshot {snapshot.snapshot_id}: expected a header and a footer, got {kinds}")
    values: list[bytes] = []
    for batch, kind in zip(batches, kinds, strict=True):
        if kind is None:
            values += [value or b"" for _, _, _, value, _ in decode_records(batch)]
    return tuple(values)


def _control_type(batch: RawBatch) -> int | None:
    if not batch.header.is_control:
        return None
    key = decode_records(batch)[0][2]
    return -1 if key is None or len(key) < 4 else int(struct.unpack_from(">hh", key)[1])
