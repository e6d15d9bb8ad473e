"""DeleteShareGroupState (key 86), version 0, between brokers: the group is deleted, or it forgets a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.features.share_groups.handlers.state_questions import ask_all
from broker.node.features.share_groups.states.records import StateKey
from broker.node.features.share_groups.states.shard import DeleteState, StateResult
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import delete_share_group_state as shapes


def handle(services: Services, request: AnyRequest[shapes.DeleteShareGroupStateRequest]) -> None:
    def event(token: int, key: StateKey, asked: shapes.PartitionData, exists: bool) -> DeleteState:
        return DeleteState(
            token=token,
            key=key,
            exists=exists,
        )

    def done(found: dict[UUID, list[tuple[shapes.PartitionData, StateResult]]]) -> None:
        results: list[shapes.DeleteStateResultFields] = [
            {"topic_id": topic_id, "partitions": [_result(asked, result) for asked, result in partitions]}
            for topic_id, partitions in found.items()
        ]
        request.respond(response(ApiKey.DELETE_SHARE_GROUP_STATE, request.version, results=results))

    ask_all(services, request, event, done)


def _result(asked: shapes.PartitionData, result: StateResult) -> shapes.PartitionResultFields:
    return {
        "partition": asked.partition,
        "error_code": result.error_code,
        "error_message": result.message,
    }
