"""Removes redelivered records, as a consumer of an at-least-once log does before it acts on a record.

Owns: the two stores (a bounded table in this process, a Redis server), and the count of duplicates before and after. A
record is known by its identity (producer, incarnation, sequence) and not by its offset, because a record that a
producer wrote twice has two offsets. A record is noted before it is processed. If the consumer dies before it acts, the
record is not handed on again, so for such records the delivery is at most once. Shown by
tests/workloads/test_workloads_redelivery.py.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol

from workloads.clients.protocol import ClientError

Identity = tuple[int, int, int]  # producer, incarnation, sequence
REFERENCE_MAX = 5_000_000  # identities that the count of duplicates remembers, some 100 bytes each
_KEY = struct.Struct(">HIQ")
_REDIS_TIMEOUT_S = 5.0


class Store(Protocol):
    """`claim` notes identities and tells for each whether it was new. Used by several threads."""

    def claim(self, identities: Sequence[Identity]) -> list[bool]: ...
    def close(self) -> None: ...


class TableStore:
    """The last `entries_max` identities of all consumers in this process. An older record would be handed on again."""

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._seen: OrderedDict[Identity, None] = OrderedDict()
        self._lock = threading.Lock()

    def claim(self, identities: Sequence[Identity]) -> list[bool]:
        seen = self._seen
        answers = []
        with self._lock:
            for each in identities:
                is_new = each not in seen
                if is_new:
                    seen[each] = None
                    if len(seen) > self._entries_max:
                        seen.popitem(last=False)
                else:
                    seen.move_to_end(each)  # a record that comes again is likely to come once more
                answers.append(is_new)
        return answers

    def close(self) -> None:
        self._seen.clear()


class RedisStore:
    """One key for each record. It is set only if it is absent (SET NX), and expires after `keep_ms`. All processes
    share it."""

    def __init__(self, url: str, prefix: str, keep_ms: int) -> None:
        try:
            import redis
        except ImportError as error:
            raise ClientError("deduplicate: redis needs the package redis: pip install 'redis>=5,<9'") from error
        self._errors = redis.RedisError
        self._url = url
        self._prefix = prefix.encode() + b":"
        self._keep_ms = keep_ms
        self._client: Any = redis.Redis.from_url(  # Any: its commands are typed for both sync and async use
            url, socket_timeout=_REDIS_TIMEOUT_S, socket_connect_timeout=_REDIS_TIMEOUT_S
        )

    def claim(self, identities: Sequence[Identity]) -> list[bool]:
        """One round trip for all. Raises ClientError if the server does not answer: nothing is guessed."""
        try:
            pipeline = self._client.pipeline(transaction=False)
            for producer, incarnation, seq in identities:
                key = self._prefix + _KEY.pack(producer & 0xFFFF, incarnation & 0xFFFFFFFF, seq & (2**64 - 1))
                pipeline.set(key, b"", nx=True, px=self._keep_ms)
            return [answer is not None for answer in pipeline.execute()]
        except self._errors as error:
            raise ClientError(f"Redis at {self._url}: {error}") from error

    def close(self) -> None:
        self._client.close()


class RedeliveryFilter:
    """One filter for a reader, for all its consumers in this process. `is_alone` False: other processes use the same
    store. A record that is removed here may then have been handed on there. So it counts as come before, and never as
    removed wrongly."""

    def __init__(self, store: Store, *, is_alone: bool = True, reference_max: int = REFERENCE_MAX) -> None:
        self._store = store
        self._is_alone = is_alone
        self._reference_max = reference_max
        self._came: set[Identity] = set()
        self._handed_on: set[Identity] = set()
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(
            ("records", "handed_on", "duplicates_before", "duplicates_after", "wrongly_removed", "not_judged"), 0
        )

    def keep(self, identities: Sequence[Identity]) -> list[bool]:
        """For each identity, whether the application gets the record."""
        answers = self._store.claim(identities)
        with self._lock:
            for identity, is_kept in zip(identities, answers, strict=True):
                self._judge(identity, is_kept)
        return answers

    def _judge(self, identity: Identity, is_kept: bool) -> None:
        counts = self._counts
        counts["records"] += 1
        counts["handed_on"] += is_kept
        came, handed_on = self._came, self._handed_on
        is_known_elsewhere = not self._is_alone and not is_kept and identity not in came
        if identity in came or is_known_elsewhere:
            counts["duplicates_before"] += 1
        elif len(came) >= self._reference_max:
            counts["not_judged"] += 1
            return
        else:
            came.add(identity)
        if not is_kept:
            counts["wrongly_removed"] += self._is_alone and identity not in handed_on
        elif identity in handed_on:
            counts["duplicates_after"] += 1
        else:
            handed_on.add(identity)

    def report(self) -> dict[str, int]:
        """`wrongly_removed`: the application never got the record, and it was removed all the same."""
        with self._lock:
            return dict(self._counts)

    def close(self) -> None:
        self._store.close()
