"""The checker of what voters tell: each message counts by itself, at the time at which it is sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.quorum.types import (
    FetchRequest,
    FetchResponse,
    LogEntry,
    PersistedState,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from broker.sim.seed_run import run_seed
from broker.sim.tellings import ahead_of_disk

IN_EPOCH_2 = PersistedState(leader_epoch=2)
VOTED_FOR_4 = PersistedState(leader_epoch=2, voted_id=4)
REFUSAL = FetchResponse(error_code=6, leader_id=-1, leader_epoch=2, high_watermark=0, diverging_epoch=None, entries=())
GRANT = VoteResponse(error_code=0, leader_id=-1, leader_epoch=2, vote_granted=True)
ENTRY = LogEntry(offset=7, epoch=2, is_control=False, values=(b"",))


def candidacy(epoch: int) -> VoteRequest:
    return VoteRequest(candidate_id=4, candidate_epoch=epoch, last_epoch=1, last_offset=7, pre_vote=False)


def fetch(offset: int) -> FetchRequest:
    return FetchRequest(replica_id=1, current_leader_epoch=2, fetch_offset=offset, last_fetched_epoch=1, max_wait_ms=0)


def test_a_parked_fetch_is_refused_before_the_vote_that_follows_is_written() -> None:
    """The order in which a leader that is asked for its vote in a newer epoch acts: it tells of that epoch only."""
    assert ahead_of_disk(REFUSAL, stored=IN_EPOCH_2, end_offset=7, voted_for=None) == ""


@pytest.mark.parametrize(
    ("told", "stored", "voted_for"),
    [
        (REFUSAL, PersistedState(leader_epoch=1), None),
        (GRANT, IN_EPOCH_2, 4),
        (GRANT, PersistedState(leader_epoch=2, voted_id=3), 4),
        (candidacy(2), IN_EPOCH_2, 4),
        (candidacy(3), VOTED_FOR_4, 4),
        (fetch(8), IN_EPOCH_2, None),
        (replace(REFUSAL, entries=(ENTRY,)), IN_EPOCH_2, None),
        (replace(REFUSAL, high_watermark=8), IN_EPOCH_2, None),
    ],
)
def test_what_is_told_before_the_disk_has_it_is_named(
    told: Request | Response, stored: PersistedState, voted_for: int | None
) -> None:
    assert ahead_of_disk(told, stored=stored, end_offset=7, voted_for=voted_for)


@pytest.mark.parametrize(
    ("told", "stored", "voted_for"),
    [
        (GRANT, VOTED_FOR_4, 4),
        (candidacy(2), VOTED_FOR_4, 4),
        (fetch(7), IN_EPOCH_2, None),
        (replace(REFUSAL, high_watermark=7), IN_EPOCH_2, None),
    ],
)
def test_what_the_disk_has_may_be_told(told: Request | Response, stored: PersistedState, voted_for: int | None) -> None:
    assert ahead_of_disk(told, stored=stored, end_offset=7, voted_for=voted_for) == ""


@pytest.mark.parametrize("seed", [83, pytest.param(147, marks=pytest.mark.long)])
@pytest.mark.thorough
def test_a_leader_that_votes_for_its_successor_has_told_nothing_too_early(seed: int) -> None:
    assert run_seed(seed).violation is None
