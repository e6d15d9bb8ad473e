"""What a voter says in a message must be on its disk: its epoch, its vote, and the end of its metadata log.

Each message is judged by its own content. The state of the core does not count here, because it is the state after a
whole list of actions. A message in the middle of the list may be sent before the rest is written. An example: a leader
with a parked Fetch learns a newer epoch and grants its vote there. It writes the epoch, answers the Fetch, writes the
vote, and answers the vote request. Shown by tests/broker_sim/test_sim_tellings.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.cluster.metadata import MetadataHost
from broker.node.cluster.metadata_store import METADATA_DIRECTORY
from broker.quorum.core import Quorum
from broker.quorum.state_file import decode_quorum_state
from broker.quorum.types import (
    Action,
    Event,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    PersistedState,
    Request,
    RequestReceived,
    Response,
    Send,
    VoteRequest,
    VoteResponse,
)
from broker.sim.disk import SimDisk
from broker.sim.invariants.invariant import Fail
from broker.sim.invariants.quorum import WhatAVoterTellsIsOnItsDisk

if TYPE_CHECKING:
    from broker.sim.cluster import Life

QUORUM_STATE = f"/data/{METADATA_DIRECTORY}/quorum-state"


def stored_state(disk: SimDisk) -> PersistedState:
    return decode_quorum_state(disk.content(QUORUM_STATE).decode() if disk.holds(QUORUM_STATE) else None)


def ahead_of_disk(told: Request | Response, *, stored: PersistedState, end_offset: int, voted_for: int | None) -> str:
    """What this message says although it is not on the disk. "" if the disk has all of it.

    `stored` is the epoch and vote on the disk. `end_offset` is the end of the metadata log there. `voted_for` is the
    candidate that gets the sender's vote by this message. None if the message gives no vote (a pre-vote gives none).
    """
    epoch = _epoch(told)
    if epoch > stored.leader_epoch:
        return f"epoch {epoch}, on the disk is {stored}"
    if voted_for is not None and (stored.leader_epoch, stored.voted_id) != (epoch, voted_for):
        return f"a vote for {voted_for} in epoch {epoch}, on the disk is {stored}"
    vouched = _vouched_end(told)
    if vouched > end_offset:
        return f"the log up to {vouched}, on the disk it ends at {end_offset}"
    return ""


def _epoch(told: Request | Response) -> int:
    if isinstance(told, VoteRequest):
        return told.candidate_epoch  # a pre-vote has the present epoch of its sender
    if isinstance(told, FetchRequest | FetchSnapshotRequest):
        return told.current_leader_epoch
    return told.leader_epoch


def _vouched_end(told: Request | Response) -> int:
    """The sender has the log up to this end offset, as the message says."""
    match told:
        case VoteRequest():
            return told.last_offset
        case FetchRequest():
            return told.fetch_offset
        case FetchResponse():
            return max(told.high_watermark, told.entries[-1].end_offset if told.entries else 0)
        case _:
            return 0


class _Watch:
    def __init__(self, fail: Fail, lives: Mapping[int, Life], disks: Mapping[int, SimDisk]) -> None:
        self._on_disk = WhatAVoterTellsIsOnItsDisk(fail)
        self._lives, self._disks = lives, disks
        self._asked: dict[tuple[Quorum, int], int] = {}  # (voter, token) -> the candidate that asked for its vote

    def asked(self, quorum: Quorum, event: RequestReceived) -> None:
        if isinstance(event.request, VoteRequest) and not event.request.pre_vote:
            self._asked[(quorum, event.token)] = event.request.candidate_id

    def sent(self, host: MetadataHost, request: Request) -> None:
        is_candidate = isinstance(request, VoteRequest) and not request.pre_vote
        self._look(host, request, host.quorum.node_id if is_candidate else None)

    def replied(self, host: MetadataHost, token: int, response: Response) -> None:
        candidate = self._asked.pop((host.quorum, token), None)
        is_granted = isinstance(response, VoteResponse) and response.vote_granted
        self._look(host, response, candidate if is_granted else None)

    def _look(self, host: MetadataHost, told: Request | Response, voted_for: int | None) -> None:
        quorum, node_id = host.quorum, host.quorum.node_id
        if self._lives[node_id].is_dead:
            return  # it was killed in the middle of the list, so the rest is not sent
        end_offset, stored = host.stored_end_offset, stored_state(self._disks[node_id])
        known = min(end_offset, quorum.log_end_offset)
        if known > quorum.log_start_offset and (epoch := quorum.epoch_before(known)) > stored.leader_epoch:
            stored = PersistedState(leader_epoch=epoch)  # an entry of an epoch also proves that epoch
        ahead = ahead_of_disk(told, stored=stored, end_offset=end_offset, voted_for=voted_for)
        if ahead:
            self._on_disk.violated(f"node {node_id} tells of what it has in memory only: {ahead}; it tells {told}")


@contextlib.contextmanager
def tellings_watched(fail: Fail, lives: Mapping[int, Life], disks: Mapping[int, SimDisk]) -> Iterator[None]:
    """Within this context, every request and answer of a voter is compared with its disk."""
    patch, watch = Patch(), _Watch(fail, lives, disks)
    send, reply, handle = MetadataHost._send, MetadataHost._reply, Quorum.handle

    def watched_handle(self: Quorum, event: Event, now_ms: int) -> list[Action]:
        if isinstance(event, RequestReceived):
            watch.asked(self, event)
        return handle(self, event, now_ms)

    def watched_send(self: MetadataHost, action: Send) -> None:
        watch.sent(self, action.request)
        send(self, action)

    def watched_reply(self: MetadataHost, token: int, response: Response) -> None:
        watch.replied(self, token, response)
        reply(self, token, response)

    patch.set(Quorum, "handle", watched_handle)
    patch.set(MetadataHost, "_send", watched_send)
    patch.set(MetadataHost, "_reply", watched_reply)
    try:
        yield
    finally:
        patch.undo()
