"""Histories for the tests of reports/jepsen: calm ones, anomalies planted into them, and random disorder.

A plant tells exactly what a check must find because of it. Each has keys, values and processes of its own, so several
in one history do not meet. `disorder` plants nothing: it has few keys, values and offsets, so everything meets.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from reports.jepsen.operations import Action, Operation, Outcome, Poll, Send

Pair = tuple[int | None, Any]
OK, INFO, FAIL = Outcome.OK, Outcome.INFO, Outcome.FAIL
SIZE_MAX: Final = 5


@dataclass(slots=True)
class Book:
    """A history that is being written, and what it is to show."""

    rng: random.Random
    lines: list[Operation] = field(default_factory=list)
    expected: dict[str, set[tuple[Any, ...]]] = field(default_factory=dict)
    _values: int = 0
    _keys: int = 100
    _processes: int = 100

    def do(
        self,
        f: str,
        value: Sequence[Send | Poll] = (),
        *,
        process: int | None = None,
        outcome: Outcome = OK,
        keys: tuple[Any, ...] = (),
        **more: Any,
    ) -> int:
        """Invokes and completes an operation, and returns the index of its completion."""
        who = self.process() if process is None else process
        at = len(self.lines)
        asked = tuple(Poll(()) if isinstance(part, Poll) else part._replace(offset=None) for part in value)
        line = Operation(
            index=at, time_ns=at * 1_000, type=Outcome.INVOKE, process=who, f=f, value=asked, keys=keys,
            seeks=more.pop("seeks", False),
        )  # fmt: skip
        self.lines.append(line)
        self.lines.append(replace(line, index=at + 1, time_ns=at * 1_000 + 1, type=outcome, value=tuple(value), **more))
        return at + 1

    def send(self, key: Any, offset: int | None, **more: Any) -> str:
        """One value alone."""
        value = self.value()
        self.do(Action.SEND, [Send(key, offset, value)], **more)
        return value

    def poll(self, key: Any, pairs: Sequence[Pair], **more: Any) -> int:
        return self.do(Action.POLL, [Poll(((key, tuple(pairs)),))], **more)

    def value(self) -> str:
        self._values += 1
        return f"v{self._values}"

    def key(self) -> int:
        self._keys += 1
        return self._keys

    def process(self) -> int:
        self._processes += 1
        return self._processes

    def expect(self, anomaly: str, *identity: Any) -> None:
        self.expected.setdefault(anomaly, set()).add(identity)

    def size(self) -> int:
        return self.rng.randint(1, SIZE_MAX)


def calm(book: Book, *, steps: int, keys: int = 3) -> None:
    """Producers, transactions and consumers one after the other, with gaps where markers stand; then a read to the
    end."""
    rng = book.rng
    logs: dict[int, list[tuple[int, str]]] = {key: [] for key in range(keys)}
    ends = dict.fromkeys(logs, 0)
    positions: dict[int, dict[int, int]] = {}
    for process in (10, 11):
        book.do(rng.choice((Action.ASSIGN, Action.SUBSCRIBE)), process=process, keys=tuple(logs))
        positions[process] = dict.fromkeys(logs, 0)
    for _ in range(steps):
        kind = rng.choice(("send", "send", "txn", "poll"))
        if kind == "poll":
            process = rng.choice(list(positions))
            reads = {key: tuple(log[positions[process][key] :]) for key, log in logs.items() if rng.random() < 0.7}
            for key in reads:
                positions[process][key] = len(logs[key])
            book.do(Action.POLL, [Poll(tuple((key, pairs) for key, pairs in reads.items() if pairs))], process=process)
            continue
        outcome = rng.choice((OK, OK, OK, INFO, FAIL))
        parts: list[Send] = []
        for key in sorted(rng.choices(list(logs), k=1 if kind == "send" else rng.randint(1, 4))):
            parts.append(Send(key, ends[key], book.value()))
            ends[key] += 1
        if outcome is not FAIL:
            for part in parts:
                assert part.offset is not None
                logs[part.key].append((part.offset, part.value))
        is_told = outcome is OK and rng.random() < 0.8
        told = parts if is_told else [part._replace(offset=None) for part in parts]
        # Each process does one thing, so nobody's sends are compared with those before.
        book.do(Action.TXN if kind == "txn" else Action.SEND, told, outcome=outcome)
        for key in {part.key for part in parts}:
            ends[key] += rng.randint(0, 1)  # a marker
    final = book.process()
    book.do(Action.ASSIGN, process=final, keys=tuple(logs), seeks=True)
    for key, log in logs.items():
        book.poll(key, log, process=final, read_to_end=(key,))


def lost(book: Book) -> None:
    """Values in the middle of a log; each stretch that is left has a reader of its own, so nobody skips."""
    key, gone = book.key(), book.size()
    values = [(offset, book.send(key, offset)) for offset in range(gone * 2 + 1)]
    for offset, value in values:
        if offset % 2:
            book.expect("lost-write", key, value)
        else:
            book.poll(key, [(offset, value)])


def lost_at_the_end(book: Book) -> None:
    """Nobody was told where they are, or they were the last; but the key was read to its end."""
    key = book.key()
    there = [(offset, book.send(key, offset)) for offset in range(2)]
    for number in range(book.size()):
        book.expect("lost-write", key, book.send(key, 2 + number if number % 2 else None))
    book.poll(key, there, read_to_end=(key,))


def duplicated(book: Book) -> None:
    key, size = book.key(), book.size()
    values = [(offset, book.send(key, offset)) for offset in range(size)]
    again = [(size + offset, value) for offset, value in values]
    book.poll(key, [*values, *again])
    for _, value in values:
        book.expect("duplicate", key, value)


def inconsistent(book: Book) -> None:
    key, size = book.key(), book.size()
    for own in range(2):
        values = [(offset, book.send(key, offset)) for offset in range(size)]
        book.poll(key, values)
        for offset in range(size if own else 0):
            book.expect("inconsistent-offsets", key, offset)


def aborted_read(book: Book) -> None:
    key, size = book.key(), book.size()
    sends = [Send(key, None, book.value()) for _ in range(size)]
    book.do(book.rng.choice((Action.TXN, Action.SEND)), sends, outcome=FAIL)
    book.poll(key, [(offset, send.value) for offset, send in enumerate(sends)])
    for send in sends:
        book.expect("G1a", key, send.value)


def torn(book: Book) -> None:
    """A transaction over several keys. Some of its values are missing, and readers came past them."""
    rng, missing, there = book.rng, book.size(), book.size()
    outcome = rng.choice((OK, INFO, FAIL))
    sends = [Send(book.key(), 0, book.value()) for _ in range(missing + there)]
    index = book.do(Action.TXN, sends, outcome=outcome)
    for number, send in enumerate(sends):
        later = (1, book.send(send.key, 1))
        if number >= missing:
            book.poll(send.key, [(0, send.value), later])
            if outcome is FAIL:
                book.expect("G1a", send.key, send.value)
        else:
            book.poll(send.key, [later])
            if outcome is not FAIL:
                book.expect("lost-write", send.key, send.value)
    book.expect("torn-txn", index)


def precommitted_read(book: Book) -> None:
    key = book.key()
    for offset in range(book.size()):
        value = book.value()
        index = book.do(Action.TXN, [Send(key, offset, value), Poll(((key, ((offset, value),)),))])
        book.expect("precommitted-read", index, key, value)


def unexpected(book: Book) -> None:
    key = book.key()
    pairs = [(offset, book.value()) for offset in range(book.size())]
    book.poll(key, pairs)
    for _, value in pairs:
        book.expect("unexpected-read", key, value)


def unseen(book: Book) -> None:
    key = book.key()
    book.poll(key, [(0, book.send(key, 0))])
    for number in range(book.size()):
        book.expect("unseen", key, book.send(key, 1 + number if number % 2 else None))


def poll_skip(book: Book) -> None:
    key, size = book.key(), book.size()
    values = [(offset, book.send(key, offset)) for offset in range(size * 2 + 1)]
    book.poll(key, values)
    process = book.process()
    book.do(book.rng.choice((Action.ASSIGN, Action.SUBSCRIBE)), process=process, keys=(key,))
    polls = [book.poll(key, [pair], process=process) for pair in values[::2]]
    for before, after in pairwise(polls):
        book.expect("poll-skip", before, after, key)


def polls_back(book: Book) -> None:
    key, size = book.key(), book.size()
    values = [(offset, book.send(key, offset)) for offset in range(3)]
    process = book.process()
    polls = [book.poll(key, values, process=process) for _ in range(size + 1)]
    for before, after in pairwise(polls):
        book.expect("nonmonotonic-poll", before, after, key)


def within_a_poll(book: Book) -> None:
    """It leaves one out, and goes back for it. What was rebalanced meanwhile does not count."""
    key = book.key()
    values = [(offset, book.send(key, offset)) for offset in range(3)]
    for number in range(book.size()):
        rebalanced = (key,) if number % 2 else ()
        index = book.poll(key, [values[0], values[2], values[1]], rebalanced=rebalanced)
        if not rebalanced:
            book.expect("int-poll-skip", index, key, 0)
            book.expect("int-nonmonotonic-poll", index, key, 1)


def sends_back(book: Book) -> None:
    key, size, process = book.key(), book.size(), book.process()
    pairs = []
    for offset in range(size, -1, -1):
        pairs.append((offset, book.send(key, offset, process=process)))
        if offset < size:
            index = len(book.lines) - 1
            book.expect("nonmonotonic-send", index - 2, index, key)
    book.poll(key, pairs[::-1])


def within_a_send(book: Book) -> None:
    key, size = book.key(), book.size()
    sends = [Send(key, offset, book.value()) for offset in range(size, -1, -1)]
    index = book.do(Action.TXN, sends)
    book.poll(key, [(send.offset, send.value) for send in sends[::-1]])
    for position in range(size):
        book.expect("int-nonmonotonic-send", index, key, position)


def interleaved(book: Book) -> None:
    """Others stand between the values of one transaction: that is a circle of writes as well."""
    key, size = book.key(), book.size()
    sends = [Send(key, offset * 2, book.value()) for offset in range(size + 1)]
    index = book.do(Action.TXN, sends)
    pairs: list[Pair] = [(send.offset, send.value) for send in sends]
    others = []
    for position in range(size):
        pairs.append((position * 2 + 1, book.send(key, position * 2 + 1)))
        others.append(len(book.lines) - 1)
        book.expect("int-send-skip", index, key, position)
    book.poll(key, sorted(pairs))
    book.expect("G0", index, *others)


def ring(book: Book, kinds: Sequence[str]) -> tuple[int, ...]:
    """A circle of transactions, whose steps are of these kinds. Returns their indexes."""
    size = len(kinds)
    keys = [book.key() for _ in kinds]
    values = [book.value() for _ in kinds]
    parts: list[list[Send | Poll]] = [[Send(keys[number], 0, values[number])] for number in range(size)]
    seconds: dict[int, str] = {}
    for number, kind in enumerate(kinds):
        after = (number + 1) % size
        if kind == "ww":
            seconds[number] = book.value()
            parts[after].append(Send(keys[number], 1, seconds[number]))
        else:
            parts[after].append(Poll(((keys[number], ((0, values[number]),)),)))
    indexes = tuple(book.do(Action.TXN, part) for part in parts)
    for number, kind in enumerate(kinds):
        pairs: list[Pair] = [(0, values[number])]
        book.poll(keys[number], [*pairs, (1, seconds[number])] if kind == "ww" else pairs)
    return indexes


def write_cycle(book: Book) -> None:
    book.expect("G0", *sorted(ring(book, ["ww"] * (book.size() + 1))))


def read_cycle(book: Book) -> None:
    book.expect("G1c", *sorted(ring(book, ["wr"] * (book.size() + 1))))


def mixed_cycle(book: Book) -> None:
    kinds = ["ww", "wr", *book.rng.choices(("ww", "wr"), k=book.size() - 1)]
    book.rng.shuffle(kinds)
    book.expect("G1c", *sorted(ring(book, kinds)))


def intermediate_read(book: Book) -> None:
    key, size = book.key(), book.size()
    sends = [Send(key, offset, book.value()) for offset in range(size + 1)]
    book.do(Action.TXN, sends)
    pairs = [(send.offset, send.value) for send in sends]
    book.poll(key, pairs)
    for number in range(1, size + 1):
        book.expect("G1b", book.poll(key, pairs[:number]), key)


PLANTS: Final[tuple[Callable[[Book], None], ...]] = (
    lost, lost_at_the_end, duplicated, inconsistent, aborted_read, torn, precommitted_read, unexpected, unseen,
    poll_skip, polls_back, within_a_poll, sends_back, within_a_send, interleaved, write_cycle, read_cycle, mixed_cycle,
    intermediate_read,
)  # fmt: skip


def planted(seed: int) -> Book:
    """A calm history with one to three plants. Every plant comes once in as many seeds as there are plants."""
    rng = random.Random(f"planted {seed}")
    book = Book(rng)
    calm(book, steps=rng.randint(0, 12))
    chosen = [PLANTS[seed % len(PLANTS)], *rng.choices(PLANTS, k=rng.randint(0, 2))]
    for plant in chosen:
        plant(book)
    return book


def disorder(seed: int) -> list[Operation]:
    """Completed operations at random over so few keys, values and offsets that all rules meet."""
    rng = random.Random(f"disorder {seed}")
    keys, offsets = list(range(rng.randint(1, 3))), rng.randint(2, 8)
    values: list[Any] = [f"v{number}" for number in range(rng.randint(3, 12))]
    operations: list[Operation] = []

    def offset() -> int | None:
        return rng.randrange(offsets) if rng.random() < 0.85 else None

    def reads() -> Poll:
        chosen = rng.sample(keys, rng.randint(0, len(keys)))
        return Poll(
            tuple((key, tuple((offset(), rng.choice(values)) for _ in range(rng.randint(0, 4)))) for key in chosen)
        )

    unused = [(key, value) for key in keys for value in values]
    rng.shuffle(unused)
    for index in range(rng.randint(2, 14)):
        f = rng.choice((*(Action.TXN, Action.SEND, Action.POLL) * 3, Action.ASSIGN, Action.SUBSCRIBE, Action.CRASH))
        parts: list[Send | Poll] = []
        if f in (Action.TXN, Action.SEND):
            for _ in range(rng.randint(1, 3)):
                is_new = unused and rng.random() < 0.95
                key, value = unused.pop() if is_new else (rng.choice(keys), rng.choice(values))
                parts.append(Send(key, offset(), value))
        if f in (Action.TXN, Action.POLL):
            parts += [reads() for _ in range(rng.randint(1, 2))]
        rng.shuffle(parts)
        is_moving = f in (Action.TXN, Action.SEND, Action.POLL)
        operations.append(
            Operation(
                index=index * 2 + 1,
                time_ns=index,
                type=rng.choice((OK, OK, OK, INFO, FAIL)),
                process=rng.randrange(3),
                f=f,
                value=tuple(parts),
                keys=tuple(rng.sample(keys, rng.randint(0, len(keys)))) if not is_moving and f != Action.CRASH else (),
                seeks=f == Action.ASSIGN and rng.random() < 0.3,
                rebalanced=tuple(rng.sample(keys, 1)) if is_moving and rng.random() < 0.1 else (),
                read_to_end=tuple(rng.sample(keys, 1)) if is_moving and rng.random() < 0.1 else (),
            )
        )
    return operations
