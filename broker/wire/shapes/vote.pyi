"""VoteRequest (key 52) and its answer, version 2.

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
    replica_epoch: int
    replica_id: int
    replica_directory_id: UUID | None
    voter_directory_id: UUID | None
    last_offset_epoch: int
    last_offset: int
    pre_vote: bool

class AskedPartitionDataFields(TypedDict, total=False):
    partition_index: int
    replica_epoch: int
    replica_id: int
    replica_directory_id: UUID | None
    voter_directory_id: UUID | None
    last_offset_epoch: int
    last_offset: int
    pre_vote: bool

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
class VoteRequest(Asks[VoteResponse]):
    cluster_id: str | None
    voter_id: int
    topics: tuple[AskedTopicData, ...]

class VoteRequestFields(TypedDict, total=False):
    cluster_id: str | None
    voter_id: int
    topics: Iterable[AskedTopicDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredPartitionData:
    partition_index: int
    error_code: ErrorCode
    leader_id: int
    leader_epoch: int
    vote_granted: bool

class AnsweredPartitionDataFields(TypedDict, total=False):
    partition_index: int
    error_code: int
    leader_id: int
    leader_epoch: int
    vote_granted: bool

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
class VoteResponse(Answers[VoteRequest]):
    error_code: ErrorCode
    topics: tuple[AnsweredTopicData, ...]
    node_endpoints: tuple[NodeEndpoint, ...]

class VoteResponseFields(TypedDict, total=False):
    error_code: int
    topics: Iterable[AnsweredTopicDataFields]
    node_endpoints: Iterable[NodeEndpointFields]
