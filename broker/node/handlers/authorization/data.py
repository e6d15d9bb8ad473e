"""Rules of the APIs that producers and consumers use on topics, groups and transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker.controller.topics import is_legal_name
from broker.node.handlers.authorization.rules import (
    AnyApi,
    Entry,
    Item,
    Need,
    Rule,
    all_in,
    divided,
    each,
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
from broker.wire.messages import field_or

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def partitions_entry(item: Item, error: ErrorCode, **values: object) -> Entry:
    """The error for all partitions of a topic in the request. It is for answers whose fields have the usual names."""
    about = {"name": item.name} if hasattr(item, "name") else {"topic_id": item.topic_id}
    return {
        **about,
        "partitions": [
            {"partition_index": part.partition_index, "error_code": error, **values} for part in item.partitions
        ],
    }


def topic_of(services: Services, item: Item) -> str | None:
    """The name of a topic. None for an id that no topic has."""
    if hasattr(item, "name"):
        return str(item.name)
    return services.metadata.image.topic_names.get(item.topic_id)


# -- topics

PRODUCE = Rule(
    needs=(
        Need(operation=WRITE, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED for its partitions"),
        Need(
            operation=WRITE,
            resource=TRANSACTIONAL_ID,
            otherwise="TRANSACTIONAL_ID_AUTHORIZATION_FAILED for all, if a batch is transactional",
        ),
    )
)
FETCH = Rule(
    needs=(
        Need(operation=READ, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED for its partitions"),
        Need(
            operation=Operation.CLUSTER_ACTION,
            resource=CLUSTER,
            otherwise="a replica: TOPIC_AUTHORIZATION_FAILED for all; a voter: CLUSTER_AUTHORIZATION_FAILED",
        ),
    )
)
LIST_OFFSETS = rule(
    each(
        DESCRIBE,
        TOPIC,
        "topics",
        lambda item, error: partitions_entry(item, error, timestamp=-1, offset=-1, leader_epoch=-1),
        "topics",
    )
)
METADATA = Rule(
    needs=(
        Need(operation=DESCRIBE, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED; left out if all are asked for"),
        Need(
            operation=Operation.CREATE,
            resource=CLUSTER,
            otherwise="a topic that is not there is not made, unless it may be created by itself",
        ),
        Need(operation=Operation.CREATE, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED for that one"),
        Need(operation=DESCRIBE, resource=CLUSTER, otherwise="no authorized operations of the cluster are told"),
    )
)
DELETE_RECORDS = rule(
    each(
        Operation.DELETE,
        TOPIC,
        "topics",
        lambda item, error: partitions_entry(item, error, low_watermark=-1) if item.partitions else {},
        "topics",
    )
)


def _offset_for_leader_epoch(access: Access, services: Services, request: AnyApi) -> Any | None:
    return (
        None if access.could_on_cluster(Operation.CLUSTER_ACTION) else _epochs_of_topics[1](access, services, request)
    )


def _epoch_entry(item: Item, error: ErrorCode) -> Entry:
    partitions = [
        {"error_code": error, "partition": part.partition, "leader_epoch": -1, "end_offset": -1}
        for part in item.partitions
    ]
    return {"topic": item.topic, "partitions": partitions}


_epochs_of_topics = each(DESCRIBE, TOPIC, "topics", _epoch_entry, "topics", lambda services, item: str(item.topic))
OFFSET_FOR_LEADER_EPOCH = Rule(
    needs=(
        Need(operation=Operation.CLUSTER_ACTION, resource=CLUSTER, otherwise="the rights to each topic are checked"),
        _epochs_of_topics[0],
    ),
    steps=(_offset_for_leader_epoch,),
)
DESCRIBE_PRODUCERS = rule(
    each(
        READ,
        TOPIC,
        "topics",
        lambda item, error: {
            "name": item.name,
            "partitions": [
                {"partition_index": index, "error_code": error, "error_message": None, "active_producers": []}
                for index in item.partition_indexes
            ],
        },
        "topics",
        lambda services, item: str(item.name) if is_legal_name(item.name) else None,
    )
)

# -- offsets

_commit_refused = all_in("topics", partitions_entry, "topics")
OFFSET_COMMIT = rule(
    whole(READ, GROUP, lambda message: message.group_id, _commit_refused),
    each(READ, TOPIC, "topics", partitions_entry, "topics", topic_of),
)
TXN_OFFSET_COMMIT = rule(
    whole(WRITE, TRANSACTIONAL_ID, lambda message: message.transactional_id, _commit_refused),
    whole(READ, GROUP, lambda message: message.group_id, _commit_refused),
    each(READ, TOPIC, "topics", partitions_entry, "topics", topic_of),
)


def _offset_delete_topics(access: Access, services: Services, request: AnyApi) -> None:
    """The coordinator is asked even if all topics are denied. As in Kafka, if the group has an error, the answer
    contains only that."""
    kept, denied = divided(request.message.topics, lambda item: access.may(READ, TOPIC, item.name))
    refused = [partitions_entry(item, ErrorCode.topic_authorization_failed) for item in denied]
    told = made(request, error_code=ErrorCode.none, topics=refused)
    request.message = replace(request.message, topics=kept)

    def change(answer: Any) -> Any:
        is_of_group = answer.error_code is not ErrorCode.none
        return answer if is_of_group else replace(answer, topics=(*answer.topics, *told.topics))

    request.amend_answer(change)


OFFSET_DELETE = rule(
    whole(
        Operation.DELETE,
        GROUP,
        lambda message: message.group_id,
        lambda request, error: top(request, error, topics=[]),
        "GROUP_AUTHORIZATION_FAILED",
    ),
    (
        Need(operation=READ, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED for its partitions"),
        _offset_delete_topics,
    ),
)

# -- transactions


def _producer_refused(request: AnyApi, error: ErrorCode) -> Any:
    return top(request, error, producer_id=-1, producer_epoch=-1)


def _may_be_idempotent(access: Access, services: Services, request: AnyApi) -> Any | None:
    """KIP-679: a client that may write to any topic may have a producer id."""
    if request.message.transactional_id is not None:
        return None
    if access.could_on_cluster(Operation.IDEMPOTENT_WRITE) or access.may_somewhere(WRITE, TOPIC):
        return None
    access.may_on_cluster(Operation.IDEMPOTENT_WRITE)  # called only so that the denial is logged
    return _producer_refused(request, ErrorCode.cluster_authorization_failed)


INIT_PRODUCER_ID = rule(
    whole(
        WRITE,
        TRANSACTIONAL_ID,
        lambda message: message.transactional_id,
        _producer_refused,
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    (
        Need(
            operation=Operation.IDEMPOTENT_WRITE,
            resource=CLUSTER,
            otherwise="without a transactional id: CLUSTER_AUTHORIZATION_FAILED, unless WRITE is allowed on some topic",
        ),
        _may_be_idempotent,
    ),
)


def _add_partitions(access: Access, services: Services, request: AnyApi) -> Any | None:
    """Before version 4 the request comes from clients, and the handler checks each topic. Since version 4 it comes from
    brokers."""
    message = request.message
    if request.version >= 4:
        may = access.may_on_cluster(Operation.CLUSTER_ACTION)
        return None if may else top(request, ErrorCode.cluster_authorization_failed, results_by_transaction=[])
    if access.may(WRITE, TRANSACTIONAL_ID, message.v3_and_below_transactional_id):
        return None
    error = ErrorCode.transactional_id_authorization_failed
    results = [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": error} for index in topic.partitions
            ],
        }
        for topic in message.v3_and_below_topics
    ]
    return made(request, results_by_topic_v3_and_below=results)


ADD_PARTITIONS_TO_TXN = Rule(
    needs=(
        Need(
            operation=WRITE,
            resource=TRANSACTIONAL_ID,
            otherwise="TRANSACTIONAL_ID_AUTHORIZATION_FAILED for all (until version 3)",
        ),
        Need(
            operation=WRITE,
            resource=TOPIC,
            otherwise="TOPIC_AUTHORIZATION_FAILED for it, OPERATION_NOT_ATTEMPTED for the others (until version 3)",
        ),
        Need(
            operation=Operation.CLUSTER_ACTION,
            resource=CLUSTER,
            otherwise="CLUSTER_AUTHORIZATION_FAILED (since version 4, which brokers send)",
        ),
    ),
    steps=(_add_partitions,),
)
ADD_OFFSETS_TO_TXN = rule(
    whole(WRITE, TRANSACTIONAL_ID, lambda message: message.transactional_id),
    whole(READ, GROUP, lambda message: message.group_id),
)
END_TXN = rule(
    whole(
        WRITE,
        TRANSACTIONAL_ID,
        lambda message: message.transactional_id,
        _producer_refused,
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    )
)


def _markers_refused(item: Item, error: ErrorCode) -> Entry:
    topics = [
        {
            "name": topic.name,
            "partitions": [{"partition_index": index, "error_code": error} for index in topic.partition_indexes],
        }
        for topic in item.topics
        if topic.partition_indexes
    ]
    return {"producer_id": item.producer_id, "topics": topics}


def _write_markers(access: Access, services: Services, request: AnyApi) -> Any | None:
    if access.could_on_cluster(Operation.ALTER) or access.may_on_cluster(Operation.CLUSTER_ACTION):
        return None
    return all_in("markers", _markers_refused, "markers")(request, ErrorCode.cluster_authorization_failed)


WRITE_TXN_MARKERS = Rule(
    needs=(
        Need(operation=Operation.ALTER, resource=CLUSTER, otherwise="CLUSTER_ACTION does as well"),
        Need(
            operation=Operation.CLUSTER_ACTION,
            resource=CLUSTER,
            otherwise="CLUSTER_AUTHORIZATION_FAILED for all that was asked",
        ),
    ),
    steps=(_write_markers,),
)


def _transaction_entry(item: Item, error: ErrorCode) -> Entry:
    return {
        "error_code": error,
        "transactional_id": item,
        "transaction_state": "",
        "transaction_timeout": 0,
        "transaction_start_time": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": [],
    }


def _hide_topics_of_transactions(access: Access, services: Services, request: AnyApi) -> None:
    def hidden(message: Any) -> Any:
        states = tuple(
            replace(state, topics=tuple(each for each in state.topics if access.could(DESCRIBE, TOPIC, each.topic)))
            for state in message.transaction_states
        )
        return replace(message, transaction_states=states)

    request.amend_answer(hidden)


DESCRIBE_TRANSACTIONS = rule(
    each(
        DESCRIBE,
        TRANSACTIONAL_ID,
        "transactional_ids",
        _transaction_entry,
        "transaction_states",
        lambda services, item: str(item),
    ),
    (
        Need(operation=DESCRIBE, resource=TOPIC, otherwise="the topic is left out of its transaction"),
        _hide_topics_of_transactions,
    ),
)

# -- coordinators

_KINDS = {0: GROUP, 1: TRANSACTIONAL_ID}
SHARE_STATES = 2


def _find_coordinator(access: Access, services: Services, request: AnyApi) -> Any | None:
    key_type = field_or(request.message, "key_type", 0)
    if key_type == SHARE_STATES and not access.may_on_cluster(Operation.CLUSTER_ACTION):
        # this is version 6 or later: earlier versions have no such keys
        refused = ErrorCode.cluster_authorization_failed
        return all_in("coordinator_keys", _coordinator_entry, "coordinators")(request, refused)
    kind = _KINDS.get(key_type)
    if kind is None:
        return None
    error = ErrorCode.group_authorization_failed if kind is GROUP else ErrorCode.transactional_id_authorization_failed
    if request.version < 4:
        if access.may(DESCRIBE, kind, request.message.key):
            return None
        return top(request, error, error_message=None, node_id=-1, host="", port=-1)

    def judge(access: Access, services: Services, key: Item) -> ErrorCode | None:
        return None if access.may(DESCRIBE, kind, key) else error

    return narrowing("coordinator_keys", judge, _coordinator_entry, "coordinators")(access, services, request)


def _coordinator_entry(key: Item, error: ErrorCode) -> Entry:
    return {"key": key, "error_code": error, "error_message": None, "node_id": -1, "host": "", "port": -1}


FIND_COORDINATOR = Rule(
    needs=(
        Need(operation=DESCRIBE, resource=GROUP, otherwise="GROUP_AUTHORIZATION_FAILED for that group"),
        Need(
            operation=DESCRIBE,
            resource=TRANSACTIONAL_ID,
            otherwise="TRANSACTIONAL_ID_AUTHORIZATION_FAILED for that id",
        ),
        Need(
            operation=Operation.CLUSTER_ACTION,
            resource=CLUSTER,
            otherwise="CLUSTER_AUTHORIZATION_FAILED for the states of share partitions",
        ),
    ),
    steps=(_find_coordinator,),
)
