"""A voter that fetches from the leader of its epoch (KIP-595)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.quorum.channels import Channel
from broker.quorum.roles.role import Move, Role
from broker.quorum.snapshots import Snapshot, SnapshotDownload
from broker.quorum.transitions import RoleName, Trigger
from broker.quorum.types import (
    NO_NODE,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumError,
    Request,
    Response,
)
from broker.quorum.voter import Voter


@dataclass(slots=True, kw_only=True)
class Follower(Role):
    """It fetches from the leader of its epoch, appends what it gets, and truncates entries that the leader does not
    have (KIP-595).
    """

    NAME: ClassVar = RoleName.FOLLOWER
    fetch_deadline_ms: int
    has_fetched: bool = False  # this leader has answered a fetch, so it is alive
    download: SnapshotDownload | None = None  # the snapshot that this leader named, as far as it is here

    def deadline_ms(self, voter: Voter) -> int:
        return self.fetch_deadline_ms

    def expired(self, voter: Voter) -> Move:
        return Move(trigger=Trigger.FETCH_TIMEOUT, leader_id=voter.leader_id)

    def hears_leader(self) -> bool:
        return self.has_fetched

    def request_due_ms(self, voter: Voter, peer_id: int, not_before_ms: int) -> int | None:
        return not_before_ms if peer_id == voter.leader_id else None

    def request(self, voter: Voter) -> Request:
        if self.download is not None:
            return FetchSnapshotRequest(
                replica_id=voter.node_id,
                current_leader_epoch=voter.epoch,
                snapshot_id=self.download.snapshot_id,
                position=len(self.download.data),
                max_bytes=voter.config.fetch_snapshot_max_bytes,
            )
        return FetchRequest(
            replica_id=voter.node_id,
            current_leader_epoch=voter.epoch,
            fetch_offset=voter.log.end_offset,
            last_fetched_epoch=voter.log.last_epoch,
            max_wait_ms=min(voter.config.fetch_max_wait_ms, voter.config.fetch_timeout_ms // 2),
            high_watermark=voter.high_watermark,
        )

    def answered(self, voter: Voter, peer_id: int, response: Response, channel: Channel) -> Move | None:
        match response:
            case FetchResponse(error_code=QuorumError.NOT_LEADER_OR_FOLLOWER):
                # The peer led this epoch and no longer does. An epoch has only one leader, so a new epoch must come.
                return Move(trigger=Trigger.LEADER_STEPPED_DOWN, deadline_ms=voter.draw_election_deadline_ms())
            case FetchResponse():
                self._fetched(voter, response, channel)
            case FetchSnapshotResponse():
                self._fetched_snapshot(voter, response, channel)
        return None

    def _fetched(self, voter: Voter, response: FetchResponse, channel: Channel) -> None:
        if response.error_code != QuorumError.NONE or not voter.log.can_append(response.entries):
            return
        self._leader_lives(voter, channel)
        if response.snapshot_id is not None:
            self.download = SnapshotDownload(snapshot_id=response.snapshot_id)
            return
        if response.diverging_epoch is not None:
            voter.truncate(voter.log.common_end(response.diverging_epoch))
            return
        if response.entries:
            voter.append(response.entries)
        voter.commit(min(response.high_watermark, voter.log.end_offset))

    def _fetched_snapshot(self, voter: Voter, response: FetchSnapshotResponse, channel: Channel) -> None:
        download = self.download
        if download is None:
            return
        fits = response.error_code == QuorumError.NONE and download.add(
            response.snapshot_id, position=response.position, size=response.size, piece=response.data
        )
        if not fits:
            self.download = None  # the next Fetch says which snapshot the leader has now
            return
        self._leader_lives(voter, channel)
        if len(download.data) == response.size:
            self.download = None
            voter.install(Snapshot(snapshot_id=download.snapshot_id, data=bytes(download.data)))

    def _leader_lives(self, voter: Voter, channel: Channel) -> None:
        self.has_fetched = True
        self.fetch_deadline_ms = voter.now_ms + voter.config.fetch_timeout_ms
        channel.not_before_ms = voter.now_ms

    def check_invariants(self, voter: Voter) -> None:
        assert voter.leader_id != NO_NODE
