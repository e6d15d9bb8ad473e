"""Whether a broker could answer an error code to one request, by what the request says.

Some codes are about a field that not every request has: no broker fences a leader epoch that was not sent, and none
misses a Fetch session in a request without one. A toxic with `possible_only` passes such requests. A code without a row
here depends on nothing that the request says. Each row names the place in Apache Kafka 4.3.1. Shown by
tests/chaos/test_chaos_kafka_possible.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from chaos.toxiproxy.kafka.apis import API_KEYS

_ALL_REPLICAS, _NO_EPOCH, _NO_GENERATION = -1, -1, -1
_LATEST_TIMESTAMP: Final = -1
_GROUP_KEY, _TRANSACTION_KEY = 0, 1  # org.apache.kafka.common.requests.FindCoordinatorRequest.CoordinatorType
_JOINING_EPOCH: Final = 0  # of a member in the protocol of KIP-848

Possible = Callable[[Any], bool]  # of kio's request; for Produce also of the proxy's own


def _partitions(request: Any) -> Iterator[Any]:
    return (each for topic in request.topics or () for each in topic.partitions)


def _says_epoch(request: Any) -> bool:
    """Partition.checkCurrentLeaderEpoch: without a leader epoch there is nothing to compare."""
    return all(getattr(each, "current_leader_epoch", _NO_EPOCH) != _NO_EPOCH for each in _partitions(request))


def _is_within_session(request: Any) -> bool:
    """FetchManager.newContext: epoch 0 begins a session, and -1 wants none."""
    return bool(getattr(request, "session_epoch", _NO_EPOCH) > 0)


def _asks_for_the_end(request: Any) -> bool:
    """Partition.fetchOffsetForTimestamp: the beginning of the log is always told. A timestamp is told too if its record
    is below the high watermark."""
    return all(each.timestamp == _LATEST_TIMESTAMP for each in _partitions(request))


def _waits_for_replicas(request: Any) -> bool:
    """Partition.appendRecordsToLeader and DelayedProduce: only with acks=all."""
    return bool(request.acks == _ALL_REPLICAS)


def _names_member(request: Any) -> bool:
    """GroupMetadataManager.classicGroupJoinToClassicGroup: who names no member is a new one."""
    return bool(request.member_id)


def _is_new_member(request: Any) -> bool:
    """GroupMetadataManager.acceptJoiningMember: who is in the group stays."""
    return not request.member_id


def _names_generation(request: Any) -> bool:
    """ClassicGroup.validateOffsetCommit, OffsetMetadataManager.validateTransactionalOffsetCommit: without a generation
    it is no member's commit."""
    names = ("generation_id_or_member_epoch", "generation_id")
    return any(getattr(request, name, _NO_GENERATION) > _NO_GENERATION for name in names)


def _wants_stable(request: Any) -> bool:
    """OffsetMetadataManager.fetchOffsets: others are told the last offset that is committed."""
    return bool(getattr(request, "require_stable", False))


def _is_within_group(request: Any) -> bool:
    """GroupMetadataManager.getOrMaybeSubscribeDynamicConsumerMember: epoch 0 joins, whoever it is."""
    return bool(request.member_epoch != _JOINING_EPOCH)


def _joins(request: Any) -> bool:
    """GroupMetadataManager.throwIfConsumerGroupIsFull: asked only of who comes."""
    return bool(request.member_epoch == _JOINING_EPOCH)


def _names_assignor(request: Any) -> bool:
    """GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid."""
    return bool(request.server_assignor)


def _names_topics(request: Any) -> bool:
    """KafkaApis.handleTopicMetadataRequest: who asks for all topics is told those that there are."""
    return bool(request.topics)


def _looks_for_group(request: Any) -> bool:
    """KafkaApis.getCoordinator: each kind has an authorization of its own. Version 0 knows groups only."""
    return bool(getattr(request, "key_type", _GROUP_KEY) == _GROUP_KEY)


def _looks_for_transaction(request: Any) -> bool:
    return bool(getattr(request, "key_type", _GROUP_KEY) == _TRANSACTION_KEY)


def _is_only_idempotent(request: Any) -> bool:
    """KafkaApis.handleInitProducerIdRequest: with a transactional.id only that one is looked at."""
    return not request.transactional_id


# (API, its codes, the condition)
_ROWS: Final[tuple[tuple[str, tuple[int, ...], Possible], ...]] = (
    ("Fetch", (74, 75), _says_epoch),  # FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
    ("ListOffsets", (74, 75), _says_epoch),
    ("OffsetForLeaderEpoch", (74, 75), _says_epoch),
    ("Fetch", (70, 71), _is_within_session),  # FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH
    ("ListOffsets", (5, 78), _asks_for_the_end),  # LEADER_NOT_AVAILABLE, OFFSET_NOT_AVAILABLE
    # REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND
    ("Produce", (7, 19, 20), _waits_for_replicas),
    ("JoinGroup", (25,), _names_member),  # UNKNOWN_MEMBER_ID
    ("JoinGroup", (81,), _is_new_member),  # GROUP_MAX_SIZE_REACHED
    ("OffsetCommit", (22, 25, 27), _names_generation),  # ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS
    ("TxnOffsetCommit", (22, 25), _names_generation),
    ("OffsetFetch", (88,), _wants_stable),  # UNSTABLE_OFFSET_COMMIT
    ("ConsumerGroupHeartbeat", (25, 110), _is_within_group),  # UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH
    ("ConsumerGroupHeartbeat", (81,), _joins),
    ("ConsumerGroupHeartbeat", (112,), _names_assignor),  # UNSUPPORTED_ASSIGNOR
    ("ShareGroupHeartbeat", (25, 110), _is_within_group),
    ("ShareGroupHeartbeat", (81,), _joins),
    ("FindCoordinator", (30,), _looks_for_group),  # GROUP_AUTHORIZATION_FAILED
    ("FindCoordinator", (53,), _looks_for_transaction),  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ("InitProducerId", (31,), _is_only_idempotent),  # CLUSTER_AUTHORIZATION_FAILED
    ("Metadata", (3, 29), _names_topics),  # UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED
)
CONDITIONS: Final[Mapping[tuple[int, int], Possible]] = {
    (API_KEYS[api], code): condition for api, codes, condition in _ROWS for code in codes
}


def is_conditional(api_key: int, error_code: int) -> bool:
    """Whether it depends on the request if a broker could give this code."""
    return (api_key, error_code) in CONDITIONS


def is_possible(api_key: int, error_code: int, request: Any) -> bool:  # kio's type, or a ProduceRequest
    """Whether a broker could answer the code to this request."""
    condition = CONDITIONS.get((api_key, error_code))
    return condition is None or condition(request)
