"""The requests to the group coordinator about share groups (KIP-932) and its answers, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from broker.coordinator.groups.records import Assignment
from broker.wire.errors import ErrorCode

Offsets: TypeAlias = Mapping[UUID, Mapping[int, int]]  # topic id -> partition -> start offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeat:
    """A field that is None has the same value as in the previous heartbeat."""

    token: int
    group_id: str
    member_id: str
    member_epoch: int  # 0 joins, -1 leaves
    rack_id: str | None
    subscribed_topic_names: tuple[str, ...] | None
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeatResult:
    """`to_initialize` are partitions whose state the caller must now initialize, with `state_epoch`. Then it must send
    SharesInitialized."""

    error_code: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    assignment: Assignment | None = None
    to_initialize: Offsets = field(default_factory=dict)
    state_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesInitialized:
    """The share coordinators have initialized these states, or could not. If they could not, the next heartbeat tries
    again."""

    token: int
    group_id: str
    partitions: Assignment
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroup:
    token: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareMember:
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareGroup:
    state: str
    group_epoch: int
    assignment_epoch: int
    members: tuple[DescribedShareMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesOf:
    """Asks which partitions of a share group have a state."""

    token: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunShares:
    """The partitions of the group that have a state. There are none if the group does not exist."""

    partitions: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShares:
    """New start offsets by topic name and partition. The group must have no members."""

    token: int
    group_id: str
    offsets: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredShares:
    """The partitions to initialize, as in ShareHeartbeatResult. All other partitions of the request do not exist."""

    error_code: ErrorCode
    error_message: str | None = None
    to_initialize: Offsets = field(default_factory=dict)
    state_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShares:
    """The group forgets these topics, which are given by name. It must have no members."""

    token: int
    group_id: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedShares:
    """`to_delete` are the states that the caller must now delete. Then it must send SharesDeleted. `errors` are by
    topic."""

    error_code: ErrorCode
    error_message: str | None = None
    to_delete: Assignment = field(default_factory=dict)
    errors: Mapping[str, tuple[ErrorCode, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesDeleted:
    """The share coordinators have deleted the states of these topics."""

    token: int
    group_id: str
    topic_ids: frozenset[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettingsChanged:
    """The settings of share groups that have their own, by group id. They take effect with the next heartbeat of a
    member."""

    session_timeouts_ms: Mapping[str, int]
    assignment_intervals_ms: Mapping[str, int] = field(default_factory=dict)
    assignment_interval_ms: int | None = None  # The interval of the other groups. None: that of the configuration.
