"""ListOffsets (key 2), versions 1-11: the earliest or latest offset, the offset for a timestamp, or that of the largest
timestamp.

A negative timestamp without a meaning in that version gets UNSUPPORTED_VERSION. A partition that is named twice gets
INVALID_REQUEST. With isolation_level 1 (version 2+) the last stable offset takes the place of the high watermark. Not
done: tiered storage (-4 is the earliest offset; -5, and -6 of version 11, find no offset, as on Apache Kafka without
tiered storage).

A look-up by time reads the log. It is done in steps of bounded work, in turns of the event loop: one step of one
partition after the other. A batch whose records nobody can read is the mistake of the client that wrote it. So it costs
an answer (CORRUPT_MESSAGE), and never the replica.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.log.errors import STORAGE_ERRORS, UnreadableBatchError
from broker.log.time_search import Steps, TimeAndOffset
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.node.net.time_slices import in_turns
from broker.node.replicas.hosted import HostedPartition
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import list_offsets as shapes

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
NOT_AVAILABLE_SINCE_VERSION = 5
READ_COMMITTED = 1  # isolation_level
SPECIAL_SINCE_VERSION = {
    LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11,
}  # fmt: skip


def handle(services: Services, request: AnyRequest[shapes.ListOffsetsRequest]) -> None:
    answers: dict[str, dict[int, shapes.ListOffsetsPartitionResponseFields]] = {}

    def done() -> None:
        topics: list[shapes.ListOffsetsTopicResponseFields] = [
            {"name": name, "partitions": list(found.values())} for name, found in answers.items()
        ]
        request.respond(response(ApiKey.LIST_OFFSETS, request.version, topics=topics))

    in_turns(request, _all(services, request, answers), done)


def _all(
    services: Services,
    request: AnyRequest[shapes.ListOffsetsRequest],
    answers: dict[str, dict[int, shapes.ListOffsetsPartitionResponseFields]],
) -> Steps[None]:
    times = Counter((topic.name, each.partition_index) for topic in request.message.topics for each in topic.partitions)
    for topic in request.message.topics:
        for each in topic.partitions:
            if not request.is_open:
                return  # nobody waits for the rest
            if times[topic.name, each.partition_index] > 1:
                answer = _failed(each.partition_index, ErrorCode.invalid_request)
            else:
                answer = yield from _partition(services, request, topic.name, each)
            answers.setdefault(topic.name, {})[each.partition_index] = answer
            yield


def _partition(
    services: Services, request: AnyRequest[shapes.ListOffsetsRequest], topic: str, asked: shapes.ListOffsetsPartition
) -> Steps[shapes.ListOffsetsPartitionResponseFields]:
    index = asked.partition_index
    if asked.timestamp < 0 and SPECIAL_SINCE_VERSION.get(asked.timestamp, request.version + 1) > request.version:
        return _failed(index, ErrorCode.unsupported_version)
    hosted = services.partitions.get(topic, index)
    if hosted is None:
        return _failed(index, services.absent(topic, index))
    leader_epoch = hosted.replica.leader_epoch
    if (error := _error(request, hosted, asked)) is not ErrorCode.none:
        return _failed(index, error)
    limit = hosted.replica.high_watermark
    if request.message.replica_id >= 0:
        limit = hosted.log.log_end_offset
    elif field_or(request.message, "isolation_level", 0) == READ_COMMITTED:
        limit = hosted.log.last_stable_offset(limit)
    steps = _find(hosted, asked.timestamp, limit)
    try:
        while True:
            next(steps)
            yield
            # Other work was done meanwhile. The log of a partition that is not served any more is closed.
            if not request.is_open or services.partitions.get(topic, index) is not hosted:
                return _failed(index, ErrorCode.not_leader_or_follower)
            if hosted.replica.leader_epoch != leader_epoch:
                return _failed(index, ErrorCode.not_leader_or_follower)
    except StopIteration as end:
        timestamp, offset = end.value
    except UnreadableBatchError:
        return _failed(index, ErrorCode.corrupt_message)
    except STORAGE_ERRORS as storage_error:
        return _failed(index, services.partitions.storage_failed(hosted, storage_error).error_code)
    epoch = hosted.replica.leader_epoch if asked.timestamp == LATEST else hosted.log.epochs.epoch_at(max(offset, 0))
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "timestamp": timestamp,
        "offset": offset,
        "leader_epoch": epoch if offset >= 0 else -1,
    }


def _error(
    request: AnyRequest[shapes.ListOffsetsRequest], hosted: HostedPartition, asked: shapes.ListOffsetsPartition
) -> ErrorCode:
    error = hosted.replica.check_leader_epoch(field_or(asked, "current_leader_epoch", -1))
    if error is ErrorCode.none and not hosted.replica.is_leader:
        return ErrorCode.not_leader_or_follower
    is_replica = request.message.replica_id >= 0
    if error is ErrorCode.none and not is_replica and asked.timestamp != EARLIEST and _is_behind(hosted):
        # A new leader does not know yet how far its predecessor had committed, so an offset could go backwards.
        is_new = request.version >= NOT_AVAILABLE_SINCE_VERSION
        return ErrorCode.offset_not_available if is_new else ErrorCode.leader_not_available
    return error


def _is_behind(hosted: HostedPartition) -> bool:
    return hosted.replica.high_watermark < hosted.replica.leader_epoch_start_offset


def _find(hosted: HostedPartition, timestamp: int, limit: int) -> Steps[TimeAndOffset]:
    """(timestamp, offset). Both are -1 if there is no such record below the offset up to which the client may read."""
    if timestamp == LATEST:
        return -1, limit
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, hosted.log.log_start_offset
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1
    log = hosted.log
    found = yield from log.find_max_timestamp() if timestamp == MAX_TIMESTAMP else log.find_timestamp(timestamp)
    return (-1, -1) if found is None or found[1] >= limit else found


def _failed(index: int, error: ErrorCode) -> shapes.ListOffsetsPartitionResponseFields:
    return {"partition_index": index, "error_code": error, "timestamp": -1, "offset": -1, "leader_epoch": -1}
