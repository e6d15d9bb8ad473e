"""The requests to the share coordinators, which initialize, read, write and delete the states of share partitions
(KIP-932).

Each partition of a group has its coordinator, perhaps on another broker. A request contains partitions of one
coordinator. While a coordinator moves or cannot be reached, the request is repeated, for at most `TIMEOUT_MS`. A
repetition does no harm: a state that is written twice is the same state.
Shown by tests/broker_node/test_node_share_persister.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from broker.node.cluster.links import Links
from broker.node.features.share_groups.coordinator import ShareStates
from broker.node.features.share_groups.delivery.state_batches import StateBatch
from broker.node.features.share_groups.states.records import NO_COUNT, StateKey
from broker.node.features.share_groups.states.shard import StateResult
from broker.node.net.channel import ChannelError
from broker.node.process.clock import monotonic_ms
from broker.node.process.logs import Logger
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import build, request_type

# Longer than it takes until a dead broker's session is over (9 s in Apache Kafka's default) and another coordinator is
# elected. Shorter than clients wait for answers (30 s). Apache Kafka tries five times; its waits double from 1 s.
TIMEOUT_MS = 25_000
CALL_TIMEOUT_MS = 6_000  # longer than share.coordinator.write.timeout.ms
BACKOFF_MS, BACKOFF_MAX_MS = 50, 1_000
PARTITIONS_PER_REQUEST = 200  # three elements each; limits.py has what a coordinator accepts
_VERSIONS: Mapping[ApiKey, int] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE: 0,
    ApiKey.WRITE_SHARE_GROUP_STATE: 1,
    ApiKey.DELETE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: 1,
}
_LATER = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,
    }
)
Place: TypeAlias = tuple[UUID, int]
_Fields: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateToWrite:
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class Persister:
    def __init__(self, *, states: ShareStates, peers: Links, logger: Logger) -> None:
        self._states, self._peers, self._logger = states, peers, logger

    async def initialize(
        self, group_id: str, state_epoch: int, offsets: Mapping[UUID, Mapping[int, int]]
    ) -> dict[Place, StateResult]:
        """Initializes states with these start offsets. -1 means that the group has not begun."""
        asked: dict[Place, _Fields] = {
            (topic_id, index): {"partition": index, "state_epoch": state_epoch, "start_offset": offset}
            for topic_id, partitions in offsets.items()
            for index, offset in partitions.items()
        }
        return await self._ask(ApiKey.INITIALIZE_SHARE_GROUP_STATE, group_id, asked)

    async def read(self, group_id: str, place: Place, leader_epoch: int) -> StateResult:
        fields = {"partition": place[1], "leader_epoch": leader_epoch}
        return (await self._ask(ApiKey.READ_SHARE_GROUP_STATE, group_id, {place: fields}))[place]

    async def write(self, group_id: str, place: Place, state: StateToWrite) -> StateResult:
        fields = {
            "partition": place[1],
            "state_epoch": state.state_epoch,
            "leader_epoch": state.leader_epoch,
            "start_offset": state.start_offset,
            "delivery_complete_count": state.delivery_complete_count,
            "state_batches": [
                {
                    "first_offset": batch.first_offset,
                    "last_offset": batch.last_offset,
                    "delivery_state": batch.state,
                    "delivery_count": batch.delivery_count,
                }
                for batch in state.batches
            ],
        }
        return (await self._ask(ApiKey.WRITE_SHARE_GROUP_STATE, group_id, {place: fields}))[place]

    async def delete(self, group_id: str, places: Iterable[Place]) -> dict[Place, StateResult]:
        asked: dict[Place, _Fields] = {place: {"partition": place[1]} for place in places}
        return await self._ask(ApiKey.DELETE_SHARE_GROUP_STATE, group_id, asked)

    async def summaries(self, group_id: str, places: Iterable[Place]) -> dict[Place, StateResult]:
        """Reads states without their batches."""
        asked: dict[Place, _Fields] = {place: {"partition": place[1], "leader_epoch": -1} for place in places}
        return await self._ask(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, group_id, asked)

    # -- asking ------------------------------------------------------------------------------------------------------

    async def _ask(self, api: ApiKey, group_id: str, asked: Mapping[Place, _Fields]) -> dict[Place, StateResult]:
        found: dict[Place, StateResult] = {}
        problem = await self._states.host.ensure_topic() if asked else None
        if problem is not None:
            failed = StateResult(error_code=ErrorCode.coordinator_not_available, message=problem)
            return dict.fromkeys(asked, failed)
        deadline_ms, backoff_ms = monotonic_ms() + TIMEOUT_MS, BACKOFF_MS
        while True:
            left = {place: fields for place, fields in asked.items() if _is_open(found.get(place))}
            requests = [
                self._send(api, broker_id, group_id, part)
                for broker_id, all_of in self._by_coordinator(group_id, left).items()
                for part in _parts(all_of)
            ]
            for answer in await asyncio.gather(*requests):
                found.update(answer)
            is_late = monotonic_ms() + backoff_ms >= deadline_ms
            if is_late or not any(_is_open(found[place]) for place in asked):
                return found
            await asyncio.sleep(backoff_ms / 1000)
            backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)

    def _by_coordinator(self, group_id: str, asked: Mapping[Place, _Fields]) -> dict[int, dict[Place, _Fields]]:
        found: dict[int, dict[Place, _Fields]] = {}
        for place, fields in asked.items():
            key = StateKey(group_id=group_id, topic_id=place[0], partition=place[1])
            found.setdefault(self._states.coordinator_of(key), {})[place] = fields
        return found

    async def _send(
        self, api: ApiKey, broker_id: int, group_id: str, asked: Mapping[Place, _Fields]
    ) -> dict[Place, StateResult]:
        """Sends one request of any of the five APIs, which have the same form."""
        if broker_id < 0:
            return dict.fromkeys(asked, StateResult(error_code=ErrorCode.coordinator_not_available))
        topics: dict[UUID, list[_Fields]] = {}
        for (topic_id, _), fields in asked.items():
            topics.setdefault(topic_id, []).append(fields)
        message: Any = build(  # a message of one of the five APIs
            request_type(api, _VERSIONS[api]),
            {
                "group_id": group_id,
                "topics": [{"topic_id": topic_id, "partitions": parts} for topic_id, parts in topics.items()],
            },
        )
        try:
            answer: Any = await self._peers.call(broker_id, api, _VERSIONS[api], message, timeout_ms=CALL_TIMEOUT_MS)
        except ChannelError as failure:
            self._logger.warning("share_coordinator_unanswered", coordinator=broker_id, cause=repr(str(failure)))
            return dict.fromkeys(asked, StateResult(error_code=ErrorCode.network_exception))
        told = {
            (topic.topic_id, part.partition): _result(part) for topic in answer.results for part in topic.partitions
        }
        missing = StateResult(error_code=ErrorCode.unknown_server_error, message="the share coordinator left it out")
        return {place: told.get(place, missing) for place in asked}


def _is_open(result: StateResult | None) -> bool:
    return result is None or result.error_code in _LATER


def _parts(asked: Mapping[Place, _Fields]) -> list[dict[Place, _Fields]]:
    items = list(asked.items())
    return [
        dict(items[first : first + PARTITIONS_PER_REQUEST]) for first in range(0, len(items), PARTITIONS_PER_REQUEST)
    ]


def _result(part: Any) -> StateResult:  # a partition's result, of one of the five APIs
    return StateResult(
        error_code=part.error_code,
        message=part.error_message,
        state_epoch=field_or_(part, "state_epoch", 0),
        leader_epoch=field_or_(part, "leader_epoch", 0),
        start_offset=field_or_(part, "start_offset", -1),
        delivery_complete_count=field_or_(part, "delivery_complete_count", NO_COUNT),
        batches=tuple(
            StateBatch(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                state=batch.delivery_state,
                delivery_count=batch.delivery_count,
            )
            for batch in field_or_(part, "state_batches", ())
        ),
    )


field_or_: Callable[[Any, str, Any], Any] = getattr  # as messages.field_or, for a message of any API
