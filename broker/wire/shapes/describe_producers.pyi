"""DescribeProducersRequest (key 61) and its answer, version 0.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class TopicRequest:
    name: str
    partition_indexes: tuple[int, ...]

class TopicRequestFields(TypedDict, total=False):
    name: str
    partition_indexes: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeProducersRequest(Asks[DescribeProducersResponse]):
    topics: tuple[TopicRequest, ...]

class DescribeProducersRequestFields(TypedDict, total=False):
    topics: Iterable[TopicRequestFields]

@final
@dataclass(frozen=True, kw_only=True)
class ProducerState:
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int

class ProducerStateFields(TypedDict, total=False):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int

@final
@dataclass(frozen=True, kw_only=True)
class PartitionResponse:
    partition_index: int
    error_code: ErrorCode
    error_message: str | None
    active_producers: tuple[ProducerState, ...]

class PartitionResponseFields(TypedDict, total=False):
    partition_index: int
    error_code: int
    error_message: str | None
    active_producers: Iterable[ProducerStateFields]

@final
@dataclass(frozen=True, kw_only=True)
class TopicResponse:
    name: str
    partitions: tuple[PartitionResponse, ...]

class TopicResponseFields(TypedDict, total=False):
    name: str
    partitions: Iterable[PartitionResponseFields]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeProducersResponse(Answers[DescribeProducersRequest]):
    throttle_time: timedelta
    topics: tuple[TopicResponse, ...]

class DescribeProducersResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    topics: Iterable[TopicResponseFields]
