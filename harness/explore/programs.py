"""What applications do with a client: plain programs, and programs drawn from a seed.

A plain program does what most applications do, in a few seconds. A drawn one puts lawful moves in an order that nobody
wrote down: seek, pause, restart, kill. Time-outs are small, so that what a client does about them is seen within
seconds. Pure. Shown by tests/harness/test_harness_explore_search.py.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Final

from harness.explore.model import Do, Move, Program, Role

REQUEST_TIMEOUT_MS: Final = 2_000
SESSION_TIMEOUT_MS: Final = 6_000
_PRODUCER: Final = {
    "acks": "all",
    "request.timeout.ms": str(REQUEST_TIMEOUT_MS),
    "delivery.timeout.ms": "30000",
    "retry.backoff.ms": "50",
    "linger.ms": "0",
}
_CONSUMER: Final = {
    "auto.offset.reset": "earliest",
    "request.timeout.ms": str(REQUEST_TIMEOUT_MS),
    "session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "heartbeat.interval.ms": "500",
    "retry.backoff.ms": "50",
    "fetch.max.wait.ms": "100",
    "metadata.max.age.ms": "2000",
}
_PREFILLED: Final = 150


def plain(abilities: Collection[str]) -> list[Program]:
    """The programs for a client that declares these abilities (words of the client protocol)."""
    can = set(abilities)
    found: list[Program] = []
    if "produce" in can:
        found += [
            _producer("producer, idempotent", idempotence="true", in_flight="5"),
            _producer("producer, one in flight", idempotence="false", in_flight="1"),
            _large_batches(),
        ]
    if {"subscribe", "commit"} <= can:
        found.append(_group("group, commits itself"))
    if "subscribe" in can:
        found.append(_group("group, automatic commits", is_automatic=True))
    if "transactions" in can:
        found.append(_transactions())
    return found


def _producer(name: str, *, idempotence: str, in_flight: str) -> Program:
    lot = (Move(do=Do.SEND, count=6), Move(do=Do.WAIT, count=60))
    in_flight_setting = {"max.in.flight.requests.per.connection": in_flight}
    return Program(
        name=name,
        role=Role.PRODUCER,
        moves=(*lot * 25, Move(do=Do.FLUSH)),
        properties={**_PRODUCER, "enable.idempotence": idempotence, **in_flight_setting},
    )


def _large_batches() -> Program:
    """Thousands of small records a batch, as who wants throughput sets it."""
    lot = (Move(do=Do.SEND, count=4_000), Move(do=Do.WAIT, count=300))
    large = {"linger.ms": "200", "batch.size": "1000000", "max.in.flight.requests.per.connection": "5"}
    return Program(
        name="producer, large batches",
        role=Role.PRODUCER,
        moves=(*lot * 4, Move(do=Do.FLUSH)),
        properties={**_PRODUCER, "enable.idempotence": "true", **large},
        partitions=1,
    )


def _group(name: str, *, is_automatic: bool = False) -> Program:
    commit = () if is_automatic else (Move(do=Do.COMMIT),)
    some = (Move(do=Do.READ, count=40), *commit, Move(do=Do.WAIT, count=300))
    all_that_is_there = (Move(do=Do.READ), *commit)
    arrive, restart = Move(do=Do.ARRIVE, count=30), (Move(do=Do.RESTART), Move(do=Do.SUBSCRIBE))
    automatic = {"auto.commit.interval.ms": "200"} if is_automatic else {}
    return Program(
        name=name,
        role=Role.CONSUMER,
        moves=(
            *(Move(do=Do.SUBSCRIBE), *some * 2, *all_that_is_there),
            *(arrive, *some, *all_that_is_there),
            *(*restart, arrive, *all_that_is_there, arrive, *some),
            *(*restart, arrive, *all_that_is_there),
        ),
        properties={
            **_CONSUMER,
            "enable.auto.commit": "true" if is_automatic else "false",
            "enable.partition.eof": "true" if is_automatic else "false",
            **automatic,
        },
        prefilled=_PREFILLED,
    )


def _transactions() -> Program:
    def one(end: Do) -> tuple[Move, ...]:
        return (Move(do=Do.BEGIN), Move(do=Do.SEND, count=4), Move(do=Do.SEND, count=4), Move(do=end))

    kept, undone = one(Do.COMMIT_TRANSACTION), one(Do.ABORT_TRANSACTION)
    return Program(
        name="transactions",
        role=Role.PRODUCER,
        moves=(*kept * 3, *undone, *kept * 2, *undone, *kept),
        properties={**_PRODUCER, "enable.idempotence": "true", "transaction.timeout.ms": "40000"},
    )


# --- drawn ------------------------------------------------------------------------------------------------------------


def drawn(abilities: Collection[str], seed: int) -> Program | None:
    """A program of moves in an order that is drawn; each is lawful where it stands. None if the client can do nothing
    that is worth drawing."""
    rng = random.Random(seed)
    can = set(abilities)
    makers = []
    if "produce" in can:
        makers.append(_drawn_producer)
    if "subscribe" in can:
        makers += [_drawn_group] * 2
    if "assign" in can:
        makers.append(_drawn_reader)
    if "transactions" in can:
        makers.append(_drawn_transactions)
    return rng.choice(makers)(rng, can, f"drawn {seed}") if makers else None


def _drawn_producer(rng: random.Random, can: set[str], name: str) -> Program:
    moves: list[Move] = []
    for _ in range(rng.randint(10, 30)):
        draw = rng.random()
        if draw < 0.6:
            partition = rng.choice([-1, 0]) if "partition" in can else -1
            size_bytes = rng.choice([0, 10, 100, 100, 5_000, 200_000])
            count = rng.choice([1, 1, 5, 20, 100]) if size_bytes < 10_000 else 3
            moves.append(Move(do=Do.SEND, count=count, partition=partition, size_bytes=max(size_bytes, 32)))
        elif draw < 0.75:
            moves.append(Move(do=Do.WAIT, count=rng.choice([1, 20, 200, 1_000])))
        elif draw < 0.9:
            moves.append(Move(do=Do.FLUSH))
        else:
            moves.append(Move(do=rng.choice([Do.RESTART, Do.KILL])))
    is_idempotent = rng.random() < 0.6
    properties = {
        **_PRODUCER,
        "enable.idempotence": "true" if is_idempotent else "false",
        "max.in.flight.requests.per.connection": rng.choice(["1", "5"]),
        "linger.ms": rng.choice(["0", "5", "100"]),
        "batch.size": rng.choice(["0", "1", "1000", "16384", "1000000"]),
        "buffer.memory": rng.choice(["65536", "33554432"]),
        "compression.type": rng.choice(["none", "gzip", "lz4"]),
    }
    return Program(name=name, role=Role.PRODUCER, moves=tuple(moves), properties=properties)


def _consumer_moves(rng: random.Random, can: set[str], begin: Move) -> list[Move]:
    moves = [begin]
    paused: set[int] = set()
    choices = [Do.READ] * 4 + [Do.POLL] * 4 + [Do.ARRIVE] * 2 + [Do.WAIT, Do.RESTART]
    choices += [Do.COMMIT] * 3 if "commit" in can else []
    choices += [Do.SEEK] * 3 if "seek" in can else []
    choices += [Do.PAUSE, Do.RESUME] * 2 if "pause" in can else []
    for _ in range(rng.randint(8, 24)):
        do = rng.choice(choices)
        partition = rng.randrange(3)
        match do:
            case Do.READ:
                if len(paused) < 3:
                    moves.append(Move(do=do, count=rng.choice([0, 1, 7, 40])))
            case Do.ARRIVE:
                moves.append(Move(do=do, count=rng.choice([1, 5, 30])))
            case Do.POLL:
                moves.append(Move(do=do, count=rng.choice([1, 10, 500])))
            case Do.WAIT:
                moves.append(Move(do=do, count=rng.choice([50, 500])))
            case Do.SEEK:
                moves.append(Move(do=do, partition=partition, count=rng.choice([1, 10, -1])))
                if rng.random() < 0.5:  # two at once, before anything was fetched
                    moves.append(Move(do=do, partition=(partition + 1) % 3, count=rng.choice([1, 10, -1])))
            case Do.PAUSE:
                paused.add(partition)
                moves.append(Move(do=do, partition=partition))
            case Do.RESUME:
                if paused:
                    moves.append(Move(do=do, partition=paused.pop()))
            case Do.RESTART:
                paused.clear()
                moves += [Move(do=do), begin]
            case _:
                moves.append(Move(do=do))
    return moves


def _drawn_group(rng: random.Random, can: set[str], name: str) -> Program:
    is_automatic = "commit" not in can or rng.random() < 0.5
    properties = {
        **_CONSUMER,
        "enable.auto.commit": "true" if is_automatic else "false",
        "auto.commit.interval.ms": rng.choice(["50", "1000"]),
        "max.poll.records": rng.choice(["1", "10", "500"]),
        "max.partition.fetch.bytes": rng.choice(["1000", "1048576"]),
        "enable.partition.eof": rng.choice(["true", "false"]),
        "isolation.level": rng.choice(["read_committed", "read_uncommitted"]),
    }
    moves = _consumer_moves(rng, can, Move(do=Do.SUBSCRIBE))
    return Program(
        name=name, role=Role.CONSUMER, moves=tuple(moves), properties=properties, prefilled=rng.choice([40, _PREFILLED])
    )


def _drawn_reader(rng: random.Random, can: set[str], name: str) -> Program:
    moves = _consumer_moves(rng, can - {"commit"}, Move(do=Do.ASSIGN))
    properties = {
        **_CONSUMER,
        "enable.auto.commit": "false",
        "max.partition.fetch.bytes": rng.choice(["1000", "1048576"]),
    }
    return Program(name=name, role=Role.CONSUMER, moves=tuple(moves), properties=properties, prefilled=_PREFILLED)


def _drawn_transactions(rng: random.Random, can: set[str], name: str) -> Program:
    moves: list[Move] = []
    for _ in range(rng.randint(3, 10)):
        moves.append(Move(do=Do.BEGIN))
        sends = rng.choice([0, 1, 3])  # an empty transaction too
        moves.extend(Move(do=Do.SEND, count=rng.choice([1, 5, 50])) for _ in range(sends))
        if rng.random() < 0.3:
            moves.append(Move(do=Do.FLUSH))
        moves.append(Move(do=rng.choice([Do.COMMIT_TRANSACTION, Do.COMMIT_TRANSACTION, Do.ABORT_TRANSACTION])))
        if rng.random() < 0.15:
            moves.append(Move(do=rng.choice([Do.RESTART, Do.KILL])))
    properties = {**_PRODUCER, "enable.idempotence": "true", "transaction.timeout.ms": "40000"}
    return Program(name=name, role=Role.PRODUCER, moves=tuple(moves), properties=properties)
