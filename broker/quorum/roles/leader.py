"""The leader of an epoch: appends, answers the fetches of the others, commits (KIP-595)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from broker.quorum.channels import Channel
from broker.quorum.messages import encode_leader_change
from broker.quorum.roles.role import Move, Role
from broker.quorum.snapshots import SnapshotId
from broker.quorum.transitions import RoleName, Trigger
from broker.quorum.types import (
    BecameLeader,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DivergingEpoch,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    LogEntry,
    LostLeadership,
    QuorumError,
    Response,
    VoterState,
)
from broker.quorum.voter import Voter


@dataclass(slots=True, kw_only=True)
class VoterProgress:
    end_offset: int  # the voter certainly holds all entries below; its fetch offset shows this
    last_fetch_ms: int  # begins with the time of the election, so that voters get a full timeout
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
class Leader(Role):
    """It appends, answers the fetches of the others, and commits what a majority holds. It steps down when it hears of
    a newer epoch, or when a majority has not fetched for too long.
    """

    NAME: ClassVar = RoleName.LEADER
    epoch: int
    granting: frozenset[int]  # who voted for it
    epoch_start_offset: int  # offset of our LeaderChange entry; nothing is committed before this entry is
    progress: dict[int, VoterProgress]  # the other voters
    parked: dict[int, ParkedFetch] = field(default_factory=dict)  # at most one per voter

    def entered(self, voter: Voter) -> None:
        voter.actions.append(BecameLeader(epoch=self.epoch))
        payload = encode_leader_change(leader_id=voter.node_id, voters=voter.config.voters, granting=self.granting)
        self.append(voter, (payload,), is_control=True)

    def left(self, voter: Voter) -> None:
        for parked in self.parked.values():
            voter.reply(parked.token, refused_fetch(voter, QuorumError.NOT_LEADER_OR_FOLLOWER))
        voter.actions.append(LostLeadership(epoch=self.epoch))

    # -- time --------------------------------------------------------------------------------------------------------

    def deadline_ms(self, voter: Voter) -> int | None:
        """When the leader steps down, unless a majority fetches before. None for a quorum of one."""
        fetches = sorted((each.last_fetch_ms for each in self.progress.values()), reverse=True)
        needed = (len(fetches) + 1) // 2  # number of other voters that make a majority with us
        return fetches[needed - 1] + voter.config.check_quorum_timeout_ms if needed else None

    def expired(self, voter: Voter) -> Move:
        return Move(trigger=Trigger.QUORUM_LOST, deadline_ms=voter.draw_election_deadline_ms())

    def other_deadlines_ms(self) -> list[int]:
        return [parked.deadline_ms for parked in self.parked.values()]

    def tick(self, voter: Voter) -> None:
        for replica_id, parked in list(self.parked.items()):
            if parked.deadline_ms <= voter.now_ms:
                self._answer_parked(voter, replica_id)

    # -- its own requests --------------------------------------------------------------------------------------------

    def hears_leader(self) -> bool:
        return True

    def request_due_ms(self, voter: Voter, peer_id: int, not_before_ms: int) -> int | None:
        peer = self.progress[peer_id]
        quiet_ms = peer.last_fetch_ms + voter.config.fetch_timeout_ms // 2
        return max(not_before_ms, quiet_ms) if peer.acknowledged else not_before_ms

    def request(self, voter: Voter) -> BeginQuorumEpochRequest:
        return BeginQuorumEpochRequest(leader_id=voter.node_id, leader_epoch=self.epoch)

    def answered(self, voter: Voter, peer_id: int, response: Response, channel: Channel) -> None:
        if isinstance(response, BeginQuorumEpochResponse) and response.error_code == QuorumError.NONE:
            self.progress[peer_id].acknowledged = True
            channel.not_before_ms = voter.now_ms + voter.config.fetch_timeout_ms // 2

    def farewell(self, voter: Voter) -> EndQuorumEpochRequest:
        """Sent to every peer when our host stops. The voter with the most entries becomes a candidate at once."""
        by_progress = sorted(self.progress, key=lambda peer_id: (-self.progress[peer_id].end_offset, peer_id))
        return EndQuorumEpochRequest(
            leader_id=voter.node_id, leader_epoch=self.epoch, preferred_candidates=tuple(by_progress)
        )

    # -- log ---------------------------------------------------------------------------------------------------------

    def append(self, voter: Voter, values: tuple[bytes, ...], *, is_control: bool) -> None:
        entry = LogEntry(offset=voter.log.end_offset, epoch=self.epoch, is_control=is_control, values=values)
        voter.append((entry,))
        self.advance(voter)
        self._answer_ready(voter)

    def advance(self, voter: Voter) -> None:
        """Commit what a majority holds, once this includes an entry of this epoch (Raft, 5.4.2)."""
        offset = self.majority_offset(voter.log.end_offset)
        if offset > self.epoch_start_offset:
            voter.commit(offset)

    def majority_offset(self, own_end_offset: int) -> int:
        """The largest offset that a majority of voters holds, this voter included."""
        ends = sorted([own_end_offset, *(each.end_offset for each in self.progress.values())], reverse=True)
        return ends[len(ends) // 2]

    # -- fetches of the others ---------------------------------------------------------------------------------------

    def fetch(self, voter: Voter, token: int, request: FetchRequest) -> None:
        """Answer now if there is something new for the voter. Otherwise park the request."""
        peer = self.progress[request.replica_id]
        if request.fetch_offset >= voter.log.end_offset:
            peer.last_caught_up_ms = voter.now_ms
        elif request.fetch_offset >= peer.leader_end_offset_at_last_fetch >= 0:
            peer.last_caught_up_ms = peer.last_fetch_ms  # it now has every entry that we had at that fetch
        peer.leader_end_offset_at_last_fetch = voter.log.end_offset
        peer.last_fetch_ms = voter.now_ms
        peer.acknowledged = True
        if request.replica_id in self.parked:
            self._answer_parked(voter, request.replica_id)  # the voter has given up this request and sent a new one
        deadline_ms = voter.now_ms + min(request.max_wait_ms, voter.config.fetch_timeout_ms)
        self.parked[request.replica_id] = ParkedFetch(token=token, request=request, deadline_ms=deadline_ms)
        position = {"fetch_offset": request.fetch_offset, "last_fetched_epoch": request.last_fetched_epoch}
        if voter.log.needs_snapshot(**position) or voter.log.divergence(**position) is not None:
            self._answer_parked(voter, request.replica_id)
            return
        peer.end_offset = request.fetch_offset
        self.advance(voter)
        self._answer_ready(voter)

    def _answer_ready(self, voter: Voter) -> None:
        """Answer each parked fetch for which there are new entries or a new high watermark. The voter itself says which
        one it knows (KIP-1166), because an answer with a newer one may have been lost."""
        for replica_id, parked in list(self.parked.items()):
            told = parked.request.high_watermark
            known = self.progress[replica_id].sent_high_watermark if told is None else told
            if parked.request.fetch_offset < voter.log.end_offset or known < voter.high_watermark:
                self._answer_parked(voter, replica_id)

    def _answer_parked(self, voter: Voter, replica_id: int) -> None:
        parked = self.parked.pop(replica_id)
        position = {
            "fetch_offset": parked.request.fetch_offset,
            "last_fetched_epoch": parked.request.last_fetched_epoch,
        }
        snapshot_id: SnapshotId | None = None
        diverging: DivergingEpoch | None = None
        entries: tuple[LogEntry, ...] = ()
        if voter.log.needs_snapshot(**position):
            snapshot_id = voter.snapshot_id
        else:
            diverging = voter.log.divergence(**position)
            if diverging is None:
                entries = voter.log.read_bounded(parked.request.fetch_offset, voter.config.fetch_max_bytes)
        self.progress[replica_id].sent_high_watermark = voter.high_watermark
        response = FetchResponse(
            error_code=QuorumError.NONE,
            leader_id=voter.node_id,
            leader_epoch=self.epoch,
            high_watermark=voter.high_watermark,
            diverging_epoch=diverging,
            entries=entries,
            snapshot_id=snapshot_id,
        )
        voter.reply(parked.token, response)

    def fetch_snapshot(self, voter: Voter, request: FetchSnapshotRequest) -> tuple[int, int, bytes]:
        """Returns the error code, the size of the whole snapshot, and the piece that was asked for."""
        self.progress[request.replica_id].last_fetch_ms = voter.now_ms  # this request shows that it follows us
        self.progress[request.replica_id].acknowledged = True
        if voter.snapshot is None or voter.snapshot.snapshot_id != request.snapshot_id:
            return QuorumError.SNAPSHOT_NOT_FOUND, 0, b""  # there is a later snapshot now; the next Fetch says which
        data = voter.snapshot.data
        if not 0 <= request.position < len(data):
            return QuorumError.POSITION_OUT_OF_RANGE, 0, b""
        length = max(1, min(request.max_bytes, voter.config.fetch_snapshot_max_bytes))
        return QuorumError.NONE, len(data), data[request.position :][:length]

    # -- for inspection ----------------------------------------------------------------------------------------------

    def describe(self, voter: Voter, now_ms: int) -> list[VoterState]:
        """The progress of every voter."""
        own = VoterState(
            replica_id=voter.node_id,
            log_end_offset=voter.log.end_offset,
            last_fetch_ms=now_ms,
            last_caught_up_ms=now_ms,
        )
        others = [
            VoterState(
                replica_id=replica_id,
                log_end_offset=peer.end_offset,
                last_fetch_ms=peer.last_fetch_ms,
                last_caught_up_ms=peer.last_caught_up_ms,
            )
            for replica_id, peer in self.progress.items()
        ]
        return sorted([own, *others], key=lambda state: state.replica_id)

    def check_invariants(self, voter: Voter) -> None:
        assert voter.voted_id == voter.node_id
        assert voter.log.last_epoch == voter.epoch == self.epoch
        assert len(self.parked) <= len(voter.peers)


def refused_fetch(voter: Voter, error_code: int) -> FetchResponse:
    return FetchResponse(
        error_code=error_code,
        leader_id=voter.leader_id,
        leader_epoch=voter.epoch,
        high_watermark=-1,
        diverging_epoch=None,
        entries=(),
    )
