"""InitializeShareGroupState (key 83), version 0, between brokers: the offsets at which a share group begins in its
partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.features.share_groups.handlers.state_questions import ask_all
from broker.node.features.share_groups.states.records import StateKey
from broker.node.features.share_groups.states.shard import InitializeState, StateResult
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import initialize_share_group_state as shapes


def handle(services: Services, request: AnyRequest[shapes.InitializeShareGroupStateRequest]) -> None:
    def event(token: int, key: StateKey, asked: shapes.PartitionData, exists: bool) -> InitializeState:
        return InitializeState(
            token=token,
            key=key,
            state_epoch=asked.state_epoch,
            start_offset=asked.start_offset,
            exists=exists,
        )

    def done(found: dict[UUID, list[tuple[shapes.PartitionData, StateResult]]]) -> None:
        results: list[shapes.InitializeStateResultFields] = [
            {"topic_id": topic_id, "partitions": [_result(asked, result) for asked, result in partitions]}
            for topic_id, partitions in found.items()
        ]
        request.respond(response(ApiKey.INITIALIZE_SHARE_GROUP_STATE, request.version, results=results))

    ask_all(services, request, event, done)


def _result(asked: shapes.PartitionData, result: StateResult) -> shapes.PartitionResultFields:
    return {
        "partition": asked.partition,
        "error_code": result.error_code,
        "error_message": result.message,
    }
