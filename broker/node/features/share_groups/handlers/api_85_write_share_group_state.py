"""WriteShareGroupState (key 85), versions 0-1, between brokers: which records of a partition a group has processed.
Version 1 adds their count."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.features.share_groups.delivery.state_batches import StateBatch
from broker.node.features.share_groups.handlers.state_questions import ask_all
from broker.node.features.share_groups.states.records import NO_COUNT, StateKey
from broker.node.features.share_groups.states.shard import StateResult, WriteState
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import write_share_group_state as shapes


def handle(services: Services, request: AnyRequest[shapes.WriteShareGroupStateRequest]) -> None:
    def event(token: int, key: StateKey, asked: shapes.PartitionData, exists: bool) -> WriteState:
        return WriteState(
            token=token,
            key=key,
            state_epoch=asked.state_epoch,
            leader_epoch=asked.leader_epoch,
            start_offset=asked.start_offset,
            delivery_complete_count=field_or(asked, "delivery_complete_count", NO_COUNT),
            batches=tuple(
                StateBatch(
                    first_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    state=batch.delivery_state,
                    delivery_count=batch.delivery_count,
                )
                for batch in asked.state_batches
            ),
            exists=exists,
        )

    def done(found: dict[UUID, list[tuple[shapes.PartitionData, StateResult]]]) -> None:
        results: list[shapes.WriteStateResultFields] = [
            {"topic_id": topic_id, "partitions": [_result(asked, result) for asked, result in partitions]}
            for topic_id, partitions in found.items()
        ]
        request.respond(response(ApiKey.WRITE_SHARE_GROUP_STATE, request.version, results=results))

    ask_all(services, request, event, done)


def _result(asked: shapes.PartitionData, result: StateResult) -> shapes.PartitionResultFields:
    return {
        "partition": asked.partition,
        "error_code": result.error_code,
        "error_message": result.message,
    }
