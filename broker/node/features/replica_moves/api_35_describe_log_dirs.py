"""DescribeLogDirs (key 35), versions 1-5: size and lag of this broker's replicas by log directory, and the free space
of the file systems.

A replica that moves to another directory is told there too, as a future replica (KIP-113). Its lag is what is left to
copy. A directory that failed is told with KAFKA_STORAGE_ERROR. So is the directory of a replica that failed by itself.
Version 5 tells whether a directory is cordoned (KIP-1066).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from broker.node.features.replica_moves.moves import Move, ReplicaMoves
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.node.replicas.hosted import HostedPartition
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_log_dirs as shapes

_Key: TypeAlias = tuple[str, int]


def handle(services: Services, request: AnyRequest[shapes.DescribeLogDirsRequest]) -> None:
    wanted = request.message.topics
    asked = None if wanted is None else {(each.topic, index) for each in wanted for index in each.partitions}
    hosted = [each for each in services.partitions.all() if asked is None or each.key in asked]
    hosted.sort(key=lambda each: each.key)
    results = [_described(services, path, hosted) for path in services.config.storage.log_dirs]
    results += _failed_alone(services, asked)
    request.respond(response(ApiKey.DESCRIBE_LOG_DIRS, request.version, error_code=ErrorCode.none, results=results))


def _described(services: Services, path: Path, hosted: list[HostedPartition]) -> shapes.DescribeLogDirsResultFields:
    log_dir = str(path.absolute())
    failed: shapes.DescribeLogDirsResultFields = {
        "error_code": ErrorCode.kafka_storage_error,
        "log_dir": log_dir,
        "topics": [],
    }
    if str(path) in services.part(ReplicaMoves).directories.failed:
        return failed
    try:
        room = os.statvfs(path)
    except OSError as error:
        services.logger.error("log_dir_unreadable", directory=path, cause=repr(str(error)))
        return failed
    topics: dict[str, list[shapes.DescribeLogDirsPartitionFields]] = {}
    for each in hosted:
        if services.part(ReplicaMoves).directories.of_log(each.log).path == str(path):
            topics.setdefault(each.topic, []).append(_replica(each))
        move = services.part(ReplicaMoves).of(each.key)
        if move is not None and move.directory.path == str(path):
            topics.setdefault(each.topic, []).append(_future(each, move))
    return {
        "error_code": ErrorCode.none,
        "log_dir": log_dir,
        "topics": [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
        "total_bytes": room.f_blocks * room.f_frsize,
        "usable_bytes": room.f_bavail * room.f_frsize,
        "is_cordoned": services.part(ReplicaMoves).directories.is_cordoned(path),
    }


def _replica(hosted: HostedPartition) -> shapes.DescribeLogDirsPartitionFields:
    return {
        "partition_index": hosted.index,
        "partition_size": hosted.log.size_bytes,
        "offset_lag": max(0, hosted.replica.high_watermark - hosted.log.log_end_offset),
        "is_future_key": False,
    }


def _future(hosted: HostedPartition, move: Move) -> shapes.DescribeLogDirsPartitionFields:
    return {
        "partition_index": hosted.index,
        "partition_size": 0 if move.log is None else move.log.size_bytes,
        "offset_lag": hosted.log.log_end_offset - (0 if move.log is None else move.log.log_end_offset),
        "is_future_key": True,
    }


def _failed_alone(services: Services, asked: set[_Key] | None) -> Iterator[shapes.DescribeLogDirsResultFields]:
    for key in services.partitions.offline():
        directory = services.part(ReplicaMoves).directories.where(key)
        if (
            directory is None
            or not services.partitions.is_offline_alone(*key)
            or (asked is not None and key not in asked)
        ):
            continue
        path = Path(directory.path).absolute() / f"{key[0]}-{key[1]}"
        yield {"error_code": ErrorCode.kafka_storage_error, "log_dir": str(path), "topics": []}
