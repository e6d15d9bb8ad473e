"""What each role remembers, one class per role. No decisions across roles: those are in `core`.

Kafka's "voted" is `Unattached` (or `Follower`) with a voted_id; that id, the epoch and the leader belong to the core,
since they outlive roles. `Resigned` is an `Unattached` without a deadline.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.quorum.types import FetchRequest


@dataclass(slots=True, kw_only=True)
class Unattached:
    """Knows no leader of its epoch. At the deadline it becomes Prospective; None: never (after a clean shutdown)."""

    deadline_ms: int | None


@dataclass(slots=True, kw_only=True)
class Prospective:
    """Asks in its current epoch who would vote for it (KIP-996), so that a lonely node does not raise the epoch."""

    deadline_ms: int
    granted: set[int]


@dataclass(slots=True, kw_only=True)
class Candidate:
    deadline_ms: int
    granted: set[int]
    rejected: set[int] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Follower:
    fetch_deadline_ms: int
    has_fetched: bool = False  # from this leader: then it is alive, and pre-votes are refused


@dataclass(slots=True, kw_only=True)
class VoterProgress:
    end_offset: int  # what the voter is known to hold, from its fetch offset
    last_fetch_ms: int  # starts at the election, so that voters get a full timeout
    last_caught_up_ms: int = -1
    leader_end_offset_at_last_fetch: int = -1
    sent_high_watermark: int = -1
    acknowledged: bool = False  # answered BeginQuorumEpoch or fetched in this epoch


@dataclass(slots=True, kw_only=True)
class ParkedFetch:
    token: int
    request: FetchRequest
    deadline_ms: int


@dataclass(slots=True, kw_only=True)
class Leader:
    epoch_start_offset: int  # of our LeaderChange entry: nothing commits before this one does
    progress: dict[int, VoterProgress]  # the other voters
    parked: dict[int, ParkedFetch] = field(default_factory=dict)  # at most one per voter

    def majority_offset(self, own_end_offset: int) -> int:
        """The largest offset that a majority of voters, we included, holds."""
        ends = sorted([own_end_offset, *(voter.end_offset for voter in self.progress.values())], reverse=True)
        return ends[len(ends) // 2]

    def quorum_lost_at_ms(self, timeout_ms: int) -> int | None:
        """When a majority will have been silent for too long unless it fetches; None for a quorum of one."""
        fetches = sorted((voter.last_fetch_ms for voter in self.progress.values()), reverse=True)
        needed = (len(fetches) + 1) // 2  # others that make a majority with us
        return fetches[needed - 1] + timeout_ms if needed else None


Role = Unattached | Prospective | Candidate | Follower | Leader
