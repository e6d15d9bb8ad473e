"""A failing test says what is gone, under which fault and where the log was cut; and nothing where it does not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.journal_cuts import cuts_since
from harness.loss_words import (
    ACKNOWLEDGED,
    UNREAD,
    Cut,
    comparison_lines,
    faults_of,
    loss_lines,
    lost,
    out_of_order,
)
from runlog.records.codec import from_line
from runlog.records.fault import FaultLine

CUT = Cut(broker=3, topic="t", partition=0, first_offset=5052, end_offset=7086)


def event(step: str, phase: str, t_us: int, **more: Any) -> FaultLine:
    killed = {"label": "killed (SIGKILL)"}
    told = {"id": step, "kind": "kill", "target": "leader", "resolved": ["3"], "phase": phase, "t_us": t_us,
            "detail": killed, **more}  # fmt: skip
    return from_line(FaultLine, told)


EVENTS = [
    event("cut", "applied", 3_500_000, kind="link_cut", target="followers->leader", resolved=["a", "b"],
          detail={"label": "link cut"}),
    event("cut", "proved", 3_600_000),
    event("kill", "applied", 4_600_000),
    event("kill", "proved", 4_700_000),
    event("elected", "proved", 5_000_000, kind="wait"),
    event("cut", "healed", 5_100_000),
    event("kill", "healed", 5_200_000),
]  # fmt: skip


def test_the_first_line_is_the_whole_story() -> None:
    gone = [b"%d" % number for number in range(1204)]
    lines = loss_lines(gone, 9_000, ACKNOWLEDGED, faults=faults_of(EVENTS), cuts=[CUT])
    assert lines == [
        "1,204 of 9,000 acknowledged records lost: leader 3 killed (SIGKILL) at 4.6 s, "
        "offsets 5052-7085 of t-0 truncated",
        "faults, in seconds since the test got its cluster:",
        "  followers->leader link cut at 3.5 s to 5.1 s",
        "  leader 3 killed (SIGKILL) at 4.6 s to 5.2 s",
        f"records: the first 10, all of them with pytest -vv: {', '.join(map(repr, gone[:10]))}",
    ]
    assert loss_lines(gone, 9_000, ACKNOWLEDGED, faults=(), cuts=(), shown=None)[-1].count("b'") == 1204


def test_replicas_that_cut_off_the_same_tail_are_told_once() -> None:
    shorter = Cut(broker=1, topic="t", partition=0, first_offset=5052, end_offset=5060)
    elsewhere = Cut(broker=1, topic="t", partition=1, first_offset=3, end_offset=4)
    story = loss_lines([b"a"], 1, ACKNOWLEDGED, faults=(), cuts=[CUT, shorter, elsewhere])[0]
    assert story.endswith(": offsets 5052-7085 of t-0 truncated, offsets 3-3 of t-1 truncated")


def test_without_a_journal_and_without_a_fault_nothing_is_made_up() -> None:
    assert loss_lines([b"a"], 2, UNREAD, faults=(), cuts=()) == [
        "1 of 2 records of the log were not read",
        "no fault was applied",
        "records: b'a'",
    ]


def test_a_fault_of_a_later_inject_with_the_same_id_is_another_one_and_an_unproved_one_says_so() -> None:
    twice = [*EVENTS, event("kill", "applied", 9_000_000), event("kill", "healed", 9_500_000)]
    assert [fault.words() for fault in faults_of(twice)][1:] == [
        "leader 3 killed (SIGKILL) at 4.6 s to 5.2 s",
        "leader 3 killed (SIGKILL) at 9.0 s to 9.5 s (without proof)",
    ]


def test_lost_counts_repetitions_and_takes_a_text_for_its_bytes() -> None:
    assert lost(["a", b"a", b"b"], [b"a", b"b"]) == [b"a"]
    assert lost({"b", "a"}, []) == ["a", "b"]


def lines_of(op: str, left: object, right: object, in_log: set[bytes]) -> list[str] | None:
    def tell(gone: list[bytes], of: int, what: str, *, shown: int | None) -> list[str]:
        return [f"{len(gone)} of {of} {what}"]

    return comparison_lines(op, left, right, in_log, tell, is_all_shown=False)


@pytest.mark.parametrize(
    ("op", "left", "right", "told"),
    [
        ("<=", {b"a", b"x"}, {b"a"}, f"1 of 2 {ACKNOWLEDGED}"),
        ("==", [b"a", b"x"], [b"a", b"b"], f"1 of 2 {ACKNOWLEDGED}"),
        ("<=", {b"a", b"b"}, {b"a"}, f"1 of 2 {UNREAD}"),
        ("==", [b"a"], [b"a", b"b"], f"1 of 2 {UNREAD}"),
        ("<=", {b"a"}, set(), f"1 of 1 {UNREAD}"),
        ("<=", {b"p"}, {b"q"}, None),  # nothing of the log: some other comparison of the test
        ("<=", {b"p"}, set(), None),
        ("==", {1, 2}, {1}, None),
        ("==", "ab", "abc", None),
        ("<=", {b"a"}, {b"a", b"b"}, None),
    ],
)
def test_only_comparisons_with_the_log_are_explained(op: str, left: object, right: object, told: str | None) -> None:
    found = lines_of(op, left, right, {b"a", b"b"})
    assert (found[1] if found else None) == told


def test_cuts_are_those_of_the_tests_topics_and_time(tmp_path: Path) -> None:
    def line(mono_ns: int, topic: str = "t", **more: Any) -> str:
        told = {"mono_ns": mono_ns, "broker": 3, "kind": "truncated", "topic": topic, "partition": 0,
                "leader_epoch": 0, "from_offset": 7086, "to_offset": 5052, **more}  # fmt: skip
        return json.dumps(told)

    torn = line(300)[:40]
    texts = [line(50), line(200), line(250, "other"), line(260, from_offset=10, to_offset=10), "[]", torn]
    (tmp_path / "journal").write_text("\n".join(texts))
    assert cuts_since([tmp_path / "journal", tmp_path / "none"], ["t"], since_ns=100) == (CUT,)


def test_what_stands_behind_something_that_was_sent_later_is_out_of_order() -> None:
    sent = [b"a", b"b", b"c", b"d"]
    assert out_of_order([b"a", b"b", b"c", b"d"], sent) == []
    assert out_of_order([b"a", b"c", b"b", b"x", b"d"], sent) == [b"b"], "only the one that is late"
    assert out_of_order([b"a", b"b", b"a", b"c"], sent) == [], "a repetition is no matter of order"
    assert out_of_order(["c", "a"], sent) == ["a"]
    with pytest.raises(ValueError, match="each value must be sent once, but b'a' stands there several times"):
        out_of_order([b"a"], [b"a", b"b", b"a"])


def told(op: str, left: Any, right: Any, in_log: list[bytes]) -> list[str] | None:
    return comparison_lines(
        op, left, right, in_log, lambda gone, of, what, shown: [f"{len(gone)} of {of} {what}"], is_all_shown=False
    )


def test_lists_that_differ_only_in_repetitions_or_order_say_that() -> None:
    log = [b"a", b"b", b"c"]
    assert told("==", log, [b"a", b"c", b"b"], log) == [
        "3 records == 3 records", "1 of 3 records on the right side stand behind one that is later on the left side",
    ]  # fmt: skip
    assert told("==", [b"a", b"a", b"b", b"c"], log, log) == [
        "4 records == 3 records", "1 of 4 records stand more often on the left side",
    ]  # fmt: skip
    assert told("==", log, [*log, b"c"], log) == [
        "3 records == 4 records", "1 of 4 records stand more often on the right side",
    ]  # fmt: skip
    assert told("==", [b"x", b"y"], [b"y", b"x"], log) is None, "not of this log"
