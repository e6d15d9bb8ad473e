"""What a follower's requests name of an incremental fetch session (KIP-227), and when they begin anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

import pytest

from broker.node.replicas.fetch_sessions import EPOCH_MAX
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.replica_session import ReplicaSession
from broker.wire.errors import ErrorCode
from broker.wire.hot_fetch import FetchPartition

TOPIC = UUID(int=7)
NONE = ErrorCode.none


@dataclass(eq=False)
class Followed:
    """What the session asks of a partition: which it is. Its position is told by `position`."""

    index: int
    topic_id: UUID = TOPIC
    position: FetchPartition = field(init=False)

    def __post_init__(self) -> None:
        self.position = FetchPartition(self.index, 1, 0, -1, 0, 1000)


def hosted(*indexes: int) -> list[HostedPartition]:
    return [cast(HostedPartition, Followed(index)) for index in indexes]


def position(of: HostedPartition) -> FetchPartition:
    return cast(Followed, of).position


def move(of: HostedPartition, **changes: int) -> None:
    followed = cast(Followed, of)
    followed.position = followed.position._replace(**changes)


def named(session: ReplicaSession, followed: list[HostedPartition]) -> tuple[list[int], list[int]]:
    """Indexes of what the next request asks for and of what it forgets."""
    names = session.names(followed)
    return [each.partition for each in names.asked.get(TOPIC, [])], names.forgotten.get(TOPIC, [])


def established(followed: list[HostedPartition]) -> ReplicaSession:
    session = ReplicaSession(position)
    assert (session.session_id, session.epoch) == (0, 0)
    assert named(session, followed) == ([each.index for each in followed], [])
    assert session.answered(NONE, 55)
    assert (session.session_id, session.epoch) == (55, 1)
    return session


def test_the_first_request_names_all_and_a_later_one_what_changed() -> None:
    followed = hosted(0, 1, 2)
    session = established(followed)
    assert named(session, followed) == ([], [])
    assert session.answered(NONE, 55)
    assert session.epoch == 2
    for change in (
        {"fetch_offset": 9},
        {"log_start_offset": 4},
        {"last_fetched_epoch": 1},
        {"current_leader_epoch": 2},
    ):
        move(followed[1], **change)
        for each in followed:
            session.moved(each)  # answers came for all, only one of them changed anything
        assert named(session, followed) == ([1], []), change
        assert session.asked_of(followed[1]) == position(followed[1])
        assert named(session, followed) == ([], [])


def test_another_list_is_compared_as_a_whole() -> None:
    """A change of roles or the retention of a log moves what no answer has touched."""
    followed = hosted(0, 1, 2)
    session = established(followed)
    move(followed[2], current_leader_epoch=2)
    assert named(session, followed) == ([], []), "nobody said so"
    (new,) = hosted(3)
    assert named(session, [followed[0], followed[2], new]) == ([2, 3], [1])
    assert session.find(TOPIC, 1) is None
    assert session.asked_of(followed[1]) is None
    assert session.find(TOPIC, 3) is new
    assert session.find(UUID(int=8), 3) is None


def test_a_topic_made_anew_is_another_partition() -> None:
    followed = hosted(0)
    session = established(followed)
    again = cast(HostedPartition, Followed(0, UUID(int=8)))
    names = session.names([again])
    assert names.forgotten == {TOPIC: [0]}
    assert list(names.asked) == [UUID(int=8)]


@pytest.mark.parametrize(
    ("error", "closed"),
    [
        (ErrorCode.fetch_session_id_not_found, 0),
        (ErrorCode.invalid_fetch_session_epoch, 55),
        (ErrorCode.fetch_session_topic_id_error, 55),
        (ErrorCode.inconsistent_topic_id, 55),
    ],
)
def test_after_a_refusal_all_are_named_again_and_the_old_session_is_closed(error: ErrorCode, closed: int) -> None:
    followed = hosted(0, 1)
    session = established(followed)
    assert named(session, followed) == ([], [])
    assert not session.answered(error, 0)
    assert (session.session_id, session.epoch) == (closed, 0)
    assert named(session, [followed[1]]) == ([1], []), "a full request forgets nothing"
    assert session.answered(NONE, 56)
    assert (session.session_id, session.epoch) == (56, 1)


def test_a_request_without_an_answer_begins_anew() -> None:
    followed = hosted(0, 1)
    session = established(followed)
    move(followed[0], fetch_offset=3)
    session.moved(followed[0])
    assert named(session, followed) == ([0], [])
    session.failed()
    assert (session.session_id, session.epoch) == (55, 0)
    assert named(session, followed) == ([0, 1], [])


def test_a_leader_without_room_is_asked_in_full_each_time() -> None:
    followed = hosted(0, 1)
    session = ReplicaSession(position)
    for _ in range(2):
        assert named(session, followed) == ([0, 1], [])
        assert session.answered(NONE, 0)
        assert session.is_full


def test_an_answer_of_another_session_is_not_believed() -> None:
    session = established(hosted(0))
    assert not session.answered(NONE, 0)
    assert (session.session_id, session.epoch) == (0, 0)


def test_epochs_begin_again_after_the_last() -> None:
    session = established(hosted(0))
    session.epoch = EPOCH_MAX
    assert session.answered(NONE, 55)
    assert session.epoch == 1
