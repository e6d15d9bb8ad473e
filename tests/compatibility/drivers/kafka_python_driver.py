"""kafka-python as a driver: `kafka_python_driver.py BOOTSTRAP`."""

from __future__ import annotations

import sys
from typing import Any

import kafka.errors
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from python_clients import consumer_arguments, polled, producer_arguments
from rpc import data, need, serve

BOOTSTRAP = sys.argv[1].split(",")
WAIT_S = 200
COMMON = {"bootstrap_servers": BOOTSTRAP, "reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 500}
producers: dict[str, Any] = {}
consumers: dict[str, Any] = {}
_admin: list[Any] = []


def admin() -> Any:
    if not _admin:
        _admin.append(KafkaAdminClient(**COMMON))
    return _admin[0]


def producer_open(name: str, config: dict[str, Any]) -> None:
    arguments = producer_arguments(config)
    for argument in arguments:
        need(argument in KafkaProducer.DEFAULT_CONFIG, f"no producer setting {argument}")
    arguments.setdefault("enable_idempotence", "transactional_id" in arguments)
    producers[name] = KafkaProducer(**COMMON, max_request_size=5_000_000, **arguments)


def send(name: str, topic: str, partition: int, records: list[dict[str, Any]]) -> list[int]:
    sent = [
        producers[name].send(
            topic,
            value=data(record["value"]),
            key=data(record["key"]),
            headers=[(key, value.encode()) for key, value in record["headers"]],
            partition=partition,
            timestamp_ms=record["timestamp"],
        )
        for record in records
    ]
    producers[name].flush(WAIT_S)
    return [future.get(WAIT_S).offset for future in sent]


def send_offsets(name: str, consumer: str, group: str, topic: str, partition: int, offset: int) -> None:
    offsets = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
    producers[name].send_offsets_to_transaction(offsets, consumers[consumer].group_metadata())


def consumer_open(name: str, config: dict[str, Any]) -> None:
    arguments = consumer_arguments(config)
    if config.get("protocol") == "consumer":
        need("group_protocol" in KafkaConsumer.DEFAULT_CONFIG, "no consumer setting group_protocol")
        arguments["group_protocol"] = "consumer"
    elif config.get("assignor"):
        arguments["partition_assignment_strategy"] = [assignor(config["assignor"])]
    if "instance" in config:
        need("group_instance_id" in KafkaConsumer.DEFAULT_CONFIG, "no consumer setting group_instance_id")
    consumers[name] = KafkaConsumer(**COMMON, **arguments)


def assignor(name: str) -> Any:
    known = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    if name in known:
        return known[name]
    try:
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    except ImportError:
        need(False, f"no assignor {name}")
    return CooperativeStickyAssignor


def assign(name: str, topic: str, partition: int, offset: int) -> None:
    consumers[name].assign([TopicPartition(topic, partition)])
    consumers[name].seek(TopicPartition(topic, partition), offset)


def poll(name: str, timeout_ms: int) -> dict[str, Any]:
    return polled(consumers[name].poll(timeout_ms=timeout_ms), consumers[name])


def commit_offset(name: str, topic: str, partition: int, offset: int) -> None:
    consumers[name].commit({TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)})


def offset_for_time(name: str, topic: str, partition: int, timestamp: int) -> int | None:
    one = TopicPartition(topic, partition)
    found = consumers[name].offsets_for_times({one: timestamp})[one]
    return None if found is None else found.offset


def end_offsets(name: str, topic: str, partition: int) -> list[int]:
    one = TopicPartition(topic, partition)
    return [consumers[name].beginning_offsets([one])[one], consumers[name].end_offsets([one])[one]]


def reset() -> None:
    for consumer in consumers.values():
        consumer.close(timeout_ms=3_000)
    consumers.clear()
    for producer in producers.values():
        producer.close(0)
    producers.clear()


# -- administration


def configs(kind: str, name: str) -> dict[str, str]:
    found = admin().describe_configs([ConfigResource(kind.upper(), name)], config_filter="all")
    return {key: entry["value"] for key, entry in found[kind.lower()][name].items()}


def alter_configs(topic: str, config: dict[str, str], incremental: bool) -> None:
    need(incremental, "its alter_configs(incremental=False) reads the old values and sends them as well")
    admin().alter_configs([ConfigResource("TOPIC", topic, config)], incremental=True)


def describe_topic(topic: str) -> Any:
    (found,) = admin().describe_topics([topic])
    return [{"replicas": each["replica_nodes"]} for each in found["partitions"]]


def describe_group(group: str) -> dict[str, Any]:
    found = admin().describe_groups([group])[group]
    return {"state": found["group_state"], "members": len(found["members"])}


def group_offsets(group: str, topic: str, partition: int) -> int | None:
    found = admin().list_group_offsets({group: [TopicPartition(topic, partition)]})[group]
    one = found.get(TopicPartition(topic, partition))
    return None if one is None or one.offset < 0 else one.offset


def list_offsets(topic: str, partition: int) -> dict[str, int]:
    one = TopicPartition(topic, partition)
    specs = {"earliest": -2, "latest": -1}
    return {name: admin().list_partition_offsets({one: spec})[one].offset for name, spec in specs.items()}


def log_dirs(topic: str) -> list[int]:
    found = admin().describe_log_dirs()
    return [
        each["partition_size"]
        for broker in found
        for directory in broker["log_dirs"]
        for listed in directory["topics"]
        if listed["name"] == topic
        for each in listed["partitions"]
    ]


def delete_group(group: str) -> None:
    for error in admin().delete_groups([group]).values():
        if error != "OK" and error is not kafka.errors.NoError:
            raise RuntimeError(str(error))


def active_producers(topic: str, partition: int) -> int:
    one = TopicPartition(topic, partition)
    return len(admin().describe_producers([one])[one].active_producers)


def transactions() -> dict[str, str]:
    found = admin().list_transactions()
    return {each.transactional_id: each.state.value for listed in found.values() for each in listed}


def elect_leaders(topic: str, partition: int) -> None:
    found = admin().elect_leaders(0, {topic: [partition]})
    for listed in found.replica_election_results:
        for each in listed.partition_result:
            if each.error_code:
                raise kafka.errors.for_code(each.error_code)(each.error_message)


def reassign(topic: str, partition: int, replicas: list[int]) -> None:
    for error in admin().alter_partition_reassignments({TopicPartition(topic, partition): replicas}).values():
        if error is not None:
            raise error


def acls() -> int:
    resource = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    anything = {"operation": ACLOperation.ANY, "permission_type": ACLPermissionType.ANY}
    found, error = admin().describe_acls(ACLFilter(principal=None, host="*", resource_pattern=resource, **anything))
    if error is not kafka.errors.NoError:
        raise error
    return len(found)


def quorum() -> dict[str, Any]:
    found = admin().describe_metadata_quorum()["topics"][0]["partitions"][0]
    return {"leader": found["leader_id"], "voters": [each["replica_id"] for each in found["current_voters"]]}


serve(
    "kafka-python",
    {
        "producer_open": producer_open,
        "send": send,
        "init_transactions": lambda name: producers[name].init_transactions(),
        "begin": lambda name: producers[name].begin_transaction(),
        "commit": lambda name: producers[name].commit_transaction(),
        "abort": lambda name: producers[name].abort_transaction(),
        "send_offsets": send_offsets,
        "consumer_open": consumer_open,
        "assign": assign,
        "subscribe": lambda name, topics: consumers[name].subscribe(topics),
        "poll": poll,
        "commit_offset": commit_offset,
        "committed": lambda name, topic, partition: consumers[name].committed(TopicPartition(topic, partition)),
        "offset_for_time": offset_for_time,
        "end_offsets": end_offsets,
        "consumer_close": lambda name: consumers.pop(name).close(),
        "reset": reset,
        "describe_cluster": lambda: [each["broker_id"] for each in admin().describe_cluster()["brokers"]],
        "create_topic": lambda topic, partitions, replication, config: admin().create_topics(
            [NewTopic(topic, partitions, replication, topic_configs=config)]
        )
        and None,
        "delete_topic": lambda topic: admin().delete_topics([topic]) and None,
        "list_topics": lambda: list(admin().list_topics()),
        "describe_topic": describe_topic,
        "create_partitions": lambda topic, total: admin().create_partitions({topic: NewPartitions(total)}) and None,
        "describe_configs": configs,
        "alter_configs": alter_configs,
        "list_groups": lambda: [each["group_id"] for each in admin().list_groups()],
        "describe_group": describe_group,
        "group_offsets": group_offsets,
        "alter_group_offsets": lambda group, topic, partition, offset: admin().alter_group_offsets(
            group, {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        )
        and None,
        "delete_group_offsets": lambda group, topic, partition: admin().delete_group_offsets(
            group, [TopicPartition(topic, partition)]
        )
        and None,
        "delete_group": delete_group,
        "delete_records": lambda topic, partition, offset: admin().delete_records(
            {TopicPartition(topic, partition): offset}
        )
        and None,
        "list_offsets": list_offsets,
        "elect_leaders": elect_leaders,
        "log_dirs": log_dirs,
        "producers": active_producers,
        "transactions": transactions,
        "quorum": quorum,
        "reassign": reassign,
        "acls": acls,
    },
)  # fmt: skip
