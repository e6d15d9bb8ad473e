"""Fetch sessions (KIP-227): what an answer may leave out, epochs, and who makes room for whom."""

from __future__ import annotations

import random

import pytest

from broker.node.fetch_sessions import EVICTION_MS, AskedPartition, FetchSessions
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


def test_an_answer_holds_only_partitions_with_news() -> None:
    session = sessions().open([asked(0), asked(1)], is_replica=False, uses_ids=False, now_ms=0)
    assert session is not None

    def tell(index: int, high_watermark: int, *, records: bool = False, news: bool = False) -> bool:
        return session.must_tell(
            ("t", index), high_watermark=high_watermark, log_start_offset=0, has_records=records, has_news=news
        )

    assert tell(0, 5)
    assert not tell(0, 5)
    assert tell(0, 6)
    assert tell(0, 6, records=True)
    assert list(session.asked) == [("t", 1), ("t", 0)]  # what was served goes last
    assert tell(1, -1, news=True)
    assert tell(1, 3)


def test_partitions_are_added_changed_and_forgotten() -> None:
    session = sessions().open([asked(0), asked(1)], is_replica=False, uses_ids=False, now_ms=0)
    assert session is not None
    session.update([asked(1, offset=7), asked(2)], [("t", 0)])
    assert {key: each.offset for key, each in session.asked.items()} == {("t", 1): 7, ("t", 2): 0}


def test_a_request_must_carry_the_next_epoch() -> None:
    table = sessions()
    session = table.open([asked(0)], is_replica=False, uses_ids=False, now_ms=0)
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
        assert table.open([asked(0), asked(1)], is_replica=False, uses_ids=False, now_ms=0) is not None
    new = table.open([asked(n) for n in range(partitions)], is_replica=is_replica, uses_ids=False, now_ms=later_ms)
    assert (new is not None) is expected
    assert len(table) == 2


def test_nothing_asked_and_no_slots_make_no_session() -> None:
    assert sessions().open([], is_replica=False, uses_ids=False, now_ms=0) is None
    assert sessions(0).open([asked(0)], is_replica=True, uses_ids=False, now_ms=0) is None
