"""What the client knows about the cluster: brokers, leaders with their epochs, and when to ask again.

The cache follows the topics that the client uses. An error makes a refresh necessary, and so does the age of the
metadata (metadata.max.age.ms). A refresh waits for the backoff after the last one. Leader epochs only grow: an answer
from a broker with old metadata does not bring back an old leader. Shown by tests/broker_client/test_client_metadata.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from broker.client.core.backoff import backoff_ms
from broker.client.core.batch import TopicPartition

NO_LEADER = -1
UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    broker_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition in one answer. `leader` is -1 if there is none."""

    partition: int
    leader: int
    leader_epoch: int = UNKNOWN_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    error_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    name: str
    error_code: int = 0
    partitions: tuple[PartitionState, ...] = ()
    topic_id: str = ""  # empty below version 10 of Metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataAnswer:
    brokers: tuple[BrokerAddress, ...]
    topics: tuple[TopicState, ...]
    controller_id: int = -1
    cluster_id: str = ""


def _index(state: PartitionState) -> int:
    return state.partition


class MetadataCache:
    """Call `next_request_ms` to learn when to ask, `on_request` when the request is sent, and `on_answer` or
    `on_failure` afterwards."""

    def __init__(
        self,
        *,
        max_age_ms: int,
        backoff_first_ms: int,
        backoff_max_ms: int,
        rng: random.Random,
        idle_ms: int | None = None,
    ) -> None:
        self._max_age_ms = max_age_ms
        self._idle_ms = idle_ms
        self._backoff = (backoff_first_ms, backoff_max_ms)
        self._random = rng
        self.brokers: dict[int, BrokerAddress] = {}
        self.controller_id = -1
        self.cluster_id = ""
        self.version = 0  # grows with every answer
        self._used_ms: dict[str, int] = {}
        self._topics: dict[str, TopicState] = {}
        self._partitions: dict[TopicPartition, PartitionState] = {}
        self._available: dict[str, tuple[int, ...]] = {}
        self._is_wanted = False
        self._is_asking = False
        self._not_before_ms = 0
        self._refreshed_ms: int | None = None
        self._attempts = 0

    def use_topic(self, topic: str, now_ms: int) -> None:
        """The client sends to or reads from this topic. An unknown topic is asked for at once."""
        if topic not in self._used_ms:
            self._is_wanted = True
            if topic not in self._topics:
                self._not_before_ms = min(self._not_before_ms, now_ms)
        self._used_ms[topic] = now_ms

    def topics_in_use(self) -> list[str]:
        return list(self._used_ms)

    def topic(self, name: str) -> TopicState | None:
        return self._topics.get(name)

    def partition_count(self, topic: str) -> int:
        """It is 0 while the topic is unknown."""
        state = self._topics.get(topic)
        return 0 if state is None else len(state.partitions)

    def available_partitions(self, topic: str) -> tuple[int, ...]:
        """The partitions that have a leader."""
        return self._available.get(topic, ())

    def leader(self, partition: TopicPartition) -> int:
        state = self._partitions.get(partition)
        return NO_LEADER if state is None else state.leader

    def leader_epoch(self, partition: TopicPartition) -> int:
        state = self._partitions.get(partition)
        return UNKNOWN_EPOCH if state is None else state.leader_epoch

    def request_update(self) -> None:
        self._is_wanted = True

    def next_request_ms(self) -> int | None:
        """When to send the next Metadata request. None while a request is under way, or if none is needed."""
        if self._is_asking:
            return None
        if self._is_wanted:
            return self._not_before_ms
        if self._refreshed_ms is None:
            return None
        return max(self._refreshed_ms + self._max_age_ms, self._not_before_ms)

    def on_request(self, now_ms: int) -> list[str]:
        """A request is sent now. Returns the topics to ask for. Topics that nobody used for metadata.max.idle.ms are
        left out."""
        if self._idle_ms is not None:
            for topic in [name for name, used in self._used_ms.items() if now_ms - used >= self._idle_ms]:
                del self._used_ms[topic]
        self._is_asking = True
        self._is_wanted = False
        return self.topics_in_use()

    def on_failure(self, now_ms: int) -> None:
        self._is_asking = False
        self._is_wanted = True
        self._attempts += 1
        self._not_before_ms = now_ms + backoff_ms(self._attempts, *self._backoff, self._random)

    def on_answer(self, answer: MetadataAnswer, now_ms: int) -> None:
        """Takes an answer. If topics or partitions have an error, another refresh is needed, after a growing
        backoff."""
        self._is_asking = False
        self._refreshed_ms = now_ms
        self.version += 1
        self.brokers = {broker.broker_id: broker for broker in answer.brokers}
        self.controller_id = answer.controller_id
        self.cluster_id = answer.cluster_id
        settled = True
        for topic in answer.topics:
            settled = self._take_topic(topic) and settled
        known = {topic.name for topic in answer.topics}
        if not known.issuperset(self._used_ms):
            self._is_wanted = True  # a topic was added while the request was under way
        if not settled:
            self._is_wanted = True
        self._attempts = 0 if settled else self._attempts + 1
        self._not_before_ms = now_ms + backoff_ms(max(self._attempts, 1), *self._backoff, self._random)
        if settled and self._is_wanted and not known.issuperset(self._used_ms):
            self._not_before_ms = now_ms

    def _take_topic(self, topic: TopicState) -> bool:
        """True if every partition has a leader now."""
        if topic.error_code and not topic.partitions:
            if topic.name not in self._topics or self._topics[topic.name].error_code:
                self._topics[topic.name] = topic
            return False
        before = self._topics.get(topic.name)
        if before is not None and before.topic_id != topic.topic_id:
            for state in before.partitions:  # the topic was deleted and created again: its epochs start again
                self._partitions.pop(TopicPartition(topic.name, state.partition), None)
        partitions = tuple(self._newer(topic.name, each) for each in sorted(topic.partitions, key=_index))
        for each in partitions:
            self._partitions[TopicPartition(topic.name, each.partition)] = each
        self._topics[topic.name] = TopicState(name=topic.name, partitions=partitions, topic_id=topic.topic_id)
        self._available[topic.name] = tuple(each.partition for each in partitions if each.leader != NO_LEADER)
        return len(self._available[topic.name]) == len(partitions)

    def _newer(self, topic: str, state: PartitionState) -> PartitionState:
        known = self._partitions.get(TopicPartition(topic, state.partition))
        if known is None or state.leader_epoch == UNKNOWN_EPOCH or state.leader_epoch >= known.leader_epoch:
            return state
        return known

    def forget(self, topics: Iterable[str]) -> None:
        """The topics were deleted. If they are created again, their epochs start again."""
        for topic in topics:
            self._used_ms.pop(topic, None)
            self._topics.pop(topic, None)
            self._available.pop(topic, None)
            for partition in [each for each in self._partitions if each.topic == topic]:
                del self._partitions[partition]

    def check_invariants(self) -> None:
        for topic, available in self._available.items():
            assert all(self.leader(TopicPartition(topic, partition)) != NO_LEADER for partition in available)
