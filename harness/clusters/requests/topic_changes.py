"""Changes a topic that is in use, by plain admin requests, as an operator does: change settings, add partitions, delete
records, and delete and create the topic itself, move its replicas. And brokers that go for good.

Only a topic that the run has made is changed. own_topics.py knows its id, and every change checks the id first.
Implements `chaos.ports.topics.Topics`. Every call ends within the limits of `Admin`, and raises CellError with the
broker's words if it is refused. Shown by tests/harness/test_harness_topic_changes.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from broker.door.clients import KafkaError, TopicPartition
from broker.door.questions import (
    EARLIEST,
    LATEST,
    Question,
    Result,
    changed_replicas,
    changed_settings,
    deleted_records,
    more_partitions,
    offset_at,
    reassignments,
    unregistered_broker,
)
from harness.clusters.base import Address, PartitionState
from harness.clusters.requests.admin import REQUEST_TIMEOUT_MS, Admin
from harness.clusters.requests.log_reader import TopicLogReader
from harness.clusters.requests.own_topics import OwnTopics
from harness.clusters.requests.probe import BrokerProbe, ask_leader, first_answer
from harness.errors import CellError

_PROBE_TIMEOUT_S: Final = 1.0
_LEADER_TIMEOUT_S: Final = 20.0
_MOVED_WITHIN_S: Final = 120.0  # a whole log is copied
_POLL_S: Final = 0.1
_NO_LEADER: Final = frozenset({3, 5, 6, 7, 9, 74, 76})  # the broker does not lead (yet): ask again


class TopicChanges:
    def __init__(
        self,
        addresses: Callable[[], Mapping[int, Address]],
        probe_of_leader: Callable[[str, int], BrokerProbe | None],
        own: OwnTopics,
    ) -> None:
        """`addresses`: of the brokers that can be asked now, by id, without any proxy."""
        self._addresses, self._probe_of_leader, self._own = addresses, probe_of_leader, own
        self._admin = Admin(lambda: list(addresses().values()))

    def partition_count(self, topic: str) -> int:
        return len(self._partitions(topic))

    def _partitions(self, topic: str) -> Mapping[int, PartitionState]:
        def known(probe: BrokerProbe) -> Mapping[int, PartitionState] | None:
            state = probe.metadata(topic)
            return None if state is None else state.partitions or None

        found = first_answer(self._addresses().values(), known, timeout_s=_PROBE_TIMEOUT_S)
        if found is not None:
            return found
        raise CellError(f"no broker knows the partitions of {topic}")

    def own_settings(self, topic: str) -> Mapping[str, str]:
        return self._admin.own_topic_config(topic)

    def setting_by_broker(self, topic: str, name: str) -> Mapping[int, str | None]:
        return {
            broker: Admin(lambda address=address: [address]).topic_config(topic).get(name)  # type: ignore[misc]
            for broker, address in self._addresses().items()
        }

    def change_setting(self, topic: str, name: str, value: str | None) -> None:
        self.require_own(topic)
        self._admin.change(
            f"{name} of topic {topic} could not be set to {value}",
            changed_settings("topic", topic, delete=[name])
            if value is None
            else changed_settings("topic", topic, set_={name: value}),
        )

    def require_own(self, topic: str) -> None:
        """These requests name a topic only by its name, which somebody else's topic may have by now."""
        self._own.require(topic, self.id_by_broker(topic).values())

    def set_partition_count(self, topic: str, count: int) -> None:
        self.require_own(topic)
        try:
            self._admin.change(
                f"topic {topic} could not get {count} partitions", more_partitions({topic: count}, REQUEST_TIMEOUT_MS)
            )
        except CellError:
            # An earlier request without an answer may have been carried out. Then this one has nothing left to do.
            if self.partition_count(topic) != count:
                raise

    def id_by_broker(self, topic: str) -> Mapping[int, str | None]:
        found: dict[int, str | None] = {}
        for broker, address in self._addresses().items():
            with BrokerProbe(address, timeout_s=_PROBE_TIMEOUT_S) as probe, suppress(KafkaError):
                found[broker] = probe.topic_id(topic)
        return found

    def replication_factor(self, topic: str) -> int:
        return len(self._partitions(topic)[0].replicas)

    def replicas_of(self, topic: str) -> dict[int, tuple[int, ...]]:
        return {index: state.replicas for index, state in self._partitions(topic).items()}

    def set_replicas(self, topic: str, wanted: Mapping[int, Sequence[int]]) -> None:
        self.require_own(topic)
        asked = {TopicPartition(topic, index): tuple(replicas) for index, replicas in wanted.items()}
        self._admin.change(f"the replicas of {topic} could not become {dict(wanted)}", _all_or_error(asked))
        deadline = time.monotonic() + _MOVED_WITHIN_S
        while not self._are_in_force(topic, wanted):
            if time.monotonic() > deadline:
                raise CellError(f"the replicas of {topic} were not {dict(wanted)} within {_MOVED_WITHIN_S:.0f} s")
            time.sleep(_POLL_S)

    def _are_in_force(self, topic: str, wanted: Mapping[int, Sequence[int]]) -> bool:
        with suppress(CellError):
            now = self._partitions(topic)
            return all(
                now[index].replicas == tuple(replicas) and set(now[index].isr) == set(replicas)
                for index, replicas in wanted.items()
            )
        return False

    def cancel_moves(self, topic: str) -> None:
        self.require_own(topic)
        partitions = [TopicPartition(topic, index) for index in range(self.partition_count(topic))]
        for answer in self._admin.answers(reassignments(partitions, REQUEST_TIMEOUT_MS)):
            if isinstance(answer, KafkaError):
                continue
            if answer:
                self._admin.change(f"the moves of {topic} could not be cancelled", _all_or_error(dict.fromkeys(answer)))
            return
        raise CellError(f"no broker tells which replicas of {topic} are on their way")

    def brokers(self) -> frozenset[int]:
        found = first_answer(
            self._addresses().values(), lambda probe: probe.broker_addresses(), timeout_s=_PROBE_TIMEOUT_S
        )
        if found is None:
            raise CellError("no broker tells which brokers there are")
        return frozenset(found)

    def forget_broker(self, broker_id: int) -> None:
        try:
            self._admin.change(f"broker {broker_id} could not be unregistered", unregistered_broker(broker_id))
        except CellError:
            # An earlier request without an answer may have been carried out. Then this one has nothing left to do.
            if broker_id in self.brokers():
                raise

    def delete(self, topic: str) -> None:
        self.require_own(topic)
        self._own.delete(topic)

    def create(self, topic: str, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        self._own.create(topic, partitions=partitions, replication_factor=replication_factor, config=config)

    def start_offset(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, EARLIEST)

    def end_offset(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, LATEST)

    def newest_append_time_ms(self, topic: str, partition: int) -> int | None:
        reader = TopicLogReader(topic, lambda partition: self._probe_of_leader(topic, partition))
        end = reader.end_offset(partition)
        newest = None
        for batch in reader.batches(partition, end, from_offset=max(0, end - 1)):
            newest = batch.header
        return newest.max_timestamp if newest is not None and newest.has_log_append_time else None

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Asks the leader, which answers when all replicas in the ISR have deleted the records."""
        self.require_own(topic)
        question = deleted_records(TopicPartition(topic, partition), before_offset, REQUEST_TIMEOUT_MS)
        self._ask_leader(topic, partition, question)

    def _offset(self, topic: str, partition: int, timestamp: int) -> int:
        return self._ask_leader(topic, partition, offset_at(TopicPartition(topic, partition), timestamp)).offset

    def _ask_leader(self, topic: str, partition: int, question: Question[Result]) -> Result:
        answer, problem = ask_leader(
            lambda: self._probe_of_leader(topic, partition), question, timeout_s=_LEADER_TIMEOUT_S, again=_NO_LEADER
        )
        if answer is None:
            raise CellError(f"{question.api_key.name} of {topic}-{partition} failed: {problem}")
        return answer


def _all_or_error(wanted: Mapping[TopicPartition, Sequence[int] | None]) -> Question[None]:
    """Like `changed_replicas`; the first partition that is refused is the error of all."""
    question = changed_replicas(wanted, REQUEST_TIMEOUT_MS)

    def parse(message: Any) -> None:  # the answer, which only the question knows
        for error in question.parse(message).values():
            if error is not None:
                raise error

    return Question(question.api_key, question.build, parse)
