"""What a search tries: a program of moves, and one disturbance or two of the requests that it causes.

Moves are those of an application, of several members of its group, and of the cluster: a leader or a coordinator moves,
partitions are added, records are deleted, a broker cannot be reached. Moves of the cluster begin where they stand in
the program and go on beside it.

Values only. `to_document` and `from_document` write a trial to a file and read it back, so a finding can be tried again
by anyone. Shown by tests/harness/test_harness_explore_search.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from broker.door.protocol import error_name

FORMAT: Final = 1  # A file of a trial names it.
OWN: Final = "own"  # the value of a setting that each member has for itself; `Subject` fills it in
SMALL_BYTES: Final = 100  # A record has so many, where a move does not say another size.


class How(StrEnum):
    """What happens to a request. `before` and `after` are seen from the broker's work."""

    ERROR_BEFORE = "error before the work"
    ERROR_AFTER = "error after the work"
    SILENCE_BEFORE = "silence before the work"
    SILENCE_AFTER = "silence after the work"
    CLOSED_BEFORE = "connection closed before the work"
    CLOSED_AFTER = "connection closed after the work"
    LATE = "late answer"
    HELD = "late request"  # Its connection ends, and it arrives when the client has most likely sent it again.
    ALTERED = "answer with other contents"
    THROTTLED = "answer that asks for patience"

    @property
    def is_error(self) -> bool:
        return self in (How.ERROR_BEFORE, How.ERROR_AFTER)

    @property
    def is_certain(self) -> bool:
        """Whether the client knows what became of the request: it was not done, or it was answered as usual."""
        return self in (How.ERROR_BEFORE, How.ALTERED, How.THROTTLED)

    @property
    def is_undone(self) -> bool:
        """Whether the request has surely not been done, and never will be."""
        return self in (How.ERROR_BEFORE, How.CLOSED_BEFORE)

    @property
    def is_after_work(self) -> bool:
        """Whether the broker has done what the request asks for, although the client does not hear so."""
        return self in (How.ERROR_AFTER, How.SILENCE_AFTER, How.CLOSED_AFTER, How.LATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """`count` requests of one API are disturbed, after `skip` that pass; count 0: all of them until it is healed."""

    api: str
    how: How
    code: int = 0  # Kafka's error code, with ERROR_BEFORE and ERROR_AFTER
    skip: int = 0
    count: int = 1
    late_ms: int = 0  # with LATE and HELD; with THROTTLED how long the client is asked to wait
    alteration: str = ""  # with ALTERED: what of the contents (chaos/toxiproxy/toxics/kafka_alter_response.py)
    heal_after_ms: int = 4_000  # from the first request that it meets

    def __str__(self) -> str:
        which = "every" if self.count == 0 else "one" if self.count == 1 else str(self.count)
        after = f" after the first {self.skip}" if self.skip else ""
        what = f"{self.how}, {error_name(self.code)}" if self.how.is_error else str(self.how)
        late = f" by {self.late_ms} ms" if self.how in (How.LATE, How.HELD) else ""
        asked = f" for {self.late_ms} ms" if self.how is How.THROTTLED else ""
        altered = f", {self.alteration.replace('_', ' ')}" if self.alteration else ""
        return f"{which} {self.api}{after}: {what}{late}{asked}{altered}"


class Do(StrEnum):
    """A move of an application, or of the cluster."""

    SEND = "send"  # `count` records of `size_bytes`, as one produce command; `partition`, -1: the client chooses.
    # With size 0 the value is empty, and the key names the record. `callers`: so many threads give them at once,
    # and those of the later ones are smaller.
    FLUSH = "flush"
    SUBSCRIBE = "subscribe"
    ASSIGN = "assign"  # all partitions, from the beginning of the log
    POLL = "poll"  # one poll of at most `count` records
    GLANCE = "short poll"  # the same, and it ends after 1 ms
    READ = "read"  # polls until `count` records have come; 0: until all that the log holds have come
    READ_SHORT = "read by short polls"  # the same, with polls that end after 1 ms, as a loop that does other things too
    READ_NOW = "read by polls that do not wait"  # the same, with polls that end at once
    COMMIT = "commit"  # behind the last record of each partition that was polled; `count`: so many records before it
    SEEK = "seek"  # `partition` back by `count` records from its position; with count -1 to the beginning of the log
    PAUSE = "pause"  # `partition`
    RESUME = "resume"
    BEGIN = "begin"
    # A member's next `count` records, each into the topic of copies; 0: all that there are. Within a transaction. They
    # are as small as their names, unless `size_bytes` is beyond SMALL_BYTES.
    COPY = "copy"
    SEND_OFFSETS = "send offsets"  # behind the last record of each partition that the transaction has copied
    COMMIT_TRANSACTION = "commit transaction"
    ABORT_TRANSACTION = "abort transaction"
    # `count` records, over all partitions. They are as small as their names, unless `size_bytes` is beyond SMALL_BYTES.
    ARRIVE = "others write"
    # Likewise, in one transaction. Its markers, and what was given up, are in the log and nobody is given them.
    ARRIVE_COMMITTED = "others write in a transaction"
    ARRIVE_ABORTED = "others give up a transaction"
    # Until the brokers have compacted what is there: of each key the last record stays, and batches may become empty.
    COMPACT = "wait for compaction"
    WAIT = "wait"  # `count` ms
    CLOSE = "close"
    RESTART = "restart"  # close, and connect anew with the same ids
    KILL = "kill"  # SIGKILL, and another process with the same ids
    RUN = "run the program"  # one that is somebody's own, until it ends (own_subject.py)
    SLEEP = "freeze"  # SIGSTOP for `count` ms; other members go on reading
    WORK = "work long"  # The member is asked for nothing for `count` ms; its process runs, and others go on reading.
    SETTLE = "wait for the cluster"  # until what it does is done
    # Several calls at once, and calls that are given up.
    CANCEL_FLUSH = "cancelled flush"  # after `count` ms
    CANCEL_POLL = "cancelled poll"  # after `count` ms
    COMMIT_HALVES = "two commits at once"  # each of the positions of half of the partitions
    COMMIT_IN_POLL = "commit while a poll waits"
    RESTART_IN_POLL = "restart while a poll waits"

    # Of the cluster, beside what follows. `partition` is one of the trial's topic. A broker is that partition's leader,
    # or with -1 the coordinator of the group or the transactional id.
    MOVE_LEADER = "leader moves"
    MOVE_COORDINATOR = "coordinator moves"
    ADD_PARTITIONS = "partitions are added"  # `count`
    DELETE_RECORDS = "records are deleted"  # The last `count` of `partition` stay.
    RECREATE = "topic is deleted and created anew"
    CUT = "broker is cut off"  # Its connections close for `count` ms, and new ones too.
    FREEZE = "broker is silent"  # It answers nothing for `count` ms, then all.
    CUT_ALL = "all brokers are cut off"  # as CUT, and no other one is there meanwhile
    FREEZE_ALL = "all brokers are silent"
    LOSE = "broker is lost"  # as CUT, for good; what it led and coordinated moves to the others, as after its death
    # Of a cluster that this trial has for itself (`Program.replicas`).
    # SIGKILL, and connections are refused. It is started again after `count` ms, or with 0 when the program is over.
    DIE = "broker dies"
    DIE_ALL = "all brokers die"  # and are started again after `count` ms
    HANG = "broker hangs"  # SIGSTOP for `count` ms
    ISOLATE = "broker is isolated"  # from the other brokers, and not from clients, for `count` ms
    LAG = "replication lags"  # What others fetch of that broker comes `count` ms later, until the program is over.

    @property
    def is_of_cluster(self) -> bool:
        return self in _OF_CLUSTER


_OF_CLUSTER: Final = frozenset(
    {
        Do.MOVE_LEADER,
        Do.MOVE_COORDINATOR,
        Do.ADD_PARTITIONS,
        Do.DELETE_RECORDS,
        Do.RECREATE,
        Do.CUT,
        Do.FREEZE,
        Do.CUT_ALL,
        Do.FREEZE_ALL,
        Do.LOSE,
        Do.DIE,
        Do.DIE_ALL,
        Do.HANG,
        Do.ISOLATE,
        Do.LAG,
    }
)


_OF_RECORDS: Final = (Do.SEND, Do.ARRIVE, Do.ARRIVE_COMMITTED, Do.ARRIVE_ABORTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    do: Do
    count: int = 0
    partition: int = -1
    size_bytes: int = SMALL_BYTES
    member: int = 0  # It counts members of the group, copiers too. Moves of a producer and of the cluster have 0.
    callers: int = 1  # Only SEND has more.
    topic: int = -1  # SUBSCRIBE: to this one of the trial's topics, instead of those before; -1: to all of them

    def __str__(self) -> str:
        parts = [str(self.do)]
        if self.topic >= 0:
            parts.append(f"to topic {self.topic} alone")
        if self.count:
            parts.append(str(self.count))
        if self.partition >= 0:
            parts.append(f"of partition {self.partition}")
        if self.callers > 1:
            parts.append(f"by {self.callers} callers")
        if self.member:
            parts.append(f"(member {self.member})")
        return " ".join(parts)


Takes = Callable[[str, str], bool]  # (side, property) -> whether the client declares it


class Role(StrEnum):
    """The role of the protocol's `connect`, or a program that does not speak the protocol."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    COPIER = "copier"  # a member of a group whose records go on to another topic, with its offsets, in transactions
    PROGRAM = "program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`properties` are Kafka's, beside those that the search sets itself (addresses and ids). The moves are carried
    out in order. The harness adds the end: it reads what is unread, flushes what is not flushed, and closes."""

    name: str
    role: Role
    moves: tuple[Move, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 3  # of each topic
    topics: int = 1  # Commands of a producer go to one topic after the other.
    prefilled: int = 0  # records that the topics hold before, in all
    topic: Mapping[str, str] = field(default_factory=dict)  # settings of each topic, in Kafka's names
    # Of each partition. With more than one the trial has the cluster for itself, because its brokers may die.
    replicas: int = 1
    # Polls give one record each, by the library's other call (docs/reference/client-protocol.md).
    is_one_by_one: bool = False

    @property
    def record_bytes_max(self) -> int:
        """Of the largest record that its moves write. What is there before is small."""
        return max((move.size_bytes for move in self.moves if move.do in _OF_RECORDS), default=SMALL_BYTES)

    @property
    def is_transactional(self) -> bool:
        is_seen = self.role is Role.PROGRAM and "transactional.id" in self.properties
        return is_seen or any(move.do is Do.BEGIN for move in self.moves)

    @property
    def changes(self) -> tuple[Move, ...]:
        """What the cluster does."""
        return tuple(move for move in self.moves if move.do.is_of_cluster)

    @property
    def has_own_brokers(self) -> bool:
        return self.replicas > 1

    @property
    def is_compacted(self) -> bool:
        return self.topic.get("cleanup.policy") == "compact"

    @property
    def begins_at_end(self) -> bool:
        """Whether a reader without an offset of its group begins with what comes next, and not with what is there."""
        return self.properties.get("auto.offset.reset") == "latest"

    @property
    def has_transactions_of_others(self) -> bool:
        return any(move.do in (Do.ARRIVE_COMMITTED, Do.ARRIVE_ABORTED) for move in self.moves)

    @property
    def is_read_uncommitted(self) -> bool:
        return self.properties.get("isolation.level") == "read_uncommitted"

    @property
    def members(self) -> int:
        return 1 + max((move.member for move in self.moves), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One thing to try. `then` acts from the moment on in which the first disturbance has met its first request, and
    its `skip` and `count` begin there: it meets the recovery from the first one. `besides` act by themselves, each on
    another API: a trial with them only says which single disturbances are worth a trial of their own
    (search/screening.py), so it is never written to a file."""

    program: Program
    disturbance: Disturbance | None = None
    then: Disturbance | None = None  # only with a first one
    besides: tuple[Disturbance, ...] = ()  # likewise, and not with `then`

    def __post_init__(self) -> None:
        assert self.disturbance is not None or (self.then is None and not self.besides)
        assert self.then is None or not self.besides

    def __str__(self) -> str:
        return f"{self.program.name}: {self.disturbed or 'no disturbance'}"

    @property
    def disturbances(self) -> tuple[Disturbance, ...]:
        """Two in the order in which they act; those besides in any order."""
        return tuple(one for one in (self.disturbance, self.then, *self.besides) if one is not None)

    @property
    def disturbed(self) -> str:
        """Its disturbances in words. Empty without one."""
        return (", then " if self.then is not None else "; ").join(map(str, self.disturbances))

    @property
    def control(self) -> Trial:
        """The same without a disturbance, on a cluster that does nothing. Itself if that is what it is."""
        quiet = tuple(move for move in self.program.moves if not move.do.is_of_cluster and move.do is not Do.SETTLE)
        return Trial(program=replace(self.program, moves=quiet))

    @property
    def is_quiet(self) -> bool:
        return self.disturbance is None and not self.program.changes


def to_document(trial: Trial) -> dict[str, Any]:
    """As JSON. Fields that have their default are left out."""
    assert not trial.besides
    program = trial.program
    document: dict[str, Any] = {
        "format": FORMAT,
        "program": {
            "name": program.name,
            "role": str(program.role),
            "partitions": program.partitions,
            **({"topics": program.topics} if program.topics != 1 else {}),
            "prefilled": program.prefilled,
            "properties": dict(program.properties),
            "moves": [_move_document(move) for move in program.moves],
            **({"topic": dict(program.topic)} if program.topic else {}),
            **({"replicas": program.replicas} if program.replicas != 1 else {}),
            **({"is_one_by_one": True} if program.is_one_by_one else {}),
        },
    }
    for name, disturbance in zip(("disturbance", "then"), trial.disturbances, strict=False):
        document[name] = _disturbance_document(disturbance)
    return document


def _disturbance_document(disturbance: Disturbance) -> dict[str, Any]:
    return {
        "api": disturbance.api,
        "how": str(disturbance.how),
        "code": disturbance.code,
        "skip": disturbance.skip,
        "count": disturbance.count,
        "late_ms": disturbance.late_ms,
        "heal_after_ms": disturbance.heal_after_ms,
        **({"alteration": disturbance.alteration} if disturbance.alteration else {}),
    }


def _move_document(move: Move) -> dict[str, Any]:
    document: dict[str, Any] = {"do": str(move.do)}
    default = Move(do=move.do)
    for name in ("count", "partition", "size_bytes", "member", "callers", "topic"):
        if getattr(move, name) != getattr(default, name):
            document[name] = getattr(move, name)
    return document


def from_document(document: Mapping[str, Any]) -> Trial:
    """ValueError, with what is wrong, for anything that `to_document` does not write."""
    if document.get("format") != FORMAT:
        raise ValueError(f"format: {document.get('format')!r}, this version reads {FORMAT}")
    try:
        program = document["program"]
        moves = tuple(Move(**{**move, "do": Do(move["do"])}) for move in program["moves"])
        disturbed = [document.get(name) for name in ("disturbance", "then")]
        if disturbed[0] is None and disturbed[1] is not None:
            raise ValueError("then: it comes after a disturbance, and there is none")
        first, then = (None if one is None else Disturbance(**{**one, "how": How(one["how"])}) for one in disturbed)
        return Trial(
            program=Program(**{**program, "role": Role(program["role"]), "moves": moves}),
            disturbance=first,
            then=then,
        )
    except KeyError as error:
        raise ValueError(f"{error.args[0]} is missing") from error
    except TypeError as error:
        raise ValueError(str(error)) from error
