"""ProduceRequest (key 0) and its answer, versions 3-13.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias, TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

Buffer: TypeAlias = bytes | bytearray | memoryview

@final
@dataclass(frozen=True, kw_only=True)
class PartitionProduceData:
    index: int
    records: memoryview | None

class PartitionProduceDataFields(TypedDict, total=False):
    index: int
    records: Buffer | None

@final
@dataclass(frozen=True, kw_only=True)
class TopicProduceData:
    name: str  # until version 12
    partition_data: Sequence[PartitionProduceData]
    topic_id: UUID | None  # since version 13

class TopicProduceDataFields(TypedDict, total=False):
    name: str  # until version 12
    partition_data: Iterable[PartitionProduceDataFields]
    topic_id: UUID | None  # since version 13

@final
@dataclass(frozen=True, kw_only=True)
class ProduceRequest(Asks[ProduceResponse]):
    transactional_id: str | None
    acks: int
    timeout: timedelta | int
    topic_data: Sequence[TopicProduceData]

class ProduceRequestFields(TypedDict, total=False):
    transactional_id: str | None
    acks: int
    timeout: timedelta | int
    topic_data: Iterable[TopicProduceDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class PartitionProduceResponse:
    index: int
    error_code: ErrorCode
    base_offset: int
    log_append_time: datetime | None
    log_start_offset: int  # since version 5
    record_errors: tuple[BatchIndexAndErrorMessage, ...]  # since version 8
    error_message: str | None  # since version 8
    current_leader: LeaderIdAndEpoch  # since version 10

class PartitionProduceResponseFields(TypedDict, total=False):
    index: int
    error_code: int
    base_offset: int
    log_append_time: datetime | int | None
    log_start_offset: int  # since version 5
    record_errors: Iterable[BatchIndexAndErrorMessageFields]  # since version 8
    error_message: str | None  # since version 8
    current_leader: LeaderIdAndEpochFields  # since version 10

@final
@dataclass(frozen=True, kw_only=True)
class TopicProduceResponse:
    name: str  # until version 12
    partition_responses: tuple[PartitionProduceResponse, ...]
    topic_id: UUID | None  # since version 13

class TopicProduceResponseFields(TypedDict, total=False):
    name: str  # until version 12
    partition_responses: Iterable[PartitionProduceResponseFields]
    topic_id: UUID | None  # since version 13

@final
@dataclass(frozen=True, kw_only=True)
class BatchIndexAndErrorMessage:
    batch_index: int
    batch_index_error_message: str | None

class BatchIndexAndErrorMessageFields(TypedDict, total=False):
    batch_index: int
    batch_index_error_message: str | None

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
class ProduceResponse(Answers[ProduceRequest]):
    responses: tuple[TopicProduceResponse, ...]
    throttle_time: timedelta
    node_endpoints: tuple[NodeEndpoint, ...]  # since version 10

class ProduceResponseFields(TypedDict, total=False):
    responses: Iterable[TopicProduceResponseFields]
    throttle_time: timedelta | int
    node_endpoints: Iterable[NodeEndpointFields]  # since version 10
