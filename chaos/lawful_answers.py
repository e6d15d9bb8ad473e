"""The errors that a broker may answer to each API, whether it has done the work then, and what a client must do.

A search puts such answers in the broker's place. An answer that no broker gives would accuse a client of what never
happens, so a code stands here only if Apache Kafka gives it for this API, and under `after` only if Kafka gives it
although the work was done: because it waited for replicas in vain, or lost the leadership or the coordinator's role in
the meantime.

Each row names the method of Apache Kafka 4.3.1 that gives these codes. The rows were compared with the error codes that
the methods of its jars refer to. A few sources could not be seen there and are from knowledge, such as that of
INCONSISTENT_TOPIC_ID. Some codes are given only for what a request says, such as a leader epoch: the conditions stand
in chaos/toxiproxy/kafka/possible.py, and a proxy passes the other requests. What a client must do follows from the same
version: a code must be repeated only if its exception is a RetriableException (org.apache.kafka.common.errors), and if
Kafka's own client repeats the request then. Codes that nobody gives any more are left out, also where older comments
list them. Values only. Shown by tests/harness/test_harness_explore_lawful.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker.door.protocol import ErrorCode

_LATEST: Final = 32_767  # beyond all versions of any API


class Reaction(StrEnum):
    """What a client must do with an error code in this place, at least."""

    RETRY = "retry"  # asks again, here or elsewhere. The application notices nothing but time
    REJOIN = "rejoin"  # the member begins anew. Records may be delivered again, and none is skipped
    ABORT = "abort"  # the transaction can only be aborted, the producer goes on
    STOP = "stop"  # may fail the call, or end the client with an error. It must not be silent about it, nor hang


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One error that a broker may answer."""

    api: str
    code: int
    name: str  # Kafka's
    is_after_work: bool
    reaction: Reaction
    source: str  # where Apache Kafka gives it: class and method
    since: int = 0  # the first version of the API in which brokers answer it
    until: int = _LATEST  # and the last one
    needs_transaction: bool = False  # only to a producer with a transactional.id


# Codes that every coordinator may give for a moment.
_AWAY: Final = "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR"
_AWAY_OR_LOADING: Final = f"COORDINATOR_LOAD_IN_PROGRESS {_AWAY}"
_LEADER: Final = "UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER KAFKA_STORAGE_ERROR"
_EPOCH: Final = "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH"
_TXN_STOP: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED INVALID_PRODUCER_EPOCH PRODUCER_FENCED"

# Where the codes come from. Short names of Apache Kafka's classes.
_RUNTIME: Final = "CoordinatorRuntime.withActiveContextOrThrow, GroupCoordinatorService.throwIfNotActive"
_GROUP_APPEND: Final = "CoordinatorOperationExceptionHelper.handleOperationException"
_GROUP_METADATA: Final = "GroupMetadataManager.appendGroupMetadataErrorToResponseError"
_TXN_STATE: Final = "TransactionStateManager.getAndMaybeAddTransactionState"
_TXN_APPEND: Final = "TransactionStateManager.appendTransactionToLog, updateCacheCallback"
_PARTITION: Final = "ReplicaManager.getPartitionOrError, Partition.getLocalLog"
_ACCESS: Final = "KafkaApis, authorization"

# An error that came with a version of the API: a client that asks in an older one never gets it.
_SINCE: Final[dict[tuple[str, str], int]] = {
    ("Produce", "KAFKA_STORAGE_ERROR"): 4,
    ("Produce", "INVALID_RECORD"): 8,
    ("Produce", "TRANSACTION_ABORTABLE"): 11,
    ("Produce", "UNKNOWN_TOPIC_ID"): 13,
    ("Fetch", "KAFKA_STORAGE_ERROR"): 6,
    ("Fetch", "FETCH_SESSION_ID_NOT_FOUND"): 7,
    ("Fetch", "INVALID_FETCH_SESSION_EPOCH"): 7,
    ("Fetch", "FENCED_LEADER_EPOCH"): 9,
    ("Fetch", "UNKNOWN_LEADER_EPOCH"): 9,
    ("Fetch", "UNKNOWN_TOPIC_ID"): 13,
    ("Fetch", "INCONSISTENT_TOPIC_ID"): 13,
    ("ListOffsets", "FENCED_LEADER_EPOCH"): 4,
    ("ListOffsets", "UNKNOWN_LEADER_EPOCH"): 4,
    ("ListOffsets", "OFFSET_NOT_AVAILABLE"): 5,
    ("Metadata", "LISTENER_NOT_FOUND"): 6,
    ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT"): 7,
    ("JoinGroup", "GROUP_MAX_SIZE_REACHED"): 4,
    ("InitProducerId", "PRODUCER_FENCED"): 4,
    ("AddPartitionsToTxn", "PRODUCER_FENCED"): 2,
    ("AddOffsetsToTxn", "PRODUCER_FENCED"): 2,
    ("TxnOffsetCommit", "PRODUCER_FENCED"): 3,
    ("TxnOffsetCommit", "UNKNOWN_MEMBER_ID"): 3,
    ("TxnOffsetCommit", "ILLEGAL_GENERATION"): 3,
    ("EndTxn", "PRODUCER_FENCED"): 2,
}
# An error that another one has replaced in later versions.
_UNTIL: Final[dict[tuple[str, str], int]] = {("ListOffsets", "LEADER_NOT_AVAILABLE"): 4}
# InitProducerId without a transactional.id asks no coordinator, only for a free id.
_TRANSACTIONAL: Final = frozenset(
    {
        ("InitProducerId", "COORDINATOR_NOT_AVAILABLE"),
        ("InitProducerId", "NOT_COORDINATOR"),
        ("InitProducerId", "CONCURRENT_TRANSACTIONS"),
        ("InitProducerId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("InitProducerId", "PRODUCER_FENCED"),
        ("Produce", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("Produce", "INVALID_TXN_STATE"),
        ("Produce", "TRANSACTION_ABORTABLE"),
        ("Produce", "INVALID_PRODUCER_EPOCH"),
    }
)

# Left out, because a broker that works gives them only for a mistake of the client: INVALID_REQUEST,
# INVALID_REQUIRED_ACKS, INVALID_SESSION_TIMEOUT, INVALID_GROUP_ID, UNSUPPORTED_VERSION and their like.
# UNKNOWN_SERVER_ERROR says that a broker does not work as it should.
# FENCED_INSTANCE_ID is left out, because it says that another member has taken the place, and none has.
# UNKNOWN_PRODUCER_ID is left out, because only brokers before 3.0 give it, and only if the log has lost all records of
# the producer: its answer says from where on the log begins, and a client decides by that what to send again.
# FETCH_SESSION_TOPIC_ID_ERROR is left out, because the client itself brings it about: it goes on with a session in a
# version that names topics otherwise (FetchManager.newContext).
# OFFSET_OUT_OF_RANGE is left out too: for an offset that the log holds it would be a lie, and the reset that follows is
# the application's own choice. The cluster's own deletion of records brings it truly (harness/explore/trial/model.py).
# (API, whether after the work, the reaction, the codes, the source)
_ROWS: Final[tuple[tuple[str, bool, Reaction, str, str], ...]] = (
    ("Produce", False, Reaction.RETRY, _LEADER, _PARTITION),
    ("Produce", False, Reaction.RETRY, "NOT_ENOUGH_REPLICAS", "Partition.appendRecordsToLeader"),
    # Kafka's own client repeats it. Others take it for a mistake in their own memory and tell the application.
    (
        "Produce",
        False,
        Reaction.STOP,
        "CORRUPT_MESSAGE",
        "UnifiedLog.analyzeAndValidateRecords: bytes flipped underway",
    ),
    ("Produce", False, Reaction.RETRY, "UNKNOWN_TOPIC_ID", "KafkaApis.handleProduceRequest"),
    ("Produce", False, Reaction.ABORT, "INVALID_TXN_STATE TRANSACTION_ABORTABLE", "ReplicaManager.handleProduceAppend"),
    ("Produce", False, Reaction.STOP, "MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE", "UnifiedLog.append"),
    (
        "Produce",
        False,
        Reaction.STOP,
        "INVALID_RECORD INVALID_TIMESTAMP UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "LogValidator",
    ),
    (
        "Produce",
        False,
        Reaction.STOP,
        "TOPIC_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "KafkaApis.handleProduceRequest; CLUSTER_AUTHORIZATION_FAILED only before 3.0",
    ),
    ("Produce", False, Reaction.STOP, "INVALID_PRODUCER_EPOCH", "ProducerAppendInfo.checkProducerEpoch"),
    ("Produce", True, Reaction.RETRY, "REQUEST_TIMED_OUT", "DelayedProduce"),
    (
        "Produce",
        True,
        Reaction.RETRY,
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_LEADER_OR_FOLLOWER",
        "Partition.checkEnoughReplicasReachOffset",
    ),
    ("Produce", True, Reaction.RETRY, "KAFKA_STORAGE_ERROR", "DelayedProduce, ReplicaManager.getPartitionOrError"),
    ("Fetch", False, Reaction.RETRY, f"{_LEADER}", _PARTITION),
    ("Fetch", False, Reaction.RETRY, f"{_EPOCH}", "Partition.checkCurrentLeaderEpoch"),
    (
        "Fetch",
        False,
        Reaction.RETRY,
        "FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH",
        "FetchManager.newContext",
    ),
    ("Fetch", False, Reaction.RETRY, "UNKNOWN_TOPIC_ID", "KafkaApis.handleFetchRequest"),
    ("Fetch", False, Reaction.RETRY, "INCONSISTENT_TOPIC_ID", "ReplicaManager.readFromLog"),
    ("Fetch", False, Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED", _ACCESS),
    ("ListOffsets", False, Reaction.RETRY, f"{_LEADER}", _PARTITION),
    ("ListOffsets", False, Reaction.RETRY, f"{_EPOCH}", "Partition.checkCurrentLeaderEpoch"),
    ("ListOffsets", False, Reaction.RETRY, "OFFSET_NOT_AVAILABLE", "Partition.fetchOffsetForTimestamp"),
    ("ListOffsets", False, Reaction.RETRY, "LEADER_NOT_AVAILABLE", "ReplicaManager.fetchOffset, until version 4"),
    ("ListOffsets", False, Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED", _ACCESS),
    ("Metadata", False, Reaction.RETRY, "UNKNOWN_TOPIC_OR_PARTITION", "KafkaApis.getTopicMetadata"),
    (
        "Metadata",
        False,
        Reaction.RETRY,
        "LEADER_NOT_AVAILABLE",
        "KRaftMetadataCache.partitionMetadata",
    ),
    # An operator's mistake more often than a moment of a rolling change.
    ("Metadata", False, Reaction.STOP, "LISTENER_NOT_FOUND", "KRaftMetadataCache.partitionMetadata"),
    ("Metadata", False, Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED", _ACCESS),
    ("FindCoordinator", False, Reaction.RETRY, "COORDINATOR_NOT_AVAILABLE", "KafkaApis.getCoordinator"),
    (
        "FindCoordinator",
        False,
        Reaction.STOP,
        "GROUP_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        _ACCESS,
    ),
    ("JoinGroup", False, Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
    ("JoinGroup", False, Reaction.REJOIN, "UNKNOWN_MEMBER_ID", "GroupMetadataManager.classicGroupJoinExistingMember"),
    ("JoinGroup", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    (
        "JoinGroup",
        False,
        Reaction.STOP,
        "GROUP_MAX_SIZE_REACHED",
        "GroupMetadataManager.classicGroupJoinToClassicGroup",
    ),
    ("JoinGroup", False, Reaction.STOP, "INCONSISTENT_GROUP_PROTOCOL", "GroupMetadataManager.classicGroupJoin"),
    ("JoinGroup", True, Reaction.RETRY, _AWAY, _GROUP_METADATA),
    ("SyncGroup", False, Reaction.RETRY, _AWAY, _RUNTIME),
    # Kafka's own client takes it for an unexpected error and ends (AbstractCoordinator.SyncGroupResponseHandler).
    ("SyncGroup", False, Reaction.STOP, "COORDINATOR_LOAD_IN_PROGRESS", _RUNTIME),
    ("SyncGroup", False, Reaction.REJOIN, "ILLEGAL_GENERATION", "GroupMetadataManager.validateSyncGroup"),
    ("SyncGroup", False, Reaction.REJOIN, "UNKNOWN_MEMBER_ID", "GroupMetadataManager.classicGroupSync"),
    (
        "SyncGroup",
        False,
        Reaction.REJOIN,
        "REBALANCE_IN_PROGRESS",
        "GroupMetadataManager.classicGroupSyncToClassicGroup",
    ),
    ("SyncGroup", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    ("SyncGroup", True, Reaction.RETRY, _AWAY, _GROUP_METADATA),
    ("Heartbeat", False, Reaction.RETRY, _AWAY, f"{_RUNTIME}; loading is answered by no error"),
    ("Heartbeat", False, Reaction.REJOIN, "ILLEGAL_GENERATION", "GroupMetadataManager.validateClassicGroupHeartbeat"),
    (
        "Heartbeat",
        False,
        Reaction.REJOIN,
        "UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS",
        "GroupMetadataManager.classicGroupHeartbeatToClassicGroup",
    ),
    ("Heartbeat", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    ("LeaveGroup", False, Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
    ("LeaveGroup", False, Reaction.STOP, "UNKNOWN_MEMBER_ID", "GroupMetadataManager.classicGroupLeaveToClassicGroup"),
    ("LeaveGroup", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    ("LeaveGroup", True, Reaction.RETRY, _AWAY, _GROUP_APPEND),
    ("OffsetCommit", False, Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
    ("OffsetCommit", False, Reaction.RETRY, "UNKNOWN_TOPIC_OR_PARTITION", "KafkaApis.handleOffsetCommitRequest"),
    (
        "OffsetCommit",
        False,
        Reaction.REJOIN,
        "ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS",
        "ClassicGroup.validateOffsetCommit",
    ),
    ("OffsetCommit", False, Reaction.STOP, "OFFSET_METADATA_TOO_LARGE", "OffsetMetadataManager.commitOffset"),
    ("OffsetCommit", False, Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED", _ACCESS),
    ("OffsetCommit", True, Reaction.RETRY, _AWAY, _GROUP_APPEND),
    ("OffsetFetch", False, Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
    ("OffsetFetch", False, Reaction.RETRY, "UNSTABLE_OFFSET_COMMIT", "OffsetMetadataManager.fetchOffsets"),
    ("OffsetFetch", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED", _ACCESS),
    ("OffsetForLeaderEpoch", False, Reaction.RETRY, _LEADER, "ReplicaManager.lastOffsetForLeaderEpoch"),
    ("OffsetForLeaderEpoch", False, Reaction.RETRY, _EPOCH, "Partition.checkCurrentLeaderEpoch"),
    ("OffsetForLeaderEpoch", False, Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED", _ACCESS),
    ("ConsumerGroupHeartbeat", False, Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
    ("ConsumerGroupHeartbeat", False, Reaction.REJOIN, "UNKNOWN_MEMBER_ID", "ConsumerGroup.getOrMaybeCreateMember"),
    (
        "ConsumerGroupHeartbeat",
        False,
        Reaction.REJOIN,
        "FENCED_MEMBER_EPOCH",
        "GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid",
    ),
    ("ConsumerGroupHeartbeat", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    (
        "ConsumerGroupHeartbeat",
        False,
        Reaction.STOP,
        "GROUP_MAX_SIZE_REACHED",
        "GroupMetadataManager.throwIfConsumerGroupIsFull",
    ),
    (
        "ConsumerGroupHeartbeat",
        False,
        Reaction.STOP,
        "UNSUPPORTED_ASSIGNOR",
        "GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid",
    ),
    ("ConsumerGroupHeartbeat", True, Reaction.RETRY, _AWAY, _GROUP_APPEND),
    (
        "InitProducerId",
        False,
        Reaction.RETRY,
        "COORDINATOR_LOAD_IN_PROGRESS",
        "RPCProducerIdManager.generateProducerId",
    ),
    ("InitProducerId", False, Reaction.RETRY, _AWAY, _TXN_STATE),
    (
        "InitProducerId",
        False,
        Reaction.RETRY,
        "CONCURRENT_TRANSACTIONS",
        "TransactionCoordinator.prepareInitProducerIdTransit",
    ),
    (
        "InitProducerId",
        False,
        Reaction.STOP,
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED",
        _ACCESS,
    ),
    ("InitProducerId", False, Reaction.STOP, "PRODUCER_FENCED", "TransactionCoordinator.prepareInitProducerIdTransit"),
    ("InitProducerId", True, Reaction.RETRY, _AWAY, _TXN_APPEND),
    ("AddPartitionsToTxn", False, Reaction.RETRY, _AWAY_OR_LOADING, _TXN_STATE),
    (
        "AddPartitionsToTxn",
        False,
        Reaction.RETRY,
        "CONCURRENT_TRANSACTIONS",
        "TransactionCoordinator.handleAddPartitionsToTransaction",
    ),
    (
        "AddPartitionsToTxn",
        False,
        Reaction.RETRY,
        "UNKNOWN_TOPIC_OR_PARTITION",
        "KafkaApis.handleAddPartitionsToTxnRequest",
    ),
    (
        "AddPartitionsToTxn",
        False,
        Reaction.ABORT,
        "INVALID_PRODUCER_ID_MAPPING",
        "TransactionCoordinator.handleAddPartitionsToTransaction",
    ),
    ("AddPartitionsToTxn", False, Reaction.ABORT, "TOPIC_AUTHORIZATION_FAILED", _ACCESS),
    ("AddPartitionsToTxn", False, Reaction.STOP, _TXN_STOP, "TransactionCoordinator, KafkaApis"),
    (
        "AddPartitionsToTxn",
        False,
        Reaction.STOP,
        "INVALID_TXN_STATE",
        "TransactionCoordinator.logInvalidStateTransitionAndReturnError",
    ),
    ("AddPartitionsToTxn", True, Reaction.RETRY, _AWAY, _TXN_APPEND),
    ("AddOffsetsToTxn", False, Reaction.RETRY, _AWAY_OR_LOADING, _TXN_STATE),
    (
        "AddOffsetsToTxn",
        False,
        Reaction.RETRY,
        "CONCURRENT_TRANSACTIONS",
        "TransactionCoordinator.handleAddPartitionsToTransaction",
    ),
    (
        "AddOffsetsToTxn",
        False,
        Reaction.ABORT,
        "INVALID_PRODUCER_ID_MAPPING",
        "TransactionCoordinator.handleAddPartitionsToTransaction",
    ),
    ("AddOffsetsToTxn", False, Reaction.ABORT, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    ("AddOffsetsToTxn", False, Reaction.STOP, _TXN_STOP, "TransactionCoordinator, KafkaApis"),
    (
        "AddOffsetsToTxn",
        False,
        Reaction.STOP,
        "INVALID_TXN_STATE",
        "TransactionCoordinator.logInvalidStateTransitionAndReturnError",
    ),
    ("AddOffsetsToTxn", True, Reaction.RETRY, _AWAY, _TXN_APPEND),
    ("TxnOffsetCommit", False, Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
    ("TxnOffsetCommit", False, Reaction.RETRY, "UNKNOWN_TOPIC_OR_PARTITION", "KafkaApis.handleTxnOffsetCommitRequest"),
    (
        "TxnOffsetCommit",
        False,
        Reaction.ABORT,
        "UNKNOWN_MEMBER_ID ILLEGAL_GENERATION",
        "OffsetMetadataManager.validateTransactionalOffsetCommit",
    ),
    ("TxnOffsetCommit", False, Reaction.ABORT, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    (
        "TxnOffsetCommit",
        False,
        Reaction.STOP,
        _TXN_STOP,
        "GroupCoordinatorService.commitTransactionalOffsets, KafkaApis",
    ),
    ("TxnOffsetCommit", True, Reaction.RETRY, _AWAY, _GROUP_APPEND),
    ("EndTxn", False, Reaction.RETRY, _AWAY_OR_LOADING, _TXN_STATE),
    ("EndTxn", False, Reaction.RETRY, "CONCURRENT_TRANSACTIONS", "TransactionCoordinator.endTransaction"),
    ("EndTxn", False, Reaction.ABORT, "INVALID_PRODUCER_ID_MAPPING", "TransactionCoordinator.endTransaction"),
    ("EndTxn", False, Reaction.STOP, _TXN_STOP, "TransactionCoordinator, KafkaApis"),
    (
        "EndTxn",
        False,
        Reaction.STOP,
        "INVALID_TXN_STATE",
        "TransactionCoordinator.logInvalidStateTransitionAndReturnError",
    ),
    ("EndTxn", True, Reaction.RETRY, _AWAY, _TXN_APPEND),
    ("ShareGroupHeartbeat", False, Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
    (
        "ShareGroupHeartbeat",
        False,
        Reaction.REJOIN,
        "UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH",
        "GroupMetadataManager.throwIfShareGroupMemberEpochIsInvalid",
    ),
    ("ShareGroupHeartbeat", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    (
        "ShareGroupHeartbeat",
        False,
        Reaction.STOP,
        "GROUP_MAX_SIZE_REACHED",
        "GroupMetadataManager.throwIfShareGroupIsFull",
    ),
    ("ShareGroupHeartbeat", True, Reaction.RETRY, _AWAY, _GROUP_APPEND),
    ("ShareFetch", False, Reaction.RETRY, _LEADER, _PARTITION),
    ("ShareFetch", False, Reaction.RETRY, _EPOCH, "KafkaApis.processShareFetchResponse"),
    ("ShareFetch", False, Reaction.RETRY, "UNKNOWN_TOPIC_ID", "KafkaApis.handleFetchFromShareFetchRequest"),
    (
        "ShareFetch",
        False,
        Reaction.RETRY,
        "SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH",
        "SharePartitionManager",
    ),
    ("ShareFetch", False, Reaction.RETRY, "SHARE_SESSION_LIMIT_REACHED", "KafkaApis.handleShareFetchRequest"),
    ("ShareAcknowledge", False, Reaction.RETRY, _LEADER, _PARTITION),
    (
        "ShareAcknowledge",
        False,
        Reaction.RETRY,
        "SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH",
        "SharePartitionManager",
    ),
    ("ShareAcknowledge", False, Reaction.STOP, "INVALID_RECORD_STATE", "SharePartition.acknowledge"),
    ("ShareAcknowledge", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
)


def _answers() -> tuple[Answer, ...]:
    return tuple(
        Answer(
            api=api,
            code=int(ErrorCode[name.lower()]),
            name=name,
            is_after_work=is_after_work,
            reaction=reaction,
            source=source,
            since=_SINCE.get((api, name), 0),
            until=_UNTIL.get((api, name), _LATEST),
            needs_transaction=(api, name) in _TRANSACTIONAL,
        )
        for api, is_after_work, reaction, names, source in _ROWS
        for name in names.split()
    )


ANSWERS: Final = _answers()


def answers_of(api: str, version: int, *, is_transactional: bool = True) -> tuple[Answer, ...]:
    """All that a broker may answer to this version of the API. Empty for an API that no client's ordinary work uses.
    Without `is_transactional` only what a client without a transactional.id may get."""
    return tuple(
        answer
        for answer in ANSWERS
        if answer.api == api
        and answer.since <= version <= answer.until
        and (is_transactional or not answer.needs_transaction)
    )
