"""What the group coordinator is asked about share groups (KIP-932), and what it answers. Values only."""

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
    """None means: the same as in the previous heartbeat."""

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
    """`to_initialize`: partitions whose state the asker must now initialize, with `state_epoch`, and then tell so by
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
    """The share coordinators have these states, or could not make them: then the next heartbeat tries again."""

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
    """Which partitions of a share group have begun."""

    token: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunShares:
    """Of a group that does not exist: none."""

    partitions: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShares:
    """New start offsets by topic name and partition; the group must be without members."""

    token: int
    group_id: str
    offsets: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredShares:
    """What is to be initialized, as in ShareHeartbeatResult; the rest of what was asked is not there."""

    error_code: ErrorCode
    error_message: str | None = None
    to_initialize: Offsets = field(default_factory=dict)
    state_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShares:
    """The group forgets these topics, by name; it must be without members."""

    token: int
    group_id: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedShares:
    """`to_delete`: the states that the asker must now delete, and then tell so by SharesDeleted. `errors`: by topic."""

    error_code: ErrorCode
    error_message: str | None = None
    to_delete: Assignment = field(default_factory=dict)
    errors: Mapping[str, tuple[ErrorCode, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesDeleted:
    """The share coordinators have no states of these topics any more."""

    token: int
    group_id: str
    topic_ids: frozenset[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesToDelete:
    """The answer to DeleteGroup about a share group that has states. Once they are deleted: DeleteGroup again."""

    partitions: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTimeoutsChanged:
    """Share groups whose members have a session timeout of their own, by group id. It counts from their next
    heartbeat."""

    timeouts_ms: Mapping[str, int]


Request: TypeAlias = (
    ShareHeartbeat | SharesInitialized | DescribeShareGroup | SharesOf | AlterShares | DeleteShares | SharesDeleted
)
