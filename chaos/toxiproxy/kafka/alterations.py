"""Responses with other contents, each as a broker that works could have sent it.

What is lawful about each alteration stands with its function. APIS says where each is possible. Shown by
tests/chaos/test_chaos_kafka_alterations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from chaos.toxiproxy.kafka.edits import NothingChanged, Target
from chaos.toxiproxy.kafka.entries import arrays_of, partition_of, topic_of
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.messages import decode_response, encode_response

Names = Mapping[bytes, str]
_NO_LEADER_EPOCH: Final = -1
# The order of these means something: offsets that rise, what overrides what, the place in a batch.
_ORDERED: Final = frozenset(("aborted_transactions", "acquired_records", "synonyms", "record_errors"))
_IN_ANY_ORDER: Final = (
    "Metadata", "Produce", "Fetch", "ListOffsets", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup",
    "LeaveGroup", "DescribeGroups", "ListGroups", "ApiVersions", "CreateTopics", "DeleteTopics", "DeleteRecords",
    "OffsetForLeaderEpoch", "AddPartitionsToTxn", "TxnOffsetCommit", "DescribeAcls", "DescribeConfigs", "AlterConfigs",
    "AlterReplicaLogDirs", "DescribeLogDirs", "CreatePartitions", "DeleteGroups", "ElectLeaders",
    "IncrementalAlterConfigs", "AlterPartitionReassignments", "ListPartitionReassignments", "OffsetDelete",
    "DescribeCluster", "DescribeProducers", "DescribeTransactions", "ListTransactions", "ConsumerGroupDescribe",
    "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge", "DescribeShareGroupOffsets",
)  # fmt: skip
# What -> the APIs whose responses may be altered so. Not among those in any order: CreateAcls and DeleteAcls, whose
# results belong to the request's entries by their place, and DescribeTopicPartitions, which is read page by page.
APIS: Final[Mapping[str, tuple[str, ...]]] = {
    "missing": ("Metadata", "Fetch"),
    "reversed": _IN_ANY_ORDER,
    "empty": ("Fetch",),
    "older_epoch": ("Metadata", "Fetch", "Produce", "DescribeTopicPartitions"),
}


def altered_response(frame: bytes, *, api_key: int, version: int, names: Names, how: str, target: Target) -> bytes:
    """The response frame with the entries that `target` means altered. Raises NothingChanged if it has none that can be
    altered, and MalformedFrame if it cannot be read."""
    correlation_id, message = decode_response(frame, api_key, version)
    try:
        altered = _ALTERATIONS[how](message, target, names)
    except MalformedFrame:
        raise
    except Exception as error:  # the errors of kio are many, and whatever it is: the response passes as it is
        raise MalformedFrame(f"response of api key {api_key} version {version}: {error}") from error
    if altered == message:
        raise NothingChanged(f"no entry of the response is about {target} and could be {how}")
    return encode_response(api_key, version, correlation_id, altered)


def _missing(message: Any, target: Target, names: Names) -> Any:  # kio's types
    """Metadata without the last partitions of a topic, from `partition` on (-1: the last one). Partitions are added to
    topics in use, and a broker that is behind does not know them yet. The first partition stays.

    Fetch, within a session, without an entry: nothing of that partition has changed (KIP-227). What it has for the
    client comes with a later Fetch, because the client's position has not moved. Without a session, a broker leaves out
    no partition.
    """
    if hasattr(message, "topics"):
        topics = tuple(
            replace(topic, partitions=_first_ones(topic.partitions, target.partition))
            if target.topic in ("", topic_of(topic, names))
            else topic
            for topic in message.topics or ()
        )
        return replace(message, topics=topics)
    if not getattr(message, "session_id", 0):
        return message
    responses = []
    for topic in message.responses:
        name = topic_of(topic, names)
        left = tuple(part for part in topic.partitions if not (target.means(topic, name) and target.means(part, name)))
        if left:
            responses.append(replace(topic, partitions=left))
    return replace(message, responses=tuple(responses))


def _first_ones(partitions: tuple[Any, ...], missing_from: int) -> tuple[Any, ...]:
    numbers = [number for each in partitions if (number := partition_of(each)) is not None]
    first_missing = max(1, max(numbers, default=0) if missing_from == -1 else missing_from)
    return tuple(each for each in partitions if (partition_of(each) or 0) < first_missing)


def _reversed(message: Any, target: Target, names: Names) -> Any:
    """All entries in reversed order: topics, partitions, groups, members, brokers. The protocol promises no order, and
    brokers take them from hash tables. A client must go by names and numbers."""
    values: dict[str, object] = {}
    for field, entries in arrays_of(message):
        if field not in _ORDERED and entries:
            values[field] = tuple(_reversed(entry, target, names) for entry in reversed(entries))
    return replace(message, **values) if values else message


def _empty(message: Any, target: Target, names: Names) -> Any:
    """Fetch with entries that have no records although there are some. A broker sends such if the response is full
    (KIP-74). A batch without records, as compaction leaves it, is not made: it would skip records that exist."""
    return _with_partitions(message, target, names, lambda part: replace(part, records=b"") if part.records else part)


def _older_epoch(message: Any, target: Target, names: Names) -> Any:
    """A leader epoch one lower, with the same leader. A leader that starts again is often elected again, which only
    raises the epoch, and a broker that is behind tells the epoch before (KIP-320). Fetch and Produce name a leader
    only with an error that is about it."""
    return _with_partitions(message, target, names, _one_lower)


def _one_lower(part: Any) -> Any:
    if hasattr(part, "current_leader"):
        return replace(part, current_leader=_one_lower(part.current_leader))
    epoch = getattr(part, "leader_epoch", _NO_LEADER_EPOCH)
    return replace(part, leader_epoch=epoch - 1) if epoch > 0 else part


def _with_partitions(message: Any, target: Target, names: Names, change: Callable[[Any], Any]) -> Any:
    """The message with each partition changed that is meant."""
    values: dict[str, object] = {}
    for field in ("topics", "responses"):
        topics = []
        for topic in getattr(message, field, None) or ():
            name = topic_of(topic, names)
            inner = "partition_responses" if hasattr(topic, "partition_responses") else "partitions"
            parts = tuple(
                change(part) if target.means(topic, name) and target.means(part, name) else part
                for part in getattr(topic, inner)
            )
            topics.append(replace(topic, **{inner: parts}))
        if topics:
            values[field] = tuple(topics)
    return replace(message, **values) if values else message


_ALTERATIONS: Final[Mapping[str, Callable[[Any, Target, Names], Any]]] = {
    "missing": _missing,
    "reversed": _reversed,
    "empty": _empty,
    "older_epoch": _older_epoch,
}
