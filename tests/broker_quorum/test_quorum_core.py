"""Single steps of one core, and the log with its epochs."""

from __future__ import annotations

import random

import pytest

from broker.quorum.core import Quorum, QuorumConfig
from broker.quorum.log import QuorumLog
from broker.quorum.snapshots import Snapshot, SnapshotId
from broker.quorum.types import (
    Action,
    AppendEntries,
    BecameLeader,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Committed,
    DivergingEpoch,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    LeaderChanged,
    LogEntry,
    PersistedState,
    PersistQuorumState,
    Propose,
    Reply,
    RequestReceived,
    Response,
    ResponseReceived,
    Send,
    Start,
    Tick,
    TruncateEntries,
    VoteRequest,
    VoteResponse,
)


def entry(offset: int, epoch: int, count: int = 1) -> LogEntry:
    values = tuple(f"{each}@{epoch}".encode() for each in range(offset, offset + count))
    return LogEntry(offset=offset, epoch=epoch, is_control=False, values=values)


def core(*entries: LogEntry, state: PersistedState | None = None, voters: tuple[int, ...] = (1, 2, 3)) -> Quorum:
    config = QuorumConfig(node_id=1, voters=voters)
    quorum = Quorum(config=config, persisted=state or PersistedState(), entries=entries, rng=random.Random(1))
    quorum.handle(Start(), 0)
    return quorum


def ask(
    quorum: Quorum, request: VoteRequest | FetchRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
) -> Response:
    replies = [
        action for action in quorum.handle(RequestReceived(token=9, request=request), 1) if isinstance(action, Reply)
    ]
    assert [reply.token for reply in replies] == [9]
    return replies[0].response


def vote(
    epoch: int, *, candidate: int = 2, last_epoch: int = 0, last_offset: int = 0, pre: bool = False
) -> VoteRequest:
    return VoteRequest(
        candidate_id=candidate, candidate_epoch=epoch, last_epoch=last_epoch, last_offset=last_offset, pre_vote=pre
    )


def leading() -> Quorum:
    quorum = core()
    quorum.handle(Tick(), 10_000)
    for _ in range(2):  # pre-vote, vote
        grant(quorum, 2)
    assert quorum.is_leader
    return quorum


def grant(quorum: Quorum, voter: int) -> list[Action]:
    """Answer whatever vote request is in flight to that voter; correlation ids grow by one per request."""
    for correlation_id in range(1, 40):
        response = VoteResponse(error_code=0, leader_id=-1, leader_epoch=quorum.epoch, vote_granted=True)
        received = ResponseReceived(sender_id=voter, correlation_id=correlation_id, response=response)
        actions = quorum.handle(received, 10_000)
        if actions:
            return actions
    raise AssertionError("no vote request in flight")


def test_a_vote_is_persisted_before_it_is_answered() -> None:
    quorum = core()
    actions = quorum.handle(RequestReceived(token=3, request=vote(5)), 1)
    kinds = [type(action) for action in actions]
    assert kinds.index(PersistQuorumState) < kinds.index(Reply)
    persisted = [action.state for action in actions if isinstance(action, PersistQuorumState)]
    assert persisted[-1] == PersistedState(leader_epoch=5, leader_id=-1, voted_id=2)


def test_one_vote_per_epoch_even_after_a_restart() -> None:
    quorum = core(state=PersistedState(leader_epoch=5, voted_id=2))
    refused = ask(quorum, vote(5, candidate=3))
    assert isinstance(refused, VoteResponse)
    assert not refused.vote_granted
    granted = ask(quorum, vote(5, candidate=2))
    assert isinstance(granted, VoteResponse)
    assert granted.vote_granted


@pytest.mark.parametrize(
    ("last_epoch", "last_offset", "granted"), [(2, 1, False), (1, 9, False), (2, 2, True), (2, 3, True), (3, 1, True)]
)
def test_only_a_log_as_complete_as_ours_gets_our_vote(last_epoch: int, last_offset: int, granted: bool) -> None:
    quorum = core(entry(0, 1), entry(1, 2), state=PersistedState(leader_epoch=2))
    for pre in (True, False):
        answer = ask(quorum, vote(4, last_epoch=last_epoch, last_offset=last_offset, pre=pre))
        assert isinstance(answer, VoteResponse)
        assert answer.vote_granted is granted


def test_errors_of_the_answers() -> None:
    quorum = core(state=PersistedState(leader_epoch=6))
    assert ask(quorum, vote(5)).error_code == 74  # FENCED_LEADER_EPOCH
    assert ask(quorum, vote(6, candidate=8)).error_code == 94  # INCONSISTENT_VOTER_SET
    assert ask(quorum, BeginQuorumEpochRequest(leader_id=2, leader_epoch=5)).error_code == 74
    assert ask(quorum, EndQuorumEpochRequest(leader_id=2, leader_epoch=5, preferred_candidates=())).error_code == 74

    def fetch(epoch: int, replica_id: int = 2) -> int:
        request = FetchRequest(
            replica_id=replica_id, current_leader_epoch=epoch, fetch_offset=0, last_fetched_epoch=-1, max_wait_ms=0
        )
        return ask(quorum, request).error_code

    assert [fetch(5), fetch(6), fetch(7), fetch(6, replica_id=8)] == [74, 6, 75, 94]


def test_a_new_leader_commits_old_entries_only_with_its_own() -> None:
    quorum = core(entry(0, 1), state=PersistedState(leader_epoch=1))
    quorum.handle(Tick(), 10_000)
    grant(quorum, 2)
    actions = grant(quorum, 2)
    assert BecameLeader(epoch=2) in actions
    assert LeaderChanged(leader_id=1, epoch=2) in actions

    def fetch(offset: int, epoch: int) -> list[Action]:
        request = FetchRequest(
            replica_id=2, current_leader_epoch=2, fetch_offset=offset, last_fetched_epoch=epoch, max_wait_ms=100
        )
        return quorum.handle(RequestReceived(token=1, request=request), 10_001)

    assert not [action for action in fetch(1, 1) if isinstance(action, Committed)]  # two of three hold offset 0
    committed = [action for action in fetch(2, 2) if isinstance(action, Committed)]
    assert [action.high_watermark for action in committed] == [2]


def test_a_voter_that_missed_the_last_high_watermark_is_told_it_at_once() -> None:
    """The answer that carried it was lost (KIP-1166)."""
    quorum = leading()
    end, epoch = quorum.log_end_offset, quorum.epoch

    def fetch(high_watermark: int | None) -> list[FetchResponse]:
        request = FetchRequest(
            replica_id=2, current_leader_epoch=epoch, fetch_offset=end, last_fetched_epoch=epoch, max_wait_ms=100,
            high_watermark=high_watermark,
        )  # fmt: skip
        told = quorum.handle(RequestReceived(token=1, request=request), 10_001)
        responses = [action.response for action in told if isinstance(action, Reply)]
        return [each for each in responses if isinstance(each, FetchResponse)]

    assert [each.high_watermark for each in fetch(0)] == [end]
    assert [each.high_watermark for each in fetch(0)] == [end], "again, because it does not know it"
    assert fetch(None) == [], "a voter that does not tell has been told"
    assert [each.high_watermark for each in fetch(end)] == [end], "the request before is answered, and this one waits"


def test_a_proposal_of_another_epoch_is_ignored() -> None:
    quorum = leading()
    end = quorum.log_end_offset
    quorum.handle(Propose(epoch=quorum.epoch - 1, values=(b"late",)), 10_001)
    assert quorum.log_end_offset == end
    actions = quorum.handle(Propose(epoch=quorum.epoch, values=(b"now",)), 10_001)
    assert [type(action) for action in actions] == [AppendEntries]


def following(*entries: LogEntry) -> tuple[Quorum, int]:
    """A follower of 2 in epoch 4 and the correlation id of its Fetch."""
    quorum = core(*entries)
    begin = BeginQuorumEpochRequest(leader_id=2, leader_epoch=4)
    actions = quorum.handle(RequestReceived(token=1, request=begin), 1)
    assert [action.response for action in actions if isinstance(action, Reply)] == [
        BeginQuorumEpochResponse(error_code=0, leader_id=2, leader_epoch=4)
    ]
    (send,) = [action for action in actions if isinstance(action, Send)]
    assert isinstance(send.request, FetchRequest)
    return quorum, send.correlation_id


def answered(quorum: Quorum, correlation_id: int, **fields: object) -> list[Action]:
    response = FetchResponse(
        **{
            "error_code": 0,
            "leader_id": 2,
            "leader_epoch": 4,
            "high_watermark": 0,
            "diverging_epoch": None,
            "entries": (),
        }  # type: ignore[arg-type]
        | fields
    )
    return quorum.handle(ResponseReceived(sender_id=2, correlation_id=correlation_id, response=response), 2)


def test_a_follower_truncates_to_what_both_logs_share_and_fetches_on() -> None:
    quorum, fetch = following(entry(0, 1), entry(1, 1), entry(2, 3))
    actions = answered(quorum, fetch, diverging_epoch=DivergingEpoch(epoch=2, end_offset=3))
    assert TruncateEntries(end_offset=2) in actions
    (send,) = [action for action in actions if isinstance(action, Send)]
    assert isinstance(send.request, FetchRequest)
    assert (send.request.fetch_offset, send.request.last_fetched_epoch) == (2, 1)


def test_an_entry_that_the_leader_has_in_part_is_cut_as_a_whole() -> None:
    """Epoch 3 of the leader ends within an entry that another leader of epoch 2 wrote here."""
    quorum, fetch = following(entry(0, 1), entry(1, 2, count=4))
    actions = answered(quorum, fetch, diverging_epoch=DivergingEpoch(epoch=3, end_offset=3))
    assert TruncateEntries(end_offset=1) in actions
    (send,) = [action for action in actions if isinstance(action, Send)]
    assert isinstance(send.request, FetchRequest)
    assert (send.request.fetch_offset, send.request.last_fetched_epoch) == (1, 1)


def test_an_entry_is_committed_as_a_whole() -> None:
    quorum, fetch = following(entry(0, 1))
    entries = (entry(1, 4, count=2), entry(3, 4, count=3))
    actions = answered(quorum, fetch, entries=entries, high_watermark=4)
    committed = [action for action in actions if isinstance(action, Committed)]
    assert [(each.high_watermark, each.entries) for each in committed] == [(3, (entry(0, 1), entries[0]))]
    (send,) = [action for action in actions if isinstance(action, Send)]
    actions = answered(quorum, send.correlation_id, high_watermark=6)
    assert [action.entries for action in actions if isinstance(action, Committed)] == [entries[1:]]


def test_a_leader_that_has_committed_less_than_our_snapshot_holds_takes_nothing_back() -> None:
    snapshot_id = SnapshotId(end_offset=5, epoch=2)
    quorum = Quorum(
        config=QuorumConfig(node_id=1, voters=(1, 2, 3)),
        persisted=PersistedState(leader_epoch=2),
        entries=(entry(5, 2, count=2),),
        rng=random.Random(1),
        snapshot=Snapshot(snapshot_id=snapshot_id, data=b""),
        log_start=snapshot_id,
    )
    begin = BeginQuorumEpochRequest(leader_id=2, leader_epoch=4)
    (send,) = [each for each in quorum.handle(RequestReceived(token=1, request=begin), 1) if isinstance(each, Send)]
    actions = answered(quorum, send.correlation_id, high_watermark=3)
    assert not [action for action in actions if isinstance(action, Committed)]
    assert (quorum.high_watermark, quorum.log_end_offset) == (5, 7)


def test_a_follower_appends_before_it_fetches_again_and_commits_what_it_holds() -> None:
    quorum, fetch = following(entry(0, 1))
    actions = answered(quorum, fetch, entries=(entry(1, 4), entry(2, 4)), high_watermark=9)
    kinds = [type(action) for action in actions]
    assert kinds == [AppendEntries, Committed, Send]
    assert quorum.high_watermark == 3


def test_entries_that_do_not_fit_are_not_appended() -> None:
    quorum, fetch = following(entry(0, 1))
    actions = answered(quorum, fetch, entries=(entry(2, 4),))
    assert not [action for action in actions if isinstance(action, AppendEntries)]
    assert quorum.log_end_offset == 1


def test_committed_entries_are_never_truncated() -> None:
    quorum, fetch = following(entry(0, 1), entry(1, 1))
    (send,) = [action for action in answered(quorum, fetch, high_watermark=2) if isinstance(action, Send)]
    with pytest.raises(RuntimeError, match="committed metadata would be lost"):
        answered(quorum, send.correlation_id, diverging_epoch=DivergingEpoch(epoch=0, end_offset=0))


def test_the_node_must_be_a_voter() -> None:
    with pytest.raises(ValueError, match="is not in"):
        QuorumConfig(node_id=9, voters=(1, 2, 3))


def test_epochs_of_the_log() -> None:
    log = QuorumLog((entry(0, 1), entry(1, 1), entry(2, 4), entry(3, 6)))
    ends = {epoch: (end.epoch, end.end_offset) for epoch in range(8) for end in [log.end_of_epoch(epoch)]}
    assert ends == {0: (-1, 0), 1: (1, 2), 2: (1, 2), 3: (1, 2), 4: (4, 3), 5: (4, 3), 6: (6, 4), 7: (6, 4)}
    assert log.divergence(fetch_offset=2, last_fetched_epoch=1) is None
    assert log.divergence(fetch_offset=0, last_fetched_epoch=-1) is None
    assert log.divergence(fetch_offset=3, last_fetched_epoch=1) == DivergingEpoch(epoch=1, end_offset=2)
    assert log.divergence(fetch_offset=4, last_fetched_epoch=5) == DivergingEpoch(epoch=4, end_offset=3)
    log.truncate(2)
    assert (log.end_offset, log.last_epoch) == (2, 1)
    with pytest.raises(ValueError, match="cannot follow"):
        log.append((entry(5, 6),))


def test_a_read_is_bounded_but_never_empty_handed() -> None:
    log = QuorumLog(tuple(entry(offset, 1) for offset in range(10)))
    assert len(log.read_bounded(0, 1)) == 1
    assert len(log.read_bounded(0, 7)) == 3  # 3 bytes each
    assert log.read_bounded(10, 100) == ()
