"""ShareAcknowledgeRequest (key 79) and its answer, versions 1-2.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

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
class AcknowledgePartition:
    partition_index: int
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]

class AcknowledgePartitionFields(TypedDict, total=False):
    partition_index: int
    acknowledgement_batches: Iterable[AcknowledgementBatchFields]

@final
@dataclass(frozen=True, kw_only=True)
class AcknowledgeTopic:
    topic_id: UUID | None
    partitions: tuple[AcknowledgePartition, ...]

class AcknowledgeTopicFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[AcknowledgePartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class ShareAcknowledgeRequest(Asks[ShareAcknowledgeResponse]):
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    topics: tuple[AcknowledgeTopic, ...]
    is_renew_ack: bool  # since version 2

class ShareAcknowledgeRequestFields(TypedDict, total=False):
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    topics: Iterable[AcknowledgeTopicFields]
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
class PartitionData:
    partition_index: int
    error_code: ErrorCode
    error_message: str | None
    current_leader: LeaderIdAndEpoch

class PartitionDataFields(TypedDict, total=False):
    partition_index: int
    error_code: int
    error_message: str | None
    current_leader: LeaderIdAndEpochFields

@final
@dataclass(frozen=True, kw_only=True)
class ShareAcknowledgeTopicResponse:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]

class ShareAcknowledgeTopicResponseFields(TypedDict, total=False):
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
class ShareAcknowledgeResponse(Answers[ShareAcknowledgeRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    responses: tuple[ShareAcknowledgeTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]
    acquisition_lock_timeout: timedelta  # since version 2

class ShareAcknowledgeResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    responses: Iterable[ShareAcknowledgeTopicResponseFields]
    node_endpoints: Iterable[NodeEndpointFields]
    acquisition_lock_timeout: timedelta | int  # since version 2
