"""The events and actions of core/sender.py, the core of the producer's sender."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from broker.client.core.batch import UNKNOWN_OFFSET, UNKNOWN_TIMESTAMP, Batch, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """A broker's answer for one batch."""

    error_code: int = 0
    base_offset: int = UNKNOWN_OFFSET
    log_append_time_ms: int = UNKNOWN_TIMESTAMP
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time passed, or records were appended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConnected:
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost:
    """The connection is gone. Requests in `unsent` were not handed to the kernel completely, so no broker can act on
    them."""

    node: int
    unsent: frozenset[int] = frozenset()
    reason: str = "connection lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceSent:
    """The request's last byte was handed to the kernel. With acks=0 the client never learns more than this."""

    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceAnswered:
    request_id: int
    results: Mapping[TopicPartition, PartitionResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityAnswered:
    """The answer to AskIdentity; error_code -1 (network_exception) if there was none."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


Event: TypeAlias = Tick | NodeConnected | NodeLost | ProduceSent | ProduceAnswered | IdentityAnswered


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """The core needs a connection. The shell knows whether one is being opened, and when the next attempt is
    allowed."""

    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendProduce:
    request_id: int
    node: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskIdentity:
    """Send InitProducerId to any broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseNode:
    """A request got no answer within request.timeout.ms. All requests in flight to this node are given up."""

    node: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """The batch has its outcome. The shell must wake waiting callers and run the callbacks."""

    batch: Batch


Action: TypeAlias = Connect | SendProduce | AskIdentity | CloseNode | Complete
