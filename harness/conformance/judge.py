"""What a client said of its records against what the log holds. Pure.

Shown by tests/harness/test_harness_conformance.py.

A record of a check is known by its value, which names its seq; so no two have the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from workloads.clients.process.conversation import Mistake
from workloads.clients.process.messages import (
    UNKNOWN_OFFSET,
    Acknowledged,
    Event,
    NotAcknowledged,
    Polled,
    PolledRecord,
)

Place = tuple[int, int]  # partition, offset
_SHOWN_MAX: Final = 3  # mistakes of one rule in one trial: the others are the same


class Rule(StrEnum):
    """What a mistake breaks, where the log has to say so."""

    ACKNOWLEDGED_ABSENT = "acknowledged, and not in the log"
    FAILED_APPENDED = "failed, and in the log"
    FAILED_CODE = "failed by a code that proves nothing"
    OFFSET = "a wrong offset"
    PARTITION = "a wrong partition"
    CONTENT = "other contents than were sent"
    ORDER = "records of a partition in another order"
    SKIPPED = "a record was skipped"
    REPEATED = "a record was given twice"
    NOT_READ = "records were not given"
    LIE = "declared, and not done"
    REFUSED = "what the page asks for was not done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    status: str = "committed"


class Log:
    def __init__(self, topic: str, records: Sequence[Logged]) -> None:
        self.topic, self.records = topic, records
        self.at: Mapping[Place, Logged] = {(each.partition, each.offset): each for each in records}
        self._places: dict[tuple[bytes | None, bytes | None], list[Place]] = {}
        for each in records:
            self._places.setdefault((each.key, each.value), []).append((each.partition, each.offset))

    def places(self, key: bytes | None, value: bytes | None) -> list[Place]:
        """Everywhere that a record with these contents stands."""
        return self._places.get((key, value), [])

    def of(self, partition: int) -> list[Logged]:
        return [each for each in self.records if each.partition == partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """`partition`: that the record was sent to; None if the client chooses."""

    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    event: Event
    number: int
    line: str

    def mistake(self, rule: str, message: str) -> Mistake:
        return Mistake(rule=rule, message=message, line_number=self.number, line=self.line)


def judge_outcomes(
    heard: Sequence[Heard],
    sent: Mapping[int, Sent],
    log: Log,
    *,
    failed_codes: Collection[int],
    in_order: bool = False,
) -> list[Mistake]:
    """`in_order`: there was neither fault nor refusal, so each partition has the records in the order of their seqs."""
    return _few(_outcomes(heard, sent, log, failed_codes, in_order))


def judge_order(sent: Mapping[int, Sent], log: Log) -> list[Mistake]:
    """Of records that one caller has given."""
    return _few(_out_of_order(sent, log))


def _outcomes(
    heard: Sequence[Heard], sent: Mapping[int, Sent], log: Log, failed_codes: Collection[int], in_order: bool
) -> Iterator[Mistake]:
    for each in heard:
        match each.event:
            case NotAcknowledged(event="failed"):
                yield from _failed(each, each.event, sent, log, failed_codes)
            case Acknowledged():
                yield from _acknowledged(each, each.event, sent, log)
    if in_order:
        yield from _out_of_order(sent, log)


def _failed(
    heard: Heard, event: NotAcknowledged, sent: Mapping[int, Sent], log: Log, failed_codes: Collection[int]
) -> Iterator[Mistake]:
    if event.code > 0 and event.code not in failed_codes:
        message = f"failed by code {event.code}, which is not one of failed_codes: say unknown"
        yield heard.mistake(Rule.FAILED_CODE, message)
    for record in event.records:
        was = sent.get(record.seq)
        if was is not None and (places := log.places(was.key, was.value)):
            message = f"record {record.seq} is failed, and the log has it at {_at(log, places[0])}"
            yield heard.mistake(Rule.FAILED_APPENDED, message)


def _acknowledged(heard: Heard, event: Acknowledged, sent: Mapping[int, Sent], log: Log) -> Iterator[Mistake]:
    for record in event.records:
        was = sent.get(record.seq)
        if was is None:
            continue  # the conversation has noted that
        places = log.places(was.key, was.value)
        said = (record.partition, record.offset)
        if record.offset == UNKNOWN_OFFSET and places:
            said = next((place for place in places if place[0] == record.partition), said)
        if said not in places:
            yield heard.mistake(*_wrong_place(log, record.seq, said, places))
            continue
        if was.partition is not None and was.partition != record.partition:
            message = f"record {record.seq} was sent to partition {was.partition}, and is at {_at(log, said)}"
            yield heard.mistake(Rule.PARTITION, message)
        if _by_name(was.headers) != _by_name(log.at[said].headers):
            there = list(log.at[said].headers)
            message = f"record {record.seq}: the log has headers {there}, sent were {list(was.headers)}"
            yield heard.mistake(Rule.CONTENT, message)


def _by_name(headers: Sequence[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Libraries that keep headers in a map keep the order of those with the same name only."""
    return sorted(headers, key=lambda header: header[0])


def _out_of_order(sent: Mapping[int, Sent], log: Log) -> Iterator[Mistake]:
    seq_at = {place: seq for seq, was in sent.items() for place in log.places(was.key, was.value)[:1]}
    highest: dict[int, int] = {}
    for place, seq in sorted(seq_at.items()):
        before = highest.get(place[0], -1)
        if seq < before:
            message = f"record {seq} is at {_at(log, place)}, after record {before}, which was sent later"
            yield Mistake(rule=Rule.ORDER, message=message)
        highest[place[0]] = max(before, seq)


def _wrong_place(log: Log, seq: int, said: Place, places: Sequence[Place]) -> tuple[str, str]:
    if not places:
        message = f"record {seq} is acknowledged at {_at(log, said)}, and the log does not have it"
        return Rule.ACKNOWLEDGED_ABSENT, message
    what = Rule.OFFSET if any(partition == said[0] for partition, _ in places) else Rule.PARTITION
    return what, f"record {seq} is acknowledged at {_at(log, said)}, and the log has it at {_at(log, places[0])}"


def judge_reading(
    heard: Sequence[Heard], log: Log, *, begins: Mapping[int, int], upto_end: bool = True
) -> list[Mistake]:
    """What was polled is what the log has, from these offsets on, in order, each record once. `upto_end`: all of it."""
    return _few(_reading(heard, log, begins, upto_end))


def _reading(heard: Sequence[Heard], log: Log, begins: Mapping[int, int], upto_end: bool) -> Iterator[Mistake]:
    expected = {
        partition: [each.offset for each in log.of(partition) if each.offset >= begin]
        for partition, begin in begins.items()
    }
    reached = dict.fromkeys(begins, 0)
    for each in heard:
        if not isinstance(each.event, Polled):
            continue
        for record in each.event.records:
            if record.topic != log.topic or record.partition not in begins:
                message = f"a record of {record.topic}-{record.partition}, which is not assigned"
                yield each.mistake(Rule.PARTITION, message)
                continue
            if content := content_problem(record, log):
                yield each.mistake(*content)
                continue
            offsets, index = expected[record.partition], reached[record.partition]
            if index < len(offsets) and record.offset == offsets[index]:
                reached[record.partition] += 1
                continue
            where = f"{record.topic}-{record.partition}: offset {record.offset}"
            if record.offset in offsets[:index]:
                yield each.mistake(Rule.REPEATED, f"{where} was given before, and {offsets[index - 1]} after it")
            elif record.offset in offsets:
                yield each.mistake(Rule.SKIPPED, f"{where} is given, and {offsets[index]} should come next")
                reached[record.partition] = offsets.index(record.offset) + 1
            else:
                yield each.mistake(Rule.OFFSET, f"{where} is before {begins[record.partition]}, where reading begins")
    if upto_end:
        for partition, offsets in expected.items():
            if reached[partition] < len(offsets):
                message = f"{log.topic}-{partition}: nothing was given from offset {offsets[reached[partition]]} on"
                yield Mistake(rule=Rule.NOT_READ, message=message)


def content_problem(record: PolledRecord, log: Log) -> tuple[str, str] | None:
    """Rule and message, if the log has something else at the record's place."""
    there = log.at.get((record.partition, record.offset))
    where = f"{record.topic}-{record.partition}, offset {record.offset}"
    if there is None:
        return Rule.OFFSET, f"{where}: the log has no record there"
    if (there.key, there.value) == (record.key, record.value):
        return None
    if places := log.places(record.key, record.value):
        what = Rule.OFFSET if places[0][0] == record.partition else Rule.PARTITION
        return what, f"{where}: the log has this record at {_at(log, places[0])}"
    return Rule.CONTENT, f"{where}: key or value is not what the log has"


def _at(log: Log, place: Place) -> str:
    return f"{log.topic}-{place[0]}, offset {place[1]}"


def _few(mistakes: Iterator[Mistake]) -> list[Mistake]:
    """The first ones of each rule."""
    seen: dict[str, int] = {}
    found = []
    for each in mistakes:
        seen[each.rule] = seen.get(each.rule, 0) + 1
        if seen[each.rule] <= _SHOWN_MAX:
            found.append(each)
    return found
