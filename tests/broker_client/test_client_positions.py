"""What a consumer read and what the leader still has: the chain of epochs and the verdict on an answer (KIP-320)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.client.core.positions import EpochChain, Truncation


def chain(*entries: tuple[int, int]) -> EpochChain:
    made = EpochChain()
    for leader_epoch, first_offset in entries:
        made.read(first_offset, leader_epoch)
    made.check_invariants()
    return made


def test_the_epoch_before_an_offset_is_that_of_the_record_before_it() -> None:
    made = chain((3, 10), (5, 20))
    assert [made.epoch_before(offset) for offset in (10, 11, 20, 21, 99)] == [-1, 3, 3, 5, 5]


def test_a_restart_knows_the_record_before_and_no_other() -> None:
    made = chain((3, 10))
    made.restart(50, 4)
    assert [made.epoch_before(offset) for offset in (49, 50)] == [-1, 4]
    made.restart(50, -1)
    assert made.epoch_before(50) == -1


def test_a_log_that_still_reaches_the_position_is_intact() -> None:
    assert chain((3, 10)).judge(20, 3, 20) is None
    assert chain((3, 10)).judge(20, 3, 2000) is None


def test_a_log_that_ends_before_the_position_was_cut_back_to_there() -> None:
    assert chain((3, 10)).judge(20, 3, 15) == Truncation(divergent_offset=15, leader_epoch=3)


def test_an_older_epoch_that_is_longer_than_the_position_does_not_hide_the_cut() -> None:
    assert chain((2, 0), (3, 10)).judge(20, 2, 500) == Truncation(divergent_offset=10, leader_epoch=2)


def test_a_leader_that_knows_no_such_epoch_cannot_say_where() -> None:
    assert chain((3, 10)).judge(20, -1, -1) == Truncation(divergent_offset=None, leader_epoch=-1)


_Log = list[int]  # leader epochs by offset, never falling


def end_of_epoch(log: _Log, asked: int) -> tuple[int, int]:
    """As a broker answers: its largest epoch not above `asked`, and the offset after its last record."""
    below = [index for index, epoch in enumerate(log) if epoch <= asked]
    return (log[below[-1]], below[-1] + 1) if below else (-1, -1)


logs = st.lists(st.integers(0, 6), max_size=30).map(sorted)


@given(common=st.integers(0, 30), mine=logs, theirs=logs)
def test_the_verdict_is_that_of_the_two_logs_side_by_side(common: int, mine: _Log, theirs: _Log) -> None:
    """Two logs that part at some offset, and never have one epoch in two versions: as replication guarantees."""
    start = mine[:common]
    last = start[-1] if start else 0
    read = start + [last + 1 + 2 * epoch for epoch in mine[common:]]
    leader = start + [last + 2 + 2 * epoch for epoch in theirs]
    made = EpochChain()
    for offset, epoch in enumerate(read):
        made.read(offset, epoch)
    same = 0
    while same < min(len(read), len(leader)) and read[same] == leader[same]:
        same += 1
    position = len(read)
    while position:
        made.check_invariants()
        verdict = made.judge(position, *end_of_epoch(leader, made.epoch_before(position)))
        if verdict is None:
            break
        if verdict.divergent_offset is None:
            assert same == 0
            return
        assert same <= verdict.divergent_offset < position  # never before what is common, and always further back
        position = verdict.divergent_offset
        made.cut(position, verdict.leader_epoch)
    assert position == same
