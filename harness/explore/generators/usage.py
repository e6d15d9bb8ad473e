"""Usage that is lawful and rare: one setting at a time, and each call directly after each other one.

Of 77 public bugs about 14 need no fault, only a setting or calls in an unusual order. A drawn program meets a given
value, or a given pair of calls, by chance. These programs have each of them once, so that also a short search has had
them all. What is drawn goes on from there. Where the client can do several things at once, so do these programs:
records are given by several callers, a commit or a close comes while a poll waits, a poll or a flush is given up. Pure.
Shown by tests/harness/test_harness_explore_usage.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle, zip_longest
from typing import Final, TypeVar

from harness.explore.generators.programs import (
    CONSUMER,
    COOPERATIVE,
    COPIER,
    COPYING,
    PREFILLED,
    PRODUCER,
    SHORT_SESSION_TIMEOUT_MS,
    copied,
    copied_so_far,
    copier,
    for_protocol,
    group,
    two_copiers,
)
from harness.explore.trial.model import OWN, Do, Move, Program, Role, Takes

_WHILE_IDLE_MS: Final = 3_500
_SHORT: Final = (Do.READ_SHORT, Do.READ_NOW)
_CALLS_MAX: Final = 10  # in one program, so that one that fails is soon made small
# What users set, at values that make rare paths common. Each is alone in its program.
_OF_PRODUCERS: Final = (
    ("batch.size", "0"),
    ("buffer.memory", "300000"),  # the largest record of the program fits in
    ("enable.idempotence", "false"),
    ("linger.ms", "100"),
    ("max.in.flight.requests.per.connection", "1"),
    ("batch.size", "1000"),
    ("compression.type", "gzip"),
    ("compression.type", "lz4"),
    ("compression.type", "snappy"),
    ("compression.type", "zstd"),
    ("metadata.max.age.ms", "300000"),
    ("queue.buffering.max.messages", "10"),  # this and the next: librdkafka's
    ("sticky.partitioning.linger.ms", "0"),
)
_OF_CONSUMERS: Final = (
    ("max.poll.records", "1"),
    ("max.partition.fetch.bytes", "1"),
    ("fetch.min.bytes", "100000"),
    ("enable.partition.eof", "true"),
    ("group.instance.id", OWN),
    ("partition.assignment.strategy", "roundrobin"),
    ("partition.assignment.strategy", COOPERATIVE),
    ("isolation.level", "read_uncommitted"),
    ("auto.commit.interval.ms", "50"),
    ("max.partition.fetch.bytes", "1000"),
    ("fetch.max.wait.ms", "1500"),
    ("metadata.max.age.ms", "500"),
    ("check.crcs", "false"),
    ("fetch.wait.max.ms", "1500"),  # this and the next ones: librdkafka's
    ("queued.min.messages", "1"),
    ("queued.max.messages.kbytes", "1"),
)
# A copier is both, and keeps what its transactions need. The last ones are about who has which partition.
_OF_COPIERS_READING: Final = (
    ("max.poll.records", "1"),
    ("max.partition.fetch.bytes", "1"),
    ("fetch.min.bytes", "100000"),
    ("enable.partition.eof", "true"),
    ("queued.min.messages", "1"),
)
_OF_COPIERS_WRITING: Final = (
    ("linger.ms", "100"),
    ("max.in.flight.requests.per.connection", "1"),
    ("batch.size", "1000"),
    ("compression.type", "gzip"),
    ("queue.buffering.max.messages", "10"),
)
_OF_TWO_COPIERS: Final = (
    ("group.protocol", "consumer"),
    ("group.instance.id", OWN),
    ("partition.assignment.strategy", "roundrobin"),
    ("partition.assignment.strategy", COOPERATIVE),
)
# Connections that are closed because nobody has used them; beyond the request time-out, below which some refuse it.
_OF_IDLE: Final = (("connections.max.idle.ms", "2500"),)
# The protocol of KIP-848. Most clients have it as a second implementation beside the first one.
_OF_PROTOCOL: Final = (("group.protocol", "consumer"),)
# An application that takes longer for its records than it may: its client leaves the group, and has to come back.
_OF_SLOW: Final = (("max.poll.interval.ms", "4000"),)
_WHILE_SLOW_MS: Final = 6_500
Call = tuple[Move, ...]
T = TypeVar("T")


def usage(abilities: Collection[str], takes: Takes, seed: int) -> list[Program]:
    """Programs of settings and of calls in turn, those of producers, groups, transactions and copiers in turn."""
    can, rng = set(abilities), random.Random(seed)
    lists: list[list[Program]] = []
    if "produce" in can:
        bursts = [_burst(), *([_burst(_CALLERS)] if "callers" in can else [])]
        settings = _settings("producer", bursts, _OF_PRODUCERS, takes)
        idle = _settings("producer", [_idle_producer()], _OF_IDLE, takes)
        lists.append([*bursts[1:], _two_topics(), *settings, *idle])
        lists.append(_calls([*_PRODUCING, *_possible(_PRODUCING_AT_ONCE, can)], rng, _producing))
    if "subscribe" in can:
        readers = [group("group, automatic commits", is_automatic=True)]
        readers += [group("group, commits itself")] if "commit" in can else []
        settings = _settings("consumer", readers, _OF_CONSUMERS, takes)
        short = [
            _short_polls("group, short polls", Do.READ_SHORT, can_commit="commit" in can),
            _short_polls("group, polls that do not wait", Do.READ_NOW, can_commit="commit" in can),
        ]
        of_brokers = [
            replace(program, properties=for_protocol(program.properties))
            for program in _settings("consumer", [*short, *readers], _OF_PROTOCOL, takes)
        ]
        slow = _settings("consumer", _slow_readers("commit" in can), _OF_SLOW, takes)
        idle = _settings("consumer", [_idle_reader("commit" in can)], _OF_IDLE, takes)
        # What most clients have a second implementation for comes first, and what an application does in its own time.
        lists.append([*_in_turn([of_brokers, [*slow, *short]]), *settings, *idle])
        for number, is_automatic in enumerate([False, True] if "commit" in can else [True]):
            reading = partial(_reading, is_automatic=is_automatic)
            plain = _calls(_possible(_READING, can), rng, reading, number)
            is_known = takes("consumer", "isolation.level")
            between = partial(_reading_committed, reading)
            committed = _calls(_possible(_READING_COMMITTED, can), rng, between, number) if is_known else []
            of_topics = _calls(_possible(_READING_TOPICS, can), rng, partial(_reading_topics, reading), number)
            lists.append(_in_turn([plain, committed, of_topics]))
            if "overlap" in can:
                at_once = partial(reading, name="calls of a group at once")
                lists.append(_calls(_possible(_READING_AT_ONCE, can), rng, at_once, number))
    if "transactions" in can:
        lists.append(_calls(_IN_TRANSACTIONS, rng, _in_transactions))
    if can >= COPYING and takes("consumer", "isolation.level"):
        lists.append(_in_turn([_copiers(takes), _calls(_COPYING, rng, _copying)]))
    made = _in_turn(lists)
    return _every_second_one_by_one(made) if "one-by-one" in can else made


def _every_second_one_by_one(programs: Sequence[Program]) -> list[Program]:
    """Of those that read, and are not there for a setting, which stays alone in its program, or for short polls."""
    turn, found = cycle((True, False)), []
    for program in programs:
        is_short = any(move.do in _SHORT for move in program.moves)
        is_meant = program.role is not Role.PRODUCER and not is_short and not setting_of(program)
        found.append(one_by_one(program) if is_meant and next(turn) else program)
    return found


def one_by_one(program: Program) -> Program:
    """The same program with polls that give one record each."""
    name, _, number = program.name.rpartition(" ")
    name, number = (name, f" {number}") if number.isdigit() else (program.name, "")
    return replace(program, name=f"{name}, one by one{number}", is_one_by_one=True)


def _in_turn(lists: Sequence[Sequence[Program]]) -> list[Program]:
    return [program for one_of_each in zip_longest(*lists) for program in one_of_each if program is not None]


# --- settings ---------------------------------------------------------------------------------------------------------


def _settings(
    side: str, programs: Sequence[Program], settings: Sequence[tuple[str, str]], takes: Takes
) -> list[Program]:
    """Each setting with the first program, then with the next one. What a program has anyway is left out."""
    return [
        replace(program, name=f"{program.name}, {name}={value}", properties={**program.properties, name: value})
        for program in programs
        for name, value in settings
        if takes(side, name) and program.properties.get(name) != value
    ]


def setting_of(program: Program) -> str:
    """The property that a program of `usage` has to try, or an empty text."""
    name, is_one, value = program.name.rpartition(", ")[2].partition("=")
    return name if is_one and program.properties.get(name) == value else ""


def _burst(callers: int = 1) -> Program:
    """Records of all sizes, as fast as they are taken."""

    def send(count: int, size_bytes: int = 100) -> Move:
        return Move(do=Do.SEND, count=count, size_bytes=size_bytes, callers=callers)

    return Program(
        name="producer, burst" if callers == 1 else f"producer, burst of {callers} callers",
        role=Role.PRODUCER,
        moves=(
            *(send(100), send(3, 200_000), send(20, 5_000), send(5, 0), Move(do=Do.FLUSH)),
            *(send(1), Move(do=Do.WAIT, count=20)) * 5,
            # Much more than a small buffer holds, so that it is full again and again.
            *(send(100), *(send(40, 20_000),) * 6, Move(do=Do.FLUSH)),
        ),
        properties={**PRODUCER, "enable.idempotence": "true"},
    )


def _two_topics() -> Program:
    """Each command is for the other topic. The client learns of a topic with its first record."""
    some = (Move(do=Do.SEND, count=6), Move(do=Do.WAIT, count=60))
    return Program(
        name="producer, two topics",
        role=Role.PRODUCER,
        moves=(*some * 12, Move(do=Do.FLUSH), Move(do=Do.RESTART), *some * 6, Move(do=Do.FLUSH)),
        properties={**PRODUCER, "enable.idempotence": "true"},
        topics=2,
    )


def _idle_producer() -> Program:
    some, pause = Move(do=Do.SEND, count=5), Move(do=Do.WAIT, count=_WHILE_IDLE_MS)
    return Program(
        name="producer, idle",
        role=Role.PRODUCER,
        moves=(some, pause, some, Move(do=Do.FLUSH), pause, *(some, Move(do=Do.WAIT, count=50)) * 4, Move(do=Do.FLUSH)),
        properties={**PRODUCER, "enable.idempotence": "true"},
    )


def _idle_reader(can_commit: bool) -> Program:
    commit = (Move(do=Do.COMMIT),) if can_commit else ()
    some = (Move(do=Do.ARRIVE, count=10), Move(do=Do.READ), *commit)
    return Program(
        name="group, idle",
        role=Role.CONSUMER,
        moves=(
            Move(do=Do.SUBSCRIBE),
            Move(do=Do.READ, count=40),
            *commit,
            Move(do=Do.WAIT, count=_WHILE_IDLE_MS),
            *some * 3,
        ),
        properties={**CONSUMER, "enable.auto.commit": "false" if can_commit else "true"},
        prefilled=PREFILLED,
    )


def _slow_readers(can_commit: bool) -> list[Program]:
    """One that is alone, and one beside another member, which has all partitions meanwhile."""
    commit = (Move(do=Do.COMMIT),) if can_commit else ()
    begun = (Move(do=Do.SUBSCRIBE), Move(do=Do.READ, count=40), *commit)
    some = (Move(do=Do.WORK, count=_WHILE_SLOW_MS), Move(do=Do.ARRIVE, count=30), Move(do=Do.READ), *commit)
    beside = (Move(do=Do.SUBSCRIBE, member=1), Move(do=Do.ARRIVE, count=30), Move(do=Do.READ), *commit)
    last = (Move(do=Do.ARRIVE, count=10), Move(do=Do.READ))
    properties = {
        **CONSUMER,
        "session.timeout.ms": str(SHORT_SESSION_TIMEOUT_MS),  # The other one may not be longer in some libraries.
        "enable.auto.commit": "false" if can_commit else "true",
    }
    return [
        Program(name=name, role=Role.CONSUMER, moves=moves, properties=properties, prefilled=PREFILLED)
        for name, moves in (
            ("group, works long", (*begun, *some * 2, *last)),
            ("group of two, works long", (*begun, *beside, *some, *last)),
        )
    ]


def _short_polls(name: str, read: Do, *, can_commit: bool) -> Program:
    commit = (Move(do=Do.COMMIT),) if can_commit else ()
    some = (Move(do=Do.ARRIVE, count=10), Move(do=read), *commit)
    begun = (Move(do=Do.SUBSCRIBE), Move(do=read, count=40), *commit)
    return Program(
        name=name,
        role=Role.CONSUMER,
        moves=(*begun, *some, *_RESTART, *some * 2),
        properties={**CONSUMER, "enable.auto.commit": "false" if can_commit else "true"},
        prefilled=PREFILLED,
    )


def _copiers(takes: Takes) -> list[Program]:
    writing, reading = (
        _settings(side, [copier()], settings, takes)
        for side, settings in (("producer", _OF_COPIERS_WRITING), ("consumer", _OF_COPIERS_READING))
    )
    shared = [
        replace(program, properties=for_protocol(program.properties))
        for program in _settings("consumer", [two_copiers()], _OF_TWO_COPIERS, takes)
    ]
    slow = _settings("consumer", [_slow_copier()], _OF_SLOW, takes)
    of_topics = [replace(each, name=f"{each.name}, two topics", topics=2) for each in (copier(), two_copiers())]
    return _in_turn([[*slow, *shared], of_topics, reading, writing])


def _slow_copier() -> Program:
    """It works for longer than it may, once with copies that are not committed and once with their offsets sent too.
    Another member has its partitions meanwhile."""
    work, arrive = Move(do=Do.WORK, count=_WHILE_SLOW_MS), Move(do=Do.ARRIVE, count=20)
    begin, copy, send, commit = copied(5)
    return Program(
        name="copies in transactions, works long",
        role=Role.COPIER,
        moves=(
            *(Move(do=Do.SUBSCRIBE), *copied(10), Move(do=Do.SUBSCRIBE, member=1), *copied(10, member=1)),
            *(begin, copy, work, send, commit, arrive, *copied(10), *copied(10, member=1)),
            *(begin, copy, send, work, commit, arrive, *copied(10), *copied(0, member=1)),
        ),
        properties={**COPIER, "session.timeout.ms": str(SHORT_SESSION_TIMEOUT_MS)},
        prefilled=PREFILLED,
    )


# --- calls ------------------------------------------------------------------------------------------------------------

_RESTART: Final = (Move(do=Do.RESTART), Move(do=Do.SUBSCRIBE))
_READING: Final[tuple[Call, ...]] = (
    (Move(do=Do.SEEK, partition=0, count=10),),
    (Move(do=Do.SEEK, partition=1, count=-1),),
    (Move(do=Do.SEEK, partition=0, count=3), Move(do=Do.SEEK, partition=1, count=3)),
    (Move(do=Do.PAUSE, partition=0),),
    (Move(do=Do.RESUME, partition=0),),
    (Move(do=Do.COMMIT),),
    (Move(do=Do.COMMIT, count=3),),
    (Move(do=Do.GLANCE, count=500),),
    (Move(do=Do.POLL, count=1),),
    (Move(do=Do.ARRIVE, count=5),),
    (Move(do=Do.READ, count=7),),
    _RESTART,
)
_FIRST, _SECOND = Move(do=Do.SUBSCRIBE, topic=0), Move(do=Do.SUBSCRIBE, topic=1)
_READING_TOPICS: Final[tuple[Call, ...]] = (
    (Move(do=Do.SUBSCRIBE),),
    (_FIRST,),
    (_SECOND,),
    (Move(do=Do.SEEK, partition=0, count=5), Move(do=Do.SEEK, partition=3, count=5)),
    (Move(do=Do.COMMIT),),
    (Move(do=Do.ARRIVE, count=12),),
    (Move(do=Do.READ, count=7),),
)
_READING_AT_ONCE: Final[tuple[Call, ...]] = (
    (Move(do=Do.CANCEL_POLL),),
    (Move(do=Do.CANCEL_POLL, count=30),),
    (Move(do=Do.COMMIT_IN_POLL),),
    (Move(do=Do.COMMIT_HALVES),),
    (Move(do=Do.RESTART_IN_POLL), Move(do=Do.SUBSCRIBE)),
    (Move(do=Do.SEEK, partition=0, count=10),),
    (Move(do=Do.ARRIVE, count=5),),
    (Move(do=Do.READ, count=7),),
)
# Between transactions of others: what is given up and their markers are in the log, and nobody is given them. It is
# more than one fetch, which holds a kilobyte here: then a whole fetch has nothing for the reader.
_GIVEN_UP: Final = Move(do=Do.ARRIVE_ABORTED, count=30, size_bytes=300)
_READING_COMMITTED: Final[tuple[Call, ...]] = (
    (_GIVEN_UP,),
    (Move(do=Do.ARRIVE_COMMITTED, count=9),),
    (Move(do=Do.ARRIVE, count=5),),
    (Move(do=Do.POLL, count=1),),
    (Move(do=Do.READ),),
    (Move(do=Do.COMMIT),),
    _RESTART,
)
_PRODUCING: Final[tuple[Call, ...]] = (
    (Move(do=Do.SEND, count=1),),
    (Move(do=Do.SEND, count=100),),
    (Move(do=Do.SEND, count=3, size_bytes=200_000),),
    (Move(do=Do.SEND, count=5, size_bytes=0),),
    (Move(do=Do.FLUSH),),
    (Move(do=Do.WAIT, count=20),),
    (Move(do=Do.RESTART),),
    (Move(do=Do.KILL),),
)
_CALLERS: Final = 4
_PRODUCING_AT_ONCE: Final[tuple[Call, ...]] = (
    (Move(do=Do.SEND, count=100, callers=_CALLERS),),
    (Move(do=Do.SEND, count=20), Move(do=Do.CANCEL_FLUSH)),
)
_SENDS: Final = (Move(do=Do.SEND, count=4), Move(do=Do.SEND, count=4))
_BEGIN, _COMMIT, _ABORT = Move(do=Do.BEGIN), Move(do=Do.COMMIT_TRANSACTION), Move(do=Do.ABORT_TRANSACTION)
_IN_TRANSACTIONS: Final[tuple[Call, ...]] = (
    (_BEGIN, *_SENDS, _COMMIT),
    (_BEGIN, *_SENDS, _ABORT),
    (_BEGIN, _COMMIT),
    (_BEGIN, _ABORT),
    (_BEGIN, *_SENDS, Move(do=Do.FLUSH), _ABORT),
    (_BEGIN, *_SENDS, Move(do=Do.RESTART)),
    (_BEGIN, *_SENDS, Move(do=Do.FLUSH), Move(do=Do.KILL)),
)


# Transactions of a copier, in each order. Between them others write in transactions, which are given up too.
_OTHERS: Final = (_GIVEN_UP, Move(do=Do.ARRIVE_COMMITTED, count=9))
_COPYING: Final[tuple[Call, ...]] = (
    copied(4),
    copied(4, end=Do.ABORT_TRANSACTION),
    (_BEGIN, _COMMIT),
    (_BEGIN, _ABORT),
    (*copied_so_far(4), *copied(4)[1:]),  # The offsets are sent twice.
    (_BEGIN, Move(do=Do.COPY, count=4), _ABORT),
    (*copied_so_far(4), *_RESTART),
    (*copied_so_far(4), Move(do=Do.KILL), Move(do=Do.SUBSCRIBE)),
    _OTHERS,
)


def each_after_each(things: Sequence[T]) -> list[T]:
    """A sequence in which each thing comes directly after each, itself too, exactly once: a cycle of de Bruijn of order
    2, with its first thing again at the end."""
    found = [thing for number, one in enumerate(things) for thing in _with_the_rest(one, things[number + 1 :])]
    return [*found, *found[:1]]


def _with_the_rest(one: T, rest: Sequence[T]) -> Iterator[T]:
    yield one
    for other in rest:
        yield one
        yield other


def _calls(
    calls: Sequence[Call], rng: random.Random, program: Callable[[Sequence[Call]], Program], place: int = 0
) -> list[Program]:
    """Programs that have each call directly after each other one, in an order that is drawn. The last call of a program
    is the first one of the next, so that no pair is cut in two."""
    walk = each_after_each(rng.sample(calls, len(calls)))
    parts = [walk[start : start + _CALLS_MAX] for start in range(0, len(walk) - 1, _CALLS_MAX - 1)]
    made = [program(part) for part in parts]
    return [replace(each, name=f"{each.name} {number}") for number, each in enumerate(made, 1 + place * len(made))]


_NEEDS: Final = {
    Do.SEEK: {"seek"},
    Do.PAUSE: {"pause"},
    Do.RESUME: {"pause"},
    Do.COMMIT: {"commit"},
    Do.COMMIT_IN_POLL: {"commit", "overlap"},
    Do.COMMIT_HALVES: {"commit", "overlap"},
    Do.RESTART_IN_POLL: {"overlap"},
    Do.CANCEL_POLL: {"cancel"},
    Do.CANCEL_FLUSH: {"cancel"},
}


def _possible(calls: Sequence[Call], can: set[str]) -> list[Call]:
    return [call for call in calls if all(_is_possible(move, can) for move in call)]


def _is_possible(move: Move, can: set[str]) -> bool:
    return _NEEDS.get(move.do, set()) <= can and (move.callers == 1 or "callers" in can)


def _reading(calls: Sequence[Call], *, is_automatic: bool, name: str = "calls of a group") -> Program:
    commit = () if is_automatic else (Move(do=Do.COMMIT),)
    begun = (Move(do=Do.SUBSCRIBE), Move(do=Do.READ, count=40), *commit)
    ended = (Move(do=Do.RESUME, partition=0),) if any(move.do is Do.PAUSE for call in calls for move in call) else ()
    return Program(
        name=name,
        role=Role.CONSUMER,
        moves=(*begun, *(move for call in calls for move in call), *ended, Move(do=Do.READ)),
        properties={
            **CONSUMER,
            "enable.auto.commit": "true" if is_automatic else "false",
            **({"auto.commit.interval.ms": "50"} if is_automatic else {}),
        },
        prefilled=PREFILLED,
    )


def _reading_topics(reading: Callable[[Sequence[Call]], Program], calls: Sequence[Call]) -> Program:
    """Of two topics. At the end it has both again."""
    program = reading(calls)
    both = (Move(do=Do.SUBSCRIBE), Move(do=Do.ARRIVE, count=12), Move(do=Do.READ))
    return replace(program, name="calls of a group, two topics", moves=(*program.moves, *both), partitions=2, topics=2)


def _reading_committed(reading: Callable[[Sequence[Call]], Program], calls: Sequence[Call]) -> Program:
    """At the end something is given that stands behind all of it: who does not get past that never gets it."""
    program = reading(calls)
    behind = (_GIVEN_UP, Move(do=Do.READ), Move(do=Do.ARRIVE, count=5), Move(do=Do.READ))
    return replace(
        program,
        name="calls of a group, transactions of others",
        moves=(*program.moves, *behind),
        properties={**program.properties, "isolation.level": "read_committed", "max.partition.fetch.bytes": "1000"},
    )


def _producing(calls: Sequence[Call]) -> Program:
    return Program(
        name="calls of a producer",
        role=Role.PRODUCER,
        moves=tuple(move for call in calls for move in call),
        properties={**PRODUCER, "enable.idempotence": "true", "linger.ms": "5"},
    )


def _in_transactions(calls: Sequence[Call]) -> Program:
    return Program(
        name="calls in transactions",
        role=Role.PRODUCER,
        moves=tuple(move for call in calls for move in call),
        properties={**PRODUCER, "enable.idempotence": "true", "transaction.timeout.ms": "40000"},
    )


def _copying(calls: Sequence[Call]) -> Program:
    """Fetches are small, so that some have nothing but what was given up."""
    moves = (move for call in calls for move in call)
    return Program(
        name="calls of a copier",
        role=Role.COPIER,
        moves=(Move(do=Do.SUBSCRIBE), *copied(10), *moves, *copied(0)),
        properties={**COPIER, "max.partition.fetch.bytes": "1000"},
        prefilled=PREFILLED,
    )
