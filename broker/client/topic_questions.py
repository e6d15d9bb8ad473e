"""Questions that change topics, and questions that read or change settings, as values (questions.py). Any broker
forwards the changes to the controller.

Shown by tests/broker_client/test_client_admin.py and tests/harness/test_harness_topic_changes.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from broker.client.core.errors import IncompleteAnswerError, KafkaError, first_of
from broker.client.question import Question, raise_error
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, request

if TYPE_CHECKING:
    from broker.wire.shapes.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreatePartitionsTopicFields,
    )
    from broker.wire.shapes.create_topics import CreatableTopicFields, CreateTopicsRequest, CreateTopicsResponse
    from broker.wire.shapes.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicStateFields
    from broker.wire.shapes.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResourceFields,
        DescribeConfigsResponse,
    )
    from broker.wire.shapes.incremental_alter_configs import (
        AlterableConfigFields,
        AlterConfigsResourceFields,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

RESOURCE_TYPES = {"topic": 2, "broker": 4, "group": 32}
_SET, _DELETE = range(2)
_FROM_TOPIC = 1  # config_source of DescribeConfigs: a setting of the topic itself
_DELETE_BY_ID_VERSION = 6  # the version of DeleteTopics that identifies topics by id (KIP-516)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 for partitions or replication_factor means the brokers' default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


class Setting(NamedTuple):
    value: str | None
    is_sensitive: bool  # if True, the broker does not tell the value
    is_of_topic: bool  # set on the topic itself, not taken from its broker


def created_topics(
    topics: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool = False
) -> Question[dict[str, str]]:
    """The new topics' ids by name. An id is empty if the broker knows no ids. Raises the first error. With
    `validate_only` nothing is made: the broker says whether it would."""

    def build(version: int) -> CreateTopicsRequest:
        entries: list[CreatableTopicFields] = [
            {
                "name": topic.name,
                "num_partitions": topic.partitions,
                "replication_factor": topic.replication_factor,
                "assignments": (),
                "configs": [{"name": name, "value": str(value)} for name, value in topic.config.items()],
            }
            for topic in topics
        ]
        return request(ApiKey.CREATE_TOPICS, version, topics=entries, timeout=timeout_ms, validate_only=validate_only)

    def parse(message: CreateTopicsResponse) -> dict[str, str]:
        _check(message.topics, len(topics))
        return {each.name: str(field_or(each, "topic_id", None) or "") for each in message.topics}

    return Question(ApiKey.CREATE_TOPICS, build, parse)


def deleted_topics(names: Sequence[str], timeout_ms: int) -> Question[None]:
    def build(version: int) -> DeleteTopicsRequest:
        return request(ApiKey.DELETE_TOPICS, version, topic_names=names, timeout=timeout_ms)

    def parse(message: DeleteTopicsResponse) -> None:
        _check(message.responses, len(names))

    return Question(ApiKey.DELETE_TOPICS, build, parse)


def deleted_topic_by_id(topic_id: str, timeout_ms: int) -> Question[None]:
    """Deletes the topic with this id. A later topic of the same name stays."""

    def build(version: int) -> DeleteTopicsRequest:
        topic: DeleteTopicStateFields = {"name": None, "topic_id": UUID(topic_id)}
        return request(ApiKey.DELETE_TOPICS, version, topics=[topic], timeout=timeout_ms)

    def parse(message: DeleteTopicsResponse) -> None:
        found = first_of(message.responses)
        raise_error(found.error_code, found.error_message, f"topic with id {topic_id}")

    return Question(ApiKey.DELETE_TOPICS, build, parse, lowest=_DELETE_BY_ID_VERSION, highest=_DELETE_BY_ID_VERSION)


def more_partitions(counts: Mapping[str, int], timeout_ms: int) -> Question[None]:
    """Raises the number of partitions of each topic to this total."""

    def build(version: int) -> CreatePartitionsRequest:
        topics: list[CreatePartitionsTopicFields] = [
            {"name": name, "count": count, "assignments": None} for name, count in counts.items()
        ]
        return request(ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout=timeout_ms, validate_only=False)

    def parse(message: CreatePartitionsResponse) -> None:
        _check(message.results, len(counts))

    return Question(ApiKey.CREATE_PARTITIONS, build, parse)


def settings_of(kind: str, name: str) -> Question[dict[str, Setting]]:
    """Effective settings of a "topic", a "broker" (which answers for itself only) or a "group"."""

    resource_type = _resource_type(kind)

    def build(version: int) -> DescribeConfigsRequest:
        entry: DescribeConfigsResourceFields = {
            "resource_type": resource_type,
            "resource_name": name,
            "configuration_keys": None,
        }
        return request(ApiKey.DESCRIBE_CONFIGS, version, resources=[entry])

    def parse(message: DescribeConfigsResponse) -> dict[str, Setting]:
        result = first_of(message.results)
        raise_error(result.error_code, result.error_message, f"{kind} {name}")
        return {
            each.name: Setting(each.value, bool(each.is_sensitive), each.config_source == _FROM_TOPIC)
            for each in result.configs
        }

    return Question(ApiKey.DESCRIBE_CONFIGS, build, parse)


def changed_settings(
    kind: str,
    name: str,
    *,
    set_: Mapping[str, str] | None = None,
    delete: Iterable[str] = (),
) -> Question[None]:
    """All of these changes are made or none (KIP-339). A deleted setting gets its default again."""
    resource_type = _resource_type(kind)
    changes: list[tuple[str, int, str | None]] = [(key, _SET, value) for key, value in (set_ or {}).items()]
    changes += [(key, _DELETE, None) for key in delete]

    def build(version: int) -> IncrementalAlterConfigsRequest:
        configs: list[AlterableConfigFields] = [
            {"name": key, "config_operation": operation, "value": value} for key, operation, value in changes
        ]
        resource: AlterConfigsResourceFields = {
            "resource_type": resource_type,
            "resource_name": name,
            "configs": configs,
        }
        return request(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], validate_only=False)

    def parse(message: IncrementalAlterConfigsResponse) -> None:
        found = first_of(message.responses)
        raise_error(found.error_code, found.error_message, f"{kind} {name!r}")

    return Question(ApiKey.INCREMENTAL_ALTER_CONFIGS, build, parse)


def _resource_type(kind: str) -> int:
    if kind not in RESOURCE_TYPES:
        known = ", ".join(RESOURCE_TYPES)
        raise KafkaError(-1, f"expected one of {known}, got {kind!r}", name="LOCAL_STATE")
    return RESOURCE_TYPES[kind]


class _Outcome(Protocol):
    @property
    def name(self) -> str | None: ...
    @property
    def error_code(self) -> ErrorCode: ...


def _check(topics: Sequence[_Outcome], asked: int) -> None:
    """Raises the first error among the answers for `count` topics. Raises IncompleteAnswerError if there are fewer
    answers."""
    for each in topics:
        raise_error(each.error_code, getattr(each, "error_message", None), f"topic {each.name!r}")
    if len(topics) < asked:
        raise IncompleteAnswerError
