"""Where a broker puts an error code: at the top of a response, with a group or topic, or with a partition.

Most responses have one place. The others have several, and a broker picks by what failed: a Fetch session, or one of
its partitions. A client looks for a code only where brokers put it. Source: KafkaApis.scala and
GroupCoordinatorService.java of Apache Kafka 4.3 and the comments in its message schemas.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from chaos.toxiproxy.kafka.apis import API_KEYS


class Level(Enum):
    TOP = auto()
    OUTER = auto()  # the entries of the response: groups, topics
    INNER = auto()  # the innermost entries: mostly partitions


_FETCH_SESSION: Final = frozenset((70, 71, 106))  # FETCH_SESSION_ID_NOT_FOUND, INVALID_.._EPOCH, .._TOPIC_ID_ERROR
_SHARE_PARTITION: Final = frozenset(
    # UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, TOPIC_AUTHORIZATION_FAILED,
    # KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_ID, INVALID_RECORD_STATE, FENCED_STATE_EPOCH
    (3, 5, 6, 29, 56, 74, 100, 121, 124)
)
# UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, UNSTABLE_OFFSET_COMMIT, UNKNOWN_TOPIC_ID
_OFFSET_PARTITION: Final = frozenset((3, 29, 88, 100))
_LEAVING_MEMBER: Final = frozenset((25, 82))  # UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
_METADATA_PARTITION: Final = frozenset((5, 9, 72))  # LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, LISTENER_NOT_FOUND
_REBOOTSTRAP_REQUIRED: Final = 129


def level_of(api_key: int, error_code: int) -> Level:
    """Where a broker would put this code in a response of the API. A version that lacks the place has it one level
    above or below."""
    if api_key == API_KEYS["Fetch"]:
        return Level.TOP if error_code in _FETCH_SESSION else Level.INNER
    if api_key in (API_KEYS["ShareFetch"], API_KEYS["ShareAcknowledge"]):
        return Level.INNER if error_code in _SHARE_PARTITION else Level.TOP
    if api_key == API_KEYS["OffsetFetch"]:
        return Level.INNER if error_code in _OFFSET_PARTITION else Level.OUTER
    if api_key == API_KEYS["LeaveGroup"]:
        return Level.INNER if error_code in _LEAVING_MEMBER else Level.TOP
    if api_key == API_KEYS["Metadata"]:
        if error_code == _REBOOTSTRAP_REQUIRED:
            return Level.TOP
        return Level.INNER if error_code in _METADATA_PARTITION else Level.OUTER
    return Level.INNER
