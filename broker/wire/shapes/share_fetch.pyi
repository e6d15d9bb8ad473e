"""ShareFetchRequest (key 78) and its answer, versions 1-2.

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
class AcknowledgementBatch:
    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]

class AcknowledgementBatchFields(TypedDict, total=False):
    first_offset: int
    last_offset: int
    acknowledge_types: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class FetchPartition:
    partition_index: int
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]

class FetchPartitionFields(TypedDict, total=False):
    partition_index: int
    acknowledgement_batches: Iterable[AcknowledgementBatchFields]

@final
@dataclass(frozen=True, kw_only=True)
class FetchTopic:
    topic_id: UUID | None
    partitions: tuple[FetchPartition, ...]

class FetchTopicFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[FetchPartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class ForgottenTopic:
    topic_id: UUID | None
    partitions: tuple[int, ...]

class ForgottenTopicFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class ShareFetchRequest(Asks[ShareFetchResponse]):
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait: timedelta
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]
    share_acquire_mode: int  # since version 2
    is_renew_ack: bool  # since version 2

class ShareFetchRequestFields(TypedDict, total=False):
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait: timedelta | int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    topics: Iterable[FetchTopicFields]
    forgotten_topics_data: Iterable[ForgottenTopicFields]
    share_acquire_mode: int  # since version 2
    is_renew_ack: bool  # since version 2

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
class AcquiredRecords:
    first_offset: int
    last_offset: int
    delivery_count: int

class AcquiredRecordsFields(TypedDict, total=False):
    first_offset: int
    last_offset: int
    delivery_count: int

@final
@dataclass(frozen=True, kw_only=True)
class PartitionData:
    partition_index: int
    error_code: ErrorCode
    error_message: str | None
    acknowledge_error_code: int
    acknowledge_error_message: str | None
    current_leader: LeaderIdAndEpoch
    records: memoryview
    acquired_records: tuple[AcquiredRecords, ...]

class PartitionDataFields(TypedDict, total=False):
    partition_index: int
    error_code: int
    error_message: str | None
    acknowledge_error_code: int
    acknowledge_error_message: str | None
    current_leader: LeaderIdAndEpochFields
    records: Buffer
    acquired_records: Iterable[AcquiredRecordsFields]

@final
@dataclass(frozen=True, kw_only=True)
class ShareFetchableTopicResponse:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]

class ShareFetchableTopicResponseFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[PartitionDataFields]

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
class ShareFetchResponse(Answers[ShareFetchRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    acquisition_lock_timeout: timedelta
    responses: tuple[ShareFetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]

class ShareFetchResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout: timedelta | int
    responses: Iterable[ShareFetchableTopicResponseFields]
    node_endpoints: Iterable[NodeEndpointFields]
