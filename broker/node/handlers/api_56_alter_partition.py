"""AlterPartition (key 56), version 3, on the controller listener: a leader proposes an ISR.

Not done: version 2, which has no epochs of brokers, and leader recovery state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.controller.types import AlterPartition, AlterPartitionResponse, IsrChange
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import alter_partition as shapes


def event(services: Services, request: AnyRequest[shapes.AlterPartitionRequest]) -> MakeEvent:
    message = request.message
    changes = tuple(
        IsrChange(
            topic_id=topic.topic_id,
            partition=each.partition_index,
            leader_epoch=each.leader_epoch,
            partition_epoch=each.partition_epoch,
            new_isr={member.broker_id: member.broker_epoch for member in each.new_isr_with_epochs},
        )
        for topic in message.topics
        for each in topic.partitions
    )
    return lambda token: AlterPartition(
        token=token, broker_id=message.broker_id, broker_epoch=message.broker_epoch, changes=changes
    )


def answer(
    services: Services, request: AnyRequest[shapes.AlterPartitionRequest], result: AlterPartitionResponse
) -> shapes.AlterPartitionResponse:
    return _to_kio(request.version, result)


def _to_kio(version: int, result: AlterPartitionResponse) -> shapes.AlterPartitionResponse:
    topics: dict[UUID | None, list[shapes.AnsweredPartitionDataFields]] = {}
    for each in result.partitions:
        partition: shapes.AnsweredPartitionDataFields = {
            "partition_index": each.partition,
            "error_code": each.error_code,
        }
        if each.state is not None:
            partition["leader_id"] = each.state.leader
            partition["leader_epoch"] = each.state.leader_epoch
            partition["isr"] = each.state.isr
            partition["partition_epoch"] = each.state.partition_epoch
        topics.setdefault(each.topic_id, []).append(partition)
    return response(
        ApiKey.ALTER_PARTITION,
        version,
        error_code=result.error_code,
        topics=[{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()],
    )


CONTROLLER = ControllerApi(event=event, answer=answer)
