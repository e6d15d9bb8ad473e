"""The reference admin: topics, cluster, settings, offsets; `.groups` and `.share_groups`. Every call is bounded by
default.api.timeout.ms.

It has no thread: the caller's thread drives the network. Requests that create or delete go to the controller that
Metadata names. In KRaft any broker forwards them, so a wrong guess does no harm.
Shown by tests/broker_client/test_client_mock_cluster.py and, with brokers of this project, by
test_client_reference_cluster.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.client.admin_groups import GroupAdmin
from broker.client.admin_shares import ShareGroupAdmin
from broker.client.blocking import BlockingClient
from broker.client.clock import now_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.config import parse_admin
from broker.client.core.errors import KafkaError
from broker.client.core.fetch_state import LATEST
from broker.client.core.metadata import BrokerAddress, TopicState
from broker.client.offsets import list_offset
from broker.client.question import Question, Result, raise_error
from broker.client.topic_questions import (
    NewTopic,
    changed_settings,
    created_topics,
    deleted_topics,
)
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.describe_cluster import DescribeClusterRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerAddress, ...]


class Admin:
    """See docs/internals/contracts.md. Raises KafkaError with the broker's code."""

    def __init__(self, properties: Mapping[str, object], *, seed: int | None = None) -> None:
        self._config = parse_admin(properties)
        self._client = BlockingClient(self._config, random.Random(seed))
        self.groups = GroupAdmin(self._client, self._config.default_api_timeout_ms)
        self.share_groups = ShareGroupAdmin(self._client, self._config.default_api_timeout_ms)

    def create_topics(self, topics: Iterable[NewTopic], *, wait: bool = True) -> None:
        """Create all topics. With `wait`, return only when every partition has a leader. An existing topic is an
        error."""
        wanted = list(topics)
        deadline_ms = self._deadline_ms()
        self._change(created_topics(wanted, self._config.request_timeout_ms), deadline_ms)
        if wait:
            self._client.retrying(
                lambda: self._expect_leaders([each.name for each in wanted], deadline_ms), deadline_ms
            )

    def delete_topics(self, names: Iterable[str]) -> None:
        wanted = list(names)
        self._change(deleted_topics(wanted, self._config.request_timeout_ms), self._deadline_ms())
        self._client.metadata.forget(wanted)

    def describe_cluster(self) -> ClusterDescription:
        def build(version: int) -> DescribeClusterRequest:
            return request(ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=False)

        def ask() -> ClusterDescription:
            message = self._client.call(None, ApiKey.DESCRIBE_CLUSTER, build, self._deadline_ms())
            raise_error(message.error_code, message.error_message, "cluster")
            return ClusterDescription(
                cluster_id=message.cluster_id,
                controller_id=message.controller_id,
                brokers=tuple(
                    BrokerAddress(broker_id=each.broker_id, host=each.host, port=each.port) for each in message.brokers
                ),
            )

        return self._client.retrying(ask, self._deadline_ms())

    def describe_topics(self, names: Sequence[str] | None = None) -> dict[str, TopicState]:
        """Leader, leader epoch, replicas and ISR of each partition, as one broker knows them now. None means all
        topics."""
        answer = self._client.fetch_metadata(names, self._deadline_ms())
        for topic in answer.topics:
            if names is not None and topic.error_code and not topic.partitions:
                raise KafkaError(topic.error_code, f"topic {topic.name!r}")
        return {topic.name: topic for topic in answer.topics}

    def ask(self, question: Question[Result], broker_id: int | None = None) -> Result:
        """The answer of this broker, or of any, to one of the questions of broker/door/questions.py. It asks once."""
        deadline_ms = self._deadline_ms()
        if broker_id is not None:
            self._client.fetch_metadata([], deadline_ms)  # it has the broker's address
        return self._client.ask(broker_id, question, deadline_ms)

    def _broker_of(self, kind: str, name: str, deadline_ms: int) -> int | None:
        """Whom to ask about the settings of a resource: the broker whose settings they are, or anybody."""
        if kind != "broker" or not name:
            return None
        self._client.fetch_metadata([], deadline_ms)
        return int(name)

    def list_offsets(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int = LATEST
    ) -> dict[TopicPartition, int]:
        """The offset of each partition at a time in ms. EARLIEST (-2) is the log start offset, LATEST (-1) the high
        watermark."""
        deadline_ms = self._deadline_ms()
        chosen = [TopicPartition(*each) for each in partitions]
        return {each: list_offset(self._client, each, timestamp_ms, deadline_ms)[0] for each in chosen}

    def alter_configs(
        self,
        kind: str,
        name: str,
        set_: Mapping[str, str] | None = None,
        *,
        delete: Iterable[str] = (),
    ) -> None:
        """Change settings of a "topic", a "broker" (its id as text; empty means all brokers) or a "group". Either all
        of these changes are made or none. A broker checks its own settings, so it is asked itself."""
        question = changed_settings(kind, name, set_=set_, delete=delete)
        deadline_ms = self._deadline_ms()
        self._client.ask(self._broker_of(kind, name, deadline_ms), question, deadline_ms)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    # -- private --------------------------------------------------------------------------------------------------

    def _deadline_ms(self) -> int:
        return now_ms() + self._config.default_api_timeout_ms

    def _change(self, question: Question[Any], deadline_ms: int) -> None:
        """Ask the controller. The answer has the type Any, because callers read nothing of it but its errors.

        If the answer was lost after the request was sent, it is not retried. A second attempt would meet the result of
        the first one.
        """

        def ask() -> None:
            self._client.fetch_metadata([], deadline_ms)
            controller = self._client.metadata.controller_id
            node = controller if controller in self._client.metadata.brokers else None
            self._client.ask(node, question, deadline_ms)

        def ask_unless_final() -> KafkaError | None:
            try:
                ask()
            except KafkaError as error:
                # UNKNOWN_TOPIC_OR_PARTITION counts as retriable, but here it is the answer.
                if not error.definite or error.code == ErrorCode.unknown_topic_or_partition:
                    return error
                raise
            return None

        final = self._client.retrying(ask_unless_final, deadline_ms)
        if final is not None:
            raise final

    def _expect_leaders(self, names: Sequence[str], deadline_ms: int) -> None:
        answer = self._client.fetch_metadata(names, deadline_ms)
        for topic in answer.topics:
            raise_error(ErrorCode(topic.error_code), None, f"topic {topic.name!r}")
            for each in topic.partitions:
                if each.leader < 0:
                    raise KafkaError(ErrorCode.leader_not_available, f"{topic.name}-{each.partition}")
