"""DescribeQuorum (key 55), versions 0-2 (KIP-595, KIP-836): the voters of the metadata log, and the log end offset of
each.

Only the leader of the quorum can answer. On other listeners than the controller's the request is forwarded to it. Every
node votes, so there are no observers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.handlers.forwarding import Forward
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.node.process.clock import monotonic_ms, wall_ms
from broker.quorum.messages import METADATA_TOPIC
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_quorum as shapes


def handle(services: Services, request: AnyRequest[shapes.DescribeQuorumRequest]) -> None:
    quorum = services.metadata.quorum
    if not quorum.is_leader:
        request.respond(_failed(request, ErrorCode.not_controller, "this node does not lead the metadata quorum"))
        return
    asked = [
        (topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.message.topics
    ]
    if asked != [(METADATA_TOPIC, [0])]:  # only this partition and nothing else, not even a topic without partitions
        request.respond(_without_quorum(request))
        return
    # The core uses the monotonic clock. The answer has times of the wall clock.
    offset_ms = wall_ms() - monotonic_ms()
    voters: list[shapes.ReplicaStateFields] = [
        {
            "replica_id": each.replica_id,
            "log_end_offset": each.log_end_offset,
            "last_fetch_timestamp": -1 if each.last_fetch_ms < 0 else each.last_fetch_ms + offset_ms,
            "last_caught_up_timestamp": -1 if each.last_caught_up_ms < 0 else each.last_caught_up_ms + offset_ms,
        }
        for each in quorum.describe_voters(monotonic_ms())
    ]
    partition: shapes.AnsweredPartitionDataFields = {
        "partition_index": 0,
        "error_code": ErrorCode.none,
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.epoch,
        "high_watermark": quorum.high_watermark,
        "current_voters": voters,
        "observers": [],
    }
    nodes: list[shapes.NodeFields] = [
        {
            "node_id": node_id,
            "listeners": [
                {"name": services.config.listening.controller_listener, "host": address.host, "port": address.port}
            ],
        }
        for node_id, address in sorted(services.config.quorum.controller_quorum_voters.items())
    ]
    request.respond(
        response(
            ApiKey.DESCRIBE_QUORUM,
            request.version,
            error_code=ErrorCode.none,
            topics=[{"topic_name": METADATA_TOPIC, "partitions": [partition]}],
            nodes=nodes,
        )
    )


def _failed(
    request: AnyRequest[shapes.DescribeQuorumRequest], error: ErrorCode, cause: str | None
) -> shapes.DescribeQuorumResponse:
    return response(ApiKey.DESCRIBE_QUORUM, request.version, error_code=error, error_message=cause, topics=[], nodes=[])


def _without_quorum(request: AnyRequest[shapes.DescribeQuorumRequest]) -> shapes.DescribeQuorumResponse:
    """Only partition 0 of the metadata log has a quorum. Any other partition gets an error in its own entry."""
    unknown: shapes.AnsweredPartitionDataFields = {
        "error_code": ErrorCode.unknown_topic_or_partition,
        "leader_id": 0,
        "leader_epoch": 0,
        "high_watermark": 0,
        "current_voters": [],
        "observers": [],
    }
    topics: list[shapes.AnsweredTopicDataFields] = [
        {
            "topic_name": topic.topic_name,
            "partitions": [{"partition_index": each.partition_index, **unknown} for each in topic.partitions],
        }
        for topic in request.message.topics
    ]
    return response(ApiKey.DESCRIBE_QUORUM, request.version, error_code=ErrorCode.none, topics=topics, nodes=[])


FORWARD: Forward[shapes.DescribeQuorumRequest, shapes.DescribeQuorumResponse] = Forward(
    version=2, failed=_failed, default_timeout_ms=lambda config: config.quorum.controller_quorum_request_timeout_ms
)
