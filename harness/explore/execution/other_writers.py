"""Records that somebody else writes into a trial's topic while the client under test reads it.

They come in batches, every second lot compressed, or in a transaction that is committed or given up. A transaction
leaves more in the log than its records: a marker in each partition that it wrote to, and, where it was given up,
records that a read_committed reader is not given. So offsets have gaps, a batch may hold nothing for a reader, and the
end of the log may hold nothing at all. The writers are shared by all trials of a search, which take turns. Shown by
tests/harness/test_harness_explore_others.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from broker.door.clients import KafkaError, Producer
from harness.errors import EnvironmentFault
from harness.explore.trial.history import OTHERS, Logged
from harness.explore.trial.topics import Topics

TIMEOUT_S: Final = 60.0
LINGER_MS: Final = 5  # A lot is a batch in each partition, so that a reader may go on within one.
CODECS: Final = ("none", "gzip")  # All clients have these.
KEYS: Final = 3  # of each partition, where the topic is compacted


class Written(Protocol):
    """Where a record is. It raises KafkaError if it is nowhere."""

    @property
    def offset(self) -> int: ...


class Writing(Protocol):
    def get(self, timeout_s: float | None = None) -> Written: ...


_Record = tuple[int, bytes, Writing]  # the partition's number, the value, where it is


class Writer(Protocol):
    """What of `broker.door.clients.Producer` is used."""

    def send(self, topic: str, value: bytes, key: bytes | None, partition: int) -> Writing: ...

    def flush(self, timeout_s: float | None = None) -> int: ...

    def init_transactions(self, timeout_s: float | None = None) -> None: ...

    def begin_transaction(self) -> None: ...

    def commit_transaction(self, timeout_s: float | None = None) -> None: ...

    def abort_transaction(self, timeout_s: float | None = None) -> None: ...

    def close(self, timeout_s: float | None = None) -> None: ...


class Writers:
    """The writers of a search. `transactional_id`: of the one that writes in transactions. Each is made when it is
    first needed, and anew if something went wrong: what it still has belongs to a trial that is over."""

    def __init__(
        self,
        bootstrap_servers: str,
        transactional_id: str,
        *,
        make: Callable[[Mapping[str, object]], Writer] = Producer,
    ) -> None:
        self._make, self._transactional_id = make, transactional_id
        self._properties: dict[str, object] = {"bootstrap.servers": bootstrap_servers, "linger.ms": LINGER_MS}
        self._lock = threading.Lock()
        self._plain: dict[str, Writer] = {}  # by codec
        self._in_transactions: Writer | None = None

    def close(self) -> None:
        with self._lock:
            for writer in (*self._plain.values(), self._in_transactions):
                if writer is not None:
                    writer.close(1.0)
            self._plain.clear()
            self._in_transactions = None

    @contextmanager
    def plain(self, codec: str) -> Iterator[Writer]:
        with self._lock:
            try:
                if codec not in self._plain:
                    self._plain[codec] = self._make({**self._properties, "compression.type": codec})
                yield self._plain[codec]
            except BaseException:
                _give_up(self._plain.pop(codec, None))
                raise

    @contextmanager
    def in_transaction(self, *, is_committed: bool) -> Iterator[Writer]:
        """One transaction. It is in the log as a whole, and has ended, when this is left."""
        with self._lock:
            try:
                if self._in_transactions is None:
                    self._in_transactions = self._make({**self._properties, "transactional.id": self._transactional_id})
                    self._in_transactions.init_transactions(TIMEOUT_S)
                self._in_transactions.begin_transaction()
                yield self._in_transactions
                if is_committed:
                    self._in_transactions.commit_transaction(TIMEOUT_S)
                else:
                    self._in_transactions.abort_transaction(TIMEOUT_S)
            except BaseException:
                # Whether the transaction has ended is not known: the next one of this id ends it.
                broken, self._in_transactions = self._in_transactions, None
                _give_up(broken)
                raise


def _give_up(writer: Writer | None) -> None:
    """What went wrong is told already."""
    if writer is not None:
        with suppress(KafkaError):
            writer.close(1.0)


class Others:
    """Somebody else, in one trial. `ends` follows: for each partition the offset behind the last record that the reader
    is given. With `is_read_uncommitted` it is given what was given up too."""

    def __init__(
        self,
        writers: Writers,
        topics: Topics,
        ends: MutableMapping[int, int],
        *,
        is_read_uncommitted: bool,
        is_compacted: bool = False,
    ) -> None:
        self._writers, self._topics, self._ends = writers, topics, ends
        self._name = topics.names[0]
        self._is_read_uncommitted, self._is_compacted = is_read_uncommitted, is_compacted
        self._count = self._lots = 0
        self.written: list[Logged] = []  # into a compacted topic, whose log will not have all of it

    def write(self, count: int, size_bytes: int = 0) -> None:
        """Over the partitions in turn, of this size at the least."""
        if count:
            codec = CODECS[self._lots % len(CODECS)]
            self._lots += 1
            with self._told(), self._writers.plain(codec) as writer:
                self._follow(self._send(writer, count, size_bytes))

    def write_in_transaction(self, count: int, size_bytes: int, is_committed: bool) -> None:
        with self._told():
            with self._writers.in_transaction(is_committed=is_committed) as writer:
                written = self._send(writer, count, size_bytes)
            self._follow(written, is_aborted=not is_committed)

    def _send(self, writer: Writer, count: int, size_bytes: int) -> list[_Record]:
        """All of them are in the log when it returns: those that are given up, too."""
        written = []
        for number in range(self._count, self._count + count):
            partition = number % len(self._ends)
            value = (b"%s%d" % (OTHERS, number)).ljust(size_bytes, b".")
            topic, place = self._topics.place(partition)
            key = b"key %d" % (number // len(self._ends) % KEYS) if self._is_compacted else None
            written.append((partition, value, writer.send(topic, value, key, place)))
        self._count += count
        if left := writer.flush(TIMEOUT_S):
            raise EnvironmentFault(f"topic {self._name}: {left} records were not written within {TIMEOUT_S:.0f} s")
        return written

    def _follow(self, written: list[_Record], *, is_aborted: bool = False) -> None:
        for partition, value, each in written:
            offset = each.get(TIMEOUT_S).offset
            if not is_aborted or self._is_read_uncommitted:
                self._ends[partition] = max(self._ends.get(partition, 0), offset + 1)
            if self._is_compacted:
                self.written.append(
                    Logged(partition=partition, offset=offset, value=value, is_aborted=is_aborted, is_deleted=True)
                )

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            raise EnvironmentFault(f"topic {self._name}: what others write: {error}") from error
