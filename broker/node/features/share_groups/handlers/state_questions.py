"""The common part of the five APIs of the share coordinator. For each partition, it asks the partition's shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from broker.node.coordination.groups import are_too_long
from broker.node.features.share_groups.part import SharePart
from broker.node.features.share_groups.states.records import StateKey
from broker.node.features.share_groups.states.shard import Request as StateRequest
from broker.node.features.share_groups.states.shard import StateResult
from broker.node.handlers.gather import Gather
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest, guarded
from broker.wire.errors import ErrorCode

NO_TOPIC_ID = UUID(int=0)  # the wire has it for a topic without an id


class AskedPartition(Protocol):
    @property
    def partition(self) -> int: ...


Asked = TypeVar("Asked", bound=AskedPartition)
Told = TypeVar("Told", bound=AskedPartition, covariant=True)


class _Topic(Protocol[Told]):
    @property
    def topic_id(self) -> UUID | None: ...
    @property
    def partitions(self) -> Sequence[Told]: ...


def ask_all(
    services: Services,
    request: AnyRequest[Any],  # Any: a request of one of the five APIs
    event: Callable[[int, StateKey, Asked, bool], StateRequest],
    done: Callable[[dict[UUID, list[tuple[Asked, StateResult]]]], None],
) -> None:
    """`event(token, key, the partition in the request, whether it exists)` makes the question. `done` is called
    once. As in Kafka, the answer is empty if the group has no name or a topic has no partitions."""
    group_id: str = request.message.group_id
    topics: tuple[_Topic[Asked], ...] = request.message.topics
    if not group_id or not all(topic.partitions for topic in topics):
        done({})
        return
    asked = [(topic.topic_id or NO_TOPIC_ID, partition) for topic in topics for partition in topic.partitions]

    def finished(results: list[StateResult]) -> None:
        found: dict[UUID, list[tuple[Asked, StateResult]]] = {}
        for (topic_id, partition), result in zip(asked, results, strict=True):
            found.setdefault(topic_id, []).append((partition, result))
        done(found)

    gather: Gather[StateResult] = Gather(len(asked), finished)
    for position, (topic_id, partition) in enumerate(asked):
        put = guarded(request, gather.slot(position))
        problem = _problem(group_id, partition.partition)
        if problem is not None:
            put(StateResult(error_code=ErrorCode.invalid_request, message=problem))
            continue
        key = StateKey(group_id=group_id, topic_id=topic_id, partition=partition.partition)
        exists = services.part(SharePart).states.exists(topic_id, partition.partition)
        _ask(services, key, partition, exists, event, put)


def _ask(
    services: Services,
    key: StateKey,
    partition: Asked,
    exists: bool,
    event: Callable[[int, StateKey, Asked, bool], StateRequest],
    put: Callable[[StateResult], None],
) -> None:
    services.part(SharePart).states.ask(key, lambda token: event(token, key, partition, exists), put)


def _problem(group_id: str, partition: int) -> str | None:
    """The error message for an invalid partition. None if it is valid."""
    if are_too_long(group_id):
        return "The group id is too long."
    return "The partition id cannot be a negative number." if partition < 0 else None
