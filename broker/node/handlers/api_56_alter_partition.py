"""AlterPartition (key 56), versions 2-3, on the controller listener: a leader proposes an ISR.

Version 2 carries broker ids only (epochs unknown). Not done: leader recovery state.
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

EPOCHS_SINCE_VERSION = 3


def event(services: Services, request: AnyRequest[shapes.AlterPartitionRequest]) -> MakeEvent:
    message = request.message
    changes = tuple(
        IsrChange(
            topic_id=topic.topic_id,
            partition=each.partition_index,
            leader_epoch=each.leader_epoch,
            partition_epoch=each.partition_epoch,
            new_isr=_isr(request.version, each),
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


def _isr(version: int, partition: shapes.AskedPartitionData) -> dict[int, int]:
    if version >= EPOCHS_SINCE_VERSION:
        return {each.broker_id: each.broker_epoch for each in partition.new_isr_with_epochs}
    return {broker_id: -1 for broker_id in partition.new_isr}


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
