"""What an operator does to a topic while it is in use, by plain admin requests: settings, partitions, deleted records,
and the topic itself deleted and created.

Only a topic that the run has made is changed: own_topics.py knows its id, and every change asks it first. Implements
`chaos.port.Topics`. Every call ends within the bounds of `Admin`, and raises CellError with the broker's words when it
is refused. Shown by tests/harness/test_harness_topic_changes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.wire.apis import ApiKey
from broker.wire.errors import error_name
from harness.clusters.admin import REQUEST_TIMEOUT_MS, RESOURCE_TOPIC, TRY_AGAIN, Admin
from harness.clusters.base import Address, PartitionState
from harness.clusters.log_reader import TopicLogReader
from harness.clusters.metadata import EARLIEST, LATEST, BrokerProbe, ask_leader, offset_request
from harness.clusters.own_topics import OwnTopics
from harness.errors import CellError

_SET, _DELETE = 0, 1  # operations of IncrementalAlterConfigs
_LEADER_TIMEOUT_S: Final = 20.0
_NO_LEADER: Final = frozenset({3, 5, 6, 7, 9, 74, 76})  # whoever was asked does not lead (yet): ask again


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
        for address in self._addresses().values():
            probe = BrokerProbe(address)
            try:
                state = probe.metadata(topic)
            finally:
                probe.close()
            if state is not None and state.partitions:
                return state.partitions
        raise CellError(f"no broker knows the partitions of {topic}")

    def own_settings(self, topic: str) -> Mapping[str, str]:
        return self._admin.own_topic_config(topic)

    def setting_by_broker(self, topic: str, name: str) -> Mapping[int, str | None]:
        return {
            broker: Admin(lambda address=address: [address]).topic_config(topic).get(name)  # type: ignore[misc]
            for broker, address in self._addresses().items()
        }

    def change_setting(self, topic: str, name: str, value: str | None) -> None:
        self._require_own(topic)
        change = {"name": name, "config_operation": _DELETE if value is None else _SET, "value": value}
        resource = {"resource_type": RESOURCE_TOPIC, "resource_name": topic, "configs": (change,)}
        what = f"{name} of topic {topic} could not be set to {value}"
        answers = self._admin.answers(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=(resource,), validate_only=False)
        self._await_success(what, answers, lambda response: response.responses)

    def _require_own(self, topic: str) -> None:
        """These requests name a topic by its name alone, which somebody else's may have by now."""
        self._own.require(topic, self.id_by_broker(topic).values())

    def set_partition_count(self, topic: str, count: int) -> None:
        self._require_own(topic)
        entry = {"name": topic, "count": count, "assignments": None}
        answers = self._admin.answers(
            ApiKey.CREATE_PARTITIONS, topics=(entry,), timeout=REQUEST_TIMEOUT_MS, validate_only=False
        )

        def result(response: Any) -> Any:  # kio's generated types
            return response.results

        try:
            self._await_success(f"topic {topic} could not get {count} partitions", answers, result)
        except CellError:
            # An earlier request without an answer may have been carried out: then this one has nothing left to do.
            if self.partition_count(topic) != count:
                raise

    def id_by_broker(self, topic: str) -> Mapping[int, str | None]:
        found: dict[int, str | None] = {}
        for broker, address in self._addresses().items():
            probe = BrokerProbe(address)
            try:
                has_answered, topic_id = probe.topic_id(topic)
            finally:
                probe.close()
            if has_answered:
                found[broker] = topic_id
        return found

    def replication_factor(self, topic: str) -> int:
        return len(self._partitions(topic)[0].replicas)

    def delete(self, topic: str) -> None:
        self._require_own(topic)
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
        """By the leader, which answers when all replicas in the ISR have done so."""
        self._require_own(topic)
        entry = {"partition_index": partition, "offset": before_offset}
        topics = ({"name": topic, "partitions": (entry,)},)
        self._ask_leader(topic, partition, ApiKey.DELETE_RECORDS, {"topics": topics, "timeout": REQUEST_TIMEOUT_MS})

    def _offset(self, topic: str, partition: int, timestamp: int) -> int:
        request = offset_request(topic, partition, timestamp)
        return int(self._ask_leader(topic, partition, ApiKey.LIST_OFFSETS, request).offset)

    def _ask_leader(self, topic: str, partition: int, api_key: ApiKey, values: Mapping[str, object]) -> Any:
        """The partition's part of the answer."""
        answer, problem = ask_leader(
            lambda: self._probe_of_leader(topic, partition),
            api_key,
            values,
            timeout_s=_LEADER_TIMEOUT_S,
            again=_NO_LEADER,
        )
        if answer is None:
            raise CellError(f"{api_key.name} of {topic}-{partition} failed: {problem}")
        return answer

    @staticmethod
    def _await_success(what: str, answers: Any, result: Callable[[Any], Any]) -> None:
        last = "no broker answered"
        for response in answers:
            if response is None:
                continue
            entries = result(response)
            if not entries:
                last = "an answer without the topic"
                continue
            found = entries[0]
            code = int(found.error_code)
            if code == 0:
                return
            last = f"{error_name(code)}: {found.error_message or 'no further word'}"
            if code not in TRY_AGAIN:
                break
        raise CellError(f"{what}: {last}")
