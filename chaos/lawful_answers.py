"""Which errors a broker may answer to each API, whether it has done the work then, and what a client must do.

A search puts such answers in the broker's place. An answer that no broker gives would accuse a client of what never
happens, so a code stands here only if Apache Kafka gives it for this API, and under `after` only if Kafka gives it
although the work was done: because it waited for replicas in vain, or lost the leadership or the coordinator's role in
the meantime.

Sources: the lists of possible error codes in Apache Kafka's response classes
(org.apache.kafka.common.requests.*Response, 4.3), `DelayedProduce` and the coordinators' translation of append errors
(an append that timed out is COORDINATOR_NOT_AVAILABLE to the client, a lost leadership NOT_COORDINATOR), and the
comments of franz-go's protocol definitions (generate/definitions). Values only. Shown by
tests/harness/test_harness_explore_search.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker.door.protocol import ErrorCode


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
    since: int  # the first version of the API in which brokers answer it


# Codes that every coordinator may give for a moment.
_AWAY: Final = "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR"
_AWAY_OR_LOADING: Final = f"COORDINATOR_LOAD_IN_PROGRESS {_AWAY}"
_LEADER: Final = "UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER KAFKA_STORAGE_ERROR"
_EPOCH: Final = "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH"
_TXN_STOP: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED INVALID_PRODUCER_EPOCH PRODUCER_FENCED"

# An error that came with a version of the API: a client that asks in an older one never gets it.
_SINCE: Final[dict[tuple[str, str], int]] = {
    ("Produce", "UNKNOWN_PRODUCER_ID"): 3,
    ("Produce", "KAFKA_STORAGE_ERROR"): 4,
    ("Produce", "INVALID_RECORD"): 8,
    ("Produce", "TRANSACTION_ABORTABLE"): 11,
    ("Fetch", "KAFKA_STORAGE_ERROR"): 6,
    ("Fetch", "FETCH_SESSION_ID_NOT_FOUND"): 7,
    ("Fetch", "INVALID_FETCH_SESSION_EPOCH"): 7,
    ("Fetch", "FENCED_LEADER_EPOCH"): 9,
    ("Fetch", "UNKNOWN_LEADER_EPOCH"): 9,
    ("Fetch", "OFFSET_NOT_AVAILABLE"): 11,
    ("Fetch", "UNKNOWN_TOPIC_ID"): 13,
    ("Fetch", "INCONSISTENT_TOPIC_ID"): 13,
    ("Fetch", "FETCH_SESSION_TOPIC_ID_ERROR"): 13,
    ("ListOffsets", "FENCED_LEADER_EPOCH"): 4,
    ("ListOffsets", "UNKNOWN_LEADER_EPOCH"): 4,
    ("ListOffsets", "OFFSET_NOT_AVAILABLE"): 5,
    ("Metadata", "LISTENER_NOT_FOUND"): 6,
    ("Metadata", "UNKNOWN_TOPIC_ID"): 10,
    ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT"): 7,
    ("JoinGroup", "GROUP_MAX_SIZE_REACHED"): 4,
    ("InitProducerId", "PRODUCER_FENCED"): 4,
    ("AddPartitionsToTxn", "PRODUCER_FENCED"): 2,
    ("AddPartitionsToTxn", "TRANSACTION_ABORTABLE"): 5,
    ("AddOffsetsToTxn", "PRODUCER_FENCED"): 2,
    ("TxnOffsetCommit", "PRODUCER_FENCED"): 3,
    ("TxnOffsetCommit", "UNKNOWN_MEMBER_ID"): 3,
    ("TxnOffsetCommit", "ILLEGAL_GENERATION"): 3,
    ("EndTxn", "PRODUCER_FENCED"): 2,
}

# Left out, because a broker that works gives them only for a mistake of the client: INVALID_REQUEST,
# INVALID_REQUIRED_ACKS, INVALID_SESSION_TIMEOUT, INVALID_GROUP_ID, UNSUPPORTED_VERSION and their like; and those of
# members that have a group.instance.id, which no program here sets.
# OFFSET_OUT_OF_RANGE is left out too: for an offset that the log holds it would be a lie, and the reset that follows is
# the application's own choice.
# (API, whether after the work, the reaction, the codes)
_ROWS: Final[tuple[tuple[str, bool, Reaction, str], ...]] = (
    ("Produce", False, Reaction.RETRY, f"{_LEADER} NOT_ENOUGH_REPLICAS CORRUPT_MESSAGE"),
    ("Produce", False, Reaction.ABORT, "UNKNOWN_PRODUCER_ID INVALID_TXN_STATE TRANSACTION_ABORTABLE"),
    ("Produce", False, Reaction.STOP, "MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_RECORD INVALID_TIMESTAMP"),
    ("Produce", False, Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR"),
    ("Produce", False, Reaction.STOP, "POLICY_VIOLATION UNSUPPORTED_FOR_MESSAGE_FORMAT INVALID_PRODUCER_EPOCH"),
    ("Produce", True, Reaction.RETRY, "REQUEST_TIMED_OUT NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_LEADER_OR_FOLLOWER"),
    ("Produce", True, Reaction.RETRY, "KAFKA_STORAGE_ERROR"),
    ("Fetch", False, Reaction.RETRY, f"{_LEADER} {_EPOCH} OFFSET_NOT_AVAILABLE REPLICA_NOT_AVAILABLE"),
    ("Fetch", False, Reaction.RETRY, "FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH UNKNOWN_TOPIC_ID"),
    ("Fetch", False, Reaction.RETRY, "INCONSISTENT_TOPIC_ID FETCH_SESSION_TOPIC_ID_ERROR UNKNOWN_SERVER_ERROR"),
    ("Fetch", False, Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED CORRUPT_MESSAGE"),
    ("ListOffsets", False, Reaction.RETRY, f"{_LEADER} {_EPOCH} LEADER_NOT_AVAILABLE OFFSET_NOT_AVAILABLE"),
    ("ListOffsets", False, Reaction.RETRY, "REPLICA_NOT_AVAILABLE"),
    ("ListOffsets", False, Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR"),
    ("Metadata", False, Reaction.RETRY, "UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE LISTENER_NOT_FOUND"),
    ("Metadata", False, Reaction.RETRY, "UNKNOWN_TOPIC_ID REQUEST_TIMED_OUT"),
    ("Metadata", False, Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR"),
    ("FindCoordinator", False, Reaction.RETRY, "COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS"),
    ("FindCoordinator", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ("JoinGroup", False, Reaction.RETRY, _AWAY_OR_LOADING),
    ("JoinGroup", False, Reaction.REJOIN, "UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS"),
    ("JoinGroup", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED GROUP_MAX_SIZE_REACHED"),
    ("JoinGroup", False, Reaction.STOP, "INCONSISTENT_GROUP_PROTOCOL UNKNOWN_SERVER_ERROR"),
    ("JoinGroup", True, Reaction.RETRY, _AWAY),
    ("SyncGroup", False, Reaction.RETRY, _AWAY_OR_LOADING),
    ("SyncGroup", False, Reaction.REJOIN, "ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS"),
    ("SyncGroup", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR"),
    ("SyncGroup", True, Reaction.RETRY, _AWAY),
    ("SyncGroup", True, Reaction.REJOIN, "REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID"),
    ("Heartbeat", False, Reaction.RETRY, _AWAY),
    ("Heartbeat", False, Reaction.REJOIN, "ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS"),
    ("Heartbeat", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR"),
    ("LeaveGroup", False, Reaction.RETRY, _AWAY_OR_LOADING),
    ("LeaveGroup", False, Reaction.STOP, "UNKNOWN_MEMBER_ID GROUP_AUTHORIZATION_FAILED"),
    ("LeaveGroup", True, Reaction.RETRY, _AWAY),
    ("OffsetCommit", False, Reaction.RETRY, f"{_AWAY_OR_LOADING} UNKNOWN_TOPIC_OR_PARTITION"),
    ("OffsetCommit", False, Reaction.REJOIN, "ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS"),
    ("OffsetCommit", False, Reaction.STOP, "OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE"),
    (
        "OffsetCommit",
        False,
        Reaction.STOP,
        "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR",
    ),
    ("OffsetCommit", True, Reaction.RETRY, _AWAY),
    ("OffsetFetch", False, Reaction.RETRY, f"{_AWAY_OR_LOADING} UNSTABLE_OFFSET_COMMIT"),
    ("OffsetFetch", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR"),
    ("OffsetForLeaderEpoch", False, Reaction.RETRY, f"{_LEADER} {_EPOCH}"),
    ("OffsetForLeaderEpoch", False, Reaction.STOP, "TOPIC_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR"),
    ("ConsumerGroupHeartbeat", False, Reaction.RETRY, _AWAY_OR_LOADING),
    ("ConsumerGroupHeartbeat", False, Reaction.REJOIN, "UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH"),
    ("ConsumerGroupHeartbeat", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED GROUP_MAX_SIZE_REACHED"),
    (
        "ConsumerGroupHeartbeat",
        False,
        Reaction.STOP,
        "UNSUPPORTED_ASSIGNOR UNKNOWN_SERVER_ERROR",
    ),
    ("ConsumerGroupHeartbeat", True, Reaction.RETRY, _AWAY),
    ("InitProducerId", False, Reaction.RETRY, f"{_AWAY_OR_LOADING} CONCURRENT_TRANSACTIONS"),
    ("InitProducerId", False, Reaction.STOP, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED"),
    ("InitProducerId", False, Reaction.STOP, "PRODUCER_FENCED UNKNOWN_SERVER_ERROR"),
    ("InitProducerId", True, Reaction.RETRY, _AWAY),
    ("AddPartitionsToTxn", False, Reaction.RETRY, f"{_AWAY_OR_LOADING} CONCURRENT_TRANSACTIONS"),
    ("AddPartitionsToTxn", False, Reaction.RETRY, "UNKNOWN_TOPIC_OR_PARTITION"),
    ("AddPartitionsToTxn", False, Reaction.ABORT, "INVALID_PRODUCER_ID_MAPPING TOPIC_AUTHORIZATION_FAILED"),
    ("AddPartitionsToTxn", False, Reaction.ABORT, "TRANSACTION_ABORTABLE OPERATION_NOT_ATTEMPTED"),
    ("AddPartitionsToTxn", False, Reaction.STOP, f"{_TXN_STOP} INVALID_TXN_STATE UNKNOWN_SERVER_ERROR"),
    ("AddPartitionsToTxn", True, Reaction.RETRY, _AWAY),
    ("AddOffsetsToTxn", False, Reaction.RETRY, f"{_AWAY_OR_LOADING} CONCURRENT_TRANSACTIONS"),
    ("AddOffsetsToTxn", False, Reaction.ABORT, "INVALID_PRODUCER_ID_MAPPING GROUP_AUTHORIZATION_FAILED"),
    ("AddOffsetsToTxn", False, Reaction.STOP, f"{_TXN_STOP} INVALID_TXN_STATE UNKNOWN_SERVER_ERROR"),
    ("AddOffsetsToTxn", True, Reaction.RETRY, _AWAY),
    ("TxnOffsetCommit", False, Reaction.RETRY, f"{_AWAY_OR_LOADING} UNKNOWN_TOPIC_OR_PARTITION"),
    ("TxnOffsetCommit", False, Reaction.ABORT, "UNKNOWN_MEMBER_ID ILLEGAL_GENERATION"),
    ("TxnOffsetCommit", False, Reaction.ABORT, "GROUP_AUTHORIZATION_FAILED"),
    ("TxnOffsetCommit", False, Reaction.STOP, f"{_TXN_STOP} UNKNOWN_SERVER_ERROR"),
    ("TxnOffsetCommit", True, Reaction.RETRY, _AWAY),
    ("EndTxn", False, Reaction.RETRY, f"{_AWAY_OR_LOADING} CONCURRENT_TRANSACTIONS"),
    ("EndTxn", False, Reaction.ABORT, "INVALID_PRODUCER_ID_MAPPING"),
    ("EndTxn", False, Reaction.STOP, f"{_TXN_STOP} INVALID_TXN_STATE UNKNOWN_SERVER_ERROR"),
    ("EndTxn", True, Reaction.RETRY, _AWAY),
    ("ShareGroupHeartbeat", False, Reaction.RETRY, _AWAY_OR_LOADING),
    ("ShareGroupHeartbeat", False, Reaction.REJOIN, "UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH"),
    ("ShareGroupHeartbeat", False, Reaction.STOP, "GROUP_AUTHORIZATION_FAILED GROUP_MAX_SIZE_REACHED"),
    ("ShareGroupHeartbeat", True, Reaction.RETRY, _AWAY),
    ("ShareFetch", False, Reaction.RETRY, f"{_LEADER} FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH UNKNOWN_TOPIC_ID"),
    ("ShareFetch", False, Reaction.RETRY, "SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH"),
    ("ShareFetch", False, Reaction.RETRY, "SHARE_SESSION_LIMIT_REACHED COORDINATOR_NOT_AVAILABLE"),
    ("ShareAcknowledge", False, Reaction.RETRY, f"{_LEADER} SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH"),
    ("ShareAcknowledge", False, Reaction.STOP, "INVALID_RECORD_STATE GROUP_AUTHORIZATION_FAILED"),
)


def _answers() -> tuple[Answer, ...]:
    return tuple(
        Answer(
            api=api,
            code=int(ErrorCode[name.lower()]),
            name=name,
            is_after_work=is_after_work,
            reaction=reaction,
            since=_SINCE.get((api, name), 0),
        )
        for api, is_after_work, reaction, names in _ROWS
        for name in names.split()
    )


ANSWERS: Final = _answers()


def answers_of(api: str, version: int) -> tuple[Answer, ...]:
    """All that a broker may answer to this version of the API. Empty for an API that no client's ordinary work uses."""
    return tuple(answer for answer in ANSWERS if answer.api == api and answer.since <= version)
