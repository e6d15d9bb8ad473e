"""Who may ask where replicas lie, and move them."""

from __future__ import annotations

from typing import Any

from broker.node.handlers.authorization.rules import AnyApi, made, rule, top, whole
from broker.security.acls import Operation, ResourceType
from broker.wire.errors import ErrorCode

CLUSTER = ResourceType.CLUSTER


def _not_moved(request: AnyApi, error: ErrorCode) -> Any:
    """Every replica with the error."""
    topics = [
        {
            "topic_name": topic.name,
            "partitions": [{"partition_index": index, "error_code": error} for index in topic.partitions],
        }
        for each in request.message.dirs
        for topic in each.topics
    ]
    return made(request, results=topics)


ALTER_REPLICA_LOG_DIRS = rule(whole(Operation.ALTER, CLUSTER, refuse=_not_moved))
DESCRIBE_LOG_DIRS = rule(
    whole(
        Operation.DESCRIBE,
        CLUSTER,
        refuse=lambda request, error: top(request, error, results=[]),
        otherwise="CLUSTER_AUTHORIZATION_FAILED (before version 3 an empty answer)",
    )
)
