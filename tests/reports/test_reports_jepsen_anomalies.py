"""Where Jepsen's own tests (jepsen.tests.kafka-test) draw the line, ours draws it too: each in a history of our own."""

from __future__ import annotations

from typing import Any

from reports.jepsen.anomalies import cases_of
from reports.jepsen.facts import facts_of
from reports.jepsen.operations import read_history


def _found(*lines: str) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for case in cases_of(facts_of(read_history("\n".join(lines)))):
        found.setdefault(case.anomaly, []).append(case.identity)
    return found


def _op(index: int, process: int, kind: str, f: str, value: str) -> str:
    return f"{{:index {index}, :time {index}, :process {process}, :type :{kind}, :f :{f}, :value {value}}}"


def test_an_offset_of_unknown_outcome_counts_only_if_a_value_of_its_operation_was_read() -> None:
    unknown = _op(1, 0, "info", "send", '[[:send 0 [5 "a"]] [:send 1 "b"]]')
    known = _op(2, 1, "ok", "send", '[[:send 0 [5 "c"]]]')
    assert "inconsistent-offsets" not in _found(unknown, known)
    read = _op(3, 2, "ok", "poll", '[[:poll {1 [[0 "b"]]}]]')
    assert _found(unknown, known, read)["inconsistent-offsets"] == [(0, 5)]


def test_what_an_aborted_poll_returned_tells_where_values_are() -> None:
    """A poll must never return what is not safe, whatever becomes of its transaction."""
    sends = [_op(1, 0, "ok", "send", '[[:send 0 [0 "a"]]]'), _op(2, 0, "ok", "send", '[[:send 0 "b"]]')]
    seen = [_op(3, 1, "fail", "txn", '[[:poll {0 [[1 "b"]]}]]'), _op(4, 2, "ok", "poll", '[[:poll {0 [[1 "b"]]}]]')]
    assert _found(*sends, *seen)["lost-write"] == [(0, "a")]


def test_a_value_whose_offset_was_given_again_is_lost_although_that_offset_was_read() -> None:
    first = _op(1, 0, "ok", "send", '[[:send 0 [0 "a"]]]')
    again = _op(2, 0, "ok", "send", '[[:send 0 [0 "b"]] [:send 0 [2 "c"]]]')
    read = _op(3, 0, "ok", "poll", '[[:poll {0 [[0 "b"] [2 "c"]]}]]')
    found = _found(first, again, read)
    assert found["lost-write"] == [(0, "a")]
    assert found["inconsistent-offsets"] == [(0, 0)]


def test_a_crashed_transaction_of_which_one_value_was_read_must_have_all() -> None:
    crashed = _op(1, 0, "info", "txn", '[[:send 0 "a"] [:send 1 [0 "b"]]]')
    later = [_op(2, 1, "info", "send", '[[:send 1 "c"]]'), _op(3, 3, "ok", "poll", '[[:poll {1 [[1 "c"]]}]]')]
    assert _found(crashed, *later) == {}
    read = _op(4, 2, "ok", "poll", '[[:poll {0 [[0 "a"]]}]]')
    assert _found(crashed, *later, read) == {"lost-write": [(1, "b")], "torn-txn": [(1,)]}


_VALUES = _op(1, 9, "info", "send", '[[:send 0 "a"] [:send 0 "b"] [:send 0 "c"] [:send 0 "d"]]')
_OTHER = _op(2, 1, "ok", "poll", '[[:poll {0 [[2 "b"] [3 "c"]]}]]')


def test_a_poll_may_pass_over_offsets_that_nobody_knows() -> None:
    before, after = _op(3, 0, "ok", "poll", '[[:poll {0 [[1 "a"]]}]]'), '[[:poll {0 [[7 "d"]]}]]'
    assert _found(_VALUES, _OTHER, before, _op(4, 0, "ok", "poll", after))["poll-skip"] == [(3, 4, 0)]
    assert "poll-skip" not in _found(_VALUES, before, _op(4, 0, "ok", "poll", after))


def test_an_assignment_without_the_key_ends_what_a_poll_must_follow_and_one_with_it_does_not() -> None:
    def between(*lines: str) -> bool:
        before = _op(3, 0, "ok", "poll", '[[:poll {0 [[1 "a"]]}]]')
        return "poll-skip" in _found(
            _VALUES, _OTHER, before, *lines, _op(9, 0, "ok", "poll", '[[:poll {0 [[7 "d"]]}]]')
        )

    assert between()
    for f in ("assign", "subscribe"):
        assert between(_op(4, 0, "ok", f, "[0 1]"))
        assert between(_op(4, 0, "fail", f, "[1]"))
        assert not between(_op(4, 0, "ok", f, "[1]"))
        assert not between(_op(4, 0, "info", f, "[1]"))
    assert not between(_op(4, 0, "info", "crash", "nil"))
    assert not between("{:process 0, :type :ok, :f :assign, :value [0], :seek-to-beginning? true}")


def test_a_failed_poll_moves_no_position() -> None:
    first = _op(3, 0, "ok", "poll", '[[:poll {0 [[1 "a"] [2 "b"]]}]]')
    failed = _op(4, 0, "fail", "txn", '[[:poll {0 [[3 "c"]]}]]')
    again = _op(5, 0, "ok", "poll", '[[:poll {0 [[3 "c"]]}]]')
    assert "nonmonotonic-poll" not in _found(_VALUES, first, failed, again)
    assert _found(_VALUES, first, failed, _op(5, 0, "ok", "poll", '[[:poll {0 [[2 "b"]]}]]'))["nonmonotonic-poll"] == [
        (3, 5, 0)
    ]


def test_a_value_that_was_tried_again_and_then_acknowledged_was_not_aborted() -> None:
    tries = [_op(1, 0, "fail", "send", '[[:send 0 "a"]]'), _op(2, 0, "ok", "send", '[[:send 0 [0 "a"]]]')]
    read = _op(3, 1, "ok", "poll", '[[:poll {0 [[0 "a"]]}]]')
    assert _found(*tries, read) == {}
    assert _found(tries[0], read) == {"G1a": [(0, "a")]}
