"""DeleteRecordsRequest (key 21) and its answer, versions 0-2.

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
class DeleteRecordsPartition:
    partition_index: int
    offset: int

class DeleteRecordsPartitionFields(TypedDict, total=False):
    partition_index: int
    offset: int

@final
@dataclass(frozen=True, kw_only=True)
class DeleteRecordsTopic:
    name: str
    partitions: tuple[DeleteRecordsPartition, ...]

class DeleteRecordsTopicFields(TypedDict, total=False):
    name: str
    partitions: Iterable[DeleteRecordsPartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class DeleteRecordsRequest(Asks[DeleteRecordsResponse]):
    topics: tuple[DeleteRecordsTopic, ...]
    timeout: timedelta

class DeleteRecordsRequestFields(TypedDict, total=False):
    topics: Iterable[DeleteRecordsTopicFields]
    timeout: timedelta | int

@final
@dataclass(frozen=True, kw_only=True)
class DeleteRecordsPartitionResult:
    partition_index: int
    low_watermark: int
    error_code: ErrorCode

class DeleteRecordsPartitionResultFields(TypedDict, total=False):
    partition_index: int
    low_watermark: int
    error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class DeleteRecordsTopicResult:
    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]

class DeleteRecordsTopicResultFields(TypedDict, total=False):
    name: str
    partitions: Iterable[DeleteRecordsPartitionResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class DeleteRecordsResponse(Answers[DeleteRecordsRequest]):
    throttle_time: timedelta
    topics: tuple[DeleteRecordsTopicResult, ...]

class DeleteRecordsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    topics: Iterable[DeleteRecordsTopicResultFields]
