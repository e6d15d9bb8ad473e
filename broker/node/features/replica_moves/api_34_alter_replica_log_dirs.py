"""AlterReplicaLogDirs (key 34), versions 1-2: moves replicas of this broker to another of its log directories.

The answer means that the move has begun. DescribeLogDirs tells how far it is. A replica that is not here yet is made in
that directory when it comes, and the answer is REPLICA_NOT_AVAILABLE, as from Apache Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.log.directory import LogDirectory, has_future_name
from broker.log.errors import LogError
from broker.node.features.replica_moves.moves import ReplicaMoves
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import alter_replica_log_dirs as shapes


def handle(services: Services, request: AnyRequest[shapes.AlterReplicaLogDirsRequest]) -> None:
    # a replica that is named twice goes to the directory that is named last, as in Apache Kafka
    wanted = {
        (topic.name, index): each.path
        for each in request.message.dirs
        for topic in each.topics
        for index in topic.partitions
    }
    results: dict[str, list[shapes.AlterReplicaLogDirPartitionResultFields]] = {}
    for (topic, index), path in wanted.items():
        error = _alter(services, topic, index, path)
        results.setdefault(topic, []).append({"partition_index": index, "error_code": error})
    topics: list[shapes.AlterReplicaLogDirTopicResultFields] = [
        {"topic_name": topic, "partitions": partitions} for topic, partitions in results.items()
    ]
    request.respond(response(ApiKey.ALTER_REPLICA_LOG_DIRS, request.version, results=topics))


def _alter(services: Services, topic: str, index: int, path: str) -> ErrorCode:
    """The checks are Kafka's, in Kafka's order (ReplicaManager.alterReplicaLogDirs)."""
    directories = services.part(ReplicaMoves).directories
    try:
        is_short = has_future_name(topic, index)
    except LogError:  # not the name of a topic
        return ErrorCode.replica_not_available if directories.is_configured(path) else ErrorCode.log_dir_not_found
    if not is_short:
        return ErrorCode.invalid_topic_exception
    if not directories.is_configured(path):
        return ErrorCode.log_dir_not_found
    directory = directories.at(path)
    if directory is None or services.partitions.is_offline(topic, index):
        return ErrorCode.kafka_storage_error
    if directories.is_cordoned(directory.path):
        return ErrorCode.invalid_replica_assignment
    hosted = services.partitions.get(topic, index)
    if hosted is None:
        directories.prefer((topic, index), directory)
        return ErrorCode.replica_not_available
    if directories.failed and directories.of_log(hosted.log) is not directory:
        return ErrorCode.kafka_storage_error  # a future log of this replica may lie in the directory that failed
    return _begin(services, topic, index, directory)


def _begin(services: Services, topic: str, index: int, directory: LogDirectory) -> ErrorCode:
    hosted = services.partitions.get(topic, index)
    assert hosted is not None
    try:
        services.part(ReplicaMoves).begin(hosted, directory)
    except OSError as error:
        services.partitions.directory_failed(directory, error)
        return ErrorCode.kafka_storage_error
    return ErrorCode.none
