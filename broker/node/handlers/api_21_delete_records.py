"""DeleteRecords (key 21), versions 0-2 (KIP-107): raises the log start offset. The request goes to the partition's
leader.

The answer waits until every live replica has raised it too, or until the time limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.node.net.time_slices import in_turns
from broker.node.process.clock import monotonic_ms
from broker.node.replicas.hosted import HostedPartition
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes import delete_records as shapes

POLL_MS = 10
TIMEOUT_MS_MAX = 60_000
# The name of a topic, and the results of its partitions in the request.
_Answered: TypeAlias = "tuple[str, list[shapes.DeleteRecordsPartitionResultFields]]"


def handle(services: Services, request: AnyRequest[shapes.DeleteRecordsRequest]) -> None:
    topics: list[_Answered] = []
    in_turns(
        request,
        _delete_all(services, request.message.topics, topics),
        lambda: services.serve(request, _answer(services, request, topics)),
    )


def _delete_all(
    services: Services, asked: Iterable[shapes.DeleteRecordsTopic], topics: list[_Answered]
) -> Iterator[None]:
    for topic in asked:
        if not topic.partitions:
            continue
        partitions: list[shapes.DeleteRecordsPartitionResultFields] = []
        topics.append((topic.name, partitions))
        for each in topic.partitions:
            partitions.append(_delete(services, topic.name, each))
            yield


def _delete(
    services: Services, topic: str, asked: shapes.DeleteRecordsPartition
) -> shapes.DeleteRecordsPartitionResultFields:
    result: shapes.DeleteRecordsPartitionResultFields = {"partition_index": asked.partition_index, "low_watermark": -1}
    hosted = services.partitions.get(topic, asked.partition_index)
    if hosted is None:
        result["error_code"] = services.absent(topic, asked.partition_index)
    elif topic in services.internal_topics:
        result["error_code"] = ErrorCode.invalid_topic_exception
    elif not hosted.replica.is_leader:
        result["error_code"] = ErrorCode.not_leader_or_follower
    elif hosted.config.is_compacted and not hosted.config.is_deleted:
        result["error_code"] = ErrorCode.policy_violation
    else:
        result["error_code"] = services.log_starts.delete_records(hosted, asked.offset)
    return result


async def _answer(
    services: Services, request: AnyRequest[shapes.DeleteRecordsRequest], topics: list[_Answered]
) -> None:
    deadline_ms = monotonic_ms() + min(max(0, to_ms(request.message.timeout)), TIMEOUT_MS_MAX)
    for name, partitions in topics:
        for partition in partitions:
            hosted = services.partitions.get(name, partition["partition_index"])
            if partition["error_code"] is ErrorCode.none and hosted is not None:
                await _await_replicas(services, hosted, partition, deadline_ms)
    results: list[shapes.DeleteRecordsTopicResultFields] = [
        {"name": name, "partitions": partitions} for name, partitions in topics
    ]
    request.respond(response(ApiKey.DELETE_RECORDS, request.version, topics=results))


async def _await_replicas(
    services: Services, hosted: HostedPartition, partition: shapes.DeleteRecordsPartitionResultFields, deadline_ms: int
) -> None:
    required = hosted.log.log_start_offset
    while services.log_starts.low_watermark(hosted) < required:
        if not hosted.replica.is_leader:
            partition["error_code"] = ErrorCode.not_leader_or_follower
            return
        if monotonic_ms() >= deadline_ms:
            partition["error_code"] = ErrorCode.request_timed_out
            return
        await asyncio.sleep(POLL_MS / 1000)
    partition["low_watermark"] = services.log_starts.low_watermark(hosted)
