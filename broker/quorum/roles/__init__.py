"""The roles of a voter, one class for each. `broker.quorum.transitions` says which role may follow which."""

from broker.quorum.roles.candidate import Candidate
from broker.quorum.roles.entering import role_after
from broker.quorum.roles.follower import Follower
from broker.quorum.roles.initial import Initial
from broker.quorum.roles.leader import Leader, VoterProgress, refused_fetch
from broker.quorum.roles.prospective import Prospective
from broker.quorum.roles.resigned import Resigned
from broker.quorum.roles.role import Move, Role, observed
from broker.quorum.roles.unattached import Unattached

__all__ = [
    "Candidate",
    "Follower",
    "Initial",
    "Leader",
    "Move",
    "Prospective",
    "Resigned",
    "Role",
    "Unattached",
    "VoterProgress",
    "observed",
    "refused_fetch",
    "role_after",
]
