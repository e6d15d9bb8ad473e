"""DescribeLogDirs (key 35), versions 1-4: size and lag of this broker's replicas, and the free space of its file
system.

There is only one directory. Replicas do not move between directories, so no replica is a future replica.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_log_dirs as shapes


def handle(services: Services, request: AnyRequest[shapes.DescribeLogDirsRequest]) -> None:
    wanted = request.message.topics
    asked = None if wanted is None else {(each.topic, index) for each in wanted for index in each.partitions}
    topics: dict[str, list[shapes.DescribeLogDirsPartitionFields]] = {}
    for hosted in sorted(services.partitions.all(), key=lambda each: each.key):
        if asked is None or hosted.key in asked:
            partition: shapes.DescribeLogDirsPartitionFields = {
                "partition_index": hosted.index,
                "partition_size": hosted.log.size_bytes,
                "offset_lag": max(0, hosted.replica.high_watermark - hosted.log.log_end_offset),
                "is_future_key": False,
            }
            topics.setdefault(hosted.topic, []).append(partition)
    result: shapes.DescribeLogDirsResultFields = {
        "error_code": ErrorCode.none,
        "log_dir": str(services.config.log_dirs.absolute()),
        "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
    }
    try:
        room = os.statvfs(services.config.log_dirs)
    except OSError as error:
        services.logger.error("log_dir_unreadable", cause=repr(str(error)))
        result["error_code"] = ErrorCode.kafka_storage_error
    else:
        result["total_bytes"] = room.f_blocks * room.f_frsize
        result["usable_bytes"] = room.f_bavail * room.f_frsize
    # If one partition's directory fails, it is reported like a failed log directory of its own. Kafka reports an error
    # for a failed directory.
    failed: list[shapes.DescribeLogDirsResultFields] = [
        {"error_code": ErrorCode.kafka_storage_error, "log_dir": f"{result['log_dir']}/{topic}-{index}", "topics": []}
        for topic, index in services.partitions.offline()
        if asked is None or (topic, index) in asked
    ]
    results = [result, *failed]
    request.respond(response(ApiKey.DESCRIBE_LOG_DIRS, request.version, error_code=ErrorCode.none, results=results))
