"""The requests to the group coordinator and its answers, as values. Error codes are those of Kafka.

Durations and `now_ms` are monotonic. Times in records (commit timestamps) are wall-clock times. The Reply contains the
`token` of its request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from broker.coordinator.groups.records import ZERO_ID, Assignment
from broker.coordinator.runtime import Loaded
from broker.wire.errors import ErrorCode

UNKNOWN_MEMBER = ""
NO_GENERATION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    token: int
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]  # (name, metadata) in order of preference
    session_timeout_ms: int
    rebalance_timeout_ms: int
    needs_known_member_id: bool  # version 4 and above (KIP-394)
    can_skip_assignment: bool  # version 9 and above (KIP-814)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResult:
    error_code: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()  # (member id, instance id, metadata), for the leader


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    token: int
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None  # None: the sender did not tell
    protocol: str | None
    assignments: Mapping[str, bytes]  # The key is the member id.


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    error_code: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    token: int
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    token: int
    group_id: str
    members: tuple[tuple[str, str | None], ...]  # (member id or "", instance id)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveResult:
    error_code: ErrorCode
    members: tuple[tuple[str, str | None, ErrorCode], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: UUID = ZERO_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """OffsetCommit. With a producer id it is TxnOffsetCommit: the offsets then wait for the marker of that producer."""

    token: int
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int  # generation of a classic group, member epoch of a consumer group
    offsets: tuple[OffsetToCommit, ...]
    wall_ms: int
    producer_id: int = -1
    producer_epoch: int = -1
    knows_member_epochs: bool = True  # version 9 of OffsetCommit or above; members of KIP-848 groups must use it

    @property
    def is_transactional(self) -> bool:
        return self.producer_id >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """`partitions` is empty unless the error is `none`."""

    error_code: ErrorCode
    partitions: Mapping[tuple[str, int], ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteTransaction:
    """The marker of a producer was appended to this partition (WriteTxnMarkers)."""

    producer_id: int
    producer_epoch: int
    is_commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    token: int
    group_id: str
    member_id: str | None
    member_epoch: int
    topics: Mapping[str, tuple[int, ...]] | None  # None: everything
    require_stable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    error_code: ErrorCode
    partitions: Mapping[tuple[str, int], FetchedOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets:
    token: int
    group_id: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsResult:
    error_code: ErrorCode
    partitions: Mapping[tuple[str, int], ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    token: int
    group_id: str
    are_states_deleted: bool = False  # see StatesToDelete


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesToDelete:
    """The answer to DeleteGroup for a group that has states of these partitions outside this log. The caller must let
    them be deleted, and then send DeleteGroup again."""

    group_type: str  # as in ListedGroup; whoever added this kind of group deletes the states
    partitions: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    group_type: str  # "classic", "consumer", or that of a kind that a feature adds


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClassicGroup:
    token: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """`state` is Dead for a group that does not exist or is not a classic one."""

    state: str
    is_other_kind: bool = False  # it exists, and is not a classic one
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat (KIP-848). A field that is None (for the timeout: -1) has the same value as in the
    previous heartbeat."""

    token: int
    group_id: str
    member_id: str
    member_epoch: int  # 0 joins, -1 leaves, -2 a static member leaves for a while
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topic_names: tuple[str, ...] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    owned: Assignment | None
    client_id: str
    client_host: str
    # Tells whether the sender may describe a topic now. None: it may describe all. It is called only when the pattern
    # is resolved.
    may_describe: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatResult:
    error_code: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOfOtherKind:
    """The answer to a question about a group of one kind, if the group is of another kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConsumerGroup:
    token: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumer:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: Assignment
    target: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    topic_id: UUID
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged:
    """The topics of the cluster, by name. Offsets of topics that are gone are removed.

    `is_complete`: a topic that is missing does not exist. The image of a broker that has just started may lack topics
    that exist. Then nothing that a group knows of them is removed.
    `metadata_version` is the metadata offset that they are from.
    """

    topics: Mapping[str, Topic]
    deleted: frozenset[str] = frozenset()
    is_complete: bool = True
    metadata_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettingsChanged:
    """The settings of groups that have their own, by group id. They take effect with the next heartbeat of a member."""

    session_timeouts_ms: Mapping[str, int]
    assignment_intervals_ms: Mapping[str, int] = field(default_factory=dict)
    assignment_interval_ms: int | None = None  # The interval of the other groups. None: that of the configuration.


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireOffsets:
    """offsets.retention.check.interval.ms has passed."""

    wall_ms: int


# Events that never write to the log. A heartbeat of a classic member only moves timers. The marker of a
# CompleteTransaction is in the log already.
READ_ONLY = (
    Heartbeat,
    FetchOffsets,
    ListGroups,
    DescribeClassicGroup,
    DescribeConsumerGroup,
    CompleteTransaction,
    TopicsChanged,
    Loaded,
)
