"""Makes the answer to a Fetch from the records that were read. The usual answer is written as bytes directly, any other
is encoded from a message."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.handlers.fetch_reads import LEADER_HINT_ERRORS, Read
from broker.node.handlers.read_replicas import NOBODY
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest, Request
from broker.wire import hot_fetch
from broker.wire.apis import ApiKey
from broker.wire.hot_fetch import PartitionData
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import fetch as shapes

TOPIC_IDS_SINCE_VERSION = 13
CURRENT_LEADER_SINCE_VERSION = 16  # KIP-951; the field existed before, for followers of the quorum


def respond(services: Services, request: AnyRequest[shapes.FetchRequest], session_id: int, reads: list[Read]) -> None:
    by_id = request.version >= TOPIC_IDS_SINCE_VERSION
    topics: dict[str | UUID | None, list[Read]] = {}
    for read in reads:
        topics.setdefault(read.asked.topic_id if by_id else read.asked.topic, []).append(read)
    is_plain = request.version >= hot_fetch.FIRST_VERSION and all(read.is_plain for read in reads)
    if is_plain and isinstance(request, Request):
        answers = [(topic, [_plain(read) for read in found]) for topic, found in topics.items()]
        correlation_id = request.header.correlation_id
        request.respond_frame(hot_fetch.encode_fetch_response(request.version, correlation_id, session_id, answers))
        return
    responses: list[shapes.FetchableTopicResponseFields] = []
    for topic, found in topics.items():
        partitions = [_partition(services, request, read) for read in found]
        if isinstance(topic, str):
            responses.append({"topic": topic, "partitions": partitions})
        else:
            responses.append({"topic_id": topic, "partitions": partitions})
    request.respond(response(ApiKey.FETCH, request.version, session_id=session_id, responses=responses))


def _plain(read: Read) -> PartitionData:
    return PartitionData(
        read.asked.index,
        read.error,
        read.high_watermark,
        read.last_stable_offset,
        read.log_start_offset,
        read.records,
        read.aborted is not None,
    )


def _partition(services: Services, request: AnyRequest[shapes.FetchRequest], read: Read) -> shapes.PartitionDataFields:
    values: shapes.PartitionDataFields = {
        "partition_index": read.asked.index,
        "error_code": read.error,
        "high_watermark": read.high_watermark,
        "last_stable_offset": read.last_stable_offset,
        "log_start_offset": read.log_start_offset,
        "aborted_transactions": None
        if read.aborted is None
        else [{"producer_id": each.producer_id, "first_offset": each.first_offset} for each in read.aborted],
        "records": read.records,
    }
    if read.preferred_replica != NOBODY:
        values["preferred_read_replica"] = read.preferred_replica
    if read.diverging is not None:
        values["diverging_epoch"] = {"epoch": read.diverging.epoch, "end_offset": read.diverging.end_offset}
    is_hint_due = read.error in LEADER_HINT_ERRORS and request.version >= CURRENT_LEADER_SINCE_VERSION
    if is_hint_due and read.asked.topic is not None:
        state = services.metadata.image.partition(read.asked.topic, read.asked.index)
        if state is not None:
            values["current_leader"] = {"leader_id": state.leader, "leader_epoch": state.leader_epoch}
    return values
