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
_UNEXPECTED: Final = "KafkaApis.handleError, ApiError.fromThrowable: an exception that nobody expected"

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
# FENCED_INSTANCE_ID is left out, because it says that another member has taken the place, and none has.
# UNKNOWN_PRODUCER_ID is left out, because only brokers before 3.0 give it, and only if the log has lost all records of
# the producer: its answer says from where on the log begins, and a client decides by that what to send again.
# FETCH_SESSION_TOPIC_ID_ERROR is left out, because the client itself brings it about: it goes on with a session in a
# version that names topics otherwise (FetchManager.newContext).
# OFFSET_OUT_OF_RANGE is left out too: for an offset that the log holds it would be a lie, and the reset that follows is
# the application's own choice. The cluster's own deletion of records brings it truly (harness/explore/trial/model.py).

_Row = tuple[Reaction, str, str]  # the reaction, the codes, the source

# What a broker answers instead of doing the work.
_INSTEAD: Final[dict[str, tuple[_Row, ...]]] = {
    "Produce": (
        (Reaction.RETRY, _LEADER, _PARTITION),
        (Reaction.RETRY, "NOT_ENOUGH_REPLICAS", "Partition.appendRecordsToLeader"),
        # Kafka's own client repeats it. Others take it for a mistake in their own memory and tell the application.
        (Reaction.STOP, "CORRUPT_MESSAGE", "UnifiedLog.analyzeAndValidateRecords: bytes flipped underway"),
        (Reaction.RETRY, "UNKNOWN_TOPIC_ID", "KafkaApis.handleProduceRequest"),
        (Reaction.ABORT, "INVALID_TXN_STATE TRANSACTION_ABORTABLE", "ReplicaManager.handleProduceAppend"),
        (Reaction.STOP, "MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE", "UnifiedLog.append"),
        (Reaction.STOP, "INVALID_RECORD INVALID_TIMESTAMP UNSUPPORTED_FOR_MESSAGE_FORMAT", "LogValidator"),
        (
            Reaction.STOP,
            "TOPIC_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            "KafkaApis.handleProduceRequest; CLUSTER_AUTHORIZATION_FAILED only before 3.0",
        ),
        (Reaction.STOP, "INVALID_PRODUCER_EPOCH", "ProducerAppendInfo.checkProducerEpoch"),
    ),
    "Fetch": (
        (Reaction.RETRY, _LEADER, _PARTITION),
        (Reaction.RETRY, _EPOCH, "Partition.checkCurrentLeaderEpoch"),
        (Reaction.RETRY, "FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH", "FetchManager.newContext"),
        (Reaction.RETRY, "UNKNOWN_TOPIC_ID", "KafkaApis.handleFetchRequest"),
        (Reaction.RETRY, "INCONSISTENT_TOPIC_ID", "ReplicaManager.readFromLog"),
        (Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED", _ACCESS),
    ),
    "ListOffsets": (
        (Reaction.RETRY, _LEADER, _PARTITION),
        (Reaction.RETRY, _EPOCH, "Partition.checkCurrentLeaderEpoch"),
        (Reaction.RETRY, "OFFSET_NOT_AVAILABLE", "Partition.fetchOffsetForTimestamp"),
        (Reaction.RETRY, "LEADER_NOT_AVAILABLE", "ReplicaManager.fetchOffset, until version 4"),
        (Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED", _ACCESS),
    ),
    "Metadata": (
        (Reaction.RETRY, "UNKNOWN_TOPIC_OR_PARTITION", "KafkaApis.getTopicMetadata"),
        (Reaction.RETRY, "LEADER_NOT_AVAILABLE", "KRaftMetadataCache.partitionMetadata"),
        # An operator's mistake more often than a moment of a rolling change.
        (Reaction.STOP, "LISTENER_NOT_FOUND", "KRaftMetadataCache.partitionMetadata"),
        (Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED", _ACCESS),
    ),
    "FindCoordinator": (
        (Reaction.RETRY, "COORDINATOR_NOT_AVAILABLE", "KafkaApis.getCoordinator"),
        (Reaction.STOP, "GROUP_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED", _ACCESS),
    ),
    "JoinGroup": (
        (Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
        (Reaction.REJOIN, "UNKNOWN_MEMBER_ID", "GroupMetadataManager.classicGroupJoinExistingMember"),
        (Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
        (Reaction.STOP, "GROUP_MAX_SIZE_REACHED", "GroupMetadataManager.classicGroupJoinToClassicGroup"),
        (Reaction.STOP, "INCONSISTENT_GROUP_PROTOCOL", "GroupMetadataManager.classicGroupJoin"),
    ),
    "SyncGroup": (
        (Reaction.RETRY, _AWAY, _RUNTIME),
        # Kafka's own client takes it for an unexpected error and ends (AbstractCoordinator.SyncGroupResponseHandler).
        (Reaction.STOP, "COORDINATOR_LOAD_IN_PROGRESS", _RUNTIME),
        (Reaction.REJOIN, "ILLEGAL_GENERATION", "GroupMetadataManager.validateSyncGroup"),
        (Reaction.REJOIN, "UNKNOWN_MEMBER_ID", "GroupMetadataManager.classicGroupSync"),
        (Reaction.REJOIN, "REBALANCE_IN_PROGRESS", "GroupMetadataManager.classicGroupSyncToClassicGroup"),
        (Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    ),
    "Heartbeat": (
        (Reaction.RETRY, _AWAY, f"{_RUNTIME}; loading is answered by no error"),
        (Reaction.REJOIN, "ILLEGAL_GENERATION", "GroupMetadataManager.validateClassicGroupHeartbeat"),
        (
            Reaction.REJOIN,
            "UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS",
            "GroupMetadataManager.classicGroupHeartbeatToClassicGroup",
        ),
        (Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    ),
    "LeaveGroup": (
        (Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
        (Reaction.STOP, "UNKNOWN_MEMBER_ID", "GroupMetadataManager.classicGroupLeaveToClassicGroup"),
        (Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    ),
    "OffsetCommit": (
        (Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
        (Reaction.RETRY, "UNKNOWN_TOPIC_OR_PARTITION", "KafkaApis.handleOffsetCommitRequest"),
        (
            Reaction.REJOIN,
            "ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS",
            "ClassicGroup.validateOffsetCommit",
        ),
        (Reaction.STOP, "OFFSET_METADATA_TOO_LARGE", "OffsetMetadataManager.commitOffset"),
        (Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED", _ACCESS),
    ),
    "OffsetFetch": (
        (Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
        (Reaction.RETRY, "UNSTABLE_OFFSET_COMMIT", "OffsetMetadataManager.fetchOffsets"),
        (Reaction.STOP, "GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED", _ACCESS),
    ),
    "OffsetForLeaderEpoch": (
        (Reaction.RETRY, _LEADER, "ReplicaManager.lastOffsetForLeaderEpoch"),
        (Reaction.RETRY, _EPOCH, "Partition.checkCurrentLeaderEpoch"),
        (Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED", _ACCESS),
    ),
    "ConsumerGroupHeartbeat": (
        (Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
        (Reaction.REJOIN, "UNKNOWN_MEMBER_ID", "ConsumerGroup.getOrMaybeCreateMember"),
        (Reaction.REJOIN, "FENCED_MEMBER_EPOCH", "GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid"),
        (Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
        (Reaction.STOP, "GROUP_MAX_SIZE_REACHED", "GroupMetadataManager.throwIfConsumerGroupIsFull"),
        (
            Reaction.STOP,
            "UNSUPPORTED_ASSIGNOR",
            "GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid",
        ),
    ),
    "InitProducerId": (
        (Reaction.RETRY, "COORDINATOR_LOAD_IN_PROGRESS", "RPCProducerIdManager.generateProducerId"),
        (Reaction.RETRY, _AWAY, _TXN_STATE),
        (Reaction.RETRY, "CONCURRENT_TRANSACTIONS", "TransactionCoordinator.prepareInitProducerIdTransit"),
        (Reaction.STOP, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED", _ACCESS),
        (Reaction.STOP, "PRODUCER_FENCED", "TransactionCoordinator.prepareInitProducerIdTransit"),
    ),
    "AddPartitionsToTxn": (
        (Reaction.RETRY, _AWAY_OR_LOADING, _TXN_STATE),
        (Reaction.RETRY, "CONCURRENT_TRANSACTIONS", "TransactionCoordinator.handleAddPartitionsToTransaction"),
        (Reaction.RETRY, "UNKNOWN_TOPIC_OR_PARTITION", "KafkaApis.handleAddPartitionsToTxnRequest"),
        (Reaction.ABORT, "INVALID_PRODUCER_ID_MAPPING", "TransactionCoordinator.handleAddPartitionsToTransaction"),
        (Reaction.ABORT, "TOPIC_AUTHORIZATION_FAILED", _ACCESS),
        (Reaction.STOP, _TXN_STOP, "TransactionCoordinator, KafkaApis"),
        (Reaction.STOP, "INVALID_TXN_STATE", "TransactionCoordinator.logInvalidStateTransitionAndReturnError"),
    ),
    "AddOffsetsToTxn": (
        (Reaction.RETRY, _AWAY_OR_LOADING, _TXN_STATE),
        (Reaction.RETRY, "CONCURRENT_TRANSACTIONS", "TransactionCoordinator.handleAddPartitionsToTransaction"),
        (Reaction.ABORT, "INVALID_PRODUCER_ID_MAPPING", "TransactionCoordinator.handleAddPartitionsToTransaction"),
        (Reaction.ABORT, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
        (Reaction.STOP, _TXN_STOP, "TransactionCoordinator, KafkaApis"),
        (Reaction.STOP, "INVALID_TXN_STATE", "TransactionCoordinator.logInvalidStateTransitionAndReturnError"),
    ),
    "TxnOffsetCommit": (
        (Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
        (Reaction.RETRY, "UNKNOWN_TOPIC_OR_PARTITION", "KafkaApis.handleTxnOffsetCommitRequest"),
        (
            Reaction.ABORT,
            "UNKNOWN_MEMBER_ID ILLEGAL_GENERATION",
            "OffsetMetadataManager.validateTransactionalOffsetCommit",
        ),
        (Reaction.ABORT, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
        (Reaction.STOP, _TXN_STOP, "GroupCoordinatorService.commitTransactionalOffsets, KafkaApis"),
    ),
    "EndTxn": (
        (Reaction.RETRY, _AWAY_OR_LOADING, _TXN_STATE),
        (Reaction.RETRY, "CONCURRENT_TRANSACTIONS", "TransactionCoordinator.endTransaction"),
        (Reaction.ABORT, "INVALID_PRODUCER_ID_MAPPING", "TransactionCoordinator.endTransaction"),
        (Reaction.STOP, _TXN_STOP, "TransactionCoordinator, KafkaApis"),
        (Reaction.STOP, "INVALID_TXN_STATE", "TransactionCoordinator.logInvalidStateTransitionAndReturnError"),
    ),
    "ShareGroupHeartbeat": (
        (Reaction.RETRY, _AWAY_OR_LOADING, _RUNTIME),
        (
            Reaction.REJOIN,
            "UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH",
            "GroupMetadataManager.throwIfShareGroupMemberEpochIsInvalid",
        ),
        (Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
        (Reaction.STOP, "GROUP_MAX_SIZE_REACHED", "GroupMetadataManager.throwIfShareGroupIsFull"),
    ),
    "ShareFetch": (
        (Reaction.RETRY, _LEADER, _PARTITION),
        (Reaction.RETRY, _EPOCH, "KafkaApis.processShareFetchResponse"),
        (Reaction.RETRY, "UNKNOWN_TOPIC_ID", "KafkaApis.handleFetchFromShareFetchRequest"),
        (Reaction.RETRY, "SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH", "SharePartitionManager"),
        (Reaction.RETRY, "SHARE_SESSION_LIMIT_REACHED", "KafkaApis.handleShareFetchRequest"),
    ),
    "ShareAcknowledge": (
        (Reaction.RETRY, _LEADER, _PARTITION),
        (Reaction.RETRY, "SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH", "SharePartitionManager"),
        (Reaction.STOP, "INVALID_RECORD_STATE", "SharePartition.acknowledge"),
        (Reaction.STOP, "GROUP_AUTHORIZATION_FAILED", _ACCESS),
    ),
}

# A broker that failed inside says so instead of any answer. It is not to be repeated, and a transaction that it is
# about can only be given up. Of Metadata there is no such answer: a topic that cannot be told of is left out.
_FAILED_INSIDE: Final = "UNKNOWN_SERVER_ERROR"
_OF_TRANSACTIONS: Final = ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")


def _instead(api: str) -> tuple[_Row, ...]:
    if api == "Metadata":
        return _INSTEAD[api]
    reaction = Reaction.ABORT if api in _OF_TRANSACTIONS else Reaction.STOP
    return (*_INSTEAD[api], (reaction, _FAILED_INSIDE, _UNEXPECTED))


# What it answers although it has done the work.
_AFTERWARDS: Final[dict[str, tuple[_Row, ...]]] = {
    "Produce": (
        (Reaction.RETRY, "REQUEST_TIMED_OUT", "DelayedProduce"),
        (
            Reaction.RETRY,
            "NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_LEADER_OR_FOLLOWER",
            "Partition.checkEnoughReplicasReachOffset",
        ),
        (Reaction.RETRY, "KAFKA_STORAGE_ERROR", "DelayedProduce, ReplicaManager.getPartitionOrError"),
    ),
    "JoinGroup": ((Reaction.RETRY, _AWAY, _GROUP_METADATA),),
    "SyncGroup": ((Reaction.RETRY, _AWAY, _GROUP_METADATA),),
    "LeaveGroup": ((Reaction.RETRY, _AWAY, _GROUP_APPEND),),
    "OffsetCommit": ((Reaction.RETRY, _AWAY, _GROUP_APPEND),),
    "ConsumerGroupHeartbeat": ((Reaction.RETRY, _AWAY, _GROUP_APPEND),),
    "InitProducerId": ((Reaction.RETRY, _AWAY, _TXN_APPEND),),
    "AddPartitionsToTxn": ((Reaction.RETRY, _AWAY, _TXN_APPEND),),
    "AddOffsetsToTxn": ((Reaction.RETRY, _AWAY, _TXN_APPEND),),
    "TxnOffsetCommit": ((Reaction.RETRY, _AWAY, _GROUP_APPEND),),
    "EndTxn": ((Reaction.RETRY, _AWAY, _TXN_APPEND),),
    "ShareGroupHeartbeat": ((Reaction.RETRY, _AWAY, _GROUP_APPEND),),
}


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
        for api in _INSTEAD
        for is_after_work, rows in ((False, _instead(api)), (True, _AFTERWARDS.get(api, ())))
        for reaction, names, source in rows
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
