"""FetchSnapshotRequest (key 59) and its answer, version 1.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias, TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

Buffer: TypeAlias = bytes | bytearray | memoryview

@final
@dataclass(frozen=True, kw_only=True)
class AskedSnapshotId:
    end_offset: int
    epoch: int

class AskedSnapshotIdFields(TypedDict, total=False):
    end_offset: int
    epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class AskedPartitionSnapshot:
    partition: int
    current_leader_epoch: int
    snapshot_id: AskedSnapshotId
    position: int
    replica_directory_id: UUID | None

class AskedPartitionSnapshotFields(TypedDict, total=False):
    partition: int
    current_leader_epoch: int
    snapshot_id: AskedSnapshotIdFields
    position: int
    replica_directory_id: UUID | None

@final
@dataclass(frozen=True, kw_only=True)
class AskedTopicSnapshot:
    name: str
    partitions: tuple[AskedPartitionSnapshot, ...]

class AskedTopicSnapshotFields(TypedDict, total=False):
    name: str
    partitions: Iterable[AskedPartitionSnapshotFields]

@final
@dataclass(frozen=True, kw_only=True)
class FetchSnapshotRequest(Asks[FetchSnapshotResponse]):
    cluster_id: str | None
    replica_id: int
    max_bytes: int
    topics: tuple[AskedTopicSnapshot, ...]

class FetchSnapshotRequestFields(TypedDict, total=False):
    cluster_id: str | None
    replica_id: int
    max_bytes: int
    topics: Iterable[AskedTopicSnapshotFields]

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredSnapshotId:
    end_offset: int
    epoch: int

class AnsweredSnapshotIdFields(TypedDict, total=False):
    end_offset: int
    epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class LeaderIdAndEpoch:
    leader_id: int
    leader_epoch: int

class LeaderIdAndEpochFields(TypedDict, total=False):
    leader_id: int
    leader_epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredPartitionSnapshot:
    index: int
    error_code: ErrorCode
    snapshot_id: AnsweredSnapshotId
    current_leader: LeaderIdAndEpoch
    size: int
    position: int
    unaligned_records: memoryview

class AnsweredPartitionSnapshotFields(TypedDict, total=False):
    index: int
    error_code: int
    snapshot_id: AnsweredSnapshotIdFields
    current_leader: LeaderIdAndEpochFields
    size: int
    position: int
    unaligned_records: Buffer

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredTopicSnapshot:
    name: str
    partitions: tuple[AnsweredPartitionSnapshot, ...]

class AnsweredTopicSnapshotFields(TypedDict, total=False):
    name: str
    partitions: Iterable[AnsweredPartitionSnapshotFields]

@final
@dataclass(frozen=True, kw_only=True)
class NodeEndpoint:
    node_id: int
    host: str
    port: int

class NodeEndpointFields(TypedDict, total=False):
    node_id: int
    host: str
    port: int

@final
@dataclass(frozen=True, kw_only=True)
class FetchSnapshotResponse(Answers[FetchSnapshotRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    topics: tuple[AnsweredTopicSnapshot, ...]
    node_endpoints: tuple[NodeEndpoint, ...]

class FetchSnapshotResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    topics: Iterable[AnsweredTopicSnapshotFields]
    node_endpoints: Iterable[NodeEndpointFields]
