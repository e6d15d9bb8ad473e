"""Sizes at their limits, crossed with refusals that last for seconds.

Many bugs of producers need both: a batch as large as it may be, and a broker that refuses it until it is healed. Then a
batch is made again, cut in two, or given up while its neighbours are under way, again and again. With consumers it is a
record larger than a fetch, many partitions with some of them paused, and a position that the log has deleted. With
transactions it is one over many partitions, or one whose records have no time left, and a copier has both sides. In
the systematic pass (systematic.py) such a pair is one of some hundred, so that a short search never came to it. Here it
comes in the first round. Pure. Shown by tests/harness/test_harness_explore_extremes.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from harness.explore.generators.programs import CONSUMER, COPIER, COPYING, PREFILLED, PRODUCER, copied
from harness.explore.generators.systematic import lasting
from harness.explore.trial.model import Do, Move, Program, Role, Takes, Trial
from harness.explore.trial.requests_sent import Use

_BATCH_BYTES: Final = "1000000"  # near the limit of a request, which is 1,000,000 in some libraries and 1 MiB in others
_RECORD_BYTES: Final = 900_000
_MANY: Final = 24  # partitions
_PAUSED: Final = 10
# The APIs whose requests are about many records or many partitions, say from where a reader goes on, or end what was
# sent.
_APIS: Final = (
    "Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "OffsetCommit", "OffsetFetch",
    "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn",
)  # fmt: skip
# Asked only after a leader has moved, so quiet runs do not show it. All clients that ask at all know this version.
_AFTER_A_MOVE: Final = {"OffsetForLeaderEpoch": Use(requests=1, version=3)}

# Closed segments are compacted, and a segment is closed by the first record that comes so much later.
COMPACTED: Final = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}

UsesOf = Callable[[Program], Mapping[str, Use]]


def extremes(abilities: Collection[str], takes: Takes) -> list[Program]:
    """Programs whose batches, records, fetches or numbers of partitions are at a limit; those of producers, groups,
    transactions and copiers in turn."""
    can = set(abilities)
    producers = _producers(takes) if "produce" in can else []
    groups = _groups(can, takes) if "subscribe" in can else []
    transactions = _transactions(takes) if "transactions" in can else []
    can_copy = can >= COPYING and takes("consumer", "isolation.level")
    parts = zip_longest(producers, groups, transactions, _copiers() if can_copy else [])
    return [program for one_of_each in parts for program in one_of_each if program is not None]


def crossed(programs: Sequence[Program], uses_of: UsesOf, seed: int) -> list[Trial]:
    """Each program quietly, and with each refusal that lasts; the programs in turn. `uses_of`: what programs of this
    kind send. First comes a refusal, because a limit alone is what users meet every day."""
    lists: list[list[Trial]] = []
    for number, program in enumerate(programs):
        moved = _AFTER_A_MOVE if any(move.do is Do.MOVE_LEADER for move in program.changes) else {}
        uses = {api: use for api, use in {**moved, **uses_of(program)}.items() if api in _APIS}
        disturbed = [
            Trial(program=program, disturbance=one)
            for one in lasting(program, uses, random.Random(seed * 1_013 + number))
        ]
        lists.append([*disturbed[:2], Trial(program=program), *disturbed[2:]])
    return [trial for one_of_each in zip_longest(*lists) for trial in one_of_each if trial is not None]


# --- producers --------------------------------------------------------------------------------------------------------


def _producers(takes: Takes) -> list[Program]:
    made = [
        _producer(
            "producer, many records a batch",
            # A batch ends with the flush, and not in the middle of a lot because the host is busy.
            [Move(do=Do.SEND, count=10_000, size_bytes=1), Move(do=Do.FLUSH)] * 2,
            {"linger.ms": "5000", "batch.size": _BATCH_BYTES, "retry.backoff.ms": "10"},
            partitions=1,
        ),
        _producer(
            "producer, the topic takes less than a batch",
            [Move(do=Do.SEND, count=100, size_bytes=1_000), Move(do=Do.WAIT, count=100)] * 4,
            {"linger.ms": "100", "batch.size": "200000"},
            topic={"max.message.bytes": "20000"},
        ),
        _producer(
            "producer, batches of a megabyte",
            [Move(do=Do.SEND, count=300, size_bytes=10_000), Move(do=Do.WAIT, count=300)] * 3,
            {"linger.ms": "200", "batch.size": _BATCH_BYTES},
            partitions=2,
        ),
    ]
    if takes("producer", "delivery.timeout.ms"):
        # It ends while the broker still refuses, with batches before and behind.
        made.append(
            _producer(
                "producer, little time for each record",
                [Move(do=Do.SEND, count=20), Move(do=Do.WAIT, count=100)] * 60,
                {"request.timeout.ms": "1000", "delivery.timeout.ms": "2500", "linger.ms": "20"},
            )
        )
    made.append(
        _producer(
            "producer, many partitions",
            [Move(do=Do.SEND, count=480), Move(do=Do.WAIT, count=100)] * 6,
            {"linger.ms": "50", "batch.size": "1000"},
            partitions=_MANY,
        )
    )
    if takes("producer", "compression.type"):
        made.append(
            _producer(
                "producer, compressed batches larger than a request",
                [Move(do=Do.SEND, count=400, size_bytes=10_000), Move(do=Do.WAIT, count=300)] * 2,
                {"linger.ms": "500", "compression.type": "gzip", "batch.size": "4000000"},
                partitions=1,
            )
        )
    made.append(
        _producer(
            "producer, records of a megabyte",
            [Move(do=Do.SEND, count=2, size_bytes=_RECORD_BYTES), Move(do=Do.SEND, count=5)] * 4,
            {},
        )
    )
    return made


def _producer(
    name: str,
    moves: Sequence[Move],
    properties: Mapping[str, str],
    *,
    partitions: int = 3,
    topic: Mapping[str, str] | None = None,
) -> Program:
    return Program(
        name=name,
        role=Role.PRODUCER,
        moves=tuple(moves) if moves[-1].do is Do.FLUSH else (*moves, Move(do=Do.FLUSH)),
        properties={**PRODUCER, "enable.idempotence": "true", **properties},
        partitions=partitions,
        topic=topic or {},
    )


def _transactions(takes: Takes) -> list[Program]:
    """The second one is given up while most of it is under way."""

    def one(end: Do) -> list[Move]:
        return [
            *(Move(do=Do.BEGIN), Move(do=Do.SEND, count=240), Move(do=Do.SEND, count=4, size_bytes=200_000)),
            *(Move(do=Do.SEND, count=240), Move(do=end), Move(do=Do.WAIT, count=100)),
        ]

    moves = [*one(Do.COMMIT_TRANSACTION), *one(Do.ABORT_TRANSACTION), *one(Do.COMMIT_TRANSACTION)]
    usual = {"transaction.timeout.ms": "40000"}
    made = [_producer("transactions over many partitions", moves, {**usual, "linger.ms": "20"}, partitions=_MANY)]
    if takes("producer", "delivery.timeout.ms"):
        little = {"request.timeout.ms": "1000", "delivery.timeout.ms": "2500", "linger.ms": "20"}
        some = [Move(do=Do.SEND, count=20), Move(do=Do.WAIT, count=200)] * 8
        again = [Move(do=Do.BEGIN), *some, Move(do=Do.COMMIT_TRANSACTION)] * 4
        made.append(_producer("transactions, little time for each record", again, {**usual, **little}))
    return [replace(program, moves=program.moves[:-1]) for program in made]  # the end of a transaction is its flush


# --- groups -----------------------------------------------------------------------------------------------------------

_BEGIN, _READ = Move(do=Do.SUBSCRIBE), Move(do=Do.READ)
_RESTART: Final = (Move(do=Do.RESTART), _BEGIN)


def _groups(can: set[str], takes: Takes) -> list[Program]:
    commit = [Move(do=Do.COMMIT)] if "commit" in can else []
    made = [_records_larger_than_a_fetch(commit), _deleted_under_it(commit)]
    if "pause" in can:
        made.append(_many_partitions(commit))
    if takes("consumer", "isolation.level"):
        made += [_given_up_by_others(commit), _compacted(commit, can_seek="seek" in can)]
    made += [_led_by_others(commit), _large_fetches(commit)]
    kept = {"enable.auto.commit": "false" if commit else "true", "auto.commit.interval.ms": "200"}
    return [replace(program, properties={**CONSUMER, **kept, **program.properties}) for program in made]


def _group(
    name: str, moves: Sequence[Move], properties: Mapping[str, str], *, partitions: int = 3, prefilled: int = 0
) -> Program:
    return Program(
        name=name,
        role=Role.CONSUMER,
        moves=tuple(moves),
        properties=properties,
        partitions=partitions,
        prefilled=prefilled,
    )


def _records_larger_than_a_fetch(commit: Sequence[Move]) -> Program:
    """A broker gives the first record all the same (KIP-74), so that nobody stands still."""
    large = Move(do=Do.ARRIVE, count=6, size_bytes=200_000)
    return _group(
        "group, records larger than a fetch",
        [
            *(large, Move(do=Do.ARRIVE, count=30), _BEGIN, Move(do=Do.READ, count=10), *commit),
            *(large, _READ, *commit, *_RESTART, Move(do=Do.ARRIVE, count=6), large, _READ, *commit),
        ],
        {"max.partition.fetch.bytes": "1000", "fetch.max.bytes": _BATCH_BYTES},
    )


def _deleted_under_it(commit: Sequence[Move]) -> Program:
    """Fetches are small, so that the client has not got yet what is deleted. Once it reads meanwhile, once it is away:
    then what it has committed is not there any more."""
    arrive, settle = Move(do=Do.ARRIVE, count=60, size_bytes=1_000), Move(do=Do.SETTLE)
    delete = (Move(do=Do.DELETE_RECORDS, partition=0, count=5), Move(do=Do.DELETE_RECORDS, partition=1))
    return _group(
        "group, records are deleted before it gets them",
        [
            *(arrive, _BEGIN, Move(do=Do.READ, count=5), *commit, *delete, settle, _READ, *commit),
            *(Move(do=Do.CLOSE), arrive, *delete, settle, _BEGIN, _READ, arrive, _READ, *commit),
        ],
        {"max.partition.fetch.bytes": "1000", "fetch.max.bytes": _BATCH_BYTES, "max.poll.records": "1"},
        prefilled=30,
    )


def _given_up_by_others(commit: Sequence[Move]) -> Program:
    """More of it than a fetch holds, before, between and behind what a reader is given."""
    given_up, committed = (Move(do=do, count=60, size_bytes=300) for do in (Do.ARRIVE_ABORTED, Do.ARRIVE_COMMITTED))
    arrive = Move(do=Do.ARRIVE, count=6)
    return _group(
        "group, much is given up by others",
        [
            *(given_up, arrive, _BEGIN, _READ, *commit, committed, given_up, committed, _READ, *commit),
            *(given_up, given_up, _READ, *commit, arrive, _READ, *commit),
            *(given_up, *_RESTART, arrive, _READ, *commit),
        ],
        {"max.partition.fetch.bytes": "1000", "isolation.level": "read_committed"},
    )


def _compacted(commit: Sequence[Move], *, can_seek: bool) -> Program:
    """Most of a log is gone, and batches of it are empty. Once the reader begins there, once it has committed what is
    gone since, and once it goes back to what is gone."""
    arrive, compact = Move(do=Do.ARRIVE, count=60), Move(do=Do.COMPACT)
    committed, given_up = (Move(do=do, count=20) for do in (Do.ARRIVE_COMMITTED, Do.ARRIVE_ABORTED))
    back = (Move(do=Do.SEEK, partition=0, count=10), Move(do=Do.SEEK, partition=1, count=-1)) if can_seek else ()
    return replace(
        _group(
            "group, a compacted topic",
            [
                *(arrive, compact, arrive, compact, _BEGIN, Move(do=Do.READ, count=5), *commit, arrive, compact),
                *(_READ, *commit, arrive, Move(do=Do.READ, count=20), *commit, *_RESTART, compact, _READ, *commit),
                *(*back, _READ, given_up, committed, arrive, compact, _READ, *commit, *_RESTART, arrive, _READ),
            ],
            {"max.partition.fetch.bytes": "1000", "isolation.level": "read_committed"},
            partitions=2,
        ),
        topic=COMPACTED,
    )


def _many_partitions(commit: Sequence[Move]) -> Program:
    arrive = Move(do=Do.ARRIVE, count=10 * _MANY)
    paused = range(0, 2 * _PAUSED, 2)
    return _group(
        "group, many partitions and some of them paused",
        [
            *(_BEGIN, Move(do=Do.READ, count=40), *commit),
            *(Move(do=Do.PAUSE, partition=each) for each in paused),
            *(arrive, _READ, *commit, arrive, Move(do=Do.READ, count=100)),
            *(Move(do=Do.RESUME, partition=each) for each in paused),
            *(Move(do=Do.PAUSE, partition=each + 1) for each in paused),
            *(arrive, _READ, *commit),
            *(Move(do=Do.RESUME, partition=each + 1) for each in paused),
            *(_READ, *commit),
        ],
        {"max.partition.fetch.bytes": "1000"},
        partitions=_MANY,
        prefilled=10 * _MANY,
    )


def _led_by_others(commit: Sequence[Move]) -> Program:
    """Each partition gets another leader, and so a higher leader epoch, while there is more to read."""
    arrive, some = Move(do=Do.ARRIVE, count=60), Move(do=Do.READ, count=40)
    moves: list[Move] = [_BEGIN, some, *commit]
    for partition in range(3):
        moves += [arrive, Move(do=Do.MOVE_LEADER, partition=partition), some, Move(do=Do.SETTLE), arrive, some, *commit]
    return _group("group, new leader epochs", [*moves, *_RESTART, arrive, _READ, *commit], {}, prefilled=PREFILLED)


def _large_fetches(commit: Sequence[Move]) -> Program:
    arrive = Move(do=Do.ARRIVE, count=45, size_bytes=100_000)
    return _group(
        "group, large fetches",
        [
            arrive,
            _BEGIN,
            Move(do=Do.READ, count=20),
            *commit,
            arrive,
            _READ,
            *commit,
            *_RESTART,
            arrive,
            _READ,
            *commit,
        ],
        {"fetch.min.bytes": "1000000"},
    )


# --- copiers ----------------------------------------------------------------------------------------------------------


def _copiers() -> list[Program]:
    return [_large_copies(), _one_large_transaction(), _copies_beside_much_given_up(), _copies_to_new_leaders()]


def _copy_program(name: str, moves: Sequence[Move], properties: Mapping[str, str], *, partitions: int = 3) -> Program:
    return Program(
        name=name,
        role=Role.COPIER,
        moves=tuple(moves),
        properties={**COPIER, **properties},
        partitions=partitions,
        prefilled=10 * partitions,
    )


def _large_copies() -> Program:
    """Each record is larger than a fetch, and each copy is nearly as large as a batch."""
    large, some = Move(do=Do.ARRIVE, count=6, size_bytes=200_000), Move(do=Do.ARRIVE, count=20)
    return _copy_program(
        "copies, records larger than a fetch",
        [
            *(large, some, _BEGIN, *_sized(copied(10), 200_000)),
            *(large, *_sized(copied(10, end=Do.ABORT_TRANSACTION), 200_000), *_sized(copied(0), 200_000)),
            *(*_RESTART, some, large, *_sized(copied(0), 200_000)),
        ],
        {"max.partition.fetch.bytes": "1000", "fetch.max.bytes": _BATCH_BYTES, "batch.size": "200000"},
    )


def _one_large_transaction() -> Program:
    """It has copies in many partitions, and offsets of as many."""
    arrive, all_of_it = Move(do=Do.ARRIVE, count=20 * _MANY), _sized(copied(0), 1_000)
    given_up = _sized(copied(0, end=Do.ABORT_TRANSACTION), 1_000)
    return _copy_program(
        "copies, large transactions over many partitions",
        [arrive, _BEGIN, *all_of_it, arrive, *given_up, *all_of_it, *_RESTART, arrive, *all_of_it],
        {"max.partition.fetch.bytes": "1000", "linger.ms": "20"},
        partitions=_MANY,
    )


def _copies_beside_much_given_up() -> Program:
    """More of it than a fetch holds, so that offsets of the group stand before and behind it."""
    given_up, committed = (Move(do=do, count=60, size_bytes=300) for do in (Do.ARRIVE_ABORTED, Do.ARRIVE_COMMITTED))
    return _copy_program(
        "copies, much is given up by others",
        [
            *(given_up, Move(do=Do.ARRIVE, count=6), _BEGIN, *copied(20), given_up, committed, *copied(40)),
            *(*copied(10, end=Do.ABORT_TRANSACTION), given_up, given_up, *copied(0), *_RESTART, given_up),
            *(Move(do=Do.ARRIVE, count=6), *copied(0)),
        ],
        {"max.partition.fetch.bytes": "1000"},
    )


def _copies_to_new_leaders() -> Program:
    """Each partition of both topics gets another leader, before, in and behind a transaction."""
    arrive = Move(do=Do.ARRIVE, count=30)
    begin, copy, send, commit = copied(20)
    moves: list[Move] = [_BEGIN, *copied(20)]
    for partition in range(3):
        moved = Move(do=Do.MOVE_LEADER, partition=partition)
        moves += [arrive, begin, copy, moved, Move(do=Do.COPY, count=5), send, commit, Move(do=Do.SETTLE), *copied(5)]
    return _copy_program("copies, new leader epochs", [*moves, *_RESTART, arrive, *copied(0)], {})


def _sized(moves: Sequence[Move], size_bytes: int) -> list[Move]:
    return [replace(move, size_bytes=size_bytes) if move.do is Do.COPY else move for move in moves]
