"""Converts a metadata image to a snapshot of the quorum's log, and back (KIP-630)."""

from __future__ import annotations

from broker.controller.image import MetadataImage
from broker.controller.record_codec import decode_records, encode_records
from broker.controller.snapshot import image_of, image_records
from broker.quorum.checkpoint import decode_snapshot, encode_snapshot
from broker.quorum.snapshots import Snapshot, SnapshotId


def snapshot_of(image: MetadataImage, *, epoch: int, last_timestamp_ms: int) -> Snapshot:
    """`epoch` is the epoch of the last entry in the image."""
    snapshot_id = SnapshotId(end_offset=image.offset + 1, epoch=epoch)
    return encode_snapshot(snapshot_id, encode_records(image_records(image)), last_timestamp_ms=last_timestamp_ms)


def image_in(snapshot: Snapshot) -> MetadataImage:
    records = decode_records(decode_snapshot(snapshot))
    return image_of(records, end_offset=snapshot.snapshot_id.end_offset, epoch=snapshot.snapshot_id.epoch)
