"""AssignReplicasToDirs (key 73), version 0, on the controller listener: a broker tells in which of its log directories
its replicas lie (KIP-858).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.controller.directory_types import AssignReplicas, AssignReplicasResponse, ReplicaPlace
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import assign_replicas_to_dirs as shapes


def event(services: Services, request: AnyRequest[shapes.AssignReplicasToDirsRequest]) -> MakeEvent:
    message = request.message
    places = tuple(
        ReplicaPlace(topic_id=topic.topic_id, partition=each.partition_index, directory=directory.id_)
        for directory in message.directories
        for topic in directory.topics
        for each in topic.partitions
    )
    return lambda token: AssignReplicas(
        token=token, broker_id=message.broker_id, broker_epoch=message.broker_epoch, places=places
    )


def answer(
    services: Services, request: AnyRequest[shapes.AssignReplicasToDirsRequest], result: AssignReplicasResponse
) -> shapes.AssignReplicasToDirsResponse:
    by_directory: dict[UUID | None, dict[UUID | None, list[shapes.AnsweredPartitionDataFields]]] = {}
    for each in result.replicas:
        topics = by_directory.setdefault(each.place.directory, {})
        partition: shapes.AnsweredPartitionDataFields = {
            "partition_index": each.place.partition,
            "error_code": each.error_code,
        }
        topics.setdefault(each.place.topic_id, []).append(partition)
    return response(
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        request.version,
        error_code=result.error_code,
        directories=[
            {
                "id_": directory,
                "topics": [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()],
            }
            for directory, topics in by_directory.items()
        ],
    )


CONTROLLER = ControllerApi(event=event, answer=answer)
