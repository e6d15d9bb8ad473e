"""Rules of the APIs that administer the cluster, its topics and settings, and of those between brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from broker.controller.image import BROKER_RESOURCE
from broker.node.handlers import (
    api_33_alter_configs,
    api_38_create_delegation_token,
    api_44_incremental_alter_configs,
)
from broker.node.handlers.authorization.rules import (
    AnyApi,
    Entry,
    Item,
    Need,
    Rule,
    all_in,
    amend,
    made,
    narrowing,
    rule,
    top,
    whole,
)
from broker.node.handlers.services import Services
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.errors import ErrorCode

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
USER = ResourceType.USER
_DENIED = "Authorization failed."

BETWEEN_BROKERS = rule(whole(Operation.CLUSTER_ACTION, CLUSTER))

# -- topics


def _topic_entry(item: Item, error: ErrorCode) -> Entry:
    return {
        "name": item.name,
        "topic_id": None,
        "error_code": error,
        "error_message": _DENIED,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


def _create_topics(access: Access, services: Services, request: AnyApi) -> Any | None:
    if not access.could_on_cluster(Operation.CREATE):
        times = Counter(item.name for item in request.message.topics)

        def judge(access: Access, services: Services, item: Item) -> ErrorCode | None:
            """A name that is there twice is wrong whoever asks: the handler says so."""
            may = times[item.name] > 1 or access.may(Operation.CREATE, TOPIC, item.name)
            return None if may else ErrorCode.topic_authorization_failed

        refused = narrowing("topics", judge, _topic_entry, "topics")(access, services, request)
        if refused is not None:
            return refused
    if request.version >= 5:
        amend(request, lambda answer: replace(answer, topics=tuple(_without_configs(access, answer.topics))))
    return None


def _without_configs(access: Access, topics: Iterable[Item]) -> Iterable[Item]:
    """Whoever may not describe the settings of a topic does not hear them when it is made (KIP-525)."""
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
        Need(operation=Operation.CREATE, resource=CLUSTER, otherwise="each topic is looked at"),
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
        """A topic that is named twice, by both or by neither is wrong whoever asks: the handler says so."""
        name, topic_id = about(item)
        if times[name, topic_id] > 1 or (name is None) == (topic_id is None):
            return None
        name = name if name is not None else names.get(topic_id)
        if name is None or access.may(Operation.DELETE, TOPIC, name):
            return None
        if name not in services.metadata.image.topics and access.could(Operation.DESCRIBE, TOPIC, name):
            return None  # who may know of it hears that it is not there
        return ErrorCode.topic_authorization_failed

    def entry(item: Item, error: ErrorCode) -> Entry:
        name, topic_id = about(item)
        if name is None:  # asked for by id: the name is told to those who may know of the topic
            known = names[topic_id]
            name = known if access.could(Operation.DESCRIBE, TOPIC, known) else None
        return {"name": name, "topic_id": topic_id, "error_code": error, "error_message": _DENIED}

    return narrowing(field, judge, entry, "responses")(access, services, request)


DELETE_TOPICS = Rule(
    needs=(
        Need(operation=Operation.DELETE, resource=CLUSTER, otherwise="each topic is looked at"),
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
        """As for CreateTopics."""
        may = times[item.name] > 1 or access.may(Operation.ALTER, TOPIC, item.name)
        return None if may else ErrorCode.topic_authorization_failed

    def entry(item: Item, error: ErrorCode) -> Entry:
        return {"name": item.name, "error_code": error, "error_message": _DENIED}

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
                {"partition_index": each.partition_index, "error_code": error, "error_message": _DENIED}
                for each in topic.partitions
            ],
        }
        for topic in request.message.topics
    ]
    return top(request, error, error_message=_DENIED, responses=topics)


def _no_reassignments(request: AnyApi, error: ErrorCode) -> Any:
    """What was asked for is told without replicas, as by Kafka."""
    nobody: dict[str, Any] = {"replicas": [], "adding_replicas": [], "removing_replicas": []}
    topics: list[Any] = [
        {"name": topic.name, "partitions": [{"partition_index": each, **nobody} for each in topic.partition_indexes]}
        for topic in request.message.topics or ()
    ]
    return top(request, error, error_message=_DENIED, topics=topics)


ALTER_PARTITION_REASSIGNMENTS = rule(
    whole(Operation.ALTER, CLUSTER, refuse=_reassignments_refused, otherwise="CLUSTER_AUTHORIZATION_FAILED")
)
LIST_PARTITION_REASSIGNMENTS = rule(
    whole(Operation.DESCRIBE, CLUSTER, refuse=_no_reassignments, otherwise="CLUSTER_AUTHORIZATION_FAILED")
)
UNREGISTER_BROKER = rule(
    whole(
        Operation.ALTER,
        CLUSTER,
        refuse=lambda request, error: top(request, error, error_message=_DENIED),
        otherwise="CLUSTER_AUTHORIZATION_FAILED",
    )
)
UPDATE_FEATURES = rule(
    whole(
        Operation.ALTER,
        CLUSTER,
        refuse=lambda request, error: top(request, error, error_message=_DENIED, results=[]),
        otherwise="CLUSTER_AUTHORIZATION_FAILED",
    )
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

# -- settings

# By resource type of settings: what they are authorized on. 4 broker, 8 loggers, 16 client metrics: the cluster.
_SETTINGS_OF = {2: TOPIC, 4: CLUSTER, 8: CLUSTER, 16: CLUSTER, 32: GROUP}
_SETTINGS_FAILED = {
    TOPIC: ErrorCode.topic_authorization_failed,
    CLUSTER: ErrorCode.cluster_authorization_failed,
    GROUP: ErrorCode.group_authorization_failed,
}


def _may_settings(access: Access, operation: Operation, item: Item) -> ErrorCode | None:
    kind = _SETTINGS_OF[item.resource_type]
    may = access.may_on_cluster(operation) if kind is CLUSTER else access.may(operation, kind, item.resource_name)
    return None if may else _SETTINGS_FAILED[kind]


def _settings(
    operation: Operation, answered: str, unjudged: Callable[[Services, Any], Collection[int]], **more: object
) -> Rule:
    """`unjudged`: positions of resources that are wrong whoever asks, which is the handler's to say."""

    def entry(item: Item, error: ErrorCode) -> Entry:
        return {
            "error_code": error,
            "error_message": None,
            "resource_type": item.resource_type,
            "resource_name": item.resource_name,
            **more,
        }

    def step(access: Access, services: Services, request: AnyApi) -> Any | None:
        wrong = unjudged(services, request.message)
        exempt = {id(item) for position, item in enumerate(request.message.resources) if position in wrong}

        def judge(access: Access, services: Services, item: Item) -> ErrorCode | None:
            return None if id(item) in exempt else _may_settings(access, operation, item)

        return narrowing("resources", judge, entry, answered)(access, services, request)

    text = "{} for that one"
    return Rule(
        needs=tuple(
            Need(operation=operation, resource=kind, otherwise=text.format(_SETTINGS_FAILED[kind].name.upper()))
            for kind in (TOPIC, GROUP, CLUSTER)
        ),
        steps=(step,),
        note="The settings of brokers, loggers and client metrics are authorized on the cluster.",
    )


def _unknown_types(message: Any) -> set[int]:
    return {position for position, item in enumerate(message.resources) if item.resource_type not in _SETTINGS_OF}


def _described(services: Services, message: Any) -> Collection[int]:
    """One resource type that is none fails the whole request: then nothing is judged."""
    return range(len(message.resources)) if _unknown_types(message) else ()


def _no_brokers(services: Services, message: Any) -> set[int]:
    known = {"", *(str(broker_id) for broker_id in services.metadata.image.brokers)}
    return {
        position
        for position, item in enumerate(message.resources)
        if item.resource_type == BROKER_RESOURCE and item.resource_name not in known
    }


def _altered(services: Services, message: Any) -> Collection[int]:
    wrong = api_33_alter_configs.problems_of(message)
    return _unknown_types(message) | _no_brokers(services, message) | wrong.keys()


def _altered_incrementally(services: Services, message: Any) -> Collection[int]:
    wrong = api_44_incremental_alter_configs.problems_of(message)
    return _unknown_types(message) | _no_brokers(services, message) | wrong.keys()


DESCRIBE_CONFIGS = _settings(Operation.DESCRIBE_CONFIGS, "results", _described, configs=[])
ALTER_CONFIGS = _settings(Operation.ALTER_CONFIGS, "responses", _altered)
INCREMENTAL_ALTER_CONFIGS = _settings(Operation.ALTER_CONFIGS, "responses", _altered_incrementally)

# -- the cluster


def _no_entries(request: AnyApi, error: ErrorCode) -> Any:
    return top(request, error, error_message=_DENIED, entries=None)


def _quotas_entry(item: Item, error: ErrorCode) -> Entry:
    entity = [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in item.entity]
    return {"error_code": error, "error_message": _DENIED, "entity": entity}


def _scram_not_told(request: AnyApi, error: ErrorCode) -> Any:
    """As Kafka: once for each user, without the name."""
    nameless = {"user": "", "error_code": error, "error_message": _DENIED, "credential_infos": []}
    return top(request, error, error_message=_DENIED, results=[nameless for _ in request.message.users or ()])


def _scram_refused(request: AnyApi, error: ErrorCode) -> Any:
    names = [item.name for item in (*request.message.deletions, *request.message.upsertions)]
    results = [{"user": name, "error_code": error, "error_message": _DENIED} for name in dict.fromkeys(names)]
    return made(request, results=results)


def _error(item: Item, error: ErrorCode) -> Entry:
    return {"error_code": error, "error_message": _DENIED}


def _filter_error(item: Item, error: ErrorCode) -> Entry:
    return {"error_code": error, "error_message": _DENIED, "matching_acls": []}


_CLUSTER_FAILED = "CLUSTER_AUTHORIZATION_FAILED"
DESCRIBE_CLIENT_QUOTAS = rule(whole(Operation.DESCRIBE_CONFIGS, CLUSTER, refuse=_no_entries, otherwise=_CLUSTER_FAILED))
ALTER_CLIENT_QUOTAS = rule(whole(Operation.ALTER_CONFIGS, CLUSTER, refuse=all_in("entries", _quotas_entry, "entries")))
DESCRIBE_ACLS = rule(
    whole(
        Operation.DESCRIBE,
        CLUSTER,
        refuse=lambda request, error: top(request, error, error_message=_DENIED, resources=[]),
        otherwise=_CLUSTER_FAILED,
    )
)
CREATE_ACLS = rule(whole(Operation.ALTER, CLUSTER, refuse=all_in("creations", _error, "results")))
DELETE_ACLS = rule(whole(Operation.ALTER, CLUSTER, refuse=all_in("filters", _filter_error, "filter_results")))
DESCRIBE_USER_SCRAM_CREDENTIALS = rule(
    whole(
        Operation.DESCRIBE,
        CLUSTER,
        refuse=_scram_not_told,
        otherwise=_CLUSTER_FAILED,
    )
)
ALTER_USER_SCRAM_CREDENTIALS = rule(whole(Operation.ALTER, CLUSTER, refuse=_scram_refused))
DESCRIBE_LOG_DIRS = rule(
    whole(
        Operation.DESCRIBE,
        CLUSTER,
        refuse=lambda request, error: top(request, error, results=[]),
        otherwise="CLUSTER_AUTHORIZATION_FAILED (before version 3 an empty answer)",
    )
)
DESCRIBE_QUORUM = rule(whole(Operation.DESCRIBE, CLUSTER, otherwise=_CLUSTER_FAILED))
LIST_CONFIG_RESOURCES = rule(
    whole(
        Operation.DESCRIBE_CONFIGS,
        CLUSTER,
        refuse=lambda request, error: top(request, error, config_resources=[]),
        otherwise=_CLUSTER_FAILED,
    )
)
DESCRIBE_CLUSTER = Rule(
    needs=(
        Need(
            operation=Operation.DESCRIBE,
            resource=CLUSTER,
            otherwise="no authorized operations of the cluster are told",
        ),
    )
)
# -- delegation tokens


def _create_token(access: Access, services: Services, request: AnyApi) -> Any | None:
    owner = api_38_create_delegation_token.owner_of(request)
    if owner == request.principal or access.may(Operation.CREATE_TOKENS, USER, str(owner)):
        return None
    return api_38_create_delegation_token.refused(request, ErrorCode.delegation_token_authorization_failed)


CREATE_DELEGATION_TOKEN = Rule(
    needs=(
        Need(
            operation=Operation.CREATE_TOKENS,
            resource=USER,
            otherwise="DELEGATION_TOKEN_AUTHORIZATION_FAILED, if the owner is not the client itself",
        ),
    ),
    steps=(_create_token,),
)
OF_A_TOKEN = Rule(note="the owner of the token and its renewers may")
DESCRIBE_DELEGATION_TOKEN = Rule(
    needs=(
        Need(operation=Operation.DESCRIBE, resource=ResourceType.DELEGATION_TOKEN, otherwise="the owner is looked at"),
        Need(
            operation=Operation.DESCRIBE_TOKENS,
            resource=USER,
            otherwise="it is not told, unless the client is its owner or a renewer",
        ),
    ),
    note="The handler looks at each token.",
)
EVERYBODY = Rule()
