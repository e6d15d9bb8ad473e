"""The quorum core of one voter (KIP-595, pre-vote of KIP-996). Its API is described in `broker.quorum`.

Owns: the only entry for events, the change of roles, and the answers to peers. `broker.quorum.roles` says what a role
does. `broker.quorum.transitions` says which role may follow which. `broker.quorum.voter` holds the state that stays
when the role changes. `tests/broker_quorum` runs the quorum with seeded message drops, delays, network partitions and
restarts. After every event it checks that an epoch has one leader, that logs match, and that nothing committed is lost.
"""

from __future__ import annotations

import random

from broker.quorum.channels import Channels
from broker.quorum.config import QuorumConfig
from broker.quorum.roles import Initial, Leader, Move, Prospective, Role, observed, refused_fetch, role_after
from broker.quorum.snapshots import Snapshot, SnapshotId
from broker.quorum.transitions import TRANSITIONS, Trigger
from broker.quorum.types import (
    NO_NODE,
    Action,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Event,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderChanged,
    LogEntry,
    PersistedState,
    Propose,
    QuorumError,
    Request,
    RequestReceived,
    ResponseReceived,
    SendFailed,
    Shutdown,
    SnapshotTaken,
    Start,
    Tick,
    VoteRequest,
    VoteResponse,
    VoterState,
)
from broker.quorum.voter import Voter

__all__ = ["Quorum", "QuorumConfig"]


class Quorum:
    def __init__(
        self,
        *,
        config: QuorumConfig,
        persisted: PersistedState,  # PersistedState() when there is no quorum-state file
        entries: tuple[LogEntry, ...],  # the metadata log on disk, offsets dense
        rng: random.Random,
        # The latest snapshot on disk. The log begins at the end offset of the snapshot or before it.
        snapshot: Snapshot | None = None,
        log_start: SnapshotId | None = None,  # where `entries` begin, None for offset 0
    ) -> None:
        self._voter = Voter(
            config=config, persisted=persisted, entries=entries, rng=rng, snapshot=snapshot, log_start=log_start
        )
        self._role: Role = Initial()
        self._channels = Channels(config, self._voter.peers)

    # -- the one door -------------------------------------------------------------------------------------------------

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        voter = self._voter
        voter.now_ms = max(voter.now_ms, now_ms)
        voter.actions = []
        match event:
            case Start():
                self._start()
            case Tick():
                pass
            case RequestReceived(token=token, request=request):
                self._on_request(token, request)
            case ResponseReceived():
                self._on_response(event)
            case SendFailed(peer_id=peer_id, correlation_id=correlation_id):
                self._channels.ended(peer_id, correlation_id, voter.now_ms)
            case Propose(epoch=epoch, values=values):
                if isinstance(self._role, Leader) and epoch == voter.epoch:
                    self._role.append(voter, values, is_control=False)
            case SnapshotTaken():
                voter.take_snapshot(event)
            case Shutdown():
                self._shutdown()
        self._run_timers()
        self._send_due_requests()
        return voter.actions

    def next_deadline_ms(self) -> int | None:
        deadlines = [self._role.deadline_ms(self._voter), *self._role.other_deadlines_ms()]
        for peer_id, channel in self._channels.by_peer.items():
            if channel.correlation_id is not None:
                deadlines.append(channel.deadline_ms)
            else:
                deadlines.append(self._role.request_due_ms(self._voter, peer_id, channel.not_before_ms))
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self._voter.node_id

    @property
    def epoch(self) -> int:
        return self._voter.epoch

    @property
    def leader_id(self) -> int:
        """The voter that we believe to lead `epoch`; -1 for nobody."""
        return self._voter.leader_id

    @property
    def voted_id(self) -> int:
        """The voter that got our vote in `epoch`; -1 for nobody."""
        return self._voter.voted_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self._role, Leader)

    @property
    def role_name(self) -> str:
        return self._role.NAME.value

    @property
    def high_watermark(self) -> int:
        return self._voter.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self._voter.log.start_offset

    @property
    def log_end_offset(self) -> int:
        return self._voter.log.end_offset

    @property
    def snapshot_id(self) -> SnapshotId | None:
        """The latest snapshot that this node has."""
        return self._voter.snapshot_id

    def epoch_before(self, offset: int) -> int:
        """Epoch of the entry before `offset`, which must be in the log. -1 if `offset` is 0."""
        return self._voter.log.epoch_before(offset)

    @property
    def last_entry(self) -> LogEntry | None:
        return self._voter.log.last_entry

    def describe_voters(self, now_ms: int) -> list[VoterState]:
        """On the leader: the progress of every voter. Otherwise empty."""
        return self._role.describe(self._voter, now_ms) if isinstance(self._role, Leader) else []

    def read_log(self, from_offset: int | None = None) -> tuple[LogEntry, ...]:
        """Entries of the log, committed or not, for inspection and tests. The default is the whole log."""
        log = self._voter.log
        return log.read(log.start_offset if from_offset is None else from_offset, log.end_offset)

    @property
    def persisted(self) -> PersistedState:
        """The last state that the host was asked to write to disk."""
        return self._voter.persisted

    def check_invariants(self) -> None:
        self._voter.check_invariants()
        assert self.is_leader == (self.leader_id == self.node_id)
        self._role.check_invariants(self._voter)

    # -- roles --------------------------------------------------------------------------------------------------------

    def _move(self, move: Move | None) -> None:
        """The only place where the role changes. It persists first, then tells the host."""
        while move is not None:
            move = self._enter(move)

    def _enter(self, move: Move) -> Move | None:
        voter, previous = self._voter, self._role
        name = TRANSITIONS.get((previous.NAME, move.trigger))
        assert name is not None, f"no row for a voter that is {previous.NAME.value}: {move.trigger.value}"
        before = (voter.leader_id, voter.epoch)
        epoch = voter.epoch if move.epoch is None else move.epoch
        kept = voter.voted_id if epoch == voter.epoch else NO_NODE
        self._role = role_after(name, previous, move, voter)
        self._channels.reset()
        voter.enter_epoch(
            epoch=epoch, leader_id=move.leader_id, voted_id=kept if move.voted_id is None else move.voted_id
        )
        previous.left(voter)
        if (voter.leader_id, voter.epoch) != before:
            voter.actions.append(LeaderChanged(leader_id=voter.leader_id, epoch=voter.epoch))
        return self._role.entered(voter)

    def _start(self) -> None:
        if not isinstance(self._role, Initial):
            return  # a request of a peer came before the start, and its epoch is newer than that on disk
        voter, leader_id = self._voter, self._voter.persisted.leader_id
        if leader_id in voter.peers:
            self._move(Move(trigger=Trigger.LEADER_ON_DISK, leader_id=leader_id))
        else:
            self._move(Move(trigger=Trigger.NO_LEADER_ON_DISK, deadline_ms=voter.draw_start_deadline_ms()))

    def _shutdown(self) -> None:
        farewell = self._role.farewell(self._voter) if isinstance(self._role, Leader) else None
        self._move(Move(trigger=Trigger.SHUTDOWN))
        if farewell is not None:
            for peer_id in self._voter.peers:
                self._send(peer_id, farewell)

    # -- timers and outgoing requests ---------------------------------------------------------------------------------

    def _run_timers(self) -> None:
        voter = self._voter
        self._channels.expire(voter.now_ms)
        self._role.tick(voter)
        deadline_ms = self._role.deadline_ms(voter)
        if deadline_ms is not None and deadline_ms <= voter.now_ms:
            self._move(self._role.expired(voter))

    def _send_due_requests(self) -> None:
        for peer_id, channel in self._channels.by_peer.items():
            if channel.correlation_id is not None:
                continue
            due_ms = self._role.request_due_ms(self._voter, peer_id, channel.not_before_ms)
            if due_ms is not None and due_ms <= self._voter.now_ms:
                self._send(peer_id, self._role.request(self._voter))

    def _send(self, peer_id: int, request: Request) -> None:
        self._voter.actions.append(self._channels.send(peer_id, request, self._voter.now_ms))

    def _on_response(self, event: ResponseReceived) -> None:
        voter, response = self._voter, event.response
        channel = self._channels.ended(event.sender_id, event.correlation_id, voter.now_ms)
        if channel is None:
            return  # the request was sent in an earlier role, or has timed out
        if response.leader_epoch > voter.epoch:
            self._observe(response.leader_epoch, response.leader_id)
        elif response.leader_epoch == voter.epoch:
            self._move(self._role.answered(voter, event.sender_id, response, channel))
        # Otherwise the peer has not reached our epoch yet, and we ask it again after the backoff.

    def _observe(self, epoch: int, leader_id: int) -> None:
        self._move(observed(self._role, self._voter, epoch, leader_id))

    # -- requests of peers --------------------------------------------------------------------------------------------

    def _on_request(self, token: int, request: Request) -> None:
        voter = self._voter
        match request:
            case VoteRequest():
                voter.reply(token, self._answer_vote(request))
            case BeginQuorumEpochRequest():
                error = self._answer_begin_quorum_epoch(request)
                voter.reply(
                    token,
                    BeginQuorumEpochResponse(error_code=error, leader_id=voter.leader_id, leader_epoch=voter.epoch),
                )
            case EndQuorumEpochRequest():
                error = self._answer_end_quorum_epoch(request)
                voter.reply(
                    token, EndQuorumEpochResponse(error_code=error, leader_id=voter.leader_id, leader_epoch=voter.epoch)
                )
            case FetchRequest():
                self._on_fetch(token, request)
            case FetchSnapshotRequest():
                voter.reply(token, self._answer_fetch_snapshot(request))

    def _answer_vote(self, request: VoteRequest) -> VoteResponse:
        voter = self._voter
        error, granted = QuorumError.NONE, False
        # The epoch of a candidate that is not a voter, or that claims to be this node, is ignored.
        if request.candidate_id not in voter.peers:
            error = QuorumError.INCONSISTENT_VOTER_SET
        elif request.candidate_epoch < voter.epoch:
            error = QuorumError.FENCED_LEADER_EPOCH
        else:
            self._observe(request.candidate_epoch, NO_NODE)
            granted = self._grants_pre_vote(request) if request.pre_vote else self._grants_vote(request)
        return VoteResponse(error_code=error, leader_id=voter.leader_id, leader_epoch=voter.epoch, vote_granted=granted)

    def _grants_pre_vote(self, request: VoteRequest) -> bool:
        return not self._role.hears_leader() and self._voter.is_up_to_date(request)

    def _grants_vote(self, request: VoteRequest) -> bool:
        voter = self._voter
        if voter.leader_id != NO_NODE:
            return False  # this epoch has a leader already
        if voter.voted_id != NO_NODE:
            return voter.voted_id == request.candidate_id
        if not voter.is_up_to_date(request):
            return False
        deadline_ms = voter.draw_election_deadline_ms()
        self._move(Move(trigger=Trigger.VOTE_GRANTED, voted_id=request.candidate_id, deadline_ms=deadline_ms))
        return True

    def _problem_of_leader(self, request: BeginQuorumEpochRequest | EndQuorumEpochRequest) -> int:
        if request.leader_id not in self._voter.peers:
            return QuorumError.INCONSISTENT_VOTER_SET
        return QuorumError.FENCED_LEADER_EPOCH if request.leader_epoch < self._voter.epoch else QuorumError.NONE

    def _answer_begin_quorum_epoch(self, request: BeginQuorumEpochRequest) -> int:
        voter, error = self._voter, self._problem_of_leader(request)
        if error != QuorumError.NONE:
            return error
        if isinstance(self._role, Prospective) and (request.leader_epoch, request.leader_id) == (
            voter.epoch,
            voter.leader_id,
        ):
            self._move(Move(trigger=Trigger.LEADER_ALIVE, leader_id=request.leader_id))
        self._observe(request.leader_epoch, request.leader_id)
        return QuorumError.NONE

    def _answer_end_quorum_epoch(self, request: EndQuorumEpochRequest) -> int:
        voter, error = self._voter, self._problem_of_leader(request)
        if error != QuorumError.NONE:
            return error
        self._observe(request.leader_epoch, NO_NODE)
        if voter.leader_id in (NO_NODE, request.leader_id):
            # The follower with the most entries stands for election at once. The others wait in case it fails.
            is_first = request.preferred_candidates[:1] == (self.node_id,)
            deadline_ms = voter.now_ms if is_first else voter.draw_election_deadline_ms()
            self._move(Move(trigger=Trigger.LEADER_RESIGNED, deadline_ms=deadline_ms))
        return QuorumError.NONE

    def _fetch_problem(self, request: FetchRequest | FetchSnapshotRequest) -> int:
        voter = self._voter
        if request.replica_id not in voter.peers:
            return QuorumError.INCONSISTENT_VOTER_SET
        if request.current_leader_epoch < voter.epoch:
            return QuorumError.FENCED_LEADER_EPOCH
        if request.current_leader_epoch > voter.epoch:
            return QuorumError.UNKNOWN_LEADER_EPOCH
        return QuorumError.NONE if isinstance(self._role, Leader) else QuorumError.NOT_LEADER_OR_FOLLOWER

    def _on_fetch(self, token: int, request: FetchRequest) -> None:
        error = self._fetch_problem(request)
        if error != QuorumError.NONE:
            self._voter.reply(token, refused_fetch(self._voter, error))
            return
        assert isinstance(self._role, Leader)
        self._role.fetch(self._voter, token, request)

    def _answer_fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        voter = self._voter
        error, size, data = self._fetch_problem(request), 0, b""
        if error == QuorumError.NONE:
            assert isinstance(self._role, Leader)
            error, size, data = self._role.fetch_snapshot(voter, request)
        return FetchSnapshotResponse(
            error_code=error,
            leader_id=voter.leader_id,
            leader_epoch=voter.epoch,
            snapshot_id=request.snapshot_id,
            size=size,
            position=request.position,
            data=data,
        )
