"""What a client said against what the log holds: each kind of difference is named, and nothing else is."""

from __future__ import annotations

import pytest

from harness.conformance.judge import Heard, Log, Logged, Rule, Sent, judge_outcomes, judge_reading
from workloads.clients.process.messages import (
    Acknowledged,
    AcknowledgedRecord,
    NotAcknowledged,
    OpenRecord,
    Polled,
    PolledRecord,
)

LOG = Log(
    "t",
    [
        Logged(partition=partition, offset=offset, key=None, value=b"%d-%d" % (partition, offset))
        for partition in (0, 1)
        for offset in (0, 1, 3, 4)  # a marker stands at 2
    ],
)


def acknowledged(*told: tuple[int, int, int]) -> list[Heard]:
    """(seq, partition, offset)."""
    records = [AcknowledgedRecord(seq=seq, sent_us=1, partition=where, offset=at) for seq, where, at in told]
    return [Heard(event=Acknowledged(event="acknowledged", at_us=2, records=tuple(records)), number=4, line="{}")]


def failed(seq: int, code: int) -> list[Heard]:
    event = NotAcknowledged(event="failed", at_us=2, code=code, records=(OpenRecord(seq=seq, sent_us=1),))
    return [Heard(event=event, number=5, line="{}")]


def polled(*places: tuple[int, int], value: bytes | None = None) -> list[Heard]:
    records = [
        PolledRecord.model_construct(
            topic="t", partition=partition, offset=offset, key=None, value=value or b"%d-%d" % (partition, offset)
        )
        for partition, offset in places
    ]
    event = Polled.model_construct(event="polled", id=1, at_us=2, records=tuple(records))
    return [Heard(event=event, number=6, line="{}")]


def sent(partition: int, offset: int) -> Sent:
    """The record that the log has there."""
    return Sent(key=None, value=b"%d-%d" % (partition, offset))


def rules(heard: list[Heard], records: dict[int, Sent], *, in_order: bool = False) -> list[str]:
    found = judge_outcomes(heard, records, LOG, failed_codes=(17,), in_order=in_order)
    return [mistake.rule for mistake in found]


def test_outcomes_as_the_log_has_them_are_right() -> None:
    records = {0: sent(0, 0), 1: sent(1, 4), 2: Sent(key=None, value=b"never")}
    assert rules(acknowledged((0, 0, 0), (1, 1, 4)) + failed(2, 17), records, in_order=True) == []


@pytest.mark.parametrize(
    ("told", "rule"),
    [((0, 0, 1), Rule.OFFSET), ((0, 1, 0), Rule.PARTITION), ((0, 0, 9), Rule.OFFSET), ((0, 7, 9), Rule.PARTITION)],
)
def test_a_wrong_place_of_a_record_is_named(told: tuple[int, int, int], rule: str) -> None:
    assert rules(acknowledged(told), {0: sent(0, 0)}) == [rule]


def test_a_record_that_is_acknowledged_and_not_in_the_log_is_named() -> None:
    assert rules(acknowledged((0, 0, 0)), {0: Sent(key=None, value=b"other")}) == [Rule.ACKNOWLEDGED_ABSENT]


def test_a_record_that_is_failed_and_in_the_log_is_named() -> None:
    assert rules(failed(0, -1), {0: sent(0, 0)}) == [Rule.FAILED_APPENDED]


def test_a_code_that_proves_nothing_is_named() -> None:
    assert rules(failed(0, 7), {0: Sent(key=None, value=b"other")}) == [Rule.FAILED_CODE]


def test_a_record_elsewhere_than_it_was_sent_and_lost_headers_are_named() -> None:
    records = {0: Sent(key=None, value=b"0-0", partition=1), 1: Sent(key=None, value=b"0-1", headers=(("a", b"1"),))}
    assert rules(acknowledged((0, 0, 0), (1, 0, 1)), records) == [Rule.PARTITION, Rule.CONTENT]


def test_records_in_another_order_than_sent_are_named_only_where_order_is_promised() -> None:
    records = {0: sent(0, 1), 1: sent(0, 0), 2: sent(1, 0)}
    heard = acknowledged((0, 0, 1), (1, 0, 0), (2, 1, 0))
    assert rules(heard, records) == []
    assert rules(heard, records, in_order=True) == [Rule.ORDER]


def test_reading_what_the_log_has_from_an_offset_on_is_right_across_a_marker() -> None:
    assert judge_reading(polled((0, 1), (0, 3), (0, 4)), LOG, begins={0: 1}) == []


@pytest.mark.parametrize(
    ("places", "rule"),
    [
        ([(0, 0), (0, 1), (0, 4)], Rule.SKIPPED),
        ([(0, 0), (0, 1), (0, 1), (0, 3), (0, 4)], Rule.REPEATED),
        ([(0, 0), (0, 1), (0, 3)], Rule.NOT_READ),
        ([(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)], Rule.OFFSET),
        ([(1, 0), (0, 0), (0, 1), (0, 3), (0, 4)], Rule.PARTITION),
    ],
)
def test_each_way_to_read_wrongly_is_named(places: list[tuple[int, int]], rule: str) -> None:
    assert [mistake.rule for mistake in judge_reading(polled(*places), LOG, begins={0: 0})] == [rule]


def test_other_contents_are_named_with_where_they_belong() -> None:
    mistakes = judge_reading(polled((0, 0), value=b"0-3"), LOG, begins={0: 0}, upto_end=False)
    assert [mistake.message for mistake in mistakes] == ["t-0, offset 0: the log has this record at t-0, offset 3"]
    mistakes = judge_reading(polled((0, 0), value=b"junk"), LOG, begins={0: 0}, upto_end=False)
    assert [mistake.rule for mistake in mistakes] == [Rule.CONTENT]


def test_a_record_before_the_beginning_is_named() -> None:
    mistakes = judge_reading(polled((0, 0), (0, 3), (0, 4)), LOG, begins={0: 3})
    assert [mistake.rule for mistake in mistakes] == [Rule.OFFSET]
