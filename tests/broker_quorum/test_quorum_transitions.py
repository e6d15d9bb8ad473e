"""Roles of a voter change as the table says: each of its rows happens, and nothing else does."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.mutants import Patch
from broker.quorum.core import Quorum, QuorumConfig
from broker.quorum.roles import Move
from broker.quorum.transitions import TRANSITIONS, RoleName, Trigger
from broker.quorum.types import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Event,
    FetchResponse,
    PersistedState,
    QuorumError,
    Request,
    RequestReceived,
    Response,
    ResponseReceived,
    Send,
    Shutdown,
    Start,
    Tick,
    VoteRequest,
    VoteResponse,
)

sys.path.insert(0, str(Path(__file__).parent))
from test_quorum_simulation import live_through

Row = tuple[RoleName, Trigger, RoleName]
ROWS = {(role, trigger, after) for (role, trigger), after in TRANSITIONS.items()}
EPOCH = 4


@contextmanager
def recorded() -> Iterator[Counter[Row]]:
    """The changes of role while this lasts: which role became which, and why."""
    rows: Counter[Row] = Counter()
    patch = Patch()

    def enter(self: Quorum, move: Move) -> Move | None:
        previous = self._role
        following: Move | None = original(self, move)
        rows[(previous.NAME, move.trigger, self._role.NAME)] += 1
        return following

    original = patch.set(Quorum, "_enter", enter)
    try:
        yield rows
    finally:
        patch.undo()


class One:
    """Voter 1 of three, whose peers say what a test wants."""

    def __init__(self, *, leader_id: int = -1, voters: tuple[int, ...] = (1, 2, 3)) -> None:
        state = PersistedState(leader_epoch=EPOCH, leader_id=leader_id)
        config = QuorumConfig(node_id=1, voters=voters)
        self.core = Quorum(config=config, persisted=state, entries=(), rng=random.Random(1))
        self.now_ms = 0
        self.in_flight: dict[int, int] = {}  # peer -> correlation id

    def handle(self, event: Event) -> None:
        for action in self.core.handle(event, self.now_ms):
            if isinstance(action, Send):
                self.in_flight[action.peer_id] = action.correlation_id
        self.core.check_invariants()

    def ask(self, request: Request) -> None:
        self.handle(RequestReceived(token=1, request=request))

    def answer(self, response: Response) -> None:
        """Voter 2 to whatever it was asked last."""
        correlation_id = self.in_flight.get(2, 0)
        self.handle(ResponseReceived(sender_id=2, correlation_id=correlation_id, response=response))

    def expire(self) -> None:
        """Let timers run, and nothing else happen, until the role changes once, if it ever does."""
        role = self.core._role
        for _ in range(20):
            deadline_ms = self.core.next_deadline_ms()
            if deadline_ms is None or self.core._role is not role:
                return
            self.now_ms = max(self.now_ms, deadline_ms)
            self.handle(Tick())

    def vote(self, *, is_granted: bool) -> None:
        epoch = self.core.epoch
        self.answer(VoteResponse(error_code=0, leader_id=-1, leader_epoch=epoch, vote_granted=is_granted))


def initial() -> One:
    return One()


def unattached() -> One:
    one = One()
    one.handle(Start())
    return one


def follower() -> One:
    one = One(leader_id=2)
    one.handle(Start())
    return one


def prospective() -> One:
    one = unattached()
    one.expire()
    return one


def prospective_that_knows_a_leader() -> One:
    one = follower()
    one.expire()
    return one


def candidate() -> One:
    one = prospective()
    one.vote(is_granted=True)
    return one


def leader() -> One:
    one = candidate()
    one.vote(is_granted=True)
    return one


def resigned() -> One:
    one = leader()
    one.handle(Shutdown())
    return one


BEGINNINGS = {
    initial: RoleName.INITIAL,
    unattached: RoleName.UNATTACHED,
    follower: RoleName.FOLLOWER,
    prospective: RoleName.PROSPECTIVE,
    prospective_that_knows_a_leader: RoleName.PROSPECTIVE,
    candidate: RoleName.CANDIDATE,
    leader: RoleName.LEADER,
    resigned: RoleName.RESIGNED,
}


def _asks_for_a_vote(one: One, epoch: int, *, is_pre_vote: bool = False) -> None:
    request = VoteRequest(candidate_id=3, candidate_epoch=epoch, last_epoch=epoch, last_offset=9, pre_vote=is_pre_vote)
    one.ask(request)


def _refuses_to_lead(one: One) -> None:
    epoch = one.core.epoch
    error = QuorumError.NOT_LEADER_OR_FOLLOWER
    response = FetchResponse(
        error_code=error, leader_id=-1, leader_epoch=epoch, high_watermark=-1, diverging_epoch=None, entries=()
    )
    one.answer(response)


def _hears_of(one: One, *, later: int, leader_id: int) -> None:
    epoch = one.core.epoch + later
    one.answer(VoteResponse(error_code=0, leader_id=leader_id, leader_epoch=epoch, vote_granted=False))


def _resigns(one: One, epoch: int) -> None:
    one.ask(EndQuorumEpochRequest(leader_id=2, leader_epoch=epoch, preferred_candidates=(1, 3)))


STIMULI: dict[str, Callable[[One], None]] = {
    "time passes": One.expire,
    "voter 2 grants": lambda one: one.vote(is_granted=True),
    "voter 2 refuses": lambda one: one.vote(is_granted=False),
    "asked for a pre-vote": lambda one: _asks_for_a_vote(one, one.core.epoch, is_pre_vote=True),
    "asked for a vote": lambda one: _asks_for_a_vote(one, one.core.epoch),
    "asked for a vote in a newer epoch": lambda one: _asks_for_a_vote(one, one.core.epoch + 1),
    "voter 2 begins this epoch": lambda one: one.ask(BeginQuorumEpochRequest(leader_id=2, leader_epoch=one.core.epoch)),
    "voter 2 begins a newer epoch": lambda one: one.ask(
        BeginQuorumEpochRequest(leader_id=2, leader_epoch=one.core.epoch + 1)
    ),
    "voter 2 ends this epoch": lambda one: _resigns(one, one.core.epoch),
    "voter 2 ends a newer epoch": lambda one: _resigns(one, one.core.epoch + 1),
    "an answer names a leader": lambda one: _hears_of(one, later=0, leader_id=3),
    "an answer names a newer epoch": lambda one: _hears_of(one, later=1, leader_id=-1),
    "an answer names a newer leader": lambda one: _hears_of(one, later=1, leader_id=3),
    "voter 2 does not lead": _refuses_to_lead,
}


@pytest.mark.parametrize(("begin", "role"), BEGINNINGS.items())
def test_each_beginning_is_in_its_role(begin: Callable[[], One], role: RoleName) -> None:
    assert begin().core.role_name == role.value


def test_whatever_comes_in_whatever_role_the_table_has_it_and_has_nothing_else() -> None:
    with recorded() as rows:
        for begin in BEGINNINGS:
            for stimulate in STIMULI.values():
                stimulate(begin())
            if begin is not resigned:
                begin().handle(Shutdown())
    assert set(rows) == ROWS


def test_a_request_may_come_before_the_start_which_then_takes_nothing_back() -> None:
    one = initial()
    _asks_for_a_vote(one, EPOCH + 1)
    assert (one.core.role_name, one.core.voted_id) == ("unattached", 3)
    one.handle(Start())
    assert (one.core.role_name, one.core.epoch, one.core.voted_id) == ("unattached", EPOCH + 1, 3)
    one.expire()
    assert one.core.role_name == "prospective", "it is alive all the same"


def test_what_is_not_in_the_table_is_refused() -> None:
    one = follower()
    with pytest.raises(AssertionError, match="no row for a voter that is follower: a majority voted for it"):
        one.core._move(Move(trigger=Trigger.VOTES_WON, leader_id=1))


def test_a_voter_that_is_alone_goes_through_all_roles_to_the_leader_at_once() -> None:
    with recorded() as rows:
        One(voters=(1,)).handle(Start())
    assert list(rows) == [
        (RoleName.INITIAL, Trigger.NO_LEADER_ON_DISK, RoleName.UNATTACHED),
        (RoleName.UNATTACHED, Trigger.ELECTION_TIMEOUT, RoleName.PROSPECTIVE),
        (RoleName.PROSPECTIVE, Trigger.PRE_VOTES_WON, RoleName.CANDIDATE),
        (RoleName.CANDIDATE, Trigger.VOTES_WON, RoleName.LEADER),
    ]


@pytest.mark.parametrize("seed", range(6))
def test_lives_full_of_misfortune_stay_within_the_table(seed: int) -> None:
    with recorded() as rows:
        live_through(seed, nodes=3, rounds=20)
    assert set(rows) <= ROWS
    assert len(rows) >= 10
