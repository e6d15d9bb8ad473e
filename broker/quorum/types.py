"""The vocabulary of the quorum core: log entries, messages, events, actions. Values only, no behaviour.

A log entry is one record batch of `__cluster_metadata`. Each of its values has an offset of its own, as in Kafka. The
values are opaque here. The controller puts one atomic group of metadata records into one entry. An entry is written,
sent, committed and truncated as a whole, so it is also the unit of atomicity.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.quorum.snapshots import Snapshot, SnapshotId

NO_NODE = -1
NO_EPOCH = -1


class QuorumError:
    """The Kafka error codes which the quorum speaks."""

    NONE = 0
    NOT_LEADER_OR_FOLLOWER = 6
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    INCONSISTENT_VOTER_SET = 94
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    INCONSISTENT_CLUSTER_ID = 104


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    offset: int  # The first value's offset. The others follow without a gap.
    epoch: int
    is_control: bool  # one LeaderChange record; the controller ignores it
    values: tuple[bytes, ...]  # at least one

    def __post_init__(self) -> None:
        assert self.values, "an entry without a value would have no offset"

    @property
    def end_offset(self) -> int:
        """The offset after the last value, where the next entry begins."""
        return self.offset + len(self.values)

    @property
    def size_bytes(self) -> int:
        """The size of the values alone."""
        return sum(map(len, self.values))


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistedState:
    """The `quorum-state` file. `voted_id` belongs to `leader_epoch`; -1 means none."""

    leader_epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE


# -- messages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    candidate_id: int
    candidate_epoch: int  # a pre-vote carries the current epoch, a vote the epoch it wants to win (KIP-996)
    last_epoch: int
    last_offset: int  # log end offset of the candidate
    pre_vote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    error_code: int
    leader_id: int
    leader_epoch: int
    vote_granted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest:
    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse:
    error_code: int
    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest:
    leader_id: int
    leader_epoch: int
    preferred_candidates: tuple[int, ...]  # most caught up first


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse:
    error_code: int
    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A follower's Fetch on `__cluster_metadata` partition 0."""

    replica_id: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int  # epoch of the entry before fetch_offset, -1 at offset 0
    max_wait_ms: int
    high_watermark: int | None = None  # the one that the sender knows (KIP-1166); None: it does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergingEpoch:
    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    error_code: int
    leader_id: int
    leader_epoch: int
    high_watermark: int
    diverging_epoch: DivergingEpoch | None
    entries: tuple[LogEntry, ...]
    snapshot_id: SnapshotId | None = None  # the entry was dropped from the log: get this first (KIP-630)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotRequest:
    """The bytes of a snapshot from `position` on."""

    replica_id: int
    current_leader_epoch: int
    snapshot_id: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse:
    error_code: int
    leader_id: int
    leader_epoch: int
    snapshot_id: SnapshotId
    size: int  # size of the whole snapshot
    position: int
    data: bytes


Request = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest | FetchSnapshotRequest
Response = VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchResponse | FetchSnapshotResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterState:
    """What the leader knows about one voter, for DescribeQuorum. The times are `now_ms` of the core; -1: not yet."""

    replica_id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


# -- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The host sends it exactly once per process. Only requests of peers may come before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """`next_deadline_ms()` has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived:
    """A request of a peer. A `Reply` with the same `token` answers it, perhaps only after a later event (a long-polled
    Fetch)."""

    token: int
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseReceived:
    sender_id: int
    correlation_id: int  # the same as in the `Send`
    response: Response


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFailed:
    """No answer will come for this `Send`, because the connection was refused, closed or timed out. The event is
    optional. With it, retries are quicker."""

    peer_id: int
    correlation_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose:
    """Append these values as one entry if this node leads `epoch`. Otherwise the event is ignored, because
    `LostLeadership` has been reported already."""

    epoch: int
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken:
    """The host has put the committed state into a snapshot. `drops_prefix`: the entries below its end may be removed
    from the log."""

    snapshot: Snapshot
    drops_prefix: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    """The host stops cleanly. A leader tells the other voters (EndQuorumEpoch). This voter starts nothing new
    afterwards."""


Event = Start | Tick | RequestReceived | ResponseReceived | SendFailed | Propose | SnapshotTaken | Shutdown


# -- actions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    peer_id: int
    correlation_id: int
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    token: int
    response: Response


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistQuorumState:
    """Must be on disk before any later action. A vote that is forgotten could be given twice."""

    state: PersistedState


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendEntries:
    """Must be on disk before any later action. A follower's next Fetch says that it holds these entries. A leader
    counts itself as a holder for the high watermark."""

    entries: tuple[LogEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateEntries:
    """Remove every entry with offset >= end_offset. An entry ends there."""

    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSnapshot:
    """The snapshot must be on disk before any later action, because one of these may remove the entries that it stands
    for."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPrefix:
    """Remove every entry below `start_offset`. The snapshot with that end offset is on disk and stands for them."""

    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallSnapshot:
    """Write the snapshot, then begin an empty log at its end offset. The metadata is now what the snapshot says."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Entries below the high watermark, in offset order, control entries too. In each process an entry is reported at
    most once. Entries that a snapshot stands for are not reported."""

    high_watermark: int
    entries: tuple[LogEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BecameLeader:
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LostLeadership:
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanged:
    """The voter that this node believes to be the leader; -1 for nobody. The host routes requests to this controller
    and notes it in the journal."""

    leader_id: int
    epoch: int


Action = (
    Send
    | Reply
    | PersistQuorumState
    | AppendEntries
    | TruncateEntries
    | WriteSnapshot
    | DropPrefix
    | InstallSnapshot
    | Committed
    | BecameLeader
    | LostLeadership
    | LeaderChanged
)
