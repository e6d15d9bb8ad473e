"""The quorum core of one voter (KIP-595, pre-vote of KIP-996). The API is on one screen in `broker.quorum`.

Owns the transitions between roles, votes, replication and the high watermark. `tests/broker_quorum` runs it under
seeded drops, delays, partitions and restarts and checks after every event that an epoch has one leader, that logs
match, and that nothing committed is lost.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from broker.quorum.config import QuorumConfig
from broker.quorum.log import QuorumLog
from broker.quorum.messages import encode_leader_change
from broker.quorum.roles import Candidate, Follower, Leader, ParkedFetch, Prospective, Role, Unattached, VoterProgress
from broker.quorum.snapshots import Snapshot, SnapshotDownload, SnapshotId
from broker.quorum.types import (
    NO_NODE,
    Action,
    AppendEntries,
    BecameLeader,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Committed,
    DivergingEpoch,
    DropPrefix,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Event,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    InstallSnapshot,
    LeaderChanged,
    LogEntry,
    LostLeadership,
    PersistedState,
    PersistQuorumState,
    Propose,
    QuorumError,
    Reply,
    Request,
    RequestReceived,
    Response,
    ResponseReceived,
    Send,
    SendFailed,
    Shutdown,
    SnapshotTaken,
    Start,
    Tick,
    TruncateEntries,
    VoteRequest,
    VoteResponse,
    VoterState,
    WriteSnapshot,
)

__all__ = ["Quorum", "QuorumConfig"]


@dataclass(slots=True)
class _Channel:
    """To one voter: at most one request in flight. Reset at each role change, so late answers are not recognised."""

    correlation_id: int | None = None
    deadline_ms: int = 0
    not_before_ms: int = 0


class Quorum:
    def __init__(
        self,
        *,
        config: QuorumConfig,
        persisted: PersistedState,  # PersistedState() when there is no quorum-state file
        entries: tuple[LogEntry, ...],  # the metadata log on disk, offsets dense
        rng: random.Random,
        snapshot: Snapshot | None = None,  # the latest on disk; the log begins at 0 or at its end offset at the latest
        log_start: SnapshotId | None = None,  # where `entries` begin, None for offset 0
    ) -> None:
        self._config = config
        self._rng = rng
        if log_start is None:
            self._log = QuorumLog(entries)
        else:
            self._log = QuorumLog(entries, start_offset=log_start.end_offset, start_epoch=log_start.epoch)
        self._snapshot = snapshot
        self._download: SnapshotDownload | None = None  # as a follower
        # A crash may have come between the append of a newer epoch and the state that names it.
        newer = self._log.last_epoch > persisted.leader_epoch
        self._persisted = PersistedState(leader_epoch=self._log.last_epoch) if newer else persisted
        self._leader_id = NO_NODE
        self._voted_id = self._persisted.voted_id
        self._epoch = self._persisted.leader_epoch
        self._role: Role = Unattached(deadline_ms=None)
        # Never falls within a life; entries below it have been reported as Committed, or are in the snapshot.
        self._high_watermark = 0 if snapshot is None else snapshot.snapshot_id.end_offset
        assert self._log.start_offset <= self._high_watermark <= self._log.end_offset
        self._peers = tuple(voter for voter in config.voters if voter != config.node_id)
        self._channels: dict[int, _Channel] = {}
        self._next_correlation_id = 0
        self._stopping = False
        self._now_ms = 0
        self._actions: list[Action] = []

    # -- public -------------------------------------------------------------------------------------------------------

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        self._now_ms = max(self._now_ms, now_ms)
        self._actions = []
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
                self._on_send_failed(peer_id, correlation_id)
            case Propose(epoch=epoch, payload=payload):
                self._propose(epoch, payload)
            case SnapshotTaken():
                self._take_snapshot(event)
            case Shutdown():
                self._shutdown()
        self._run_timers()
        self._send_due_requests()
        return self._actions

    def next_deadline_ms(self) -> int | None:
        deadlines = [self._role_deadline_ms()]
        for peer_id, channel in self._channels.items():
            due = channel.deadline_ms if channel.correlation_id is not None else self._due_ms(peer_id)
            deadlines.append(due)
        if isinstance(self._role, Leader):
            deadlines += [parked.deadline_ms for parked in self._role.parked.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def node_id(self) -> int:
        return self._config.node_id

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def leader_id(self) -> int:
        """Whom we believe to lead `epoch`, -1 for nobody."""
        return self._leader_id

    @property
    def voted_id(self) -> int:
        """Whom this voter gave its vote in `epoch`, -1 for nobody."""
        return self._voted_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self._role, Leader)

    @property
    def role_name(self) -> str:
        return type(self._role).__name__.lower()

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def log_start_offset(self) -> int:
        return self._log.start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.end_offset

    @property
    def snapshot_id(self) -> SnapshotId | None:
        """The latest that this node has."""
        return None if self._snapshot is None else self._snapshot.snapshot_id

    def epoch_before(self, offset: int) -> int:
        """Of the last entry below `offset`, which lies in the log; -1 at 0."""
        return self._log.epoch_before(offset)

    @property
    def last_entry(self) -> LogEntry | None:
        return self._log.last_entry

    def describe_voters(self, now_ms: int) -> list[VoterState]:
        """As leader: every voter and how far it is; empty otherwise."""
        if not isinstance(self._role, Leader):
            return []
        own = VoterState(
            replica_id=self.node_id,
            log_end_offset=self._log.end_offset,
            last_fetch_ms=now_ms,
            last_caught_up_ms=now_ms,
        )
        others = [
            VoterState(
                replica_id=replica_id,
                log_end_offset=voter.end_offset,
                last_fetch_ms=voter.last_fetch_ms,
                last_caught_up_ms=voter.last_caught_up_ms,
            )
            for replica_id, voter in self._role.progress.items()
        ]
        return sorted([own, *others], key=lambda voter: voter.replica_id)

    def read_log(self, from_offset: int | None = None) -> tuple[LogEntry, ...]:
        """For inspection and tests; committed or not. From the start of the log unless told otherwise."""
        start = self._log.start_offset if from_offset is None else from_offset
        return self._log.read(start, self._log.end_offset)

    @property
    def persisted(self) -> PersistedState:
        """What the disk was last asked to keep."""
        return self._persisted

    def check_invariants(self) -> None:
        self._log.check_invariants()
        assert self._log.start_offset <= self._high_watermark <= self._log.end_offset
        if self._log.start_offset:
            assert self._snapshot is not None, "a snapshot stands for what the log does not hold"
            assert self._log.start_offset <= self._snapshot.snapshot_id.end_offset <= self._high_watermark
        assert self._log.last_epoch <= self._epoch
        assert self._persisted == self._state_to_persist()
        assert self.is_leader == (self._leader_id == self.node_id)
        if isinstance(self._role, Leader):
            assert self._voted_id == self.node_id
            assert self._log.last_epoch == self._epoch
            assert len(self._role.parked) <= len(self._peers)
        if isinstance(self._role, Candidate):
            assert self._voted_id == self.node_id
            assert not self._role.granted & self._role.rejected
        if isinstance(self._role, Follower):
            assert self._leader_id != NO_NODE

    # -- timers and outgoing requests ---------------------------------------------------------------------------------

    def _role_deadline_ms(self) -> int | None:
        if self._stopping:
            return None  # starts no election any more; still votes, which helps the others
        match self._role:
            case Unattached() | Prospective() | Candidate():
                return self._role.deadline_ms
            case Follower():
                return self._role.fetch_deadline_ms
            case Leader():
                return self._role.quorum_lost_at_ms(self._config.check_quorum_timeout_ms)

    def _run_timers(self) -> None:
        for channel in self._channels.values():
            if channel.correlation_id is not None and channel.deadline_ms <= self._now_ms:
                self._close(channel, self._config.retry_backoff_ms)
        if isinstance(self._role, Leader):
            for replica_id, parked in list(self._role.parked.items()):
                if parked.deadline_ms <= self._now_ms:
                    self._answer_parked(self._role, replica_id)
        deadline_ms = self._role_deadline_ms()
        if deadline_ms is None or deadline_ms > self._now_ms:
            return
        match self._role:
            case Unattached() | Follower() | Candidate():
                self._become_prospective()
            case Prospective() if self._leader_id != NO_NODE:
                # Nobody would follow us, so the leader may live and only our way to it was bad: try it again.
                self._become_follower(self._leader_id)
            case Prospective():
                self._become_prospective()
            case Leader():
                self._become_unattached(self._election_deadline_ms())

    def _election_deadline_ms(self) -> int:
        return self._now_ms + self._config.election_timeout_ms + self._rng.randrange(self._config.election_timeout_ms)

    def _due_ms(self, peer_id: int) -> int | None:
        """When a request to this idle peer is due; None: none is wanted in this role."""
        not_before_ms = self._channels[peer_id].not_before_ms
        match self._role:
            case Prospective():
                return not_before_ms if peer_id not in self._role.granted else None
            case Candidate():
                return not_before_ms if peer_id not in self._role.granted | self._role.rejected else None
            case Follower():
                return not_before_ms if peer_id == self._leader_id and not self._stopping else None
            case Leader():
                voter = self._role.progress[peer_id]
                quiet_ms = voter.last_fetch_ms + self._config.fetch_timeout_ms // 2
                return max(not_before_ms, quiet_ms) if voter.acknowledged else not_before_ms
            case Unattached():
                return None

    def _send_due_requests(self) -> None:
        for peer_id, channel in self._channels.items():
            due_ms = None if channel.correlation_id is not None else self._due_ms(peer_id)
            if due_ms is not None and due_ms <= self._now_ms:
                self._send(peer_id, self._request_of_role())

    def _send(self, peer_id: int, request: Request) -> None:
        channel = self._channels[peer_id]
        assert channel.correlation_id is None
        self._next_correlation_id += 1
        channel.correlation_id = self._next_correlation_id
        wait_ms = request.max_wait_ms if isinstance(request, FetchRequest) else 0  # the leader may hold it so long
        channel.deadline_ms = self._now_ms + self._config.request_timeout_ms + wait_ms
        self._actions.append(Send(peer_id=peer_id, correlation_id=channel.correlation_id, request=request))

    def _request_of_role(self) -> Request:
        match self._role:
            case Prospective() | Candidate():
                return VoteRequest(
                    candidate_id=self.node_id,
                    candidate_epoch=self._epoch,
                    last_epoch=self._log.last_epoch,
                    last_offset=self._log.end_offset,
                    pre_vote=isinstance(self._role, Prospective),
                )
            case Leader():
                return BeginQuorumEpochRequest(leader_id=self.node_id, leader_epoch=self._epoch)
            case Follower() if self._download is not None:
                return FetchSnapshotRequest(
                    replica_id=self.node_id,
                    current_leader_epoch=self._epoch,
                    snapshot_id=self._download.snapshot_id,
                    position=len(self._download.data),
                    max_bytes=self._config.fetch_snapshot_max_bytes,
                )
            case _:
                return FetchRequest(
                    replica_id=self.node_id,
                    current_leader_epoch=self._epoch,
                    fetch_offset=self._log.end_offset,
                    last_fetched_epoch=self._log.last_epoch,
                    max_wait_ms=min(self._config.fetch_max_wait_ms, self._config.fetch_timeout_ms // 2),
                )

    def _close(self, channel: _Channel, pause_ms: int) -> None:
        channel.correlation_id = None
        channel.not_before_ms = self._now_ms + pause_ms

    def _on_send_failed(self, peer_id: int, correlation_id: int) -> None:
        channel = self._channels.get(peer_id)
        if channel is not None and channel.correlation_id == correlation_id:
            self._close(channel, self._config.retry_backoff_ms)

    # -- transitions --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        leader_id = self._persisted.leader_id
        if leader_id not in (NO_NODE, self.node_id) and leader_id in self._config.voters:
            self._become_follower(leader_id)
        elif self._peers:
            # A pre-vote disturbs no leader: if there is one, a refusal names it. So ask soon, a little spread.
            self._become_unattached(self._now_ms + 1 + self._rng.randrange(1 + self._config.election_timeout_ms // 4))
        else:
            self._become_unattached(self._now_ms)  # alone: no one to wait for

    def _enter(self, role: Role, *, epoch: int, leader_id: int, voted_id: int) -> None:
        """The one door for a change of role: persists first, then tells the host."""
        assert epoch >= self._epoch
        previous, previous_epoch, previous_leader = self._role, self._epoch, self._leader_id
        self._role, self._epoch, self._leader_id, self._voted_id = role, epoch, leader_id, voted_id
        self._channels = {peer_id: _Channel() for peer_id in self._peers}
        self._download = None  # another leader names its own
        self._persist()
        if isinstance(previous, Leader):
            for parked in previous.parked.values():
                self._reply(parked.token, self._fetch_error(QuorumError.NOT_LEADER_OR_FOLLOWER))
            self._actions.append(LostLeadership(epoch=previous_epoch))
        if (leader_id, epoch) != (previous_leader, previous_epoch):
            self._actions.append(LeaderChanged(leader_id=leader_id, epoch=epoch))

    def _state_to_persist(self) -> PersistedState:
        # A leader that is only forgotten (it resigned, timed out) may stay in the file: it did lead this epoch.
        same_epoch = self._persisted.leader_epoch == self._epoch
        leader_id = self._persisted.leader_id if same_epoch and self._leader_id == NO_NODE else self._leader_id
        return PersistedState(leader_epoch=self._epoch, leader_id=leader_id, voted_id=self._voted_id)

    def _persist(self) -> None:
        state = self._state_to_persist()
        if state != self._persisted:
            self._persisted = state
            self._actions.append(PersistQuorumState(state=state))

    def _become_unattached(self, deadline_ms: int, *, epoch: int | None = None, voted_id: int | None = None) -> None:
        new_epoch = self._epoch if epoch is None else epoch
        kept = self._voted_id if new_epoch == self._epoch else NO_NODE
        role = Unattached(deadline_ms=None if self._stopping else deadline_ms)
        self._enter(role, epoch=new_epoch, leader_id=NO_NODE, voted_id=kept if voted_id is None else voted_id)

    def _become_prospective(self) -> None:
        role = Prospective(deadline_ms=self._election_deadline_ms(), granted={self.node_id})
        self._enter(role, epoch=self._epoch, leader_id=self._leader_id, voted_id=self._voted_id)
        self._count_votes()

    def _become_candidate(self) -> None:
        role = Candidate(deadline_ms=self._election_deadline_ms(), granted={self.node_id})
        self._enter(role, epoch=self._epoch + 1, leader_id=NO_NODE, voted_id=self.node_id)
        self._count_votes()

    def _become_follower(self, leader_id: int, *, epoch: int | None = None) -> None:
        new_epoch = self._epoch if epoch is None else epoch
        role = Follower(fetch_deadline_ms=self._now_ms + self._config.fetch_timeout_ms)
        voted_id = self._voted_id if new_epoch == self._epoch else NO_NODE
        self._enter(role, epoch=new_epoch, leader_id=leader_id, voted_id=voted_id)

    def _become_leader(self, granting: frozenset[int]) -> None:
        progress = {peer: VoterProgress(end_offset=0, last_fetch_ms=self._now_ms) for peer in self._peers}
        role = Leader(epoch_start_offset=self._log.end_offset, progress=progress)
        self._enter(role, epoch=self._epoch, leader_id=self.node_id, voted_id=self._voted_id)
        self._actions.append(BecameLeader(epoch=self._epoch))
        payload = encode_leader_change(leader_id=self.node_id, voters=self._config.voters, granting=granting)
        self._append(role, payload, is_control=True)

    def _observe(self, epoch: int, leader_id: int) -> None:
        """A peer told us of an epoch and perhaps its leader."""
        foreign = leader_id in self._peers
        if epoch > self._epoch and foreign:
            self._become_follower(leader_id, epoch=epoch)
        elif epoch > self._epoch:
            # An election under way keeps its deadline: a hopeless candidate must not hold up a better one for ever.
            waits = isinstance(self._role, Unattached | Prospective | Candidate)
            deadline_ms = self._role_deadline_ms() if waits else None
            self._become_unattached(self._election_deadline_ms() if deadline_ms is None else deadline_ms, epoch=epoch)
        elif epoch == self._epoch and foreign and self._leader_id == NO_NODE:
            self._become_follower(leader_id)

    def _shutdown(self) -> None:
        self._stopping = True
        if not isinstance(self._role, Leader):
            self._become_unattached(self._now_ms)
            return
        progress = self._role.progress
        candidates = tuple(sorted(progress, key=lambda voter: (-progress[voter].end_offset, voter)))
        request = EndQuorumEpochRequest(
            leader_id=self.node_id, leader_epoch=self._epoch, preferred_candidates=candidates
        )
        self._become_unattached(self._now_ms)
        for peer_id in self._peers:
            self._send(peer_id, request)

    # -- requests of peers --------------------------------------------------------------------------------------------

    def _reply(self, token: int, response: Response) -> None:
        self._actions.append(Reply(token=token, response=response))

    def _on_request(self, token: int, request: Request) -> None:
        match request:
            case VoteRequest():
                self._reply(token, self._answer_vote(request))
            case BeginQuorumEpochRequest():
                error = self._answer_begin_quorum_epoch(request)
                self._reply(
                    token,
                    BeginQuorumEpochResponse(error_code=error, leader_id=self._leader_id, leader_epoch=self._epoch),
                )
            case EndQuorumEpochRequest():
                error = self._answer_end_quorum_epoch(request)
                self._reply(
                    token, EndQuorumEpochResponse(error_code=error, leader_id=self._leader_id, leader_epoch=self._epoch)
                )
            case FetchRequest():
                self._on_fetch(token, request)
            case FetchSnapshotRequest():
                self._reply(token, self._answer_fetch_snapshot(request))

    def _answer_vote(self, request: VoteRequest) -> VoteResponse:
        error, granted = QuorumError.NONE, False
        if request.candidate_id not in self._peers:  # nor we ourselves: an epoch that nobody else has is nobody's word
            error = QuorumError.INCONSISTENT_VOTER_SET
        elif request.candidate_epoch < self._epoch:
            error = QuorumError.FENCED_LEADER_EPOCH
        else:
            self._observe(request.candidate_epoch, NO_NODE)
            granted = self._grants_pre_vote(request) if request.pre_vote else self._grants_vote(request)
        return VoteResponse(error_code=error, leader_id=self._leader_id, leader_epoch=self._epoch, vote_granted=granted)

    def _is_up_to_date(self, request: VoteRequest) -> bool:
        return (request.last_epoch, request.last_offset) >= (self._log.last_epoch, self._log.end_offset)

    def _grants_pre_vote(self, request: VoteRequest) -> bool:
        has_leader = isinstance(self._role, Leader) or (isinstance(self._role, Follower) and self._role.has_fetched)
        return not has_leader and self._is_up_to_date(request)

    def _grants_vote(self, request: VoteRequest) -> bool:
        if self._leader_id != NO_NODE:
            return False  # this epoch has its leader
        if self._voted_id != NO_NODE:
            return self._voted_id == request.candidate_id
        if not self._is_up_to_date(request):
            return False
        self._become_unattached(self._election_deadline_ms(), voted_id=request.candidate_id)
        return True

    def _answer_begin_quorum_epoch(self, request: BeginQuorumEpochRequest) -> int:
        if request.leader_id not in self._peers:
            return QuorumError.INCONSISTENT_VOTER_SET
        if request.leader_epoch < self._epoch:
            return QuorumError.FENCED_LEADER_EPOCH
        if isinstance(self._role, Prospective) and (self._epoch, self._leader_id) == (
            request.leader_epoch,
            request.leader_id,
        ):
            self._become_follower(request.leader_id)  # it lives after all
        self._observe(request.leader_epoch, request.leader_id)
        return QuorumError.NONE

    def _answer_end_quorum_epoch(self, request: EndQuorumEpochRequest) -> int:
        if request.leader_id not in self._peers:
            return QuorumError.INCONSISTENT_VOTER_SET
        if request.leader_epoch < self._epoch:
            return QuorumError.FENCED_LEADER_EPOCH
        self._observe(request.leader_epoch, NO_NODE)
        if self._leader_id in (NO_NODE, request.leader_id):
            # The best follower asks at once, the others only if it fails.
            first = request.preferred_candidates[:1] == (self.node_id,)
            self._become_unattached(self._now_ms if first else self._election_deadline_ms())
        return QuorumError.NONE

    # -- leading ------------------------------------------------------------------------------------------------------

    def _propose(self, epoch: int, payload: bytes) -> None:
        if isinstance(self._role, Leader) and epoch == self._epoch:
            self._append(self._role, payload, is_control=False)

    def _append(self, leader: Leader, payload: bytes, *, is_control: bool) -> None:
        entry = LogEntry(offset=self._log.end_offset, epoch=self._epoch, is_control=is_control, payload=payload)
        self._log.append((entry,))
        self._actions.append(AppendEntries(entries=(entry,)))
        self._advance_as_leader(leader)
        self._answer_ready_fetches(leader)

    def _advance_as_leader(self, leader: Leader) -> None:
        offset = leader.majority_offset(self._log.end_offset)
        if offset > leader.epoch_start_offset:
            self._commit(offset)

    def _commit(self, high_watermark: int) -> None:
        if high_watermark > self._high_watermark:
            entries = self._log.read(self._high_watermark, high_watermark)
            self._high_watermark = high_watermark
            self._actions.append(Committed(high_watermark=high_watermark, entries=entries))

    def _fetch_error(self, error_code: int) -> FetchResponse:
        return FetchResponse(
            error_code=error_code,
            leader_id=self._leader_id,
            leader_epoch=self._epoch,
            high_watermark=-1,
            diverging_epoch=None,
            entries=(),
        )

    def _fetch_problem(self, request: FetchRequest | FetchSnapshotRequest) -> int:
        if request.replica_id not in self._peers:
            return QuorumError.INCONSISTENT_VOTER_SET
        if request.current_leader_epoch < self._epoch:
            return QuorumError.FENCED_LEADER_EPOCH
        if request.current_leader_epoch > self._epoch:
            return QuorumError.UNKNOWN_LEADER_EPOCH
        return QuorumError.NONE if isinstance(self._role, Leader) else QuorumError.NOT_LEADER_OR_FOLLOWER

    def _answer_fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        error, size, data = self._fetch_problem(request), 0, b""
        if error == QuorumError.NONE:
            assert isinstance(self._role, Leader)
            self._role.progress[request.replica_id].last_fetch_ms = self._now_ms  # it follows, and says so
            self._role.progress[request.replica_id].acknowledged = True
            if self._snapshot is None or self._snapshot.snapshot_id != request.snapshot_id:
                error = QuorumError.SNAPSHOT_NOT_FOUND  # there is a later one by now: a Fetch tells which
            elif not 0 <= request.position < len(self._snapshot.data):
                error = QuorumError.POSITION_OUT_OF_RANGE
            else:
                length = max(1, min(request.max_bytes, self._config.fetch_snapshot_max_bytes))
                size, data = len(self._snapshot.data), self._snapshot.data[request.position :][:length]
        return FetchSnapshotResponse(
            error_code=error,
            leader_id=self._leader_id,
            leader_epoch=self._epoch,
            snapshot_id=request.snapshot_id,
            size=size,
            position=request.position,
            data=data,
        )

    def _on_fetch(self, token: int, request: FetchRequest) -> None:
        error = self._fetch_problem(request)
        if error != QuorumError.NONE:
            self._reply(token, self._fetch_error(error))
            return
        assert isinstance(self._role, Leader)
        self._lead_fetch(self._role, token, request)

    def _lead_fetch(self, leader: Leader, token: int, request: FetchRequest) -> None:
        voter = leader.progress[request.replica_id]
        if request.fetch_offset >= self._log.end_offset:
            voter.last_caught_up_ms = self._now_ms
        elif request.fetch_offset >= voter.leader_end_offset_at_last_fetch >= 0:
            voter.last_caught_up_ms = voter.last_fetch_ms  # it has what we had then
        voter.leader_end_offset_at_last_fetch = self._log.end_offset
        voter.last_fetch_ms = self._now_ms
        voter.acknowledged = True
        if request.replica_id in leader.parked:
            self._answer_parked(leader, request.replica_id)  # its sender gave up; the newer one counts
        deadline_ms = self._now_ms + min(request.max_wait_ms, self._config.fetch_timeout_ms)
        leader.parked[request.replica_id] = ParkedFetch(token=token, request=request, deadline_ms=deadline_ms)
        position = {"fetch_offset": request.fetch_offset, "last_fetched_epoch": request.last_fetched_epoch}
        if self._log.needs_snapshot(**position) or self._log.divergence(**position) is not None:
            self._answer_parked(leader, request.replica_id)
            return
        voter.end_offset = request.fetch_offset
        self._advance_as_leader(leader)
        self._answer_ready_fetches(leader)

    def _answer_ready_fetches(self, leader: Leader) -> None:
        """Answer whoever has something to learn: entries, or a high watermark that it has not seen."""
        for replica_id, parked in list(leader.parked.items()):
            knows_high_watermark = leader.progress[replica_id].sent_high_watermark >= self._high_watermark
            if parked.request.fetch_offset < self._log.end_offset or not knows_high_watermark:
                self._answer_parked(leader, replica_id)

    def _answer_parked(self, leader: Leader, replica_id: int) -> None:
        parked = leader.parked.pop(replica_id)
        offset, last_epoch = parked.request.fetch_offset, parked.request.last_fetched_epoch
        snapshot_id: SnapshotId | None = None
        diverging: DivergingEpoch | None = None
        entries: tuple[LogEntry, ...] = ()
        if self._log.needs_snapshot(fetch_offset=offset, last_fetched_epoch=last_epoch):
            snapshot_id = self.snapshot_id
        else:
            diverging = self._log.divergence(fetch_offset=offset, last_fetched_epoch=last_epoch)
            if diverging is None:
                entries = self._log.read_bounded(offset, self._config.fetch_max_bytes)
        leader.progress[replica_id].sent_high_watermark = self._high_watermark
        response = FetchResponse(
            error_code=QuorumError.NONE,
            leader_id=self.node_id,
            leader_epoch=self._epoch,
            high_watermark=self._high_watermark,
            diverging_epoch=diverging,
            entries=entries,
            snapshot_id=snapshot_id,
        )
        self._reply(parked.token, response)

    # -- answers of peers ---------------------------------------------------------------------------------------------

    def _on_response(self, event: ResponseReceived) -> None:
        channel = self._channels.get(event.sender_id)
        if channel is None or channel.correlation_id != event.correlation_id:
            return  # asked in an earlier role, or timed out
        self._close(channel, self._config.retry_backoff_ms)
        response = event.response
        if response.leader_epoch > self._epoch:
            self._observe(response.leader_epoch, response.leader_id)
            return
        if response.leader_epoch < self._epoch:
            return  # a peer that has not caught up with our epoch yet: ask again after the backoff
        match response:
            case VoteResponse():
                self._on_vote_response(event.sender_id, response)
            case FetchResponse():
                self._on_fetch_response(channel, response)
            case FetchSnapshotResponse():
                self._on_snapshot_response(channel, response)
            case BeginQuorumEpochResponse():
                if isinstance(self._role, Leader) and response.error_code == QuorumError.NONE:
                    self._role.progress[event.sender_id].acknowledged = True
                    channel.not_before_ms = self._now_ms + self._config.fetch_timeout_ms // 2
            case EndQuorumEpochResponse():
                pass

    def _on_vote_response(self, sender_id: int, response: VoteResponse) -> None:
        if not isinstance(self._role, Prospective | Candidate):
            return
        if response.vote_granted:
            self._role.granted.add(sender_id)
            self._count_votes()
            return
        if isinstance(self._role, Candidate):
            self._role.rejected.add(sender_id)
        else:
            # A pre-vote is refused while the peer still hears the leader; it may think otherwise a moment later.
            self._channels[sender_id].not_before_ms = self._now_ms + max(1, self._config.election_timeout_ms // 4)
        self._observe(response.leader_epoch, response.leader_id)

    def _count_votes(self) -> None:
        if not isinstance(self._role, Prospective | Candidate):
            return
        if len(self._role.granted) <= len(self._config.voters) // 2:
            return
        if isinstance(self._role, Prospective):
            self._become_candidate()
        else:
            self._become_leader(frozenset(self._role.granted))

    def _on_fetch_response(self, channel: _Channel, response: FetchResponse) -> None:
        follower = self._role
        if not isinstance(follower, Follower):
            return
        if response.error_code == QuorumError.NOT_LEADER_OR_FOLLOWER:
            # It led this epoch and does so no more; an epoch has one leader only, so a new epoch must come.
            self._become_unattached(self._election_deadline_ms())
            return
        if response.error_code != QuorumError.NONE or not self._log.can_append(response.entries):
            return
        follower.has_fetched = True
        follower.fetch_deadline_ms = self._now_ms + self._config.fetch_timeout_ms
        channel.not_before_ms = self._now_ms
        if response.snapshot_id is not None:
            self._download = SnapshotDownload(snapshot_id=response.snapshot_id)
            return
        if response.diverging_epoch is not None:
            self._truncate(self._log.common_end(response.diverging_epoch))
            return
        if response.entries:
            self._log.append(response.entries)
            self._actions.append(AppendEntries(entries=response.entries))
        self._commit(min(response.high_watermark, self._log.end_offset))

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def _take_snapshot(self, event: SnapshotTaken) -> None:
        """Of what is committed, by our host; the leader's and the followers' are independent of each other."""
        snapshot_id = event.snapshot.snapshot_id
        assert snapshot_id.end_offset <= self._high_watermark, "only what is committed is in a snapshot"
        if self._snapshot is not None and snapshot_id <= self._snapshot.snapshot_id:
            return
        self._snapshot = event.snapshot
        self._actions.append(WriteSnapshot(snapshot=event.snapshot))
        if event.drops_prefix:
            self._log.drop_prefix(snapshot_id.end_offset)
            self._actions.append(DropPrefix(start_offset=snapshot_id.end_offset))

    def _on_snapshot_response(self, channel: _Channel, response: FetchSnapshotResponse) -> None:
        follower, download = self._role, self._download
        if not isinstance(follower, Follower) or download is None:
            return
        fits = response.error_code == QuorumError.NONE and download.add(
            response.snapshot_id, position=response.position, size=response.size, piece=response.data
        )
        if not fits:
            self._download = None  # a Fetch tells what there is now
            return
        follower.has_fetched = True
        follower.fetch_deadline_ms = self._now_ms + self._config.fetch_timeout_ms
        channel.not_before_ms = self._now_ms
        if len(download.data) == response.size:
            self._download = None
            self._install(Snapshot(snapshot_id=download.snapshot_id, data=bytes(download.data)))

    def _install(self, snapshot: Snapshot) -> None:
        """All of it is committed, and what our log has beyond it may not continue it: begin anew from there."""
        snapshot_id = snapshot.snapshot_id
        if snapshot_id.end_offset <= self._high_watermark:
            return  # overtaken: we were told to get it before we knew what we know now
        self._log = QuorumLog((), start_offset=snapshot_id.end_offset, start_epoch=snapshot_id.epoch)
        self._snapshot = snapshot
        self._high_watermark = snapshot_id.end_offset
        self._actions.append(InstallSnapshot(snapshot=snapshot))

    def _truncate(self, end_offset: int) -> None:
        if end_offset < self._high_watermark:
            raise RuntimeError(
                f"node {self.node_id} epoch {self._epoch}: leader {self._leader_id} asks to truncate to {end_offset}, "
                f"below the high watermark {self._high_watermark}: committed metadata would be lost"
            )
        if end_offset < self._log.end_offset:
            self._log.truncate(end_offset)
            self._actions.append(TruncateEntries(end_offset=end_offset))
