"""The values that go into and out of the share consumer's core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError

Place: TypeAlias = tuple[UUID, int]  # topic id, partition
FIRST_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1


class AcknowledgeType(IntEnum):
    """The numbers are those on the wire. The client itself sends GAP, for offsets without a record."""

    GAP = 0
    ACCEPT = 1  # the record is processed and does not come again
    RELEASE = 2  # the record is offered again, also to other members
    REJECT = 3  # the record cannot be processed and does not come again
    RENEW = 4  # the record is still in work: its lock begins anew (KIP-1222)


class ShareRecord(NamedTuple):
    """It is a named tuple, because one is made for each record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    delivery_count: int  # 1: it is delivered for the first time


Acks: TypeAlias = Mapping[Place, Mapping[int, AcknowledgeType]]  # offset -> type, for each partition


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRequest:
    """A ShareFetch, or a ShareAcknowledge if it reads nothing. `added` and `forgotten` change what the session reads.
    The first request of a session has no acknowledgements. A request with FINAL_EPOCH ends the session, and the broker
    releases all records that the member holds there."""

    epoch: int
    is_fetch: bool
    added: frozenset[Place] = frozenset()
    forgotten: frozenset[Place] = frozenset()
    acks: Acks = field(default_factory=dict)

    @property
    def is_renewing(self) -> bool:
        return any(kind is AcknowledgeType.RENEW for acks in self.acks.values() for kind in acks.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePart:
    """The part of an answer for one partition. `acquired` are (first offset, last offset, delivery count). `records`
    must stay valid until `on_answer` returns. An answer to ShareAcknowledge has only `acknowledge_error`."""

    error_code: int = 0
    acknowledge_error: int = 0
    records: bytes | memoryview = b""
    acquired: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAnswer:
    """If `error_code` is not 0, the whole request was refused, and `parts` is empty."""

    error_code: int = 0
    lock_timeout_ms: int = 0
    parts: Mapping[Place, SharePart] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of acknowledgements of one partition. Without an error the broker has confirmed them. If
    `error.definite` is False, nobody knows whether they count. Offsets without a record are not listed."""

    partition: TopicPartition
    types: Mapping[int, AcknowledgeType]
    error: KafkaError | None = None
