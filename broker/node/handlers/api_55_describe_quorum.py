"""DescribeQuorum (key 55), versions 0-2 (KIP-595, KIP-836): who leads the metadata quorum, as this voter believes.

Not done: forwarding to the leader. Each broker is a voter and answers for itself, so log end offsets of other voters
are -1, and a broker that is cut off answers with an older leader epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.control import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.node.broker import Broker

METADATA_TOPIC = "__cluster_metadata"
UNKNOWN = -1


def handle(broker: Broker, request: AnyRequest) -> None:
    quorum = broker.metadata.quorum
    voters = [
        {
            "replica_id": voter,
            "log_end_offset": quorum.log_end_offset if voter == quorum.node_id else UNKNOWN,
            "last_fetch_timestamp": UNKNOWN,
            "last_caught_up_timestamp": UNKNOWN,
        }
        for voter in sorted(broker.config.controller_quorum_voters)
    ]
    topics = []
    for topic in request.message.topics:
        partitions = []
        for partition in topic.partitions:
            is_known = str(topic.topic_name) == METADATA_TOPIC and int(partition.partition_index) == 0
            partitions.append(
                {
                    "partition_index": partition.partition_index,
                    "error_code": ErrorCode.none if is_known else ErrorCode.unknown_topic_or_partition,
                    "leader_id": quorum.leader_id if is_known else UNKNOWN,
                    "leader_epoch": quorum.epoch if is_known else UNKNOWN,
                    "high_watermark": quorum.high_watermark if is_known else UNKNOWN,
                    "current_voters": voters if is_known else [],
                    "observers": [],
                }
            )
        topics.append({"topic_name": topic.topic_name, "partitions": partitions})
    request.respond(response(ApiKey.DESCRIBE_QUORUM, request.version, error_code=ErrorCode.none, topics=topics))
