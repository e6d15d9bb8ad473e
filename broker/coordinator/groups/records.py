"""The records of `__consumer_offsets`, as values. record_codec.py encodes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

NO_LEADER_EPOCH = -1
ZERO_ID = UUID(int=0)

Assignment: TypeAlias = Mapping[UUID, frozenset[int]]  # topic id -> partitions
Partition: TypeAlias = tuple[UUID, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetKey:
    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetValue:
    offset: int
    leader_epoch: int  # -1: not told
    metadata: str
    commit_timestamp_ms: int  # wall clock
    topic_id: UUID = ZERO_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupKey:
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberValue:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupValue:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int  # wall clock
    members: tuple[ClassicMemberValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpochKey:
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpochValue:
    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpochKey:
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpochValue:
    assignment_epoch: int
    timestamp_ms: int = 0  # when the assignment was computed


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMemberKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMemberValue:
    partitions: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentMemberKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentMemberValue:
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Assignment
    pending_revocation: Assignment
    # The epoch in which each partition of both was assigned (KIP-1251).
    epochs: Mapping[Partition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternKey:
    group_id: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternValue:
    """What a pattern of a group matched."""

    topics: frozenset[str]
    metadata_version: int  # the metadata offset that the topics are from
    timestamp_ms: int  # wall clock


Key: TypeAlias = (
    OffsetKey
    | ClassicGroupKey
    | GroupEpochKey
    | MemberKey
    | TargetEpochKey
    | TargetMemberKey
    | CurrentMemberKey
    | PatternKey
)
Value: TypeAlias = (
    OffsetValue
    | ClassicGroupValue
    | GroupEpochValue
    | MemberValue
    | TargetEpochValue
    | TargetMemberValue
    | CurrentMemberValue
    | PatternValue
)
Record: TypeAlias = tuple[Key, Value | None]
