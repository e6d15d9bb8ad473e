"""The roles of a voter and how it changes between them, as one table.

`TRANSITIONS` is the whole state machine: a role and a trigger decide the next role. `Quorum` looks up every change
here, so a change that is not in the table is a failed assertion. `broker.quorum.roles` says what a role does. The
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
    """Why a voter changes its role. The value is the text in the diagram."""

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


_INITIAL, _UNATTACHED, _PROSPECTIVE = RoleName.INITIAL, RoleName.UNATTACHED, RoleName.PROSPECTIVE
_CANDIDATE, _FOLLOWER = RoleName.CANDIDATE, RoleName.FOLLOWER
_LEADER, _RESIGNED = RoleName.LEADER, RoleName.RESIGNED

TRANSITIONS: Mapping[tuple[RoleName, Trigger], RoleName] = {
    (_INITIAL, Trigger.LEADER_ON_DISK): _FOLLOWER,
    (_INITIAL, Trigger.NO_LEADER_ON_DISK): _UNATTACHED,
    # Its process accepts connections already, and a peer may send something before the start.
    (_INITIAL, Trigger.VOTE_GRANTED): _UNATTACHED,
    (_INITIAL, Trigger.NEWER_EPOCH): _UNATTACHED,
    (_INITIAL, Trigger.NEWER_LEADER): _FOLLOWER,
    (_INITIAL, Trigger.LEADER_FOUND): _FOLLOWER,
    (_INITIAL, Trigger.LEADER_RESIGNED): _UNATTACHED,
    (_INITIAL, Trigger.SHUTDOWN): _RESIGNED,
    # It knows no leader of its epoch. If it has voted, it waits for that candidate to win (Kafka's role "voted").
    (_UNATTACHED, Trigger.ELECTION_TIMEOUT): _PROSPECTIVE,
    (_UNATTACHED, Trigger.VOTE_GRANTED): _UNATTACHED,
    (_UNATTACHED, Trigger.NEWER_EPOCH): _UNATTACHED,
    (_UNATTACHED, Trigger.NEWER_LEADER): _FOLLOWER,
    (_UNATTACHED, Trigger.LEADER_FOUND): _FOLLOWER,
    (_UNATTACHED, Trigger.LEADER_RESIGNED): _UNATTACHED,
    (_UNATTACHED, Trigger.SHUTDOWN): _RESIGNED,
    # It asks who would vote for it, and does not raise the epoch (KIP-996).
    (_PROSPECTIVE, Trigger.PRE_VOTES_WON): _CANDIDATE,
    (_PROSPECTIVE, Trigger.ELECTION_TIMEOUT): _PROSPECTIVE,
    (_PROSPECTIVE, Trigger.LEADER_RETRIED): _FOLLOWER,
    (_PROSPECTIVE, Trigger.VOTE_GRANTED): _UNATTACHED,
    (_PROSPECTIVE, Trigger.NEWER_EPOCH): _UNATTACHED,
    (_PROSPECTIVE, Trigger.NEWER_LEADER): _FOLLOWER,
    (_PROSPECTIVE, Trigger.LEADER_FOUND): _FOLLOWER,
    (_PROSPECTIVE, Trigger.LEADER_ALIVE): _FOLLOWER,
    (_PROSPECTIVE, Trigger.LEADER_RESIGNED): _UNATTACHED,
    (_PROSPECTIVE, Trigger.SHUTDOWN): _RESIGNED,
    # It has raised the epoch and voted for itself (Raft, 5.2).
    (_CANDIDATE, Trigger.VOTES_WON): _LEADER,
    (_CANDIDATE, Trigger.ELECTION_TIMEOUT): _PROSPECTIVE,
    (_CANDIDATE, Trigger.NEWER_EPOCH): _UNATTACHED,
    (_CANDIDATE, Trigger.NEWER_LEADER): _FOLLOWER,
    (_CANDIDATE, Trigger.LEADER_FOUND): _FOLLOWER,
    (_CANDIDATE, Trigger.LEADER_RESIGNED): _UNATTACHED,
    (_CANDIDATE, Trigger.SHUTDOWN): _RESIGNED,
    # It fetches from the leader of its epoch (KIP-595).
    (_FOLLOWER, Trigger.FETCH_TIMEOUT): _PROSPECTIVE,
    (_FOLLOWER, Trigger.LEADER_STEPPED_DOWN): _UNATTACHED,
    (_FOLLOWER, Trigger.NEWER_EPOCH): _UNATTACHED,
    (_FOLLOWER, Trigger.NEWER_LEADER): _FOLLOWER,
    (_FOLLOWER, Trigger.LEADER_RESIGNED): _UNATTACHED,
    (_FOLLOWER, Trigger.SHUTDOWN): _RESIGNED,
    # Its epoch has no other leader. The role ends with a newer epoch, or if no majority fetches in time (KIP-595, check
    # quorum).
    (_LEADER, Trigger.QUORUM_LOST): _UNATTACHED,
    (_LEADER, Trigger.NEWER_EPOCH): _UNATTACHED,
    (_LEADER, Trigger.NEWER_LEADER): _FOLLOWER,
    (_LEADER, Trigger.SHUTDOWN): _RESIGNED,
    # It starts no election any more. It still votes, which helps the others.
    (_RESIGNED, Trigger.VOTE_GRANTED): _RESIGNED,
    (_RESIGNED, Trigger.NEWER_EPOCH): _RESIGNED,
    (_RESIGNED, Trigger.NEWER_LEADER): _RESIGNED,
    (_RESIGNED, Trigger.LEADER_FOUND): _RESIGNED,
    (_RESIGNED, Trigger.LEADER_RESIGNED): _RESIGNED,
}
