"""Share sessions: epochs, the limit, and lost connections."""

from __future__ import annotations

from uuid import UUID

from broker.node.features.share_groups.delivery.sessions import EPOCH_MAX, FINAL_EPOCH, ShareSession, ShareSessions
from broker.wire.errors import ErrorCode

PLACES = [(UUID(int=1), 0), (UUID(int=1), 1), (UUID(int=1), 2)]


def opened(sessions: ShareSessions, member: str = "m") -> ShareSession:
    session = sessions.open("g", member, PLACES, lambda: True)
    assert isinstance(session, ShareSession)
    return session


def test_epochs_follow_each_other_and_begin_anew_after_the_last() -> None:
    sessions = ShareSessions(sessions_max=10)
    session = opened(sessions)
    assert sessions.resume("g", "m", 2, lambda: True) is ErrorCode.invalid_share_session_epoch
    assert sessions.resume("g", "m", 1, lambda: True) is session
    assert sessions.resume("g", "m", FINAL_EPOCH, lambda: True) is session
    session.epoch = EPOCH_MAX
    assert sessions.resume("g", "m", EPOCH_MAX, lambda: True) is session
    assert session.epoch == 1
    sessions.close(session)
    assert sessions.resume("g", "m", 1, lambda: True) is ErrorCode.share_session_not_found


def test_more_sessions_than_the_limit_are_refused() -> None:
    sessions = ShareSessions(sessions_max=1)
    opened(sessions)
    assert sessions.open("g", "other", PLACES, lambda: True) is ErrorCode.share_session_limit_reached
    assert isinstance(sessions.open("g", "m", PLACES, lambda: True), ShareSession), "its own is replaced"


def test_a_client_that_names_ever_more_partitions_is_refused_and_what_there_was_stays() -> None:
    sessions = ShareSessions(sessions_max=10, places_max=5)
    session = opened(sessions)
    more = [(UUID(int=2), index) for index in range(3)]
    assert not sessions.add(session, more)
    assert list(session.places) == PLACES
    assert sessions.add(session, [*more[:2], *PLACES])
    assert sessions.open("g", "other", PLACES, lambda: True) is ErrorCode.share_session_limit_reached
    assert sessions.of("g", "other") is None
    assert sessions.open("g", "m", [*PLACES, *more], lambda: True) is ErrorCode.share_session_limit_reached
    assert sessions.of("g", "m") is session, "a session that cannot begin anew goes on"


def test_each_partition_is_read_first_in_turn() -> None:
    session = opened(ShareSessions(sessions_max=1))
    assert [session.turn()[0] for _ in range(4)] == [*PLACES, PLACES[0]]


def test_a_session_whose_connection_is_gone_is_found() -> None:
    sessions = ShareSessions(sessions_max=2)
    opened(sessions)
    lost = sessions.open("g", "dead", PLACES, lambda: False)
    assert sessions.lost() == [lost]
