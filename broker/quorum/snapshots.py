"""Snapshots of the metadata log (KIP-630): what they are called, and how a follower gathers one in pieces.

A snapshot stands for all entries below its end offset; its bytes are opaque to the quorum. Only what is committed is
ever in one, so installing it takes nothing back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SNAPSHOT_BYTES_MAX = 256 << 20  # a follower gathers it in memory; a cluster's metadata is a small part of that


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SnapshotId:
    """`epoch` is that of the last entry it stands for, the one at `end_offset` - 1."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    snapshot_id: SnapshotId
    data: bytes

    def __repr__(self) -> str:
        return f"Snapshot({self.snapshot_id}, {len(self.data)} bytes)"


@dataclass(slots=True, kw_only=True)
class SnapshotDownload:
    """What a follower has of the snapshot that its leader named."""

    snapshot_id: SnapshotId
    data: bytearray = field(default_factory=bytearray)

    def add(self, snapshot_id: SnapshotId, *, position: int, size: int, piece: bytes) -> bool:
        """False: the piece does not fit to what there is, begin anew."""
        fits = snapshot_id == self.snapshot_id and position == len(self.data)
        if not fits or size > SNAPSHOT_BYTES_MAX or len(self.data) + len(piece) > size or not piece:
            return False
        self.data += piece
        return True
