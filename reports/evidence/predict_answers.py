"""Predicts loss where no journal and no file shows it: from the answers of a replaced leader, as the proxies passed
them on.

Pure. A `truncated` event of source `wire` says which leader was replaced and where its epoch ends
(OffsetForLeaderEpoch). The wire log says which records that leader acknowledged beyond this end, and when. If another
answer acknowledges the same record as well, the record is not lost: its producer had sent it twice.
Shown by tests/reports/test_reports_predict_answers.py.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reports.evidence.topic_events import NEVER_US, Interval, succeeded, wire_lines
from reports.read.cell import Cell
from runlog.records.partition import Truncated
from runlog.records.wire import WireExchange, WireOutcome

Identity = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersGone:
    """A truncation whose loss is told by answers: those that the event's broker gave before `until_us`."""

    event: Truncated
    until_us: int = NEVER_US


def lost_by_answers(cell: Cell, told: Sequence[AnswersGone]) -> list[Interval]:
    """The stretches of [to_offset, from_offset) of each truncation that its broker acknowledged. Each has the time span
    in which an acknowledgement of these offsets refers to that broker's append.

    All truncations are looked at together: a record that was sent again is not lost only if one of its answers stands,
    and the answer of a second leader may be gone as well.
    """
    if not told:
        return []
    answered = [line for line in wire_lines(cell) if line.outcome is WireOutcome.DELIVERED and succeeded(line)]
    own = [[line for line in answered if _is_gone(line, each)] for each in told]
    removed = {id(line) for lines in own for line in lines}
    asked: dict[int, set[Identity]] = defaultdict(set)
    for lines in own:
        for line in lines:
            asked[line.partition].update(_identities(line))
    saved: dict[int, set[Identity]] = defaultdict(set)
    for line in answered:
        if id(line) not in removed and line.partition in asked:
            saved[line.partition] |= asked[line.partition].intersection(_identities(line))
    found: list[Interval] = []
    for each, lines in zip(told, own, strict=True):
        found += _lost_to(each.event, lines, answered, saved[each.event.partition])
    return found


def _is_gone(line: WireExchange, told: AnswersGone) -> bool:
    event = told.event
    return (
        line.partition == event.partition
        and broker_of(line) == event.broker
        and answered_us(line) + 1 < told.until_us  # both are cut to whole microseconds
        and _end(line) > event.to_offset
        and line.base_offset < event.from_offset
    )


def _lost_to(
    event: Truncated, own: Sequence[WireExchange], answered: Sequence[WireExchange], saved: set[Identity]
) -> list[Interval]:
    """`own`: the answers that this truncation made void."""
    partition, first, end = event.partition, event.to_offset, event.from_offset
    void = {id(line) for line in own}
    others = [line for line in answered if line.partition == partition and id(line) not in void]
    found: list[Interval] = []
    for line in own:
        for low, high in _stretches(line, max(first, line.base_offset), min(end, _end(line)), saved):
            found += _with_times(partition, low, high, line, others)
    return found


def answered_us(line: WireExchange) -> int:
    """When the proxy passed the answer on; older logs only know when the request came."""
    answered_ns = line.mono_ns if line.answered_ns is None else line.answered_ns
    return line.t_us + (answered_ns - line.mono_ns) // 1_000


def error_us(line: WireExchange) -> int:
    """How much its times can be wrong beside those of another host."""
    return math.ceil(line.clock_error_us or 0.0)


def broker_of(line: WireExchange) -> int:
    """The broker behind the proxy that saw the line; -1 if its name has no number."""
    number = line.proxy.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def _end(line: WireExchange) -> int:
    return line.base_offset + line.records


def _identities(line: WireExchange) -> Iterable[Identity]:
    """One a record, in the order of their offsets; none when the records are not the harness's own."""
    for producer, incarnation, first, last in line.identities or ():
        for seq in range(first, last + 1):
            yield producer, incarnation, seq


def _stretches(line: WireExchange, low: int, high: int, saved: set[Identity]) -> list[tuple[int, int]]:
    """[low, high) without the records that another answer stands for."""
    kept = [identity not in saved for identity in _identities(line)] or [True] * line.records
    found: list[tuple[int, int]] = []
    for offset in range(low, high):
        if not kept[offset - line.base_offset]:
            continue
        if found and found[-1][1] == offset:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return found


def _with_times(
    partition: int, low: int, high: int, line: WireExchange, others: Sequence[WireExchange]
) -> list[Interval]:
    """An acknowledgement of an offset after the answer of `line` refers to this append. If the successor's answer for
    that offset came later, this holds only until that answer. Times of fault hosts are taken at the ends of their
    bounds; where these meet, wire_clocks.py says so."""
    own_us = answered_us(line)
    marks = {low, high}
    for other in others:
        marks |= {mark for mark in (other.base_offset, _end(other)) if low < mark < high}
    found: list[Interval] = []
    for begin, stop in pairwise(sorted(marks)):
        successor_us = min(
            (answered_us(other) - error_us(other) for other in others if other.base_offset <= begin < _end(other)),
            default=NEVER_US,
        )
        found.append(
            Interval(
                kind="lost",
                partition=partition,
                from_offset=begin,
                end_offset=stop,
                after_us=own_us
                - error_us(line)
                - 1,  # the answer's time is cut to whole microseconds, and so is the acknowledgement's
                before_us=successor_us if successor_us > own_us else NEVER_US,
                clock_error_us=error_us(line),
            )
        )
    return found
