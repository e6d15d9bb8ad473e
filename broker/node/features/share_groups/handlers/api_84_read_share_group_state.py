"""ReadShareGroupState (key 84), version 0, between brokers: a new leader reads the state, and fences earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.features.share_groups.handlers.state_questions import ask_all
from broker.node.features.share_groups.states.records import StateKey
from broker.node.features.share_groups.states.shard import ReadState, StateResult
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import read_share_group_state as shapes


def handle(services: Services, request: AnyRequest[shapes.ReadShareGroupStateRequest]) -> None:
    def event(token: int, key: StateKey, asked: shapes.PartitionData, exists: bool) -> ReadState:
        return ReadState(
            token=token,
            key=key,
            leader_epoch=asked.leader_epoch,
            exists=exists,
        )

    def done(found: dict[UUID, list[tuple[shapes.PartitionData, StateResult]]]) -> None:
        results: list[shapes.ReadStateResultFields] = [
            {"topic_id": topic_id, "partitions": [_result(asked, result) for asked, result in partitions]}
            for topic_id, partitions in found.items()
        ]
        request.respond(response(ApiKey.READ_SHARE_GROUP_STATE, request.version, results=results))

    ask_all(services, request, event, done)


def _result(asked: shapes.PartitionData, result: StateResult) -> shapes.PartitionResultFields:
    return {
        "partition": asked.partition,
        "error_code": result.error_code,
        "error_message": result.message,
        "state_epoch": result.state_epoch,
        "start_offset": result.start_offset if result.error_code is ErrorCode.none else 0,
        "state_batches": [
            {
                "first_offset": batch.first_offset,
                "last_offset": batch.last_offset,
                "delivery_state": batch.state,
                "delivery_count": batch.delivery_count,
            }
            for batch in result.batches
        ],
    }
