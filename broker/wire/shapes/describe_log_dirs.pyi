"""DescribeLogDirsRequest (key 35) and its answer, versions 1-5.

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
class DescribableLogDirTopic:
    topic: str
    partitions: tuple[int, ...]

class DescribableLogDirTopicFields(TypedDict, total=False):
    topic: str
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeLogDirsRequest(Asks[DescribeLogDirsResponse]):
    topics: tuple[DescribableLogDirTopic, ...] | None

class DescribeLogDirsRequestFields(TypedDict, total=False):
    topics: Iterable[DescribableLogDirTopicFields] | None

@final
@dataclass(frozen=True, kw_only=True)
class DescribeLogDirsPartition:
    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool

class DescribeLogDirsPartitionFields(TypedDict, total=False):
    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool

@final
@dataclass(frozen=True, kw_only=True)
class DescribeLogDirsTopic:
    name: str
    partitions: tuple[DescribeLogDirsPartition, ...]

class DescribeLogDirsTopicFields(TypedDict, total=False):
    name: str
    partitions: Iterable[DescribeLogDirsPartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeLogDirsResult:
    error_code: ErrorCode
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: int  # since version 4
    usable_bytes: int  # since version 4
    is_cordoned: bool  # since version 5

class DescribeLogDirsResultFields(TypedDict, total=False):
    error_code: int
    log_dir: str
    topics: Iterable[DescribeLogDirsTopicFields]
    total_bytes: int  # since version 4
    usable_bytes: int  # since version 4
    is_cordoned: bool  # since version 5

@final
@dataclass(frozen=True, kw_only=True)
class DescribeLogDirsResponse(Answers[DescribeLogDirsRequest]):
    throttle_time: timedelta
    results: tuple[DescribeLogDirsResult, ...]
    error_code: ErrorCode  # since version 3

class DescribeLogDirsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    results: Iterable[DescribeLogDirsResultFields]
    error_code: int  # since version 3
