"""What applications do with a client: plain programs, and programs drawn from a seed.

A plain program does what most applications do, in a few seconds. A drawn one puts lawful moves in an order that nobody
wrote down: seek, pause, restart, kill, several members that come, go and freeze. Time-outs are small, so that what a
client does about them is seen within seconds. Settings are drawn from what users set, with small values among them,
because rare paths become common so. A setting that the client does not take is left out. What the cluster does
meanwhile is in cluster_moves.py. Pure. Shown by tests/harness/test_harness_explore_search.py.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from harness.explore.trial.model import OWN, Do, Move, Program, Role

REQUEST_TIMEOUT_MS: Final = 2_000
SESSION_TIMEOUT_MS: Final = 6_000
SHORT_SESSION_TIMEOUT_MS: Final = 3_000
_BEYOND_SESSION_MS: Final = 4_000  # beyond the short one
COOPERATIVE: Final = "cooperative-sticky"
PRODUCER: Final = {
    "acks": "all",
    "request.timeout.ms": str(REQUEST_TIMEOUT_MS),
    "delivery.timeout.ms": "30000",
    "retry.backoff.ms": "50",
    "linger.ms": "0",
    # So that Metadata is asked for in the middle of a program too, of 1.5 s on an idle host, and once more before its
    # end. Else what it says can only be disturbed while the client connects, when there is nothing to lose.
    "metadata.max.age.ms": "200",
}
CONSUMER: Final = {
    "auto.offset.reset": "earliest",
    "request.timeout.ms": str(REQUEST_TIMEOUT_MS),
    "session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "heartbeat.interval.ms": "500",
    "retry.backoff.ms": "50",
    "fetch.max.wait.ms": "100",
    "metadata.max.age.ms": "2000",
}
PREFILLED: Final = 150
POLLED_AT_ONCE: Final = 500
# What a client must be able to do to copy in transactions. Its reader must also be one that can be told to read what is
# committed: such a one waits for offsets that a transaction may still take back.
COPYING: Final = frozenset({"subscribe", "seek", "transactions", "send-offsets"})
COPIER: Final = {
    **CONSUMER,
    **PRODUCER,
    "enable.idempotence": "true",
    "enable.auto.commit": "false",
    "isolation.level": "read_committed",
    "transaction.timeout.ms": "40000",
}


def plain(abilities: Collection[str], takes: Collection[str] = ()) -> list[Program]:
    """The programs for a client that declares these abilities (words of the client protocol), and takes these settings
    as a consumer; "*": any."""
    can = set(abilities)
    takes_any = "*" in takes
    found: list[Program] = []
    if "produce" in can:
        found += [
            # How many may be in flight without another order is the client's business: some say five, some say one.
            _producer("producer, idempotent", {"enable.idempotence": "true"}),
            _producer(
                "producer, one in flight",
                {"enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"},
            ),
            _large_batches(),
        ]
    if {"subscribe", "commit"} <= can:
        found.append(group("group, commits itself"))
    if "subscribe" in can:
        automatic = group("group, automatic commits", is_automatic=True)
        found.append(replace(automatic, is_one_by_one="one-by-one" in can))  # as most applications have it
    if {"subscribe", "commit"} <= can:
        found += [group_of_two_topics(), _group_from_the_end()]
        found.append(_members("group of two", {}))
        if "partition.assignment.strategy" in takes:  # where any name is taken, the values have other names
            found.append(_members("group of two, cooperative", {"partition.assignment.strategy": COOPERATIVE}))
        if takes_any or "group.protocol" in takes:
            found.append(_members("group of two, the brokers' protocol", {"group.protocol": "consumer"}))
    if "transactions" in can:
        found.append(_transactions())
    if can >= COPYING and (takes_any or "isolation.level" in takes):
        found += [copier(), two_copiers(), _frozen_copier()]
    return found


def _producer(name: str, properties: dict[str, str]) -> Program:
    lot = (Move(do=Do.SEND, count=6), Move(do=Do.WAIT, count=60))
    return Program(
        name=name,
        role=Role.PRODUCER,
        moves=(*lot * 25, Move(do=Do.FLUSH)),
        properties={**PRODUCER, **properties},
    )


def _large_batches() -> Program:
    """As many small records a batch as may be without an outcome, as who wants throughput sets it."""
    lot = (Move(do=Do.SEND, count=10_000, size_bytes=1), Move(do=Do.WAIT, count=300))
    large = {"linger.ms": "1000", "batch.size": "1000000"}
    return Program(
        name="producer, large batches",
        role=Role.PRODUCER,
        moves=(*lot * 2, Move(do=Do.FLUSH)),
        properties={**PRODUCER, "enable.idempotence": "true", **large},
        partitions=1,
    )


def group(name: str, *, is_automatic: bool = False) -> Program:
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
            **CONSUMER,
            "enable.auto.commit": "true" if is_automatic else "false",
            "enable.partition.eof": "true" if is_automatic else "false",
            **automatic,
        },
        prefilled=PREFILLED,
    )


def group_of_two_topics() -> Program:
    """What it subscribes to changes while there is something to read in both."""
    commit, arrive = Move(do=Do.COMMIT), Move(do=Do.ARRIVE, count=30)
    all_that_is_there = (Move(do=Do.READ), commit)
    both, first, second = (Move(do=Do.SUBSCRIBE, topic=topic) for topic in (-1, 0, 1))
    return Program(
        name="group, two topics",
        role=Role.CONSUMER,
        moves=(
            *(first, Move(do=Do.READ, count=20), commit, both, Move(do=Do.READ, count=40), commit),
            *(arrive, second, Move(do=Do.READ, count=10), commit, both, *all_that_is_there),
            *(arrive, first, *all_that_is_there, Move(do=Do.RESTART), both, arrive, *all_that_is_there),
        ),
        properties={**CONSUMER, "enable.auto.commit": "false"},
        partitions=2,
        topics=2,
        prefilled=PREFILLED,
    )


def _group_from_the_end() -> Program:
    """Once it has committed, nothing may be skipped. Who forgets its offset begins behind what came meanwhile. It polls
    without waiting, as applications do that have other things to do."""
    commit, arrive, read = Move(do=Do.COMMIT), Move(do=Do.ARRIVE, count=30), Move(do=Do.READ_NOW)
    poll, begin = Move(do=Do.POLL, count=POLLED_AT_ONCE), Move(do=Do.SUBSCRIBE)
    anew = (Move(do=Do.RESTART), arrive, begin, read, commit)
    return Program(
        name="group, from the end",
        role=Role.CONSUMER,
        moves=(begin, *(poll,) * 6, arrive, read, commit, arrive, read, commit, *anew, arrive, *anew),
        properties={**CONSUMER, "enable.auto.commit": "false", "auto.offset.reset": "latest"},
        prefilled=30,
    )


def _members(name: str, properties: dict[str, str]) -> Program:
    """One member reads, another one comes, and the first one leaves."""
    both = (Move(do=Do.COMMIT), Move(do=Do.COMMIT, member=1))
    return Program(
        name=name,
        role=Role.CONSUMER,
        moves=(
            *(Move(do=Do.SUBSCRIBE), Move(do=Do.READ, count=30), Move(do=Do.COMMIT)),
            *(Move(do=Do.SUBSCRIBE, member=1), Move(do=Do.READ, count=40), *both),
            *(Move(do=Do.ARRIVE, count=30), Move(do=Do.READ), *both),
            *(Move(do=Do.CLOSE), Move(do=Do.ARRIVE, count=30), Move(do=Do.READ), Move(do=Do.COMMIT, member=1)),
        ),
        properties=for_protocol({**CONSUMER, "enable.auto.commit": "false", **properties}),
        prefilled=PREFILLED,
    )


def _transactions() -> Program:
    def one(end: Do) -> tuple[Move, ...]:
        # The wait is for what the cluster does meanwhile, which takes half a second.
        wait = Move(do=Do.WAIT, count=200)
        return (Move(do=Do.BEGIN), Move(do=Do.SEND, count=4), Move(do=Do.SEND, count=4), Move(do=end), wait)

    kept, undone = one(Do.COMMIT_TRANSACTION), one(Do.ABORT_TRANSACTION)
    return Program(
        name="transactions",
        role=Role.PRODUCER,
        moves=(*kept * 3, *undone, *kept * 2, *undone, *kept),
        properties={**PRODUCER, "enable.idempotence": "true", "transaction.timeout.ms": "40000"},
    )


def copied(count: int, *, end: Do = Do.COMMIT_TRANSACTION, member: int = 0) -> tuple[Move, ...]:
    """One transaction with the copies of `count` records; 0: all that there are."""
    return (*copied_so_far(count, member=member), Move(do=end, member=member))


def copied_so_far(count: int, *, member: int = 0) -> tuple[Move, ...]:
    copy = Move(do=Do.COPY, count=count, member=member)
    return (Move(do=Do.BEGIN, member=member), copy, Move(do=Do.SEND_OFFSETS, member=member))


def copier() -> Program:
    """Transactions that are committed, that are given up, and one that is open when its client restarts."""
    undone, wait = copied(10, end=Do.ABORT_TRANSACTION), Move(do=Do.WAIT, count=200)
    arrive, restart = Move(do=Do.ARRIVE, count=20), (Move(do=Do.RESTART), Move(do=Do.SUBSCRIBE))
    return Program(
        name="copies in transactions",
        role=Role.COPIER,
        moves=(
            *(Move(do=Do.SUBSCRIBE), *copied(10), *copied(10), wait, *undone, *copied(10), wait),
            *(arrive, *copied(0), *restart, arrive, *copied(10), *undone, wait),
            *(*copied_so_far(5), *restart, *copied(10), arrive, *copied(0)),
        ),
        properties=COPIER,
        prefilled=60,
    )


def two_copiers() -> Program:
    """Partitions move while a transaction is open, and when a member leaves."""
    arrive, second = Move(do=Do.ARRIVE, count=20), Move(do=Do.SUBSCRIBE, member=1)
    return Program(
        name="copies in transactions, two members",
        role=Role.COPIER,
        moves=(
            *(Move(do=Do.SUBSCRIBE), *copied(10), second, *copied(30), *copied(10, member=1)),
            *(arrive, *copied(10), *copied(10, end=Do.ABORT_TRANSACTION, member=1), *copied(0, member=1)),
            *(arrive, *copied(5), Move(do=Do.CLOSE), arrive, *copied(0, member=1)),
        ),
        properties=COPIER,
        prefilled=60,
    )


def _frozen_copier() -> Program:
    """One member is silent for longer than its session, with a transaction open and its offsets not sent yet. The other
    one copies the same records meanwhile. When the first one wakes up its offsets must be refused (KIP-447)."""
    return Program(
        name="copies in transactions, one member frozen",
        role=Role.COPIER,
        moves=(
            *(Move(do=Do.SUBSCRIBE), Move(do=Do.SUBSCRIBE, member=1), *copied(10), *copied(10, member=1)),
            *(Move(do=Do.BEGIN), Move(do=Do.COPY, count=5), Move(do=Do.SLEEP, count=_BEYOND_SESSION_MS)),
            *(*copied(30, member=1), Move(do=Do.SEND_OFFSETS), Move(do=Do.COMMIT_TRANSACTION)),
            *(Move(do=Do.ARRIVE, count=20), *copied(10), *copied(0, member=1)),
        ),
        properties={**COPIER, "session.timeout.ms": str(SHORT_SESSION_TIMEOUT_MS)},
        prefilled=60,
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
        makers += [_drawn_group, _drawn_group, _drawn_members]
    if "assign" in can:
        makers.append(_drawn_reader)
    if "transactions" in can:
        makers.append(_drawn_transactions)
    if "send-offsets" in can:
        makers.append(_drawn_copier)
    if not makers:
        return None
    program = rng.choice(makers)(rng, can, f"drawn {seed}")
    is_reading = program.role is not Role.PRODUCER and "one-by-one" in can
    return replace(program, is_one_by_one=is_reading and random.Random(f"one by one {seed}").random() < 0.5)


def _drawn_producer(rng: random.Random, can: set[str], name: str) -> Program:
    moves: list[Move] = []
    for _ in range(rng.randint(10, 30)):
        draw = rng.random()
        if draw < 0.6:
            partition = rng.choice([-1, 0]) if "partition" in can else -1
            size_bytes = rng.choice([0, 32, 100, 100, 5_000, 200_000])
            count = rng.choice([1, 1, 5, 20, 100]) if size_bytes < 10_000 else 3
            callers = rng.choice([1, 1, 4]) if "callers" in can else 1
            moves.append(Move(do=Do.SEND, count=count, partition=partition, size_bytes=size_bytes, callers=callers))
        elif draw < 0.75:
            moves.append(Move(do=Do.WAIT, count=rng.choice([1, 20, 200, 1_000])))
        elif draw < 0.9:
            moves.append(Move(do=Do.FLUSH))
        else:
            moves.append(Move(do=rng.choice([Do.RESTART, Do.KILL])))
    is_idempotent = rng.random() < 0.6
    properties = {
        **PRODUCER,
        "enable.idempotence": "true" if is_idempotent else "false",
        "acks": "all" if is_idempotent else rng.choice(["all", "1"]),
        **({} if is_idempotent else {"max.in.flight.requests.per.connection": rng.choice(["1", "5"])}),
        "linger.ms": rng.choice(["0", "5", "100"]),
        "batch.size": rng.choice(["0", "1", "1000", "16384", "1000000"]),
        # The largest record of a program fits into the smallest: one that does not may lawfully be refused.
        "buffer.memory": rng.choice(["300000", "33554432"]),
        "compression.type": rng.choice(["none", "gzip", "lz4"]),
        "metadata.max.age.ms": rng.choice(["1000", "300000"]),
    }
    return Program(
        name=name,
        role=Role.PRODUCER,
        moves=tuple(moves),
        properties=properties,
        partitions=rng.choice([1, 3, 3, 12]),
    )


def _consumer_moves(rng: random.Random, can: set[str], begin: Move) -> list[Move]:
    moves = [begin]
    paused: set[int] = set()
    choices = [Do.READ] * 4 + [Do.POLL] * 4 + [Do.ARRIVE] * 2 + [Do.GLANCE, Do.WAIT, Do.RESTART]
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
            case Do.POLL | Do.GLANCE:
                moves.append(Move(do=do, count=rng.choice([1, 10, 500])))
            case Do.COMMIT:
                moves.append(Move(do=do, count=rng.choice([0, 0, 0, 1, 7])))
                if rng.random() < 0.3:  # the same or an older position once more
                    moves.append(Move(do=do, count=rng.choice([0, 3])))
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


def _group_properties(rng: random.Random, *, is_automatic: bool) -> dict[str, str]:
    return {
        **CONSUMER,
        "enable.auto.commit": "true" if is_automatic else "false",
        "auto.commit.interval.ms": rng.choice(["50", "1000"]),
        "max.poll.records": rng.choice(["1", "10", "500"]),
        "max.partition.fetch.bytes": rng.choice(["1", "1000", "1048576"]),
        "fetch.max.bytes": rng.choice(["1048576", "52428800"]),
        "fetch.min.bytes": rng.choice(["1", "1", "100000"]),
        "enable.partition.eof": rng.choice(["true", "false"]),
        "isolation.level": rng.choice(["read_committed", "read_uncommitted"]),
    }


def _drawn_members(rng: random.Random, can: set[str], name: str) -> Program:
    """Two or three members that come, go, restart, freeze and are killed."""
    is_automatic = "commit" not in can or rng.random() < 0.4
    count = rng.choice([2, 2, 3])
    here = [0]
    moves = [Move(do=Do.SUBSCRIBE)]
    for _ in range(rng.randint(6, 16)):
        member = rng.choice(here)
        absent = [each for each in range(count) if each not in here]
        do = rng.choice(
            [Do.READ, Do.READ, Do.POLL, Do.ARRIVE, Do.SUBSCRIBE, Do.SUBSCRIBE]
            + [Do.CLOSE, Do.RESTART, Do.KILL, Do.SLEEP]
            + ([] if is_automatic else [Do.COMMIT] * 4)
            + ([Do.PAUSE, Do.RESUME] if "pause" in can else [])
            + ([Do.SEEK] if "seek" in can else [])
        )
        match do:
            case Do.READ:
                moves.append(Move(do=do, count=rng.choice([0, 10, 40])))
            case Do.ARRIVE:
                moves.append(Move(do=do, count=rng.choice([5, 30])))
            case Do.POLL:
                moves.append(Move(do=do, count=rng.choice([1, 500]), member=member))
            case Do.COMMIT:
                moves.append(Move(do=do, count=rng.choice([0, 0, 3]), member=member))
            case Do.SUBSCRIBE:
                if absent:
                    here.append(rng.choice(absent))
                    moves.append(Move(do=do, member=here[-1]))
            case Do.CLOSE:
                if len(here) > 1:
                    here.remove(member)
                    moves.append(Move(do=do, member=member))
            case Do.RESTART | Do.KILL:
                moves += [Move(do=do, member=member), Move(do=Do.SUBSCRIBE, member=member)]
            case Do.SLEEP:
                moves.append(Move(do=do, count=rng.choice([500, _BEYOND_SESSION_MS]), member=member))
            case Do.SEEK:
                moves.append(Move(do=do, partition=rng.randrange(3), count=rng.choice([5, -1]), member=member))
            case _:
                moves.append(Move(do=do, partition=rng.randrange(3), member=member))
    properties = {
        **_group_properties(rng, is_automatic=is_automatic),
        "session.timeout.ms": str(SHORT_SESSION_TIMEOUT_MS),
        "partition.assignment.strategy": rng.choice(["range", "roundrobin", COOPERATIVE]),
    }
    kind = rng.choice(["", "", "static", "of the brokers"])
    if kind == "static":
        properties["group.instance.id"] = OWN
    elif kind:
        properties["group.protocol"] = "consumer"
    return Program(
        name=name,
        role=Role.CONSUMER,
        moves=tuple(moves),
        properties=for_protocol(properties),
        prefilled=rng.choice([40, PREFILLED]),
    )


def for_protocol(properties: Mapping[str, str]) -> Mapping[str, str]:
    """In the protocol of KIP-848 the brokers decide on these, and clients refuse them."""
    if properties.get("group.protocol") != "consumer":
        return properties
    decided = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
    return {name: value for name, value in properties.items() if name not in decided}


def _drawn_group(rng: random.Random, can: set[str], name: str) -> Program:
    is_automatic = "commit" not in can or rng.random() < 0.5
    properties = _group_properties(rng, is_automatic=is_automatic)
    moves = _consumer_moves(rng, can, Move(do=Do.SUBSCRIBE))
    return Program(
        name=name,
        role=Role.CONSUMER,
        moves=_in_transactions_of_others(moves, rng) if rng.random() < 0.3 else tuple(moves),
        properties=properties,
        prefilled=rng.choice([40, PREFILLED]),
    )


def _in_transactions_of_others(moves: Sequence[Move], rng: random.Random) -> tuple[Move, ...]:
    """What others write comes in transactions, and some of it is given up."""
    kinds = (Do.ARRIVE_COMMITTED, Do.ARRIVE_ABORTED, Do.ARRIVE)
    return tuple(replace(move, do=rng.choice(kinds)) if move.do is Do.ARRIVE else move for move in moves)


def _drawn_reader(rng: random.Random, can: set[str], name: str) -> Program:
    moves = _consumer_moves(rng, can - {"commit"}, Move(do=Do.ASSIGN))
    properties = {
        **CONSUMER,
        "enable.auto.commit": "false",
        "max.partition.fetch.bytes": rng.choice(["1000", "1048576"]),
    }
    return Program(name=name, role=Role.CONSUMER, moves=tuple(moves), properties=properties, prefilled=PREFILLED)


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
    properties = {**PRODUCER, "enable.idempotence": "true", "transaction.timeout.ms": "40000"}
    return Program(name=name, role=Role.PRODUCER, moves=tuple(moves), properties=properties)


def _drawn_copier(rng: random.Random, can: set[str], name: str) -> Program:
    """One to three members, whose transactions take in turn what the group has. They end in every way there is. There
    may be fewer partitions than members, and many more."""
    count = rng.choice([1, 1, 2, 2, 3])
    here = [0]
    moves = [Move(do=Do.SUBSCRIBE)]
    for _ in range(rng.randint(3, 9)):
        member = rng.choice(here)
        absent = [each for each in range(count) if each not in here]
        if absent and rng.random() < 0.5:
            here += absent
            moves += [Move(do=Do.SUBSCRIBE, member=each) for each in absent]
        if rng.random() < 0.4:
            arrive = rng.choice([Do.ARRIVE, Do.ARRIVE, Do.ARRIVE_COMMITTED, Do.ARRIVE_ABORTED])
            moves.append(Move(do=arrive, count=rng.choice([1, 10, 30])))
        moves.append(Move(do=Do.BEGIN, member=member))
        for _ in range(rng.choice([0, 1, 1, 2])):  # an empty transaction too
            moves.append(Move(do=Do.COPY, count=rng.choice([0, 1, 5, 20]), member=member))
            moves.append(Move(do=Do.SEND_OFFSETS, member=member))
        if rng.random() < 0.2:
            moves.append(Move(do=Do.WAIT, count=rng.choice([20, 300])))
        if count > 1 and rng.random() < 0.2:
            moves.append(Move(do=Do.SLEEP, count=rng.choice([500, _BEYOND_SESSION_MS]), member=member))
        end = rng.choice([Do.COMMIT_TRANSACTION] * 4 + [Do.ABORT_TRANSACTION] * 2 + [Do.RESTART, Do.KILL])
        moves.append(Move(do=end, member=member))
        if end in (Do.RESTART, Do.KILL):
            moves.append(Move(do=Do.SUBSCRIBE, member=member))
    properties = {
        **COPIER,
        "session.timeout.ms": str(SHORT_SESSION_TIMEOUT_MS),
        "max.poll.records": rng.choice(["1", "10", "500"]),
        "linger.ms": rng.choice(["0", "100"]),
    }
    return Program(
        name=name,
        role=Role.COPIER,
        moves=tuple(moves),
        properties=properties,
        partitions=rng.choice([1, 2, 3, 3, 8]),
        prefilled=rng.choice([0, 40]),
    )
