"""Rules of the APIs that administer topics and their replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from broker.node.handlers.authorization.rules import (
    DENIED,
    AnyApi,
    Entry,
    Item,
    Need,
    Rule,
    narrowing,
    rule,
    top,
    whole,
)
from broker.node.handlers.services import Services
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.errors import ErrorCode

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER


def _topic_entry(item: Item, error: ErrorCode) -> Entry:
    return {
        "name": item.name,
        "topic_id": None,
        "error_code": error,
        "error_message": DENIED,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


def _create_topics(access: Access, services: Services, request: AnyApi) -> Any | None:
    if not access.could_on_cluster(Operation.CREATE):
        times = Counter(item.name for item in request.message.topics)

        def judge(access: Access, services: Services, item: Item) -> ErrorCode | None:
            """A name that occurs twice is invalid for any client, and the handler refuses it."""
            may = times[item.name] > 1 or access.may(Operation.CREATE, TOPIC, item.name)
            return None if may else ErrorCode.topic_authorization_failed

        refused = narrowing("topics", judge, _topic_entry, "topics")(access, services, request)
        if refused is not None:
            return refused
    if request.version >= 5:
        request.amend_answer(lambda answer: replace(answer, topics=tuple(_without_configs(access, answer.topics))))
    return None


def _without_configs(access: Access, topics: Iterable[Item]) -> Iterable[Item]:
    """A client that may not describe the settings of a topic does not get them when it creates the topic (KIP-525)."""
    for topic in topics:
        if topic.error_code is ErrorCode.none and not access.could(Operation.DESCRIBE_CONFIGS, TOPIC, topic.name):
            yield replace(
                topic,
                num_partitions=-1,
                replication_factor=-1,
                configs=(),
                topic_config_error_code=ErrorCode.topic_authorization_failed,
            )
        else:
            yield topic


CREATE_TOPICS = Rule(
    needs=(
        Need(operation=Operation.CREATE, resource=CLUSTER, otherwise="the rights to each topic are checked"),
        Need(operation=Operation.CREATE, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED for that one"),
        Need(
            operation=Operation.DESCRIBE_CONFIGS,
            resource=TOPIC,
            otherwise="the topic is made, and its settings are not told",
        ),
    ),
    steps=(_create_topics,),
)


def _delete_topics(access: Access, services: Services, request: AnyApi) -> Any | None:
    if access.could_on_cluster(Operation.DELETE):
        return None
    field = "topics" if request.version >= 6 else "topic_names"
    names = services.metadata.image.topic_names

    def about(item: Item) -> tuple[str | None, UUID | None]:
        return (item, None) if isinstance(item, str) else (item.name, item.topic_id)

    times = Counter(about(item) for item in getattr(request.message, field))

    def judge(access: Access, services: Services, item: Item) -> ErrorCode | None:
        """An entry that occurs twice, or that has both name and id or neither, is invalid for any client, and the
        handler refuses it."""
        name, topic_id = about(item)
        if times[name, topic_id] > 1 or (name is None) == (topic_id is None):
            return None
        name = name if name is not None else names.get(topic_id)
        if name is None or access.may(Operation.DELETE, TOPIC, name):
            return None
        if name not in services.metadata.image.topics and access.could(Operation.DESCRIBE, TOPIC, name):
            return None  # a client that may describe it learns that it does not exist
        return ErrorCode.topic_authorization_failed

    def entry(item: Item, error: ErrorCode) -> Entry:
        name, topic_id = about(item)
        if name is None:  # the request has the id: the answer has the name only if the client may describe the topic
            known = names[topic_id]
            name = known if access.could(Operation.DESCRIBE, TOPIC, known) else None
        return {"name": name, "topic_id": topic_id, "error_code": error, "error_message": DENIED}

    return narrowing(field, judge, entry, "responses")(access, services, request)


DELETE_TOPICS = Rule(
    needs=(
        Need(operation=Operation.DELETE, resource=CLUSTER, otherwise="the rights to each topic are checked"),
        Need(
            operation=Operation.DELETE,
            resource=TOPIC,
            otherwise="TOPIC_AUTHORIZATION_FAILED for that one (not there, and DESCRIBE is allowed: unknown)",
        ),
    ),
    steps=(_delete_topics,),
)


def _create_partitions(access: Access, services: Services, request: AnyApi) -> Any | None:
    times = Counter(item.name for item in request.message.topics)

    def judge(access: Access, services: Services, item: Item) -> ErrorCode | None:
        """As in CreateTopics, the handler refuses a name that occurs twice."""
        may = times[item.name] > 1 or access.may(Operation.ALTER, TOPIC, item.name)
        return None if may else ErrorCode.topic_authorization_failed

    def entry(item: Item, error: ErrorCode) -> Entry:
        return {"name": item.name, "error_code": error, "error_message": DENIED}

    return narrowing("topics", judge, entry, "results")(access, services, request)


CREATE_PARTITIONS = Rule(
    needs=(Need(operation=Operation.ALTER, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED for that one"),),
    steps=(_create_partitions,),
)


def _elections_refused(request: AnyApi, error: ErrorCode) -> Any:
    results: list[Any] = [
        {
            "topic": topic.topic,
            "partition_result": [
                {"partition_id": index, "error_code": error, "error_message": None} for index in topic.partitions
            ],
        }
        for topic in request.message.topic_partitions or ()
    ]
    return top(request, error, replica_election_results=results)


ELECT_LEADERS = rule(
    whole(Operation.ALTER, CLUSTER, refuse=_elections_refused, otherwise="CLUSTER_AUTHORIZATION_FAILED")
)


def _reassignments_refused(request: AnyApi, error: ErrorCode) -> Any:
    topics: list[Any] = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": each.partition_index, "error_code": error, "error_message": DENIED}
                for each in topic.partitions
            ],
        }
        for topic in request.message.topics
    ]
    return top(request, error, error_message=DENIED, responses=topics)


def _no_reassignments(request: AnyApi, error: ErrorCode) -> Any:
    """As in Kafka, the answer lists the partitions of the request without replicas."""
    nobody: dict[str, Any] = {"replicas": [], "adding_replicas": [], "removing_replicas": []}
    topics: list[Any] = [
        {"name": topic.name, "partitions": [{"partition_index": each, **nobody} for each in topic.partition_indexes]}
        for topic in request.message.topics or ()
    ]
    return top(request, error, error_message=DENIED, topics=topics)


ALTER_PARTITION_REASSIGNMENTS = rule(
    whole(Operation.ALTER, CLUSTER, refuse=_reassignments_refused, otherwise="CLUSTER_AUTHORIZATION_FAILED")
)
LIST_PARTITION_REASSIGNMENTS = rule(
    whole(Operation.DESCRIBE, CLUSTER, refuse=_no_reassignments, otherwise="CLUSTER_AUTHORIZATION_FAILED")
)
DESCRIBE_TOPIC_PARTITIONS = Rule(
    needs=(
        Need(
            operation=Operation.DESCRIBE,
            resource=TOPIC,
            otherwise="TOPIC_AUTHORIZATION_FAILED for that one; left out if all are asked for",
        ),
    )
)
