"""The anomalies of a history, each by one rule: of single values, of polls and sends, and of whole transactions.

Cycles between transactions are in cycles.py, what is lawful in lawful.py. Names are those of `jepsen.tests.kafka` where
it has them. Each rule takes time in proportion to the operations and what they moved.
Shown by tests/reports/test_reports_jepsen_anomalies.py and test_reports_jepsen_planted.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from reports.jepsen.edn import Form, write
from reports.jepsen.facts import Facts, Key, Number, Value
from reports.jepsen.operations import Action, Operation, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What an anomaly is, for people."""

    name: str  # as Jepsen has it, where it has it
    title: str
    rule: str


_RULES: Final = (
    Rule(
        name="lost-write",
        title="Lost",
        rule="The value must have been written: its send ended :ok, or as :info and somebody read another value of the "
        "same operation. Nobody read it, although readers came past all of its offsets, or read its key to the end.",
    ),
    Rule(name="duplicate", title="Duplicated", rule="One value stands at two offsets of a key or more."),
    Rule(
        name="inconsistent-offsets",
        title="Two values at one offset",
        rule="Operations disagree about the value at an offset of a key.",
    ),
    Rule(
        name="G1a",
        title="Aborted read",
        rule="An operation that ended :ok read a value whose send ended :fail.",
    ),
    Rule(
        name="unexpected-read",
        title="Read, never sent",
        rule="An operation that ended :ok read a value that no operation sent to that key.",
    ),
    Rule(
        name="precommitted-read",
        title="Own write read",
        rule="An operation read a value that it sent itself, so before it was committed.",
    ),
    Rule(
        name="torn-txn",
        title="Torn",
        rule="Somebody read a value of an operation, and another value of the same operation is missing as in "
        "lost-write. How the operation ended does not matter.",
    ),
    Rule(
        name="G1b",
        title="Intermediate read",
        rule="The last value that an operation read of a key is from another operation, which sent a later value to "
        "that key as well.",
    ),
    Rule(
        name="unseen",
        title="Not read yet",
        rule="A send ended :ok, and nobody read its value. It may be behind the last offset that was read, so this "
        "is no lost-write.",
    ),
    Rule(
        name="poll-skip",
        title="Left out between polls",
        rule="Two polls of a process follow one another on a key, and between them is an offset that others know. "
        "Values whose send ended :fail do not count. After an assign or a subscribe, only keys that stay count.",
    ),
    Rule(
        name="nonmonotonic-poll",
        title="Polls went back",
        rule="Of two polls of a process that follow one another on a key, the second begins at or below the end of the "
        "first.",
    ),
    Rule(
        name="int-poll-skip",
        title="Left out within an operation",
        rule="As poll-skip, within one operation and without keys that were rebalanced during it.",
    ),
    Rule(
        name="int-nonmonotonic-poll",
        title="Went back within an operation",
        rule="As nonmonotonic-poll, within one operation and without keys that were rebalanced during it.",
    ),
    Rule(
        name="nonmonotonic-send",
        title="Sends went back",
        rule="Of two operations of a process that follow one another and send to a key, the first value of the second "
        "is at or below the last value of the first.",
    ),
    Rule(
        name="int-nonmonotonic-send",
        title="Sends in the wrong order",
        rule="Of two sends of one operation to a key, the later one is at or below the earlier one.",
    ),
    Rule(
        name="int-send-skip",
        title="Others between its sends",
        rule="Between two sends of one operation to a key, the log has a value of another one.",
    ),
    Rule(
        name="G0",
        title="Cycle of writes",
        rule="Operations wrote before one another in a circle: T1 before T2 in the log of one key, T2 before T1 in "
        "that of another.",
    ),
    Rule(
        name="G1c",
        title="Cycle of writes and reads",
        rule="Operations wrote before one another, or read what the one before wrote, in a circle with at least one "
        "read.",
    ),
)
RULES: Final = {rule.name: rule for rule in _RULES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of an anomaly. `identity` tells it from all others of its anomaly."""

    anomaly: str
    identity: tuple[Form, ...]
    words: str
    operations: tuple[Number, ...] = ()  # who took part: positions in the history, at most 8 of them
    is_acked: bool = False  # it is about what an operation wrote that ended :ok
    is_transaction: bool = False  # it is about what a transaction wrote
    is_subscribed: bool = False  # it is about what a member of a group read
    edges: tuple[str, ...] = ()  # of a cycle: the kinds in it


def cases_of(facts: Facts) -> list[Case]:
    """All cases but those of cycles, anomaly by anomaly in the order of `RULES`."""
    lost = dict(_lost(facts))
    found: list[Case] = [*lost.values()]
    for rule in (
        _duplicates, _inconsistent, _aborted_reads, _unexpected_reads, _own_reads,
    ):  # fmt: skip
        found += rule(facts)
    found += _torn(facts)
    found += _intermediate_reads(facts)
    found += _unseen(facts, set(lost))
    found += sorted(_polls(facts), key=lambda case: _POLL_ORDER.index(case.anomaly))
    found += sorted(_sends(facts), key=lambda case: _SEND_ORDER.index(case.anomaly))
    return found


_POLL_ORDER: Final = ("poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll")
_SEND_ORDER: Final = ("nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip")


def _name(facts: Facts, number: Number) -> str:
    return f"operation {facts.operations[number].index}"


def _record(key: Key, value: Value) -> str:
    return f"{write(value)} of key {write(key)}"


def _is_missing(facts: Facts, key: Key, value: Value, told: int | None) -> bool:
    """Nobody read the value, and somebody should have. `told`: the offset that its own send was told."""
    if (key, value) in facts.readers:
        return False
    log = facts.logs.get(key)
    last = told if log is None else log.last.get(value, told)
    if facts.is_removed(key, last):
        return False
    return key in facts.read_to_end or (log is not None and last is not None and last <= log.read_max)


def _lost(facts: Facts) -> Iterator[tuple[tuple[Key, Value], Case]]:
    for (key, value), number in facts.writers.items():
        operation = facts.operations[number]
        if not facts.took_effect[number] or not _is_missing(facts, key, value, None):
            continue
        log = facts.logs.get(key)
        offset = None if log is None else log.last.get(value)
        where = "nobody was told where it is" if offset is None else f"at offset {offset}"
        past = (
            "the key was read to its end"
            if key in facts.read_to_end
            else f"offset {log.read_max if log else -1} was read"
        )
        yield (
            (key, value),
            Case(
                anomaly="lost-write",
                identity=(key, value),
                words=f"{_record(key, value)} ({where}), sent by {_name(facts, number)}: {past}",
                operations=(number,),
                is_acked=operation.type is Outcome.OK,
                is_transaction=operation.f == Action.TXN,
            ),
        )


def _duplicates(facts: Facts) -> Iterator[Case]:
    for key, log in facts.logs.items():
        twice = {value for value, first in log.first.items() if log.last[value] != first}
        offsets: dict[Value, list[int]] = {}
        for offset, values in log.values.items() if twice else ():
            for value in values:
                if value in twice:
                    offsets.setdefault(value, []).append(offset)
        for value, at in offsets.items():
            number = facts.writers.get((key, value))
            yield Case(
                anomaly="duplicate",
                identity=(key, value),
                words=f"{_record(key, value)} at offsets {', '.join(map(str, at[:8]))}{', ...' if len(at) > 8 else ''}",
                operations=() if number is None else (number,),
                is_transaction=number is not None and facts.operations[number].f == Action.TXN,
            )


def _inconsistent(facts: Facts) -> Iterator[Case]:
    for key, log in facts.logs.items():
        for offset, values in log.values.items():
            if len(values) > 1:
                writers = [facts.writers.get((key, value)) for value in values]
                shown = ", ".join(write(value) for value in values[:4])
                yield Case(
                    anomaly="inconsistent-offsets",
                    identity=(key, offset),
                    words=f"offset {offset} of key {write(key)} has {shown}",
                    operations=tuple(number for number in writers[:8] if number is not None),
                )


def _aborted_reads(facts: Facts) -> Iterator[Case]:
    for (key, value), readers in facts.readers.items():
        number = facts.writers.get((key, value))
        if number is not None and facts.operations[number].type is Outcome.FAIL:
            yield Case(
                anomaly="G1a",
                identity=(key, value),
                words=f"{_record(key, value)}, of {_name(facts, number)}, which failed, read by "
                f"{_name(facts, readers[0])}",
                operations=(number, *readers[:7]),
                is_transaction=facts.operations[number].f == Action.TXN,
            )


def _unexpected_reads(facts: Facts) -> Iterator[Case]:
    for (key, value), readers in facts.readers.items():
        if (key, value) not in facts.writers:
            yield Case(
                anomaly="unexpected-read",
                identity=(key, value),
                words=f"{_record(key, value)}, read by {_name(facts, readers[0])}, was never sent",
                operations=tuple(readers[:8]),
            )


def _own_reads(facts: Facts) -> Iterator[Case]:
    for number, operation in enumerate(facts.operations):
        own = {(send.key, send.value) for send in operation.sends}
        for key, pairs in operation.reads.items() if own else ():
            for value in dict.fromkeys(value for _, value in pairs if (key, value) in own):
                yield Case(
                    anomaly="precommitted-read",
                    identity=(operation.index, key, value),
                    words=f"{_record(key, value)}: {_name(facts, number)} read what it sent itself",
                    operations=(number,),
                    is_transaction=True,
                )


def _torn(facts: Facts) -> Iterator[Case]:
    for number, operation in enumerate(facts.operations):
        own = [send for send in operation.sends if facts.writers.get((send.key, send.value)) == number]
        if len(own) < 2:
            continue
        there = [send for send in own if (send.key, send.value) in facts.readers]
        missing = [send for send in own if _is_missing(facts, send.key, send.value, send.offset)]
        if there and missing:
            yield Case(
                anomaly="torn-txn",
                identity=(operation.index,),
                words=f"{_name(facts, number)} (:{operation.type.value}): {_record(there[0].key, there[0].value)} was "
                f"read, {_record(missing[0].key, missing[0].value)} is missing; "
                f"{len(missing)} of its {len(own)} values are",
                operations=(number, facts.readers[there[0].key, there[0].value][0]),
                is_acked=operation.type is Outcome.OK,
                is_transaction=operation.f == Action.TXN,
            )


def _intermediate_reads(facts: Facts) -> Iterator[Case]:
    last_sends: dict[tuple[Number, Key], list[tuple[int, Value]]] = {}  # the two highest offsets of different values
    for number, operation in enumerate(facts.operations):
        for send in operation.sends if facts.took_effect[number] else ():
            offset = _offset(facts, send.key, send.value, send.offset)
            if offset is not None and facts.writers[send.key, send.value] == number:
                own = last_sends.setdefault((number, send.key), [])
                own.append((offset, send.value))
                own.sort(key=lambda pair: -pair[0])
                own[:] = [pair for at, pair in enumerate(own) if pair[1] not in [before[1] for before in own[:at]]][:2]
    for number, operation in enumerate(facts.operations):
        if not facts.took_effect[number]:
            continue
        for key, pairs in operation.reads.items():
            placed = [
                (offset, value) for told, value in pairs if (offset := _offset(facts, key, value, told)) is not None
            ]
            if not placed:
                continue
            top, value = max(placed, key=lambda pair: pair[0])
            writer = facts.writers.get((key, value))
            if writer is None or writer == number:
                continue
            if any(offset > top and other != value for offset, other in last_sends.get((writer, key), ())):
                yield Case(
                    anomaly="G1b",
                    identity=(operation.index, key),
                    words=f"{_record(key, value)} is the last that {_name(facts, number)} read there; "
                    f"{_name(facts, writer)} sent a later one to this key",
                    operations=(writer, number),
                    is_transaction=facts.operations[writer].f == Action.TXN,
                )


def _offset(facts: Facts, key: Key, value: Value, told: int | None) -> int | None:
    if told is not None:
        return told
    log = facts.logs.get(key)
    return None if log is None else log.only_offset(value)


def _unseen(facts: Facts, lost: set[tuple[Key, Value]]) -> Iterator[Case]:
    for (key, value), number in facts.writers.items():
        if facts.operations[number].type is not Outcome.OK or (key, value) in facts.readers or (key, value) in lost:
            continue
        log = facts.logs.get(key)
        if facts.is_removed(key, None if log is None else log.last.get(value)):
            continue
        yield Case(
            anomaly="unseen",
            identity=(key, value),
            words=f"{_record(key, value)}, sent by {_name(facts, number)}",
            operations=(number,),
        )


def _polls(facts: Facts) -> Iterator[Case]:
    """Skips and steps back between the polls of a process, and within one operation."""
    last_reads: dict[int | str, dict[Key, Number]] = {}
    subscribed: set[int | str] = set()
    for number, operation in enumerate(facts.operations):
        process = operation.process
        if operation.f in (Action.ASSIGN, Action.SUBSCRIBE):
            if operation.type is not Outcome.FAIL:
                (subscribed.add if operation.f == Action.SUBSCRIBE else subscribed.discard)(process)
                kept = last_reads.get(process, {})
                keys = () if operation.seeks else operation.keys
                last_reads[process] = {key: kept[key] for key in keys if key in kept}
        elif operation.f == Action.CRASH:
            last_reads.pop(process, None)
        elif operation.moves_data:
            own = last_reads.setdefault(process, {})
            for key, pairs in operation.reads.items():
                is_subscribed = process in subscribed
                if key not in operation.rebalanced:
                    yield from _steps_within(facts, number, key, pairs, is_subscribed, "poll")
                if pairs and key in own:
                    before = facts.operations[own[key]].reads[key][-1]
                    yield from _step(facts, own[key], number, key, before, pairs[0], is_subscribed, "poll")
                if pairs and operation.type is Outcome.OK:
                    own[key] = number


def _sends(facts: Facts) -> Iterator[Case]:
    """Sends that went back, or had others between them."""
    last_sends: dict[int | str, dict[Key, Number]] = {}
    for number, operation in enumerate(facts.operations):
        if not operation.moves_data:
            continue
        by_key: dict[Key, list[tuple[int | None, Value]]] = {}
        for send in operation.sends:
            by_key.setdefault(send.key, []).append((send.offset if facts.took_effect[number] else None, send.value))
        own = last_sends.setdefault(operation.process, {})
        for key, pairs in by_key.items():
            yield from _steps_within(facts, number, key, pairs, False, "send")
            if operation.type is Outcome.FAIL:
                continue
            if key in own:
                earlier = facts.operations[own[key]]
                last = [send for send in earlier.sends if send.key == key][-1]
                before = last.offset if facts.took_effect[own[key]] else None, last.value
                yield from _step(facts, own[key], number, key, before, pairs[0], False, "send")
            own[key] = number


_Pair = tuple[int | None, Value]


def _steps_within(
    facts: Facts, number: Number, key: Key, pairs: list[_Pair], is_subscribed: bool, kind: str
) -> Iterator[Case]:
    operation = facts.operations[number]
    for position, (one, other) in enumerate(pairwise(pairs)):
        low, high = _offset(facts, key, one[1], one[0]), _offset(facts, key, other[1], other[0])
        if low is None or high is None:
            continue
        if high <= low:
            anomaly, words = f"int-nonmonotonic-{kind}", f"offset {high} after {low}"
        elif facts.logs[key].has_solid_between(low, high):
            between = facts.logs[key].solid_between(low, high)
            anomaly, words = f"int-{kind}-skip", f"offset {high} after {low}, {_some(between)} between"
        else:
            continue
        yield Case(
            anomaly=anomaly,
            identity=(operation.index, key, position),
            words=f"{_name(facts, number)}, key {write(key)}: {words}",
            operations=(number,),
            is_subscribed=is_subscribed,
            is_transaction=kind == "send" and operation.f == Action.TXN,
        )


def _step(
    facts: Facts, earlier: Number, number: Number, key: Key, before: _Pair, after: _Pair, is_subscribed: bool, kind: str
) -> Iterator[Case]:
    low, high = _offset(facts, key, before[1], before[0]), _offset(facts, key, after[1], after[0])
    if low is None or high is None:
        return
    if high <= low:
        anomaly, words = f"nonmonotonic-{kind}", f"begins at {high}, the one before ended at {low}"
    elif kind == "poll" and facts.logs[key].has_solid_between(low, high):
        between = facts.logs[key].solid_between(low, high)
        anomaly, words = "poll-skip", f"begins at {high}, the one before ended at {low}, {_some(between)} left out"
    else:
        return
    yield Case(
        anomaly=anomaly,
        identity=(facts.operations[earlier].index, facts.operations[number].index, key),
        words=f"{_name(facts, number)} of process {facts.operations[number].process}, key {write(key)}: {words}",
        operations=(earlier, number),
        is_subscribed=is_subscribed,
    )


def _some(offsets: list[int]) -> str:
    return f"{offsets[0]}" if len(offsets) == 1 else f"{offsets[0]} to {offsets[-1]} ({len(offsets)})"


__all__ = ["RULES", "Case", "Operation", "Rule", "cases_of"]
