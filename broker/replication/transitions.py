"""The roles of a replica, and the states of its leader's ISR, as two tables.

A role and a trigger decide the next role. `PartitionReplica` looks up every change here. While a replica leads, its ISR
has a state too: either only the committed ISR counts, or there is a proposal as well (`broker.replication.isr`). A
change that is not in a table is a failed assertion. The diagrams in docs/internals/state-machines.md are made from
these tables. tests/broker_replication/test_replication_transitions.py shows that each row happens and no other change
does.
"""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    STOPPED = "stopped"  # not named by an image yet, removed from this broker, offline, or the broker stops
    FOLLOWER = "follower"
    LEADER = "leader"


class Trigger(Enum):
    """Why a replica changes its role. The value is the text in the diagram."""

    LEADS = "the image names this broker leader"
    LEADS_AGAIN = "elected again, in a newer leader epoch"
    FOLLOWS = "the image names another leader, or none"
    STOPS = "replica removed or offline, or broker stops"


TRANSITIONS = {
    (Role.STOPPED, Trigger.LEADS): Role.LEADER,
    (Role.STOPPED, Trigger.FOLLOWS): Role.FOLLOWER,
    # Each leader epoch begins a new role, also from leader to leader. A follower begins a new one with every image.
    (Role.FOLLOWER, Trigger.LEADS): Role.LEADER,
    (Role.FOLLOWER, Trigger.FOLLOWS): Role.FOLLOWER,
    (Role.FOLLOWER, Trigger.STOPS): Role.STOPPED,
    (Role.LEADER, Trigger.LEADS_AGAIN): Role.LEADER,
    (Role.LEADER, Trigger.FOLLOWS): Role.FOLLOWER,
    (Role.LEADER, Trigger.STOPS): Role.STOPPED,
}


class IsrState(Enum):
    SETTLED = "settled"  # there is no proposal; only the committed ISR counts
    PROPOSED = "proposed"  # AlterPartition is on its way
    UNANSWERED = "unanswered"  # we do not know whether the controller agreed; the proposal will be sent again
    AGREED = "agreed"  # the controller agreed; the change will come in the metadata log


class IsrTrigger(Enum):
    PROPOSE = "a replica joins or leaves"
    ACCEPTED = "the controller agrees"
    REFUSED = "the controller refuses"
    LOST = "no answer, or one that settles nothing"
    RETRY = "time to ask again"
    IMAGE = "an image of a newer partition epoch"


ISR_TRANSITIONS = {
    (IsrState.SETTLED, IsrTrigger.PROPOSE): IsrState.PROPOSED,
    (IsrState.SETTLED, IsrTrigger.IMAGE): IsrState.SETTLED,
    (IsrState.PROPOSED, IsrTrigger.ACCEPTED): IsrState.AGREED,
    (IsrState.PROPOSED, IsrTrigger.REFUSED): IsrState.SETTLED,
    (IsrState.PROPOSED, IsrTrigger.LOST): IsrState.UNANSWERED,
    (IsrState.PROPOSED, IsrTrigger.IMAGE): IsrState.SETTLED,
    (IsrState.UNANSWERED, IsrTrigger.RETRY): IsrState.PROPOSED,
    (IsrState.UNANSWERED, IsrTrigger.IMAGE): IsrState.SETTLED,
    (IsrState.AGREED, IsrTrigger.IMAGE): IsrState.SETTLED,
}
