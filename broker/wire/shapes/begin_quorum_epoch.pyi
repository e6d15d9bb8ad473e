"""BeginQuorumEpochRequest (key 53) and its answer, version 1.

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
    voter_directory_id: UUID | None
    leader_id: int
    leader_epoch: int

class AskedPartitionDataFields(TypedDict, total=False):
    partition_index: int
    voter_directory_id: UUID | None
    leader_id: int
    leader_epoch: int

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
class LeaderEndpoint:
    name: str
    host: str
    port: int

class LeaderEndpointFields(TypedDict, total=False):
    name: str
    host: str
    port: int

@final
@dataclass(frozen=True, kw_only=True)
class BeginQuorumEpochRequest(Asks[BeginQuorumEpochResponse]):
    cluster_id: str | None
    voter_id: int
    topics: tuple[AskedTopicData, ...]
    leader_endpoints: tuple[LeaderEndpoint, ...]

class BeginQuorumEpochRequestFields(TypedDict, total=False):
    cluster_id: str | None
    voter_id: int
    topics: Iterable[AskedTopicDataFields]
    leader_endpoints: Iterable[LeaderEndpointFields]

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredPartitionData:
    partition_index: int
    error_code: ErrorCode
    leader_id: int
    leader_epoch: int

class AnsweredPartitionDataFields(TypedDict, total=False):
    partition_index: int
    error_code: int
    leader_id: int
    leader_epoch: int

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
class BeginQuorumEpochResponse(Answers[BeginQuorumEpochRequest]):
    error_code: ErrorCode
    topics: tuple[AnsweredTopicData, ...]
    node_endpoints: tuple[NodeEndpoint, ...]

class BeginQuorumEpochResponseFields(TypedDict, total=False):
    error_code: int
    topics: Iterable[AnsweredTopicDataFields]
    node_endpoints: Iterable[NodeEndpointFields]
