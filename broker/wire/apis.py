"""The table of APIs: key, versions, and which listener offers which.

Owns: the numbers in ApiVersions, and the check of a request against them. Handlers are elsewhere. The APIs of streams
groups are left out on purpose. Produce is advertised from version 0 on, because old versions of librdkafka do not
compress batches when they see a higher minimum (KAFKA-18659). A Produce request of version 0 to 2 is refused. Shown by
tests/broker_wire/test_wire_apis.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum


class ApiKey(IntEnum):
    """The API keys of Kafka that this broker supports."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class Listener(Enum):
    """Who may connect: clients (EXTERNAL, DIRECT), other brokers (INTERNAL), the controller quorum (CONTROLLER)."""

    CLIENT = "client"
    INTER_BROKER = "inter_broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One API. Versions from `min_version` on are served. `advertised_min_version` may be lower (see Produce)."""

    key: ApiKey
    min_version: int
    max_version: int
    advertised_min_version: int
    listeners: frozenset[Listener]


_CLIENT = frozenset({Listener.CLIENT, Listener.INTER_BROKER})
_CONTROLLER = frozenset({Listener.CONTROLLER})
_EVERYWHERE = frozenset(Listener)


def _api(key: ApiKey, low: int, high: int, listeners: frozenset[Listener], advertised_low: int | None = None) -> Api:
    return Api(
        key=key,
        min_version=low,
        max_version=high,
        advertised_min_version=low if advertised_low is None else advertised_low,
        listeners=listeners,
    )


APIS: dict[ApiKey, Api] = {
    api.key: api
    for api in (
        _api(ApiKey.PRODUCE, 3, 13, _CLIENT, advertised_low=0),
        _api(ApiKey.FETCH, 4, 18, _EVERYWHERE),
        _api(ApiKey.LIST_OFFSETS, 1, 11, _CLIENT),
        _api(ApiKey.METADATA, 0, 13, _CLIENT),
        _api(ApiKey.OFFSET_COMMIT, 2, 10, _CLIENT),
        _api(ApiKey.OFFSET_FETCH, 1, 10, _CLIENT),
        _api(ApiKey.FIND_COORDINATOR, 0, 6, _CLIENT),
        _api(ApiKey.JOIN_GROUP, 0, 9, _CLIENT),
        _api(ApiKey.HEARTBEAT, 0, 4, _CLIENT),
        _api(ApiKey.LEAVE_GROUP, 0, 5, _CLIENT),
        _api(ApiKey.SYNC_GROUP, 0, 5, _CLIENT),
        _api(ApiKey.DESCRIBE_GROUPS, 0, 6, _CLIENT),
        _api(ApiKey.LIST_GROUPS, 0, 5, _CLIENT),
        _api(ApiKey.SASL_HANDSHAKE, 0, 1, _EVERYWHERE),
        _api(ApiKey.SASL_AUTHENTICATE, 0, 2, _EVERYWHERE),
        _api(ApiKey.API_VERSIONS, 0, 4, _EVERYWHERE),
        _api(ApiKey.CREATE_TOPICS, 2, 7, _EVERYWHERE),
        _api(ApiKey.DELETE_TOPICS, 1, 6, _EVERYWHERE),
        _api(ApiKey.DELETE_RECORDS, 0, 2, _CLIENT),
        _api(ApiKey.INIT_PRODUCER_ID, 0, 5, _CLIENT),
        _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, _CLIENT),
        _api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, _CLIENT),
        _api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, _CLIENT),
        _api(ApiKey.END_TXN, 0, 5, _CLIENT),
        _api(ApiKey.WRITE_TXN_MARKERS, 1, 2, _CLIENT),
        _api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, _CLIENT),
        _api(ApiKey.DESCRIBE_ACLS, 1, 3, _CLIENT),
        _api(ApiKey.CREATE_ACLS, 1, 3, _EVERYWHERE),
        _api(ApiKey.DELETE_ACLS, 1, 3, _EVERYWHERE),
        _api(ApiKey.DESCRIBE_CONFIGS, 1, 4, _EVERYWHERE),
        _api(ApiKey.ALTER_CONFIGS, 0, 2, _EVERYWHERE),
        _api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, _CLIENT),
        _api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, _CLIENT),
        _api(ApiKey.CREATE_PARTITIONS, 0, 3, _EVERYWHERE),
        _api(ApiKey.ELECT_LEADERS, 0, 2, _EVERYWHERE),
        _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, _EVERYWHERE),
        _api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, _EVERYWHERE),
        _api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, _EVERYWHERE),
        _api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, _CLIENT),
        _api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, _EVERYWHERE),
        _api(ApiKey.DELETE_GROUPS, 0, 2, _CLIENT),
        _api(ApiKey.OFFSET_DELETE, 0, 0, _CLIENT),
        _api(ApiKey.VOTE, 2, 2, _CONTROLLER),
        _api(ApiKey.BEGIN_QUORUM_EPOCH, 1, 1, _CONTROLLER),
        _api(ApiKey.END_QUORUM_EPOCH, 1, 1, _CONTROLLER),
        _api(ApiKey.DESCRIBE_QUORUM, 0, 2, _EVERYWHERE),
        _api(ApiKey.ALTER_PARTITION, 3, 3, _CONTROLLER),
        _api(ApiKey.UPDATE_FEATURES, 0, 2, _EVERYWHERE),
        _api(ApiKey.FETCH_SNAPSHOT, 1, 1, _CONTROLLER),
        _api(ApiKey.DESCRIBE_CLUSTER, 0, 2, _EVERYWHERE),
        _api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, _CLIENT),
        _api(ApiKey.BROKER_REGISTRATION, 4, 4, _CONTROLLER),
        _api(ApiKey.BROKER_HEARTBEAT, 2, 2, _CONTROLLER),
        _api(ApiKey.UNREGISTER_BROKER, 0, 0, _EVERYWHERE),
        _api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, _CLIENT),
        _api(ApiKey.LIST_TRANSACTIONS, 0, 2, _CLIENT),
        _api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, _CONTROLLER),
        _api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0, _CONTROLLER),
        _api(ApiKey.LIST_CONFIG_RESOURCES, 1, 1, _CLIENT),
        _api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, _CLIENT),
        _api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, _CLIENT),
        _api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, _CLIENT),
        _api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, _CLIENT),
        _api(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, _CLIENT),
        _api(ApiKey.SHARE_FETCH, 1, 2, _CLIENT),
        _api(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, _CLIENT),
        _api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, _CLIENT),
        _api(ApiKey.READ_SHARE_GROUP_STATE, 0, 0, _CLIENT),
        _api(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, _CLIENT),
        _api(ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, _CLIENT),
        _api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1, _CLIENT),
        _api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1, _CLIENT),
        _api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, _CLIENT),
        _api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, _CLIENT),
    )
}


def advertised(listener: Listener) -> list[tuple[int, int, int]]:
    """(api key, min version, max version) that ApiVersions answers on this listener, ordered by key."""
    return [
        (int(api.key), api.advertised_min_version, api.max_version)
        for api in sorted(APIS.values(), key=lambda each: each.key)
        if listener in api.listeners
    ]


def is_supported(api_key: int, version: int, listener: Listener | None = None) -> bool:
    """Whether a request with these numbers may be handled (on `listener`, or anywhere if None)."""
    api = APIS.get(api_key)  # type: ignore[call-overload]  # an int finds its IntEnum key
    if api is None or not api.min_version <= version <= api.max_version:
        return False
    return listener is None or listener in api.listeners


def negotiate(api_key: ApiKey, offered: dict[int, tuple[int, int]], highest: int | None = None) -> int | None:
    """The highest version that both sides support, or None. `offered` is {api key: (min, max)} from the peer's
    ApiVersions."""
    ours = APIS[api_key]
    if api_key not in offered:
        return None
    their_min, their_max = offered[api_key]
    version = min(ours.max_version, their_max, ours.max_version if highest is None else highest)
    return version if version >= max(ours.min_version, their_min) else None
