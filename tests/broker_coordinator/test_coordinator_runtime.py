"""The ledger releases only what is committed, in order, and gives up what waits too long. The hash is Java's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.keys import java_hash, partition_for
from broker.coordinator.runtime import Emit, Ledger, Reply


def drain(ledger: Ledger) -> list[object]:
    found: list[object] = []
    while (action := ledger.pop_ready()) is not None:
        found.append(action.token if isinstance(action, Reply) else action.effect)
    return found


def reply(token: int, after: int | None = None) -> Reply:
    return Reply(token=token, response="answer", after=after)


def test_nothing_leaves_before_what_was_loaded_is_committed() -> None:
    ledger = Ledger(loaded_end_offset=10)
    ledger.wait(reply(1, after=0), deadline_ms=100)
    ledger.advance(9)
    assert drain(ledger) == []
    ledger.advance(10)
    assert drain(ledger) == [1]


def test_a_reply_waits_for_its_append_and_not_for_later_ones() -> None:
    ledger = Ledger(loaded_end_offset=0)
    ledger.advance(0)
    ledger.append(1, 5)
    ledger.wait(reply(1), deadline_ms=100)
    ledger.append(2, 8)
    ledger.wait(reply(2), deadline_ms=100)
    ledger.wait(reply(3, after=0), deadline_ms=100)
    assert drain(ledger) == [3]
    ledger.advance(7)
    assert drain(ledger) == [1]
    ledger.advance(8)
    assert drain(ledger) == [2]


def test_a_late_reply_is_given_up_once_and_an_effect_never() -> None:
    ledger = Ledger(loaded_end_offset=0)
    ledger.append(1, 5)
    ledger.wait(reply(1), deadline_ms=100)
    ledger.wait(Emit(effect="markers"), deadline_ms=None)
    assert ledger.next_deadline_ms() == 100
    assert ledger.pop_expired(99) is None
    assert ledger.pop_expired(100) == reply(1)
    assert ledger.pop_expired(10**9) is None
    assert ledger.next_deadline_ms() is None
    ledger.advance(5)
    assert drain(ledger) == ["markers"]
    assert len(ledger) == 0


@given(st.lists(st.one_of(st.just("append"), st.integers(0, 4), st.just("advance")), max_size=60))
def test_order_and_commitment_hold_for_any_interleaving(steps: list[object]) -> None:
    ledger, high_watermark, token = Ledger(loaded_end_offset=0), 0, 0
    needed: dict[object, int] = {}  # token -> end offset
    left: list[object] = []
    for step in steps:
        if step == "append":
            ledger.append(ledger.appended + 1, 10 * (ledger.appended + 1))
        elif step == "advance":
            high_watermark += 7
            ledger.advance(high_watermark)
        else:
            assert isinstance(step, int)
            token += 1
            after = min(step, ledger.appended)
            needed[token] = 10 * after
            ledger.wait(reply(token, after=after), deadline_ms=None)
        now = drain(ledger) if high_watermark else []
        assert all(needed[each] <= high_watermark for each in now)
        left += now
    ledger.advance(10**6)
    left += drain(ledger)
    assert len(left) == len(needed)
    assert set(left) == set(needed)


def test_the_hash_is_that_of_java() -> None:
    # Values of "..".hashCode() in Java.
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_hash("\U0001f600") == 1772899
    assert partition_for("polygenelubricants", 50) == 0
    # Of a negative hash it is the absolute value that counts. Apache Kafka 3.9.1 has this group there.
    assert java_hash("explore-435680-57-group") == -1595911633
    assert partition_for("explore-435680-57-group", 50) == 33
    assert partition_for("hello", 50) == 22
