"""Fetch sessions (KIP-227): what an answer may leave out, epochs, and who makes room for whom."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from broker.node.replicas.fetch_sessions import (
    EVICTION_MS,
    AskedPartition,
    CachedPartition,
    FetchSession,
    FetchSessions,
    Reader,
)
from broker.node.replicas.partition_readers import Readers
from broker.wire.errors import ErrorCode


def asked(index: int, *, offset: int = 0) -> AskedPartition:
    return AskedPartition(
        topic="t",
        topic_id=None,
        index=index,
        offset=offset,
        current_leader_epoch=-1,
        last_fetched_epoch=-1,
        max_bytes=1000,
        log_start_offset=-1,
    )


def sessions(slots: int = 2) -> FetchSessions:
    return FetchSessions(slots=slots, rng=random.Random(1))


CONSUMER = Reader(-1, -1, False)
FOLLOWER = Reader(2, 7, False)


def opened(*asked_of: AskedPartition, reader: Reader = CONSUMER) -> FetchSession:
    session = sessions().open(asked_of, reader=reader, uses_ids=False, now_ms=0)
    assert session is not None
    return session


def settled(session: FetchSession, readers: Readers) -> None:
    """As an answer leaves it that told everything."""
    for cached in session.partitions.values():
        cached.watch(readers)
    session.pending.clear()


def pending(session: FetchSession) -> list[int]:
    return [cached.asked.index for cached in session.pending]


def test_an_answer_holds_only_partitions_with_news() -> None:
    session = opened(asked(0), asked(1))
    first, second = session.partitions.values()

    def tell(cached: CachedPartition, high_watermark: int, *, records: bool = False, news: bool = False) -> bool:
        return cached.must_tell(high_watermark=high_watermark, log_start_offset=0, has_records=records, has_news=news)

    assert tell(first, 5)
    assert not tell(first, 5)
    assert tell(first, 6)
    assert tell(first, 6, records=True)
    session.served(first)
    assert pending(session) == [1, 0]  # what was served goes last
    assert tell(second, -1, news=True)
    assert tell(second, 3)


def test_partitions_are_added_changed_and_forgotten() -> None:
    session = opened(asked(0), asked(1))
    readers = Readers()
    settled(session, readers)
    gone = session.update([asked(1, offset=7), asked(2)], [("t", 0), ("t", 9)])
    assert [cached.asked.index for cached in gone] == [0]
    assert {key: cached.asked.offset for key, cached in session.partitions.items()} == {("t", 1): 7, ("t", 2): 0}
    assert pending(session) == [1, 2]
    assert len(readers.noting) == 1, "what was forgotten is no longer told of news"


def test_a_partition_is_looked_at_again_when_something_comes() -> None:
    """What wakes a request that waits: a follower's the log end, a consumer's the high watermark, both a new role."""
    notices: list[tuple[Callable[[Readers], None], bool, bool]] = [
        (Readers.appended, True, False),
        (Readers.committed, False, True),
        (Readers.role_changed, True, True),
        (Readers.isr_changed, False, False),
        (lambda readers: readers.log_start_moved(wakes_followers=True), True, False),
        (lambda readers: readers.log_start_moved(wakes_followers=False), False, False),
    ]
    for notice, wakes_follower, wakes_consumer in notices:
        for reader, expected in ((FOLLOWER, wakes_follower), (CONSUMER, wakes_consumer)):
            woken: list[bool] = []
            session, readers = opened(asked(0), asked(1), reader=reader), Readers()
            settled(session, readers)
            session.partitions[("t", 1)].unwatch()
            session.wakes.add(lambda woken=woken: woken.append(True))  # type: ignore[misc]
            notice(readers)
            assert pending(session) == [0]
            assert bool(woken) is expected, notice


def test_a_session_left_behind_is_noted_once() -> None:
    """Nobody waits and nobody comes: an append must not pay for it for ever."""
    session, readers = opened(asked(0)), Readers()
    settled(session, readers)
    readers.appended()
    assert (pending(session), len(readers.noting)) == ([0], 0)
    with pytest.raises(AssertionError, match="what comes is noted"):
        session.settle(session.partitions[("t", 0)])
    session.partitions[("t", 0)].watch(readers)
    session.wakes.add(lambda: None)
    readers.committed()
    assert len(readers.noting) == 1, "the request that waits must hear of what comes next, too"


def test_a_replica_has_one_session() -> None:
    table, readers = sessions(5), Readers()
    first = table.open([asked(0)], reader=FOLLOWER, uses_ids=False, now_ms=0)
    assert first is not None
    settled(first, readers)
    for reader in (FOLLOWER._replace(replica_epoch=8), Reader(3, 1, False), CONSUMER, CONSUMER):
        assert table.open([asked(0)], reader=reader, uses_ids=False, now_ms=0) is not None
    assert len(table) == 4
    assert not readers.noting
    assert table.resume(first.session_id, 1, uses_ids=False, now_ms=0)[1] is ErrorCode.fetch_session_id_not_found


def test_an_offset_by_another_session_of_the_follower_is_noted() -> None:
    """A late request of an earlier session moved the leader's picture back: the session that lives must correct it."""
    old, new, readers = opened(asked(0), reader=FOLLOWER), opened(asked(0), reader=FOLLOWER), Readers()
    other = opened(asked(0), reader=Reader(3, 8, False))
    for session in (old, new, other):
        settled(session, readers)
    readers.fetched_by(2, old.partitions[("t", 0)])
    assert (pending(old), pending(new), pending(other)) == ([], [0], [])


def test_a_session_of_another_reader_looks_at_everything() -> None:
    """Another life of the follower, or another isolation level: what was settled says nothing for it."""
    session = opened(asked(0), asked(1), reader=FOLLOWER)
    settled(session, Readers())
    session.read_by(FOLLOWER)
    assert pending(session) == []
    session.read_by(FOLLOWER._replace(replica_epoch=8))
    assert pending(session) == [0, 1]


def test_a_new_leader_epoch_is_told_the_high_watermark_again() -> None:
    session = opened(asked(0), reader=FOLLOWER)
    (cached,) = session.partitions.values()

    def must_tell() -> bool:
        return cached.must_tell(high_watermark=4, log_start_offset=0, has_records=False, has_news=False)

    assert must_tell()
    session.update([asked(0, offset=4)], ())
    assert not must_tell()
    session.update([asked(0, offset=4)._replace(current_leader_epoch=3)], ())
    assert must_tell()


def test_a_closed_session_is_told_nothing() -> None:
    table, readers = sessions(), Readers()
    session = table.open([asked(0)], reader=FOLLOWER, uses_ids=False, now_ms=0)
    assert session is not None
    settled(session, readers)
    table.close(session.session_id)
    session.partitions[("t", 0)].watch(readers)
    assert not readers.noting


def test_a_request_must_carry_the_next_epoch() -> None:
    table = sessions()
    session = table.open([asked(0)], reader=CONSUMER, uses_ids=False, now_ms=0)
    assert session is not None
    assert table.resume(session.session_id, 1, uses_ids=False, now_ms=1) == (session, ErrorCode.none)
    assert table.resume(session.session_id, 1, uses_ids=False, now_ms=1)[1] is ErrorCode.invalid_fetch_session_epoch
    assert table.resume(session.session_id, 2, uses_ids=True, now_ms=1)[1] is ErrorCode.fetch_session_topic_id_error
    assert table.resume(session.session_id + 1, 2, uses_ids=False, now_ms=1)[1] is ErrorCode.fetch_session_id_not_found
    session.epoch = 2**31 - 1
    table.resume(session.session_id, 2**31 - 1, uses_ids=False, now_ms=1)
    assert session.epoch == 1


@pytest.mark.parametrize(
    ("is_replica", "partitions", "later_ms", "expected"),
    [
        (False, 1, 0, False),  # no more than those that are there
        (False, 3, 0, True),  # larger
        (True, 1, 0, True),  # a follower comes before clients
        (False, 1, EVICTION_MS + 1, True),  # an idle one makes room
    ],
)
def test_a_full_table_makes_room_only_for_what_is_worth_more(
    is_replica: bool, partitions: int, later_ms: int, expected: bool
) -> None:
    table = sessions()
    for _ in range(2):
        assert table.open([asked(0), asked(1)], reader=CONSUMER, uses_ids=False, now_ms=0) is not None
    reader = FOLLOWER if is_replica else CONSUMER
    new = table.open([asked(n) for n in range(partitions)], reader=reader, uses_ids=False, now_ms=later_ms)
    assert (new is not None) is expected
    assert len(table) == 2


def test_nothing_asked_and_no_slots_make_no_session() -> None:
    assert sessions().open([], reader=CONSUMER, uses_ids=False, now_ms=0) is None
    assert sessions(0).open([asked(0)], reader=FOLLOWER, uses_ids=False, now_ms=0) is None
