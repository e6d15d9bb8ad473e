"""Snapshots of the metadata log (KIP-630): their names, and how a follower downloads one in pieces.

A snapshot stands for all entries below its end offset. Its bytes mean nothing to the quorum. It only contains committed
entries, so installing it takes nothing back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SNAPSHOT_BYTES_MAX = 256 << 20  # a follower holds it in memory; the metadata of a cluster is a small part of this


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SnapshotId:
    """`epoch` is the epoch of the last entry that the snapshot stands for, at `end_offset` - 1."""

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
    """The part of the leader's snapshot that a follower has received so far."""

    snapshot_id: SnapshotId
    data: bytearray = field(default_factory=bytearray)

    def add(self, snapshot_id: SnapshotId, *, position: int, size: int, piece: bytes) -> bool:
        """Add a piece. False: it does not continue the part that is here, so the download must begin again."""
        fits = snapshot_id == self.snapshot_id and position == len(self.data)
        if not fits or size > SNAPSHOT_BYTES_MAX or len(self.data) + len(piece) > size or not piece:
            return False
        self.data += piece
        return True
