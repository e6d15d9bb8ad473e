"""The harness's half of the client protocol: what is accounted for, and which mistakes of a client are named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workloads.clients.process.conversation import Conversation, Rule, Unasked
from workloads.clients.process.messages import (
    LINE_BYTES_MAX,
    OutRecord,
    PolledRecord,
    parse_event,
    records_per_poll,
)

READY = {"event": "ready", "protocol": 1, "client": "scripted", "can": ["produce", "assign", "commit"]}
ACKNOWLEDGED = {"seq": 0, "sent_us": 10, "partition": 1, "offset": 5}


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def begun(**more: Any) -> Conversation:
    conversation = Conversation()
    conversation.hear(line(**{**READY, **more}), 1)
    return conversation


def sent(*seqs: int, **more: Any) -> Conversation:
    conversation = begun(**more)
    conversation.produce("t", [OutRecord(seq=seq, value=b"v") for seq in seqs], 10)
    return conversation


def rules(conversation: Conversation) -> list[str]:
    return [mistake.rule for mistake in conversation.mistakes]


def test_a_client_that_keeps_to_the_page_makes_no_mistake() -> None:
    conversation = sent(0, 1)
    conversation.hear(line(event="acknowledged", at_us=20, records=[ACKNOWLEDGED]), 30)
    conversation.hear(line(event="unknown", at_us=20, code=7, records=[{"seq": 1, "sent_us": 11}]), 30)
    number, _ = conversation.ask("close", 40, timeout_ms=10)
    conversation.hear(line(event="done", id=number, at_us=50), 60)
    assert (conversation.mistakes, list(conversation.open_records), dict(conversation.pending)) == ([], [], {})


def test_a_second_outcome_is_named_with_the_line_of_the_first() -> None:
    conversation = sent(0)
    for _ in range(2):
        conversation.hear(line(event="acknowledged", at_us=20, records=[ACKNOWLEDGED]), 30)
    (mistake,) = conversation.mistakes
    assert mistake.rule == Rule.OUTCOME_TWICE
    assert (mistake.line_number, mistake.message) == (3, "record 0 is acknowledged, and had its outcome in line 2")


def test_an_outcome_of_a_record_that_was_never_sent_is_named() -> None:
    conversation = begun()
    assert conversation.hear(line(event="acknowledged", at_us=20, records=[ACKNOWLEDGED]), 30) is None
    assert rules(conversation) == [Rule.OUTCOME_UNASKED]


@pytest.mark.parametrize("do", ["close", "flush"])
def test_a_record_without_an_outcome_is_named_when_its_close_or_flush_is_answered(do: str) -> None:
    conversation = sent(0, 1)
    conversation.hear(line(event="acknowledged", at_us=20, records=[ACKNOWLEDGED]), 30)
    number, _ = conversation.ask(do, 40, timeout_ms=10)
    conversation.hear(line(event="done", id=number, at_us=50), 60)
    assert rules(conversation) == [Rule.OUTCOME_MISSING]
    assert f"{do} is answered, and 1 records have no outcome: 1" in conversation.mistakes[0].message


def test_an_outcome_after_the_close_is_told_once_as_a_missing_one() -> None:
    conversation = sent(0)
    number, _ = conversation.ask("close", 40, timeout_ms=10)
    conversation.hear(line(event="done", id=number, at_us=50), 60)
    assert conversation.hear(line(event="acknowledged", at_us=20, records=[ACKNOWLEDGED]), 61) is None
    assert rules(conversation) == [Rule.OUTCOME_MISSING]


def test_a_flush_does_not_answer_for_records_sent_after_it() -> None:
    conversation = begun()
    number, _ = conversation.ask("flush", 40, timeout_ms=10)
    conversation.produce("t", [OutRecord(seq=0, value=b"v")], 41)
    conversation.hear(line(event="done", id=number, at_us=50), 60)
    assert rules(conversation) == []


def test_a_missing_time_is_named_as_such() -> None:
    conversation = sent(0)
    conversation.hear(line(event="acknowledged", records=[ACKNOWLEDGED]), 30)
    without = {name: value for name, value in ACKNOWLEDGED.items() if name != "sent_us"}
    conversation.hear(line(event="acknowledged", at_us=20, records=[without]), 30)
    assert rules(conversation) == [Rule.TIME_MISSING, Rule.TIME_MISSING]
    assert "at_us: Field required" in conversation.mistakes[0].message


@pytest.mark.parametrize(
    ("sent_us", "at_us"), [(10_000, 90_000_000), (90_000, 80_000), (1, 20_000)],
    ids=["later than it was read", "sent after its outcome", "sent before the line was written"],
)  # fmt: skip
def test_a_time_that_cannot_be_is_named(sent_us: int, at_us: int) -> None:
    conversation = begun()
    conversation.produce("t", [OutRecord(seq=0, value=b"v")], 10_000)
    conversation.hear(line(event="acknowledged", at_us=at_us, records=[{**ACKNOWLEDGED, "sent_us": sent_us}]), 100_000)
    assert rules(conversation) == [Rule.TIME_WRONG]


def test_garbage_is_named_and_the_conversation_goes_on() -> None:
    conversation = sent(0)
    assert conversation.hear(b"panic: nil pointer\n", 30) is None
    conversation.hear(line(event="acknowledged", at_us=20, records=[ACKNOWLEDGED]), 30)
    (mistake,) = conversation.mistakes
    assert (mistake.rule, mistake.line_number, mistake.line) == (Rule.JSON, 2, "panic: nil pointer")
    assert not conversation.open_records


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"event": "acknowledged", "at_us": 1, "records": [{**ACKNOWLEDGED, "offset": -2}]}, "records.0.offset"),
        ({"event": "acknowledged", "at_us": 1, "records": [{**ACKNOWLEDGED, "offset": "5"}]}, "records.0.offset"),
        ({"event": "acknowledged", "at_us": 1, "records": []}, "records"),
        ({"event": "failed", "at_us": 1, "records": [{"seq": 0, "sent_us": 0}]}, "code"),
        ({"event": "acknowleged", "at_us": 1}, ""),
    ],
)
def test_a_wrong_field_is_named_by_its_place(event: dict[str, Any], field: str) -> None:
    conversation = begun()
    conversation.hear(line(**event), 30)
    assert rules(conversation) == [Rule.FIELD]
    assert field in conversation.mistakes[0].message


def test_an_answer_to_nothing_and_an_answer_twice_are_named() -> None:
    conversation = begun()
    number, _ = conversation.ask("flush", 10, timeout_ms=10)
    for answered in (7, number, number):
        conversation.hear(line(event="done", id=answered, at_us=20), 30)
    assert rules(conversation) == [Rule.ANSWER_UNASKED, Rule.ANSWER_UNASKED]
    assert "which line 3 has answered" in conversation.mistakes[1].message


def test_a_poll_is_answered_by_polled_with_at_most_the_records_asked_for() -> None:
    conversation = begun()
    number, _ = conversation.ask("poll", 10, timeout_ms=10, max_records=1)
    conversation.hear(line(event="done", id=number, at_us=20), 30)
    number, _ = conversation.ask("poll", 10, timeout_ms=10, max_records=1)
    record = {"topic": "t", "partition": 0, "offset": 3, "value": "dg==", "timestamp_ms": 1}
    event = conversation.hear(line(event="polled", id=number, at_us=20, records=[record, record]), 30)
    assert rules(conversation) == [Rule.ANSWER_KIND, Rule.TOO_MANY]
    assert event.records[0] == PolledRecord(topic="t", partition=0, offset=3, value="dg==", timestamp_ms=1)  # type: ignore[union-attr, arg-type]
    assert event.records[0].value == b"v"  # type: ignore[union-attr]


def test_one_record_a_poll_is_asked_for_only_where_it_is_declared_and_more_are_too_many() -> None:
    with pytest.raises(Unasked, match="one record each: the client has no one-by-one"):
        begun().ask("connect", 10, timeout_ms=10, role="consumer", properties={}, one_by_one=True)
    able = begun(can=[*READY["can"], "one-by-one"])  # type: ignore[misc]
    record = {"topic": "t", "partition": 0, "offset": 3, "value": "dg==", "timestamp_ms": 1}
    for is_one_by_one in (True, False):
        fields = {"one_by_one": True} if is_one_by_one else {}
        number, _ = able.ask("connect", 10, timeout_ms=10, role="consumer", properties={}, **fields)
        able.hear(line(event="done", id=number, at_us=20), 30)
        number, _ = able.ask("poll", 10, timeout_ms=10, max_records=2)
        able.hear(line(event="polled", id=number, at_us=20, records=[record, record]), 30)
    assert [str(mistake.message) for mistake in able.mistakes] == ["2 records, and connect asked for one"]


def test_words_of_can_that_do_not_exist_or_miss_another_are_named() -> None:
    conversation = begun(can=["produce", "fly", "seek"])
    assert rules(conversation) == [Rule.ABILITY, Rule.ABILITY]


def test_nothing_is_asked_that_the_client_has_not_declared() -> None:
    with pytest.raises(Unasked, match="seek: the client has no seek"):
        begun().ask("seek", 10, timeout_ms=10, partitions=[])


def test_a_client_without_overlap_is_asked_one_thing_at_a_time() -> None:
    conversation = begun()
    conversation.ask("flush", 10, timeout_ms=10)
    with pytest.raises(Unasked, match="close while flush is not answered"):
        conversation.ask("close", 10, timeout_ms=10)
    overlapping = begun(can=[*READY["can"], "overlap"])  # type: ignore[misc]
    overlapping.ask("flush", 10, timeout_ms=10)
    assert overlapping.ask("close", 10, timeout_ms=10)[0] == 2


def test_several_callers_are_asked_for_only_where_they_are_declared() -> None:
    records = [OutRecord(seq=seq, value=b"v") for seq in range(4)]
    with pytest.raises(Unasked, match="4 callers: the client has no callers"):
        begun().produce("t", records, 10, callers=4)
    able = begun(can=[*READY["can"], "callers"])  # type: ignore[misc]
    assert json.loads(able.produce("t", records, 10, callers=4))["callers"] == 4
    able = begun(can=[*READY["can"], "callers"])  # type: ignore[misc]
    assert "callers" not in json.loads(able.produce("t", records, 10))


def test_fields_of_later_versions_are_left_out() -> None:
    conversation = begun(color="red")
    conversation.ask("flush", 10, timeout_ms=10)
    conversation.hear(line(event="done", id=1, at_us=20, shape="round"), 30)
    assert conversation.mistakes == []


def test_a_program_that_ends_leaves_its_records_without_an_outcome() -> None:
    conversation = sent(0, 1)
    conversation.ended("exit code 3")
    assert "exit code 3, with 2 records without an outcome" in conversation.mistakes[0].message
    assert list(conversation.open_records) == [0, 1]


def test_as_many_records_are_polled_as_surely_fit_into_a_line() -> None:
    for size in (0, 100, 10_000, 1 << 20):
        record = {"topic": "t" * 100, "partition": 1 << 30, "offset": 1 << 60, "key": None, "timestamp_ms": 1 << 41}
        length = len(line(**record, value="A" * (size * 4 // 3 + 4)))
        assert records_per_poll(size) * length <= LINE_BYTES_MAX
    assert records_per_poll(10 << 20) == 1


def test_every_event_of_the_page_is_understood() -> None:
    where = {"topic": "t", "partition": 0, "offset": 1}
    for event in (
        {"event": "assigned", "partitions": [{"topic": "t", "partition": 0}], "generation": 3},
        {"event": "revoked", "partitions": []},
        {"event": "lost", "partitions": []},
        {"event": "committed", "partitions": [where]},
        {"event": "share-acknowledged", "records": [{**where, "type": "accept"}], "code": 0},
        {"event": "error", "reason": "no", "property": "acks", "next": "abort"},
        {"event": "fatal", "reason": "no", "code": 90},
        {"event": "done", "id": 1, "metrics": {"rate": 1, "size": 2.5}, "effective": {"acks": "all"}},
    ):
        assert parse_event(line(at_us=1, **event)).event == event["event"]  # type: ignore[union-attr]


def closed(conversation: Conversation, event: str = "done") -> Conversation:
    number, _ = conversation.ask("close", 40, timeout_ms=10)
    conversation.hear(line(event=event, id=number, at_us=50, reason="late"), 60)
    return conversation


def test_who_has_closed_and_owes_nothing_is_at_rest_until_anything_is_said() -> None:
    told = line(event="acknowledged", at_us=20, records=[ACKNOWLEDGED])
    assert not begun().is_at_rest
    conversation = sent(0)
    conversation.hear(told, 30)
    assert not conversation.is_at_rest
    assert closed(conversation).is_at_rest
    assert not closed(begun(), event="error").is_at_rest
    assert not closed(sent(0)).is_at_rest, "a record has no outcome"
    asked, spoke, over = closed(begun()), closed(begun()), closed(begun())
    asked.ask("connect", 70, timeout_ms=10)
    spoke.hear(line(event="error", at_us=70, reason="late"), 80)
    over.ended("exit code 0")
    assert [each.is_at_rest for each in (asked, spoke, over)] == [False, False, False]
    assert spoke.mistakes == []


def test_a_command_without_an_answer_or_a_mistake_of_before_leaves_no_rest_after_a_close() -> None:
    waiting, wrong = begun(can=["produce", "overlap"]), begun()
    waiting.ask("flush", 20, timeout_ms=10)
    wrong.hear(b"no line of JSON", 20)
    assert [closed(each).is_at_rest for each in (waiting, wrong)] == [False, False]
