"""The state of a voter that stays when its role changes: log, epoch, vote, leader, snapshot and high watermark.

Roles read this state and change it through its methods, which also note the actions for the host. It decides nothing
about roles. Shown by tests/broker_quorum.
"""

from __future__ import annotations

import random

from broker.quorum.config import QuorumConfig
from broker.quorum.log import QuorumLog
from broker.quorum.snapshots import Snapshot, SnapshotId
from broker.quorum.types import (
    NO_NODE,
    Action,
    AppendEntries,
    Committed,
    DropPrefix,
    InstallSnapshot,
    LogEntry,
    PersistedState,
    PersistQuorumState,
    Reply,
    Response,
    SnapshotTaken,
    TruncateEntries,
    VoteRequest,
    WriteSnapshot,
)


class Voter:
    def __init__(
        self,
        *,
        config: QuorumConfig,
        persisted: PersistedState,
        entries: tuple[LogEntry, ...],
        rng: random.Random,
        snapshot: Snapshot | None,
        log_start: SnapshotId | None,
    ) -> None:
        self.config = config
        self.peers = tuple(voter for voter in config.voters if voter != config.node_id)
        if log_start is None:
            self.log = QuorumLog(entries)
        else:
            self.log = QuorumLog(entries, start_offset=log_start.end_offset, start_epoch=log_start.epoch)
        self.snapshot = snapshot
        # The process may have crashed after it appended an entry of a newer epoch, and before it wrote the quorum-state
        # with this epoch.
        newer = self.log.last_epoch > persisted.leader_epoch
        self.persisted = PersistedState(leader_epoch=self.log.last_epoch) if newer else persisted
        self.leader_id = NO_NODE
        self.voted_id = self.persisted.voted_id
        self.epoch = self.persisted.leader_epoch
        # It never falls while the process runs. Entries below it have been reported as Committed, or are in the
        # snapshot.
        self.high_watermark = 0 if snapshot is None else snapshot.snapshot_id.end_offset
        assert self.log.start_offset <= self.high_watermark <= self.log.end_offset
        self.now_ms = 0
        self.actions: list[Action] = []
        self._rng = rng

    # -- time --------------------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self.config.node_id

    def draw_start_deadline_ms(self) -> int:
        """When a voter that has just started first asks for pre-votes. A pre-vote does not disturb a leader. If there
        is one, the refusal names it. So the voter asks soon, with a small random delay."""
        if not self.peers:
            return self.now_ms  # a quorum of one has no peer to wait for
        return self.now_ms + 1 + self._rng.randrange(1 + self.config.election_timeout_ms // 4)

    def draw_election_deadline_ms(self) -> int:
        """Different each time, so that two voters do not become candidates at the same time for ever (Raft, 5.2)."""
        return self.now_ms + self.config.election_timeout_ms + self._rng.randrange(self.config.election_timeout_ms)

    # -- epoch, leader and vote --------------------------------------------------------------------------------------

    def enter_epoch(self, *, epoch: int, leader_id: int, voted_id: int) -> None:
        """The new epoch is on disk before any later action."""
        assert epoch >= self.epoch, "the epoch never falls"
        self.epoch, self.leader_id, self.voted_id = epoch, leader_id, voted_id
        state = self._state_to_persist()
        if state != self.persisted:
            self.persisted = state
            self.actions.append(PersistQuorumState(state=state))

    def _state_to_persist(self) -> PersistedState:
        # If this voter only no longer has a leader (it resigned or timed out), the file may keep that leader, because
        # it did lead this epoch.
        same_epoch = self.persisted.leader_epoch == self.epoch
        leader_id = self.persisted.leader_id if same_epoch and self.leader_id == NO_NODE else self.leader_id
        return PersistedState(leader_epoch=self.epoch, leader_id=leader_id, voted_id=self.voted_id)

    def is_up_to_date(self, request: VoteRequest) -> bool:
        """Whether the candidate's log holds everything of our log that may be committed (Raft, 5.4.1)."""
        return (request.last_epoch, request.last_offset) >= (self.log.last_epoch, self.log.end_offset)

    def reply(self, token: int, response: Response) -> None:
        self.actions.append(Reply(token=token, response=response))

    # -- log ---------------------------------------------------------------------------------------------------------

    def append(self, entries: tuple[LogEntry, ...]) -> None:
        self.log.append(entries)
        self.actions.append(AppendEntries(entries=entries))

    def commit(self, high_watermark: int) -> None:
        """What is committed are whole entries, whatever offset a peer tells."""
        if high_watermark <= self.high_watermark:
            return
        high_watermark = self.log.end_at_or_before(high_watermark)
        if high_watermark > self.high_watermark:
            entries = self.log.read(self.high_watermark, high_watermark)
            self.high_watermark = high_watermark
            self.actions.append(Committed(high_watermark=high_watermark, entries=entries))

    def truncate(self, end_offset: int) -> None:
        """An entry that begins before `end_offset` and ends after it goes too: it is not the leader's."""
        if end_offset < self.high_watermark:
            raise RuntimeError(
                f"node {self.node_id} epoch {self.epoch}: leader {self.leader_id} asks to truncate to {end_offset}, "
                f"below the high watermark {self.high_watermark}: committed metadata would be lost"
            )
        if end_offset < self.log.end_offset:
            end_offset = self.log.end_at_or_before(end_offset)
            assert end_offset >= self.high_watermark, "an entry is committed as a whole"
            self.log.truncate(end_offset)
            self.actions.append(TruncateEntries(end_offset=end_offset))

    # -- snapshots ---------------------------------------------------------------------------------------------------

    @property
    def snapshot_id(self) -> SnapshotId | None:
        return None if self.snapshot is None else self.snapshot.snapshot_id

    def take_snapshot(self, event: SnapshotTaken) -> None:
        """Our host put the committed state into a snapshot. Snapshots of leader and followers are independent of each
        other."""
        snapshot_id = event.snapshot.snapshot_id
        assert snapshot_id.end_offset <= self.high_watermark, "only what is committed is in a snapshot"
        if self.snapshot is not None and snapshot_id <= self.snapshot.snapshot_id:
            return
        self.snapshot = event.snapshot
        self.actions.append(WriteSnapshot(snapshot=event.snapshot))
        if event.drops_prefix:
            self.log.drop_prefix(snapshot_id.end_offset)
            self.actions.append(DropPrefix(start_offset=snapshot_id.end_offset))

    def install(self, snapshot: Snapshot) -> None:
        """Install a snapshot of the leader. Everything in it is committed. Our later entries may not continue it, so a
        new empty log begins at its end."""
        snapshot_id = snapshot.snapshot_id
        if snapshot_id.end_offset <= self.high_watermark:
            return  # too late: since the download began, we have learnt that as much is committed
        self.log = QuorumLog((), start_offset=snapshot_id.end_offset, start_epoch=snapshot_id.epoch)
        self.snapshot = snapshot
        self.high_watermark = snapshot_id.end_offset
        self.actions.append(InstallSnapshot(snapshot=snapshot))

    # -- invariants --------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        self.log.check_invariants()
        assert self.log.start_offset <= self.high_watermark <= self.log.end_offset
        assert self.log.end_at_or_before(self.high_watermark) == self.high_watermark
        if self.log.start_offset:
            assert self.snapshot is not None, "a snapshot stands for what the log does not hold"
            assert self.log.start_offset <= self.snapshot.snapshot_id.end_offset <= self.high_watermark
        assert self.log.last_epoch <= self.epoch
        assert self.persisted == self._state_to_persist()
