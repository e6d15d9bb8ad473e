"""What a client library must offer to be measured. One adapter per library, one file per adapter.

- An adapter takes Kafka's property names, and refuses by name what its library cannot set.
- Each accepted send is reported to the outcome sink exactly once. If the client is closed first, it is never reported
  and stays unknown.
- A send is FAILED only if it certainly was not appended (fates.py). After a timeout or a lost connection it may have
  left, so it is UNKNOWN.
- With acks=0 no answer says that a record arrived. So each outcome is UNKNOWN, with the time at which the client
  released the record.

`docs/guide/clients.md` shows how to add a client; tests/workloads/test_workloads_own_client.py follows that page.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from runlog.files.nearest import nearest_name
from runlog.streams.schema import ABSENT, SendStatus

LOCAL_ERROR = -1
START_TIMEOUT_S = 90.0  # until a client is made: a JVM of its own needs 1 s, and more than 30 on a host that is full
# A client that is made has this long. The first metadata took a JVM more than 20 s on a host that is full.
CONNECT_TIMEOUT_S = 60.0
READY_TIMEOUT_S = START_TIMEOUT_S + CONNECT_TIMEOUT_S + 5.0  # all users of a load at once: as the slowest may take
RECORDS_PER_POLL_MAX = 5_000  # what a consumer hands over at once, unless max.poll.records says less


class PropertyError(ValueError):
    """A Kafka property that this client cannot set, or not to this value."""

    def __init__(self, client: str, name: str, reason: str) -> None:
        super().__init__(f"client {client} cannot set {name}: {reason}")
        self.name = name
        self.reason = reason


class ClientError(RuntimeError):
    """The client could not connect or cannot go on."""


class TransactionAborted(Exception):
    """Nothing of the transaction is committed, and the client can begin the next one. `code`: Kafka's, -1 if local."""

    def __init__(self, reason: str, code: int = LOCAL_ERROR) -> None:
        super().__init__(reason)
        self.code = code


class TransactionUnknown(Exception):
    """Nobody knows how the transaction ended or will end. Only a new client with its transactional.id can go on."""

    def __init__(self, reason: str, code: int = LOCAL_ERROR) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSetup:
    """What an adapter is made from. `topics` are all topics of the cell, each with the same number of partitions."""

    bootstrap_servers: str
    topics: tuple[str, ...]
    properties: Mapping[str, str]
    runtime: Mapping[str, str] = field(default_factory=dict)  # what the harness found for it, e.g. java's class path
    group_id: str | None = None  # consumers: subscribe as a member of this group; None: partitions are assigned
    start: Literal["earliest", "latest"] = "earliest"  # consumers: where to begin without a committed offset
    own_group_id: str | None = None  # consumers with partitions: for a library that reads in a group only
    transactional_id: str | None = None  # of make_transactional_producer


# Fixed width rows of clients that keep the times themselves, in another process; see OutcomeSink.timed.
TIMED_OUTCOME = np.dtype(
    [
        ("seq", "<i8"), ("sent_ns", "<i8"), ("acked_ns", "<i8"), ("offset", "<i8"), ("append_ms", "<i8"),
        ("partition", "<i4"), ("error", "<i2"), ("status", "<i2"),
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch:
    """Records that are due together, as arrays: nothing here is an object for each record. Keys and values lie side by
    side, in the order of the records; a size of -1 is no key or no value."""

    seqs: NDArray[np.int64]
    topics: NDArray[np.integer[Any]]  # their places in the setup's topics
    partitions: NDArray[np.int32]  # -1: the client chooses
    key_sizes: NDArray[np.int32]
    keys: NDArray[np.uint8]
    value_sizes: NDArray[np.int32]
    values: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.seqs)


class OutcomeSink(Protocol):
    """The sink for outcomes, from any thread. A time of appending is ms of the wall clock, -1 if not known. It is used
    only if the topic's timestamps are the broker's. So an adapter simply passes on the timestamp that it gets."""

    def one(
        self, seq: int, status: SendStatus, error: int, partition: int, offset: int, append_ms: int = ABSENT
    ) -> None:
        """`error`: Kafka's code, -1 for a local one, 0 none. `partition` and `offset`: -1 if not known."""

    def many(
        self,
        seqs: Sequence[int],
        status: SendStatus,
        error: int,
        partition: int,
        base_offset: int,
        append_ms: int = ABSENT,
    ) -> None:
        """A whole batch: the same outcome for all, at consecutive offsets from `base_offset`, or -1 for none."""

    def timed(self, outcomes: NDArray[Any]) -> None:
        """Rows of TIMED_OUTCOME, with CLOCK_MONOTONIC times that were taken where the client runs. A `sent_ns` of -1 is
        the time at which the record was handed to the adapter, an `acked_ns` of -1 is not known."""


class ProducerClient(Protocol):
    """Used by one thread, which is a real OS thread and may be blocked."""

    def connect(self, timeout_s: float) -> None:
        """Have metadata of the topics. ClientError if that does not come in time."""

    def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
        """Hand over one record; False when the client has no space: nothing was taken, try again later."""

    def poll(self, timeout_s: float) -> None:
        """Wait at most this long, and deliver outcomes if the library delivers them from here. poll(0) follows each run
        of sends. An adapter that collects records passes them on now."""

    def close(self, timeout_s: float) -> None:
        """Stop within this time. Outcomes may still arrive during the call, none after it."""

    def metrics(self) -> dict[str, float]: ...

    def effective(self) -> dict[str, str]:
        """The settings in force, under the library's own names."""


@runtime_checkable
class TakesBatches(Protocol):
    """A ProducerClient may offer this too. Then a load hands over what is due without an object for each record."""

    @property
    def takes_batches(self) -> bool: ...

    def room(self) -> int:
        """How many records `send_batch` takes now, however large they are."""

    def send_batch(self, batch: RecordBatch) -> None:
        """Hand over at most `room` records, all of which are taken."""


class TransactionalClient(ProducerClient, Protocol):
    """A producer with a transactional.id. `connect` also ends what an earlier one of that id left open. Records are
    sent between `begin` and the end only. Their outcomes have been told when `commit` or `abort` returns: acknowledged
    means no more than that a broker has the record."""

    def begin(self) -> None:
        """TransactionAborted or TransactionUnknown if the client is of no more use."""

    def commit(self, timeout_s: float) -> None:
        """TransactionAborted, or TransactionUnknown."""

    def abort(self, timeout_s: float) -> None:
        """Writes what was sent, as far as that is possible in this time, and then aborts. Raises as `commit` does."""


# (topic, partition, offset, value, timestamp in ms of the wall clock)
ReceivedRecord = tuple[str, int, int, bytes, int]


class Polled(NamedTuple):
    """What one poll gave, and when it gave it (CLOCK_MONOTONIC)."""

    records: Sequence[ReceivedRecord]
    polled_ns: int
    # The group's generation in which the records were handed out. Most libraries do not tell it.
    generation: int = ABSENT


def polled_of(found: Mapping[Any, Sequence[Any]]) -> Polled:
    """What a poll of a Python client returned: its records by partition, with the attributes that aiokafka and
    kafka-python have in common. The time is taken first, because the conversion is our own work."""
    polled_ns = time.monotonic_ns()
    return Polled(
        [
            (record.topic, record.partition, record.offset, record.value or b"", record.timestamp)
            for records in found.values()
            for record in records
        ],
        polled_ns,
    )


class ConsumerClient(Protocol):
    """A reader of given partitions, or a member of a group. Used by one thread."""

    def connect(self, partitions: Sequence[tuple[str, int]], timeout_s: float) -> None:
        """Begin to read these partitions; with a group id, subscribe to the setup's topics instead."""

    def poll(self, timeout_s: float) -> Polled: ...

    def close(self) -> None: ...


class ClientLibrary(Protocol):
    """What a module in workloads/clients, or the object behind an entry point, offers."""

    def make_producer(self, setup: ClientSetup, sink: OutcomeSink) -> ProducerClient:
        """PropertyError if it cannot set a property. Nothing is connected yet."""

    def make_consumer(self, setup: ClientSetup) -> ConsumerClient: ...


@runtime_checkable
class RunsTransactions(Protocol):
    """A library may offer this too. Then a load can send its records inside of transactions."""

    def make_transactional_producer(self, setup: ClientSetup, sink: OutcomeSink) -> TransactionalClient:
        """As `make_producer`, with the setup's transactional_id."""


@runtime_checkable
class DeclaresTransactions(Protocol):
    """A library that serves many clients, of which some have transactions, offers this too."""

    def transactions_problem(self) -> str:
        """Why this client cannot send its records inside of transactions. Empty if it can."""


@runtime_checkable
class ChecksProperties(Protocol):
    """A library may offer this too. Then a plan that it cannot run is refused before anything starts."""

    def check_properties(self, properties: Mapping[str, str]) -> None:
        """PropertyError if a producer cannot be made with these."""


@runtime_checkable
class ChecksConsumerProperties(Protocol):
    """The same for a reader's properties."""

    def check_consumer_properties(self, properties: Mapping[str, str], *, is_member: bool) -> None:
        """PropertyError if a consumer cannot be made with these; `is_member`: of a consumer group."""


@runtime_checkable
class StandsIn(Protocol):
    """A library without some of Kafka's settings may offer this. A scenario for all clients then runs with the nearest
    settings, and says so, instead of being left out."""

    def nearest_properties(
        self, properties: Mapping[str, str], *, as_they_are: Collection[str]
    ) -> tuple[Mapping[str, str], Sequence[str]]:
        """Settings that the library has, and each change in words. The scenario is about the settings in `as_they_are`.
        They are never changed, so that `check_properties` refuses them."""


def is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def no_such_property(client: str, name: str, known: Iterable[str], reason: str) -> PropertyError:
    """The refusal of a property, with the nearest one that the client can set."""
    near = nearest_name(name, sorted(known))
    return PropertyError(client, name, f"{reason}; did you mean {near}?" if near else reason)
