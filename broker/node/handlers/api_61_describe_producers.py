"""DescribeProducers (key 61), version 0: the producers that a replica of a partition remembers (KIP-664). Nothing is
left out.

Any replica answers, not only the leader. A tool that looks for hanging transactions asks one broker about all its
replicas.

`current_txn_start_offset` shows a hanging transaction: the last stable offset cannot pass the lowest of these offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.topics import is_legal_name
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.node.replicas.hosted import HostedPartition
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_producers as shapes


def handle(services: Services, request: AnyRequest[shapes.DescribeProducersRequest]) -> None:
    topics: list[shapes.TopicResponseFields] = [
        {
            "name": topic.name,
            "partitions": [_partition(services, topic.name, index) for index in topic.partition_indexes],
        }
        for topic in request.message.topics
    ]
    request.respond(response(ApiKey.DESCRIBE_PRODUCERS, request.version, topics=topics))


def _partition(services: Services, topic: str, index: int) -> shapes.PartitionResponseFields:
    hosted = services.partitions.get(topic, index)
    error = ErrorCode.none
    if not is_legal_name(topic):
        error = ErrorCode.invalid_topic_exception
    elif services.metadata.image.partition(topic, index) is None:
        error = ErrorCode.unknown_topic_or_partition
    elif hosted is None:
        error = services.absent(topic, index)
    producers = [] if hosted is None or error is not ErrorCode.none else _producers(hosted)
    return {"partition_index": index, "error_code": error, "error_message": None, "active_producers": producers}


def _producers(hosted: HostedPartition) -> list[shapes.ProducerStateFields]:
    state = hosted.log.producers
    described: list[shapes.ProducerStateFields] = []
    for producer_id, entry in state.items():
        start = state.transactions.first_offset_of(producer_id)
        described.append(
            {
                "producer_id": producer_id,
                "producer_epoch": entry.epoch,
                "last_sequence": entry.last_sequence,
                "last_timestamp": entry.last_timestamp,
                "coordinator_epoch": entry.coordinator_epoch,
                "current_txn_start_offset": -1 if start is None else start,
            }
        )
    return described
