"""What a request is about: the partitions, groups and transactional ids that it names.

Only requests that a toxic or a log asks about are decoded. All others pass as bytes. Shown by
tests/chaos/test_chaos_kafka_apis.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from chaos.toxiproxy.kafka.apis import API_KEYS, API_NAMES, SELECTORS, Selector
from chaos.toxiproxy.kafka.entries import TOPIC_RESOURCE, arrays_of, partition_of, topic_of
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.messages import decode_request

Partitions = frozenset[tuple[str, int]]
_FORGOTTEN: Final = "forgotten_topics_data"  # what a Fetch session shall not contain any more
_GROUP_KEY, _TRANSACTION_KEY = 0, 1  # org.apache.kafka.common.requests.FindCoordinatorRequest.CoordinatorType
_OF_CONFIGS: Final = frozenset(("DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"))
# Without any topic, these ask for all.
_ALL_IF_NONE: Final = frozenset(
    ("Metadata", "OffsetFetch", "DescribeTopicPartitions", "DescribeLogDirs", "ElectLeaders",
     "ListPartitionReassignments", "DescribeShareGroupOffsets")
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What one request names. `names_all`: it also means partitions that it does not name, because it asks for all of
    them, or because it continues a session (KIP-227, KIP-932)."""

    partitions: Partitions = frozenset()  # partition -1: the topic as a whole
    groups: frozenset[str] = frozenset()
    transactional_ids: frozenset[str] = frozenset()
    names_all: bool = False


def subject_of_frame(frame: bytes, names: Mapping[bytes, str]) -> Subject:
    """The subject of a request frame (with its length). Raises MalformedFrame if the request cannot be read."""
    return read_subject(frame, names)[1]


def read_subject(frame: bytes, names: Mapping[bytes, str]) -> tuple[Any, Subject]:  # kio's type
    """As `subject_of_frame`, with the decoded request."""
    api_key = int.from_bytes(frame[4:6], "big")
    message = decode_request(frame)
    try:
        return message, subject_of(api_key, message, names)
    except Exception as error:  # whatever it is: the request passes
        raise MalformedFrame(f"request of api key {api_key}: {error}") from error


def subject_of(api_key: int, message: Any, names: Mapping[bytes, str]) -> Subject:  # Any: kio's generated types
    """The subject of a decoded request. `names`: of topics, by id."""
    api = API_NAMES[api_key]
    selectors = SELECTORS[api]
    partitions: Partitions = frozenset()
    if Selector.TOPIC in selectors:
        partitions = frozenset(_of_configs(message) if api in _OF_CONFIGS else _named(message, names))
    if api_key == API_KEYS["FindCoordinator"]:
        groups, transactional_ids = _of_coordinator(message)
    else:
        groups = frozenset(_texts(message, ("group_id", "groups", "group_ids", "groups_names")))
        transactional_ids = frozenset(
            _texts(message, ("transactional_id", "v3_and_below_transactional_id", "transactions", "transactional_ids"))
        )
    return Subject(
        partitions=partitions,
        groups=groups if Selector.GROUP in selectors else frozenset(),
        transactional_ids=transactional_ids if Selector.TRANSACTIONAL_ID in selectors else frozenset(),
        names_all=_is_in_session(message) or (api in _ALL_IF_NONE and not partitions),
    )


def _is_in_session(message: Any) -> bool:
    return max(getattr(message, "session_epoch", 0), getattr(message, "share_session_epoch", 0)) > 0


def _named(message: Any, names: Mapping[bytes, str]) -> Iterable[tuple[str, int]]:
    """Topics and partitions, at whatever depth. Below a topic, only partitions are looked for."""
    for topic in getattr(message, "topic_names", None) or ():
        if isinstance(topic, str):
            yield topic, -1
    for field, entries in arrays_of(message):
        for entry in () if field == _FORGOTTEN else entries:
            topic = topic_of(entry, names)
            if topic is None:
                yield from _named(entry, names)
            else:
                yield from _partitions_of_topic(entry, topic)


def _partitions_of_topic(entry: Any, topic: str) -> list[tuple[str, int]]:
    """The partitions of an entry, which lists them as structures or as plain numbers. If it lists none, only the
    topic."""
    found = [
        (topic, number) for _, inner in arrays_of(entry) for each in inner if (number := partition_of(each)) is not None
    ]
    numbers = getattr(entry, "partitions", None) or getattr(entry, "partition_indexes", None) or ()
    found += [(topic, int(number)) for number in numbers if isinstance(number, int)]
    return found or [(topic, -1)]


def _of_configs(message: Any) -> list[tuple[str, int]]:
    return [(each.resource_name, -1) for each in message.resources if each.resource_type == TOPIC_RESOURCE]


def _of_coordinator(message: Any) -> tuple[frozenset[str], frozenset[str]]:
    """The groups and the transactional ids whose coordinators are asked for."""
    keys = frozenset(getattr(message, "coordinator_keys", None) or (message.key,))
    kind = getattr(message, "key_type", _GROUP_KEY)
    return (keys if kind == _GROUP_KEY else frozenset()), (keys if kind == _TRANSACTION_KEY else frozenset())


def _texts(message: Any, fields: tuple[str, ...]) -> Iterable[str]:
    """The texts of these fields: one text, an array of texts, or an array of structures that have such a field."""
    for field in fields:
        value = getattr(message, field, None)
        for each in (value,) if isinstance(value, str) else value or ():
            if isinstance(each, str):
                yield each
            else:
                yield from _texts(each, fields)
