"""What a feature is tried on: three reference brokers, topics of its own, and checks of them that need no client.

The checks use this project's own reader and plain requests, so that a client is never its own witness.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from broker.door.clients import Admin, KafkaError, NewTopic, TopicPartition
from broker.wire.apis import ApiKey
from broker.wire.batch import BatchHeader
from broker.wire.errors import ErrorCode
from broker.wire.records import decode_records, iter_batches
from tests.broker_node.cluster_helper import Cluster, make_topics
from tests.broker_node.wire_helper import ask
from tests.patience import wait_until
from tests.raw_log import read_batches

SETTINGS: Mapping[str, object] = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 1_000,
    # A busy machine must not change leaders under a test.
    "controller.quorum.fetch.timeout.ms": 10_000,
    "controller.quorum.request.timeout.ms": 10_000,
    "broker.session.timeout.ms": 20_000,
    "replica.lag.time.max.ms": 60_000,
}
# An authorizer that lets everybody here do everything, for clients that ask for lists. Kafka's tools run without one.
AUTHORIZED: Mapping[str, object] = {
    **SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_names = count(1)


class World:
    """`with World(directory) as world`. Topics have replication factor 3."""

    def __init__(
        self, directory: Path, *, settings: Mapping[str, object] = SETTINGS, cluster: Cluster | None = None
    ) -> None:
        """`cluster`: another than the three brokers with `settings`; it is started here."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.cluster = cluster or Cluster(directory, settings=settings)

    def __enter__(self) -> World:
        self.cluster.start_all()
        self._admin = Admin(
            {"bootstrap.servers": self.bootstrap, "request.timeout.ms": 120_000, "default.api.timeout.ms": 180_000}
        )
        try:
            wait_until(self._all_there, "all brokers", seen=self.cluster.seen)
            wait_until(lambda: self._coordinates(0), "a coordinator of groups")
            wait_until(lambda: self._coordinates(1), "a coordinator of transactions")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()
        self.cluster.__exit__()

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap()

    def _all_there(self) -> bool:
        for broker, process in self.cluster.processes.items():
            assert process.poll() is None, f"broker {broker} has ended: {self.cluster.stderr(broker)[-2000:]}"
        try:
            return len(self._admin.describe_cluster().brokers) == len(self.cluster.ids)
        except KafkaError:
            return False

    def _coordinates(self, key_type: int) -> bool:
        try:
            return self.coordinator("warm", key_type) is not None
        except OSError:  # on a busy host a broker may be known before all its listeners are open
            return False

    # -- making

    def name(self, prefix: str = "n") -> str:
        return f"{prefix}-{next(_names)}"

    def topic(self, partitions: int = 1, **config: object) -> str:
        """A new topic with leaders; settings with underscores."""
        name = self.name("t")
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        make_topics(self._admin, NewTopic(name, partitions, 3, settings))
        wait_until(lambda: all(self.leader(name, each) for each in range(partitions)), f"leaders of {name}")
        return name

    def allow_reading(self, topic: str) -> None:
        """By an access control list, for somebody who never comes."""
        allow, literal, read, of_topic = 3, 3, 3, 2
        wanted = {
            "resource_type": of_topic, "resource_name": topic, "resource_pattern_type": literal,
            "principal": "User:somebody", "host": "*", "operation": read, "permission_type": allow,
        }  # fmt: skip
        (result,) = ask(self.port(), ApiKey.CREATE_ACLS, 3, creations=[wanted]).results
        assert result.error_code is ErrorCode.none, result

    def port(self, broker: int | None = None) -> int:
        alive = [each for each in self.cluster.ids if each in self.cluster.processes]
        return self.cluster.ports[alive[0] if broker is None else broker]["DIRECT"]

    def kill(self, broker: int) -> None:
        self.cluster.kill(broker)

    def start(self, broker: int) -> None:
        """Start it and wait until it is in every ISR again."""
        self.cluster.start(broker)
        wait_until(self._all_in_sync, "every replica in sync")

    def whole_again(self) -> None:
        """Brokers that a failed feature or test left dead."""
        for broker in self.cluster.ids:
            if broker not in self.cluster.processes:
                self.start(broker)

    def wait_until_all_know(self, topic: str, *, partitions: int = 1) -> None:
        """The topic, with so many partitions. A tool may ask any broker."""

        def knows(broker: int) -> bool:
            asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
            (found,) = ask(self.port(broker), ApiKey.METADATA, 12, **asked).topics
            return found.error_code is ErrorCode.none and len(found.partitions) >= partitions

        for broker in self.cluster.processes:
            wait_until(lambda broker=broker: knows(broker), f"broker {broker} knows {topic}")  # type: ignore[misc]

    def wait_until_all_have_group_setting(self, group: str, name: str, value: str) -> None:
        resource = {"resource_type": 32, "resource_name": group, "configuration_keys": [name]}

        def has(broker: int) -> bool:
            answer = ask(self.port(broker), ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=False)
            return [each.value for each in answer.results[0].configs] == [value]

        for broker in self.cluster.processes:
            wait_until(lambda broker=broker: has(broker), f"broker {broker} knows {name} of {group}")  # type: ignore[misc]

    # -- looking

    def metadata(self) -> Any:
        return ask(self.port(), ApiKey.METADATA, 12, topics=None, allow_auto_topic_creation=False)

    def partition(self, topic: str, index: int = 0) -> Any:
        for found in self.metadata().topics:
            for each in found.partitions if found.name == topic else ():
                if each.partition_index == index:
                    return each
        return None

    def leader(self, topic: str, index: int = 0) -> int | None:
        """The leader, if it runs."""
        found = self.partition(topic, index)
        return found.leader_id if found is not None and found.leader_id in self.cluster.processes else None

    def topics(self) -> dict[str, int]:
        """Name to number of partitions."""
        return {each.name: len(each.partitions) for each in self.metadata().topics}

    def _all_in_sync(self) -> bool:
        try:
            found = self.metadata()
        except OSError:
            return False
        return len(found.brokers) == len(self.cluster.ids) and all(
            set(each.isr_nodes) == set(each.replica_nodes) for topic in found.topics for each in topic.partitions
        )

    def coordinator(self, key: str, key_type: int = 0) -> int | None:
        found = ask(self.port(), ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=[key]).coordinators[0]
        return found.node_id if found.error_code is ErrorCode.none and found.node_id in self.cluster.processes else None

    def group(self, group: str) -> Any:
        """DescribeGroups, of the classic protocol."""
        port = self.port(wait_until(lambda: self.coordinator(group), f"coordinator of {group}"))
        return ask(port, ApiKey.DESCRIBE_GROUPS, 5, groups=[group], include_authorized_operations=False).groups[0]

    def group_type(self, group: str) -> str:
        port = self.port(wait_until(lambda: self.coordinator(group), f"coordinator of {group}"))
        found = ask(port, ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[]).groups
        return next((each.group_type for each in found if each.group_id == group), "")

    def log_start(self, topic: str, index: int = 0) -> int:
        partitions = [{"partition_index": index, "timestamp": -2, "current_leader_epoch": -1}]
        port = self.port(self.leader(topic, index))
        asked = [{"name": topic, "partitions": partitions}]
        answer = ask(port, ApiKey.LIST_OFFSETS, 5, replica_id=-1, isolation_level=0, topics=asked)
        return int(answer.topics[0].partitions[0].offset)

    def batches(self, topic: str, index: int = 0) -> list[BatchHeader]:
        partition = TopicPartition(topic, index)
        found = read_batches(self.bootstrap, partition)
        return [each.header for batch in found for each in iter_batches(batch.buffer)]

    def values(self, topic: str, index: int = 0, *, from_offset: int = 0) -> list[str]:
        """Every data record's value as the log has it, committed or not."""
        found = read_batches(self.bootstrap, TopicPartition(topic, index), from_offset)
        batches = [each for batch in found for each in iter_batches(batch.buffer)]
        return [
            "" if value is None else bytes(value).decode()
            for each in batches
            if not each.header.is_control
            for offset, _, _, value, _ in decode_records(each)
            if offset >= from_offset
        ]
