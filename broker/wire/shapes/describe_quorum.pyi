"""DescribeQuorumRequest (key 55) and its answer, versions 0-2.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class AskedPartitionData:
    partition_index: int

class AskedPartitionDataFields(TypedDict, total=False):
    partition_index: int

@final
@dataclass(frozen=True, kw_only=True)
class AskedTopicData:
    topic_name: str
    partitions: tuple[AskedPartitionData, ...]

class AskedTopicDataFields(TypedDict, total=False):
    topic_name: str
    partitions: Iterable[AskedPartitionDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeQuorumRequest(Asks[DescribeQuorumResponse]):
    topics: tuple[AskedTopicData, ...]

class DescribeQuorumRequestFields(TypedDict, total=False):
    topics: Iterable[AskedTopicDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class ReplicaState:
    replica_id: int
    log_end_offset: int
    last_fetch_timestamp: int  # since version 1
    last_caught_up_timestamp: int  # since version 1
    replica_directory_id: UUID | None  # since version 2

class ReplicaStateFields(TypedDict, total=False):
    replica_id: int
    log_end_offset: int
    last_fetch_timestamp: int  # since version 1
    last_caught_up_timestamp: int  # since version 1
    replica_directory_id: UUID | None  # since version 2

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredPartitionData:
    partition_index: int
    error_code: ErrorCode
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]
    error_message: str | None  # since version 2

class AnsweredPartitionDataFields(TypedDict, total=False):
    partition_index: int
    error_code: int
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: Iterable[ReplicaStateFields]
    observers: Iterable[ReplicaStateFields]
    error_message: str | None  # since version 2

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredTopicData:
    topic_name: str
    partitions: tuple[AnsweredPartitionData, ...]

class AnsweredTopicDataFields(TypedDict, total=False):
    topic_name: str
    partitions: Iterable[AnsweredPartitionDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class Listener:
    name: str
    host: str
    port: int

class ListenerFields(TypedDict, total=False):
    name: str
    host: str
    port: int

@final
@dataclass(frozen=True, kw_only=True)
class Node:
    node_id: int
    listeners: tuple[Listener, ...]

class NodeFields(TypedDict, total=False):
    node_id: int
    listeners: Iterable[ListenerFields]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeQuorumResponse(Answers[DescribeQuorumRequest]):
    error_code: ErrorCode
    topics: tuple[AnsweredTopicData, ...]
    error_message: str | None  # since version 2
    nodes: tuple[Node, ...]  # since version 2

class DescribeQuorumResponseFields(TypedDict, total=False):
    error_code: int
    topics: Iterable[AnsweredTopicDataFields]
    error_message: str | None  # since version 2
    nodes: Iterable[NodeFields]  # since version 2
