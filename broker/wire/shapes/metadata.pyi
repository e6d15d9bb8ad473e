"""MetadataRequest (key 3) and its answer, versions 0-13.

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
class MetadataRequestTopic:
    name: str | None
    topic_id: UUID | None  # since version 10

class MetadataRequestTopicFields(TypedDict, total=False):
    name: str | None
    topic_id: UUID | None  # since version 10

@final
@dataclass(frozen=True, kw_only=True)
class MetadataRequest(Asks[MetadataResponse]):
    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool  # since version 4
    include_cluster_authorized_operations: bool  # versions 8 to 10
    include_topic_authorized_operations: bool  # since version 8

class MetadataRequestFields(TypedDict, total=False):
    topics: Iterable[MetadataRequestTopicFields] | None
    allow_auto_topic_creation: bool  # since version 4
    include_cluster_authorized_operations: bool  # versions 8 to 10
    include_topic_authorized_operations: bool  # since version 8

@final
@dataclass(frozen=True, kw_only=True)
class MetadataResponseBroker:
    node_id: int
    host: str
    port: int
    rack: str | None  # since version 1

class MetadataResponseBrokerFields(TypedDict, total=False):
    node_id: int
    host: str
    port: int
    rack: str | None  # since version 1

@final
@dataclass(frozen=True, kw_only=True)
class MetadataResponsePartition:
    error_code: ErrorCode
    partition_index: int
    leader_id: int
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    offline_replicas: tuple[int, ...]  # since version 5
    leader_epoch: int  # since version 7

class MetadataResponsePartitionFields(TypedDict, total=False):
    error_code: int
    partition_index: int
    leader_id: int
    replica_nodes: Iterable[int]
    isr_nodes: Iterable[int]
    offline_replicas: Iterable[int]  # since version 5
    leader_epoch: int  # since version 7

@final
@dataclass(frozen=True, kw_only=True)
class MetadataResponseTopic:
    error_code: ErrorCode
    name: str | None
    partitions: tuple[MetadataResponsePartition, ...]
    is_internal: bool  # since version 1
    topic_authorized_operations: int  # since version 8
    topic_id: UUID | None  # since version 10

class MetadataResponseTopicFields(TypedDict, total=False):
    error_code: int
    name: str | None
    partitions: Iterable[MetadataResponsePartitionFields]
    is_internal: bool  # since version 1
    topic_authorized_operations: int  # since version 8
    topic_id: UUID | None  # since version 10

@final
@dataclass(frozen=True, kw_only=True)
class MetadataResponse(Answers[MetadataRequest]):
    brokers: tuple[MetadataResponseBroker, ...]
    topics: tuple[MetadataResponseTopic, ...]
    controller_id: int  # since version 1
    cluster_id: str | None  # since version 2
    throttle_time: timedelta  # since version 3
    cluster_authorized_operations: int  # versions 8 to 10
    error_code: ErrorCode  # since version 13

class MetadataResponseFields(TypedDict, total=False):
    brokers: Iterable[MetadataResponseBrokerFields]
    topics: Iterable[MetadataResponseTopicFields]
    controller_id: int  # since version 1
    cluster_id: str | None  # since version 2
    throttle_time: timedelta | int  # since version 3
    cluster_authorized_operations: int  # versions 8 to 10
    error_code: int  # since version 13
