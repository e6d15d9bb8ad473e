"""The roles of a voter and how it changes between them, as one table.

`TRANSITIONS` is the whole state machine: a role and a trigger decide the next role. `Quorum` looks every change up
here, so a change that is not in the table is a failed assertion. What a role does is in `broker.quorum.roles`. The
diagram in docs/internals/state-machines.md is made from this table. tests/broker_quorum/test_quorum_transitions.py
shows that each row happens and no other change does.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class RoleName(Enum):
    INITIAL = "initial"  # not started yet
    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    FOLLOWER = "follower"
    LEADER = "leader"
    RESIGNED = "resigned"


class Trigger(Enum):
    """Why a voter changes its role. The value is what the diagram says."""

    LEADER_ON_DISK = "start, the disk names a leader"
    NO_LEADER_ON_DISK = "start, the disk names no leader"
    ELECTION_TIMEOUT = "election timeout"
    LEADER_RETRIED = "election timeout, but a leader is known"
    FETCH_TIMEOUT = "fetch timeout"
    QUORUM_LOST = "no majority fetches"
    PRE_VOTES_WON = "a majority would vote for it"
    VOTES_WON = "a majority voted for it"
    VOTE_GRANTED = "votes for another voter"
    NEWER_EPOCH = "hears of a newer epoch"
    NEWER_LEADER = "hears of the leader of a newer epoch"
    LEADER_FOUND = "hears of the leader of its epoch"
    LEADER_ALIVE = "its leader sends BeginQuorumEpoch"
    LEADER_RESIGNED = "EndQuorumEpoch"
    LEADER_STEPPED_DOWN = "its leader leads no more"
    SHUTDOWN = "shutdown"


def _table() -> Mapping[tuple[RoleName, Trigger], RoleName]:
    initial, unattached, prospective = RoleName.INITIAL, RoleName.UNATTACHED, RoleName.PROSPECTIVE
    candidate, follower = RoleName.CANDIDATE, RoleName.FOLLOWER
    leader, resigned = RoleName.LEADER, RoleName.RESIGNED
    return {
        (initial, Trigger.LEADER_ON_DISK): follower,
        (initial, Trigger.NO_LEADER_ON_DISK): unattached,
        # Its process accepts connections already, and a peer may send something before the start.
        (initial, Trigger.VOTE_GRANTED): unattached,
        (initial, Trigger.NEWER_EPOCH): unattached,
        (initial, Trigger.NEWER_LEADER): follower,
        (initial, Trigger.LEADER_FOUND): follower,
        (initial, Trigger.LEADER_RESIGNED): unattached,
        (initial, Trigger.SHUTDOWN): resigned,
        # It knows no leader of its epoch. Having voted, it waits for the one that it voted for (Kafka's "voted").
        (unattached, Trigger.ELECTION_TIMEOUT): prospective,
        (unattached, Trigger.VOTE_GRANTED): unattached,
        (unattached, Trigger.NEWER_EPOCH): unattached,
        (unattached, Trigger.NEWER_LEADER): follower,
        (unattached, Trigger.LEADER_FOUND): follower,
        (unattached, Trigger.LEADER_RESIGNED): unattached,
        (unattached, Trigger.SHUTDOWN): resigned,
        # It asks who would vote for it, and leaves the epoch as it is (KIP-996).
        (prospective, Trigger.PRE_VOTES_WON): candidate,
        (prospective, Trigger.ELECTION_TIMEOUT): prospective,
        (prospective, Trigger.LEADER_RETRIED): follower,
        (prospective, Trigger.VOTE_GRANTED): unattached,
        (prospective, Trigger.NEWER_EPOCH): unattached,
        (prospective, Trigger.NEWER_LEADER): follower,
        (prospective, Trigger.LEADER_FOUND): follower,
        (prospective, Trigger.LEADER_ALIVE): follower,
        (prospective, Trigger.LEADER_RESIGNED): unattached,
        (prospective, Trigger.SHUTDOWN): resigned,
        # It has raised the epoch and voted for itself (Raft, 5.2).
        (candidate, Trigger.VOTES_WON): leader,
        (candidate, Trigger.ELECTION_TIMEOUT): prospective,
        (candidate, Trigger.NEWER_EPOCH): unattached,
        (candidate, Trigger.NEWER_LEADER): follower,
        (candidate, Trigger.LEADER_FOUND): follower,
        (candidate, Trigger.LEADER_RESIGNED): unattached,
        (candidate, Trigger.SHUTDOWN): resigned,
        # It fetches from the leader of its epoch (KIP-595).
        (follower, Trigger.FETCH_TIMEOUT): prospective,
        (follower, Trigger.LEADER_STEPPED_DOWN): unattached,
        (follower, Trigger.NEWER_EPOCH): unattached,
        (follower, Trigger.NEWER_LEADER): follower,
        (follower, Trigger.LEADER_RESIGNED): unattached,
        (follower, Trigger.SHUTDOWN): resigned,
        # Its epoch has no other leader. It ends with a newer epoch, or if the others are silent (KIP-595, check
        # quorum).
        (leader, Trigger.QUORUM_LOST): unattached,
        (leader, Trigger.NEWER_EPOCH): unattached,
        (leader, Trigger.NEWER_LEADER): follower,
        (leader, Trigger.SHUTDOWN): resigned,
        # It starts no election any more. It still votes, which helps the others.
        (resigned, Trigger.VOTE_GRANTED): resigned,
        (resigned, Trigger.NEWER_EPOCH): resigned,
        (resigned, Trigger.NEWER_LEADER): resigned,
        (resigned, Trigger.LEADER_FOUND): resigned,
        (resigned, Trigger.LEADER_RESIGNED): resigned,
    }


TRANSITIONS = _table()
