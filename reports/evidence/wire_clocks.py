"""Whether the order of requests is known that proxies on several fault hosts saw, each by its own clock.

Times of one host keep their order. Times of two hosts that are nearer to each other than the bounds of both clocks do
not say which came first. A prediction that would need to know makes its cell inconclusive.
Pure. Shown by tests/reports/test_reports_wire_clocks.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from reports.evidence.predict_answers import answered_us, error_us
from reports.evidence.topic_events import batch_key, events_of, succeeded, wire_lines
from reports.read.cell import Cell
from runlog.records.cell import Expectation
from runlog.records.cluster_kinds import Source
from runlog.records.partition import Truncated
from runlog.records.wire import WireExchange, WireOutcome

_FORETOLD = (Expectation.PREDICTED, Expectation.EXACT)


def has_host_clocks(cell: Cell) -> bool:
    """Whether its requests were seen by the clocks of fault hosts."""
    return any(line.clock_error_us is not None for line in cell.exchanges)


def unclear_order(cell: Cell) -> list[str]:
    """What the bounds of the clocks leave open although a prediction rests on it; empty: nothing."""
    if not has_host_clocks(cell):
        return []
    found = []
    lines = wire_lines(cell)
    if cell.record.expect.reordered in _FORETOLD and (count := _unclear_first_attempts(lines)):
        found.append(f"which of two requests came first is not known {count} time(s), by the clocks of two fault hosts")
    if cell.record.expect.lost in _FORETOLD and (count := _unclear_answers(cell, lines)):
        found.append(
            f"which of two leaders answered first for the same offsets is not known {count} time(s), by the clocks of "
            "two fault hosts"
        )
    return found


def _unclear_first_attempts(lines: Iterable[WireExchange]) -> int:
    """`lines` are in the order of their times."""
    groups: defaultdict[tuple[object, int], list[WireExchange]] = defaultdict(list)
    seen = set()
    for line in lines:
        if (key := batch_key(line)) in seen:
            continue
        seen.add(key)
        sender: object = line.identities[0][:2] if line.identities else line.client_id
        groups[sender, line.partition].append(line)
    return sum(
        one.host != other.host and other.t_us - one.t_us <= error_us(one) + error_us(other)
        for group in groups.values()
        for one, other in pairwise(group)
    )


def _unclear_answers(cell: Cell, lines: Iterable[WireExchange]) -> int:
    """Only where answers tell what a leader lost. If it was replaced while it was alive, two leaders answered for the
    same offsets. It may have died afterwards: then its files tell what it lost, and its answers when."""
    truncated = [event for event in events_of(cell, Truncated) if event.source in (Source.WIRE, Source.LOG_DUMP)]
    count = 0
    answered = [line for line in lines if line.outcome is WireOutcome.DELIVERED and succeeded(line)]
    for event in truncated:
        there = [line for line in answered if line.partition == event.partition and _touches(line, event)]
        there.sort(key=answered_us)
        count += sum(
            one.host != other.host
            and one.base_offset < other.base_offset + other.records
            and other.base_offset < one.base_offset + one.records
            and answered_us(other) - answered_us(one) <= error_us(one) + error_us(other)
            for one, other in pairwise(there)
        )
    return count


def _touches(line: WireExchange, event: Truncated) -> bool:
    return line.base_offset < event.from_offset and line.base_offset + line.records > event.to_offset
