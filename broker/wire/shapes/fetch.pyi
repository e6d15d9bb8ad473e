"""FetchRequest (key 1) and its answer, versions 4-18.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias, TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

Buffer: TypeAlias = bytes | bytearray | memoryview

@final
@dataclass(frozen=True, kw_only=True)
class FetchPartition:
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    log_start_offset: int  # since version 5
    current_leader_epoch: int  # since version 9
    last_fetched_epoch: int  # since version 12
    replica_directory_id: UUID | None  # since version 17
    high_watermark: int  # since version 18

class FetchPartitionFields(TypedDict, total=False):
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    log_start_offset: int  # since version 5
    current_leader_epoch: int  # since version 9
    last_fetched_epoch: int  # since version 12
    replica_directory_id: UUID | None  # since version 17
    high_watermark: int  # since version 18

@final
@dataclass(frozen=True, kw_only=True)
class FetchTopic:
    topic: str  # until version 12
    partitions: Sequence[FetchPartition]
    topic_id: UUID | None  # since version 13

class FetchTopicFields(TypedDict, total=False):
    topic: str  # until version 12
    partitions: Iterable[FetchPartitionFields]
    topic_id: UUID | None  # since version 13

@final
@dataclass(frozen=True, kw_only=True)
class ForgottenTopic:
    topic: str  # until version 12
    partitions: Sequence[int]
    topic_id: UUID | None  # since version 13

class ForgottenTopicFields(TypedDict, total=False):
    topic: str  # until version 12
    partitions: Iterable[int]
    topic_id: UUID | None  # since version 13

@final
@dataclass(frozen=True, kw_only=True)
class ReplicaState:
    replica_id: int
    replica_epoch: int

class ReplicaStateFields(TypedDict, total=False):
    replica_id: int
    replica_epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class FetchRequest(Asks[FetchResponse]):
    replica_id: int  # until version 14
    max_wait: timedelta | int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    topics: Sequence[FetchTopic]
    session_id: int  # since version 7
    session_epoch: int  # since version 7
    forgotten_topics_data: Sequence[ForgottenTopic]  # since version 7
    rack_id: str  # since version 11
    cluster_id: str | None  # since version 12
    replica_state: ReplicaState  # since version 15

class FetchRequestFields(TypedDict, total=False):
    replica_id: int  # until version 14
    max_wait: timedelta | int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    topics: Iterable[FetchTopicFields]
    session_id: int  # since version 7
    session_epoch: int  # since version 7
    forgotten_topics_data: Iterable[ForgottenTopicFields]  # since version 7
    rack_id: str  # since version 11
    cluster_id: str | None  # since version 12
    replica_state: ReplicaStateFields  # since version 15

@final
@dataclass(frozen=True, kw_only=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int

class AbortedTransactionFields(TypedDict, total=False):
    producer_id: int
    first_offset: int

@final
@dataclass(frozen=True, kw_only=True)
class PartitionData:
    partition_index: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    aborted_transactions: tuple[AbortedTransaction, ...] | None
    records: memoryview | None
    log_start_offset: int  # since version 5
    preferred_read_replica: int  # since version 11
    diverging_epoch: EpochEndOffset  # since version 12
    current_leader: LeaderIdAndEpoch  # since version 12
    snapshot_id: SnapshotId  # since version 12

class PartitionDataFields(TypedDict, total=False):
    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    aborted_transactions: Iterable[AbortedTransactionFields] | None
    records: Buffer | None
    log_start_offset: int  # since version 5
    preferred_read_replica: int  # since version 11
    diverging_epoch: EpochEndOffsetFields  # since version 12
    current_leader: LeaderIdAndEpochFields  # since version 12
    snapshot_id: SnapshotIdFields  # since version 12

@final
@dataclass(frozen=True, kw_only=True)
class FetchableTopicResponse:
    topic: str  # until version 12
    partitions: tuple[PartitionData, ...]
    topic_id: UUID | None  # since version 13

class FetchableTopicResponseFields(TypedDict, total=False):
    topic: str  # until version 12
    partitions: Iterable[PartitionDataFields]
    topic_id: UUID | None  # since version 13

@final
@dataclass(frozen=True, kw_only=True)
class EpochEndOffset:
    epoch: int
    end_offset: int

class EpochEndOffsetFields(TypedDict, total=False):
    epoch: int
    end_offset: int

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
class SnapshotId:
    end_offset: int
    epoch: int

class SnapshotIdFields(TypedDict, total=False):
    end_offset: int
    epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class NodeEndpoint:
    node_id: int
    host: str
    port: int
    rack: str | None

class NodeEndpointFields(TypedDict, total=False):
    node_id: int
    host: str
    port: int
    rack: str | None

@final
@dataclass(frozen=True, kw_only=True)
class FetchResponse(Answers[FetchRequest]):
    throttle_time: timedelta
    responses: tuple[FetchableTopicResponse, ...]
    error_code: ErrorCode  # since version 7
    session_id: int  # since version 7
    node_endpoints: tuple[NodeEndpoint, ...]  # since version 16

class FetchResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    responses: Iterable[FetchableTopicResponseFields]
    error_code: int  # since version 7
    session_id: int  # since version 7
    node_endpoints: Iterable[NodeEndpointFields]  # since version 16
