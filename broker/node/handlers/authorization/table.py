"""The authorization rule of every API of the kernel, and the handlers that run after their rules. Features bring their
own rules (broker/node/api_table.py).

On the controllers' listener, a client with CLUSTER_ACTION is trusted: a broker has authorized the requests that it
forwards.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.node.handlers.authorization import admin, data, groups, settings, topics
from broker.node.handlers.authorization.rules import AnyApi, Rule, access_of, made
from broker.node.handlers.rows import Handler
from broker.node.handlers.services import Services
from broker.security.acls import Operation
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ErrorCode

RULES: Mapping[ApiKey, Rule] = {
    ApiKey.PRODUCE: data.PRODUCE,
    ApiKey.FETCH: data.FETCH,
    ApiKey.LIST_OFFSETS: data.LIST_OFFSETS,
    ApiKey.METADATA: data.METADATA,
    ApiKey.OFFSET_COMMIT: data.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH: groups.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR: data.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP: groups.JOIN_GROUP,
    ApiKey.HEARTBEAT: groups.HEARTBEAT,
    ApiKey.LEAVE_GROUP: groups.LEAVE_GROUP,
    ApiKey.SYNC_GROUP: groups.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS: groups.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS: groups.LIST_GROUPS,
    ApiKey.SASL_HANDSHAKE: admin.EVERYBODY,
    ApiKey.API_VERSIONS: admin.EVERYBODY,
    ApiKey.CREATE_TOPICS: topics.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS: topics.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS: data.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID: data.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: data.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN: data.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN: data.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN: data.END_TXN,
    ApiKey.WRITE_TXN_MARKERS: data.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT: data.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS: admin.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS: admin.CREATE_ACLS,
    ApiKey.DELETE_ACLS: admin.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS: settings.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS: settings.ALTER_CONFIGS,
    ApiKey.SASL_AUTHENTICATE: admin.EVERYBODY,
    ApiKey.CREATE_PARTITIONS: topics.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS: groups.DELETE_GROUPS,
    ApiKey.ELECT_LEADERS: topics.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: settings.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: topics.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: topics.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_DELETE: data.OFFSET_DELETE,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: admin.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: admin.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.VOTE: admin.BETWEEN_BROKERS,
    ApiKey.BEGIN_QUORUM_EPOCH: admin.BETWEEN_BROKERS,
    ApiKey.END_QUORUM_EPOCH: admin.BETWEEN_BROKERS,
    ApiKey.DESCRIBE_QUORUM: admin.DESCRIBE_QUORUM,
    ApiKey.ALTER_PARTITION: admin.BETWEEN_BROKERS,
    ApiKey.UPDATE_FEATURES: admin.UPDATE_FEATURES,
    ApiKey.FETCH_SNAPSHOT: admin.BETWEEN_BROKERS,
    ApiKey.DESCRIBE_CLUSTER: admin.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS: data.DESCRIBE_PRODUCERS,
    ApiKey.BROKER_REGISTRATION: admin.BETWEEN_BROKERS,
    ApiKey.BROKER_HEARTBEAT: admin.BETWEEN_BROKERS,
    ApiKey.UNREGISTER_BROKER: admin.UNREGISTER_BROKER,
    ApiKey.DESCRIBE_TRANSACTIONS: data.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS: groups.LIST_TRANSACTIONS,
    ApiKey.ALLOCATE_PRODUCER_IDS: admin.BETWEEN_BROKERS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.CONSUMER_GROUP_DESCRIBE,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: admin.BETWEEN_BROKERS,
    ApiKey.LIST_CONFIG_RESOURCES: admin.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.DESCRIBE_TOPIC_PARTITIONS,
}


def authorized(rule: Rule, key: ApiKey, handle: Handler) -> Handler:
    """A handler that first applies its rule. Requests of a broker to itself do not come this way."""
    if not rule.needs:
        return handle

    def unless_denied(services: Services, request: AnyApi) -> None:
        access = access_of(services, request)
        if request.listener is Listener.CONTROLLER:
            if access.may_on_cluster(Operation.CLUSTER_ACTION):
                handle(services, request)
                return
            if key is ApiKey.FETCH:
                error = ErrorCode.cluster_authorization_failed
                request.respond(made(request, error_code=error, responses=[]))
                return
        request.access = access
        for step in rule.steps:
            answer = step(access, services, request)
            if answer is not None:
                request.respond(answer)
                return
        handle(services, request)

    return unless_denied
