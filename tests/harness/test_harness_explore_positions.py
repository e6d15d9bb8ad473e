"""`harness.explore.oracles.consumer_positions`: what a consumer skipped, and what it was given again."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.explore.oracles.consumer_positions import Positions
from harness.explore.trial.history import Change, Commit, Connected, Delivered, Happening, Rebalance, Sought, Told

LOG = {0: tuple(range(20)), 1: tuple(range(20))}


def assigned(*partitions: int, member: int = 0) -> Rebalance:
    return Rebalance(at_us=0, change=Change.ASSIGNED, partitions=frozenset(partitions), member=member)


def gone(change: Change, *partitions: int, member: int = 0) -> Rebalance:
    return Rebalance(at_us=0, change=change, partitions=frozenset(partitions), member=member)


def got(partition: int, *offsets: int, member: int = 0) -> list[Happening]:
    return [Delivered(at_us=0, partition=partition, offset=offset, value=b"", member=member) for offset in offsets]


def commit(offset: int, told: Told = Told.DONE) -> Commit:
    return Commit(at_us=0, offsets={0: offset}, told=told)


def follow(*happened: Happening | Iterable[Happening], is_auto_commit: bool = False) -> Positions:
    flat: list[Happening] = []
    for one in happened:
        flat += list(one) if isinstance(one, list) else [one]  # type: ignore[list-item]
    positions = Positions(LOG, is_auto_commit=is_auto_commit)
    positions.follow(flat)
    return positions


def skipped(positions: Positions) -> list[int]:
    return [offset for skip in positions.skips for offset in skip.offsets]


def again(positions: Positions) -> list[int]:
    return [repetition.offset for repetition in positions.repetitions]


def test_a_gap_within_one_ownership_is_skipped() -> None:
    positions = follow(assigned(0), got(0, 0, 1, 2, 6, 7))
    assert skipped(positions) == [3, 4, 5]
    assert not positions.skips[0].is_after_assignment


def test_offsets_that_no_reader_sees_are_no_gap() -> None:
    positions = Positions({0: (0, 1, 5, 6)}, is_auto_commit=False)
    positions.follow([assigned(0), *got(0, 0, 1, 5, 6)])
    assert skipped(positions) == []


def test_going_back_within_one_ownership_is_a_repetition() -> None:
    assert again(follow(assigned(0), got(0, 0, 1, 2, 1, 2, 3))) == [1]


def test_a_seek_decides_the_next_record() -> None:
    sought = Sought(at_us=0, partition=0, offset=5)
    assert again(follow(assigned(0), got(0, *range(10)), sought, got(0, 5, 6))) == []
    assert skipped(follow(assigned(0), got(0, *range(10)), sought, got(0, 8))) == [5, 6, 7]
    # The seek of one of two partitions that is not carried out (kafkajs 1378 is one such).
    assert skipped(follow(assigned(0), got(0, *range(10)), sought, got(0, 10))) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("change", [Change.REVOKED, Change.LOST])
def test_a_new_owner_begins_at_the_last_confirmed_commit(change: Change) -> None:
    before = [assigned(0), *got(0, *range(8)), commit(5), gone(change, 0), assigned(0, member=1)]
    assert again(follow(before, got(0, 5, member=1))) == []
    assert again(follow(before, got(0, 4, member=1))) == [4]
    assert skipped(follow(before, got(0, 7, member=1))) == [5, 6]


def test_a_commit_without_a_clear_answer_counts_as_both() -> None:
    unclear = commit(6, Told.UNANSWERED)
    before = [assigned(0), *got(0, *range(8)), commit(3), unclear, Connected(at_us=0), assigned(0)]
    for first in (3, 4, 6):
        positions = follow(before, got(0, first))
        assert (skipped(positions), again(positions)) == ([], [])
    assert again(follow(before, got(0, 2))) == [2]
    assert skipped(follow(before, got(0, 7))) == [6]


def test_with_automatic_commits_a_new_life_begins_nowhere_beyond_what_was_delivered() -> None:
    before = [assigned(0), *got(0, *range(8)), Connected(at_us=0), assigned(0)]
    for first in (0, 3, 8):
        positions = follow(before, got(0, first), is_auto_commit=True)
        assert (skipped(positions), again(positions)) == ([], [])
    assert skipped(follow(before, got(0, 9), is_auto_commit=True)) == [8]  # librdkafka 4844 is one such


def test_an_automatic_commit_that_was_told_binds() -> None:
    told = Commit(at_us=0, offsets={0: 6}, told=Told.DONE, is_automatic=True)
    before = [assigned(0), *got(0, *range(8)), told, Connected(at_us=0), assigned(0)]
    assert again(follow(before, got(0, 5), is_auto_commit=True)) == [5]


def test_a_restart_without_a_commit_begins_at_the_beginning() -> None:
    before = [assigned(0), *got(0, *range(8)), Connected(at_us=0), assigned(0)]
    assert again(follow(before, got(0, 0))) == []
    assert skipped(follow(before, got(0, 3))) == [0, 1, 2]


def test_what_nobody_owns_accuses_nobody() -> None:
    positions = follow(assigned(0), got(0, 0, 1), gone(Change.REVOKED, 0), got(0, 7), got(1, 9))
    assert (skipped(positions), again(positions)) == ([], [])


def test_an_assignment_that_is_told_again_permits_both_to_go_on_and_to_begin_at_the_commit() -> None:
    before = [assigned(0), *got(0, *range(8)), commit(5), assigned(0, 1)]
    for first in (5, 8):
        positions = follow(before, got(0, first))
        assert (skipped(positions), again(positions)) == ([], [])
    assert again(follow(before, got(0, 4))) == [4]
    assert skipped(follow(before, got(0, 9))) == [8]


@given(st.data())
def test_a_right_client_is_never_accused(data: st.DataObject) -> None:
    """A simulated group: commits of which some fail although they are done, restarts, seeks. What it delivers is by
    construction what it must."""
    is_auto_commit = data.draw(st.booleans())
    happened: list[Happening] = [Connected(at_us=0), assigned(0)]
    position = committed = 0
    for _ in range(data.draw(st.integers(0, 40))):
        match data.draw(st.sampled_from(["poll", "poll", "poll", "commit", "automatic", "restart", "seek", "again"])):
            case "poll" if position < len(LOG[0]):
                happened += got(0, position)
                position += 1
            case "commit" if not is_auto_commit:
                told = data.draw(st.sampled_from(Told))
                happened.append(commit(position, told))
                if told is Told.DONE or data.draw(st.booleans()):
                    committed = position
            case "automatic" if is_auto_commit:
                committed = position
                if data.draw(st.booleans()):
                    happened.append(Commit(at_us=0, offsets={0: position}, told=Told.DONE, is_automatic=True))
            case "restart":
                happened += [Connected(at_us=0), assigned(0)]
                position = committed
            case "seek":
                position = data.draw(st.integers(0, len(LOG[0])))
                happened.append(Sought(at_us=0, partition=0, offset=position))
            case "again":
                happened.append(assigned(0))
                position = data.draw(st.sampled_from([position, committed]))
            case _:
                pass
    positions = follow(happened, is_auto_commit=is_auto_commit)
    assert (skipped(positions), again(positions)) == ([], [])


def test_a_member_that_gets_its_partition_back_may_go_on_where_it_was() -> None:
    """Seen with a client that joins again after an error: what it fetched meanwhile was handed out just before it told
    of the new assignment."""
    before = [assigned(0), *got(0, *range(8)), gone(Change.REVOKED, 0), assigned(0)]
    assert skipped(follow(before, got(0, 8))) == []
    assert again(follow(before, got(0, 0))) == []
    assert skipped(follow(before, got(0, 9))) == [8]
    assert skipped(follow(before, [Connected(at_us=0), assigned(0)], got(0, 8))) == list(range(8))


def test_another_member_begins_at_the_commit_and_not_where_the_first_one_was() -> None:
    before = [assigned(0), *got(0, *range(8)), commit(5), gone(Change.REVOKED, 0), assigned(0, member=1)]
    assert again(follow(before, got(0, 5, member=1))) == []
    assert skipped(follow(before, got(0, 8, member=1))) == [5, 6, 7]
    assert again(follow(before, got(0, 4, member=1))) == [4]


def test_a_member_that_was_thought_dead_may_hand_out_what_it_has() -> None:
    """It froze, another one took its partition and committed; then it wakes with records in its buffer."""
    before = [assigned(0), *got(0, *range(4)), assigned(0, member=1), *got(0, *range(8), member=1), commit(8)]
    positions = follow(before, got(0, 4, 5), got(0, 8, member=1), gone(Change.LOST, 0), got(0, 9, member=1))
    assert (skipped(positions), again(positions)) == ([], [])
    assert again(follow(before, got(0, 4, 4))) == [4]


@given(st.data())
def test_right_members_of_a_group_are_never_accused(data: st.DataObject) -> None:
    """A simulated group of three: at any time one owns the partition, and those that lost it may hand out some records
    more. Commits of owners are certain or without an answer, those of others fail."""
    happened: list[Happening] = []
    owner, committed = -1, 0
    positions: dict[int, int] = {}
    for _ in range(data.draw(st.integers(0, 40))):
        member = data.draw(st.integers(0, 2))
        match data.draw(st.sampled_from(["join", "poll", "poll", "poll", "commit", "revoke", "restart"])):
            case "join" if member != owner:
                if owner >= 0 and data.draw(st.booleans()):
                    happened.append(gone(Change.REVOKED, 0, member=owner))
                    del positions[owner]
                owner, positions[member] = member, committed
                happened.append(assigned(0, member=member))
            case "poll" if member in positions and positions[member] < len(LOG[0]):
                happened += got(0, positions[member], member=member)
                positions[member] += 1
            case "commit" if member in positions:
                told = data.draw(st.sampled_from(Told)) if member == owner else Told.FAILED
                happened.append(Commit(at_us=0, offsets={0: positions[member]}, told=told, member=member))
                if member == owner and (told is Told.DONE or data.draw(st.booleans())):
                    committed = positions[member]
            case "revoke" if member in positions and member != owner:
                happened.append(gone(Change.LOST, 0, member=member))
                del positions[member]
            case "restart":
                happened.append(Connected(at_us=0, member=member))
                positions.pop(member, None)
                owner = -1 if owner == member else owner
            case _:
                pass
    found = follow(happened)
    assert (skipped(found), again(found)) == ([], [])
