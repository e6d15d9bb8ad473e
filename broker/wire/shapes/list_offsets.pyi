"""ListOffsetsRequest (key 2) and its answer, versions 1-11.

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
class ListOffsetsPartition:
    partition_index: int
    timestamp: int
    current_leader_epoch: int  # since version 4

class ListOffsetsPartitionFields(TypedDict, total=False):
    partition_index: int
    timestamp: int
    current_leader_epoch: int  # since version 4

@final
@dataclass(frozen=True, kw_only=True)
class ListOffsetsTopic:
    name: str
    partitions: tuple[ListOffsetsPartition, ...]

class ListOffsetsTopicFields(TypedDict, total=False):
    name: str
    partitions: Iterable[ListOffsetsPartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class ListOffsetsRequest(Asks[ListOffsetsResponse]):
    replica_id: int
    topics: tuple[ListOffsetsTopic, ...]
    isolation_level: int  # since version 2
    timeout: timedelta  # since version 10

class ListOffsetsRequestFields(TypedDict, total=False):
    replica_id: int
    topics: Iterable[ListOffsetsTopicFields]
    isolation_level: int  # since version 2
    timeout: timedelta | int  # since version 10

@final
@dataclass(frozen=True, kw_only=True)
class ListOffsetsPartitionResponse:
    partition_index: int
    error_code: ErrorCode
    timestamp: int
    offset: int
    leader_epoch: int  # since version 4

class ListOffsetsPartitionResponseFields(TypedDict, total=False):
    partition_index: int
    error_code: int
    timestamp: int
    offset: int
    leader_epoch: int  # since version 4

@final
@dataclass(frozen=True, kw_only=True)
class ListOffsetsTopicResponse:
    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]

class ListOffsetsTopicResponseFields(TypedDict, total=False):
    name: str
    partitions: Iterable[ListOffsetsPartitionResponseFields]

@final
@dataclass(frozen=True, kw_only=True)
class ListOffsetsResponse(Answers[ListOffsetsRequest]):
    topics: tuple[ListOffsetsTopicResponse, ...]
    throttle_time: timedelta  # since version 2

class ListOffsetsResponseFields(TypedDict, total=False):
    topics: Iterable[ListOffsetsTopicResponseFields]
    throttle_time: timedelta | int  # since version 2
