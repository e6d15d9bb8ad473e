"""confluent-kafka (librdkafka) as a driver: `confluent_driver.py BOOTSTRAP`."""

from __future__ import annotations

import sys
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from rpc import data, serve, text

BOOTSTRAP = sys.argv[1]
WAIT_S = 200
QUIET = {"bootstrap.servers": BOOTSTRAP, "log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}
OFFSET_INVALID = -1001
producers: dict[str, Any] = {}
consumers: dict[str, Any] = {}
_admin: list[Any] = []


def admin() -> Any:
    if not _admin:
        _admin.append(AdminClient(QUIET))
    return _admin[0]


def producer_open(name: str, config: dict[str, Any]) -> None:
    known = {
        "acks": "acks",
        "codec": "compression.type",
        "idempotence": "enable.idempotence",
        "linger_ms": "linger.ms",
        "transactional_id": "transactional.id",
    }
    settings = {known[key]: value for key, value in config.items()}
    if "transactional.id" in settings:
        settings.pop("acks")
        settings["transaction.timeout.ms"] = 300_000  # no less than message.timeout.ms
    producers[name] = Producer({**QUIET, "message.timeout.ms": 200_000, "message.max.bytes": 5_000_000, **settings})


def send(name: str, topic: str, partition: int, records: list[dict[str, Any]]) -> list[int]:
    offsets: dict[int, int] = {}
    errors: list[Any] = []

    def delivered(index: int) -> Any:
        def callback(error: Any, message: Any) -> None:
            if error is not None:
                errors.append(error)
            offsets[index] = -1 if message.offset() in (None, OFFSET_INVALID) else message.offset()

        return callback

    for index, record in enumerate(records):
        more = {} if record["timestamp"] is None else {"timestamp": record["timestamp"]}
        headers = [(key, value.encode()) for key, value in record["headers"]]
        producers[name].produce(
            topic, data(record["value"]), data(record["key"]), partition, on_delivery=delivered(index),
            headers=headers, **more,
        )  # fmt: skip
    left = producers[name].flush(WAIT_S)
    if errors:
        raise KafkaException(errors[0])
    if left:
        raise TimeoutError(f"{left} records not acknowledged")
    return [offsets[index] for index in range(len(records))]


def consumer_open(name: str, config: dict[str, Any]) -> None:
    settings: dict[str, Any] = {
        **QUIET,
        "group.id": config.get("group", "nobody"),
        "auto.offset.reset": config["reset"],
        "enable.auto.commit": config.get("auto_commit", False),
        "isolation.level": config.get("isolation", "read_uncommitted"),
        "fetch.wait.max.ms": 100,
        "topic.metadata.refresh.interval.ms": 2_000,
    }
    if config.get("protocol") == "consumer":
        settings["group.protocol"] = "consumer"
    elif config.get("assignor"):
        settings["partition.assignment.strategy"] = config["assignor"]
    if "instance" in config:
        settings["group.instance.id"] = config["instance"]
        settings["session.timeout.ms"] = config["session_timeout_ms"]
    consumers[name] = Consumer(settings)


def assign(name: str, topic: str, partition: int, offset: int) -> None:
    consumers[name].assign([TopicPartition(topic, partition, offset)])


def subscribe(name: str, topics: list[str]) -> None:
    consumers[name].subscribe(topics)


def poll(name: str, timeout_ms: int) -> dict[str, Any]:
    records = []
    for message in consumers[name].consume(1_000, timeout_ms / 1000):
        if message.error():
            if message.error().fatal():
                raise KafkaException(message.error())
            continue
        kind, at_ms = message.timestamp()
        records.append(
            {
                "partition": message.partition(),
                "offset": message.offset(),
                "key": text(message.key()),
                "value": text(message.value()),
                "headers": [[key, value.decode()] for key, value in message.headers() or []],
                "timestamp": at_ms,
                "timestamp_type": kind - 1,
            }
        )
    return {"records": records, "assignment": [each.partition for each in consumers[name].assignment()]}


def commit_offset(name: str, topic: str, partition: int, offset: int) -> None:
    consumers[name].commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)


def committed(name: str, topic: str, partition: int) -> int:
    (found,) = consumers[name].committed([TopicPartition(topic, partition)], timeout=WAIT_S)
    return int(found.offset)


def offset_for_time(name: str, topic: str, partition: int, timestamp: int) -> int | None:
    (found,) = consumers[name].offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=WAIT_S)
    return found.offset if found.offset >= 0 else None


def end_offsets(name: str, topic: str, partition: int) -> list[int]:
    return list(consumers[name].get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_S))


def consumer_close(name: str) -> None:
    consumers.pop(name).close()


def send_offsets(name: str, consumer: str, group: str, topic: str, partition: int, offset: int) -> None:
    offsets = [TopicPartition(topic, partition, offset)]
    producers[name].send_offsets_to_transaction(offsets, consumers[consumer].consumer_group_metadata(), WAIT_S)


def reset() -> None:
    for consumer in consumers.values():
        consumer.close()
    consumers.clear()
    for producer in producers.values():
        producer.purge()
    producers.clear()
    _admin.clear()


# -- administration


def only(futures: Any) -> Any:
    (future,) = futures.values()
    return future.result(WAIT_S)


def create_topic(topic: str, partitions: int, replication: int, config: dict[str, str]) -> None:
    only(admin().create_topics([NewTopic(topic, partitions, replication, config=config)]))


def describe_topic(topic: str) -> Any:
    found = only(admin().describe_topics(TopicCollection([topic])))
    return [{"replicas": [node.id for node in each.replicas]} for each in found.partitions]


def configs(kind: str, name: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC if kind == "topic" else ResourceType.BROKER, name)
    return {key: entry.value for key, entry in only(admin().describe_configs([resource])).items()}


def alter_configs(topic: str, config: dict[str, str], incremental: bool) -> None:
    if not incremental:
        only(admin().alter_configs([ConfigResource(ResourceType.TOPIC, topic, set_config=config)]))
        return
    entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in config.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    only(admin().incremental_alter_configs([resource]))


def describe_group(group: str) -> dict[str, Any]:
    found = only(admin().describe_consumer_groups([group]))
    return {"state": found.state.name, "members": len(found.members)}


def group_offsets(group: str, topic: str, partition: int) -> int | None:
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
    (found,) = only(admin().list_consumer_group_offsets([asked])).topic_partitions
    return found.offset if found.offset >= 0 else None


def alter_group_offsets(group: str, topic: str, partition: int, offset: int) -> None:
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
    (found,) = only(admin().alter_consumer_group_offsets([asked])).topic_partitions
    if found.error is not None:
        raise KafkaException(found.error)


def list_offsets(topic: str, partition: int) -> dict[str, int]:
    one = TopicPartition(topic, partition)
    specs = {"earliest": OffsetSpec.earliest(), "latest": OffsetSpec.latest()}
    level = IsolationLevel.READ_UNCOMMITTED
    return {name: only(admin().list_offsets({one: spec}, isolation_level=level)).offset for name, spec in specs.items()}


def elect_leaders(topic: str, partition: int) -> None:
    for error in (
        admin().elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, partition)]).result(WAIT_S).values()
    ):
        if error is not None:
            raise KafkaException(error)


def acls() -> int:
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    try:
        return len(admin().describe_acls(every).result(WAIT_S))
    except KafkaException as error:
        code = error.args[0]
        raise RuntimeError(f"{code.name()}: {code.str()}") from error


serve(
    "confluent-kafka",
    {
        "producer_open": producer_open,
        "send": send,
        "init_transactions": lambda name: producers[name].init_transactions(WAIT_S),
        "begin": lambda name: producers[name].begin_transaction(),
        "commit": lambda name: producers[name].commit_transaction(WAIT_S),
        "abort": lambda name: producers[name].abort_transaction(WAIT_S),
        "send_offsets": send_offsets,
        "consumer_open": consumer_open,
        "assign": assign,
        "subscribe": subscribe,
        "poll": poll,
        "commit_offset": commit_offset,
        "committed": committed,
        "offset_for_time": offset_for_time,
        "end_offsets": end_offsets,
        "consumer_close": consumer_close,
        "reset": reset,
        "describe_cluster": lambda: [node.id for node in admin().describe_cluster().result(WAIT_S).nodes],
        "create_topic": create_topic,
        "delete_topic": lambda topic: only(admin().delete_topics([topic])),
        "list_topics": lambda: list(admin().list_topics(timeout=WAIT_S).topics),
        "describe_topic": describe_topic,
        "create_partitions": lambda topic, total: only(admin().create_partitions([NewPartitions(topic, total)])),
        "describe_configs": configs,
        "alter_configs": alter_configs,
        "list_groups": lambda: [each.group_id for each in admin().list_consumer_groups().result(WAIT_S).valid],
        "describe_group": describe_group,
        "group_offsets": group_offsets,
        "alter_group_offsets": alter_group_offsets,
        "delete_group": lambda group: only(admin().delete_consumer_groups([group])),
        "delete_records": lambda topic, partition, offset: (
            only(admin().delete_records([TopicPartition(topic, partition, offset)])) and None
        ),
        "list_offsets": list_offsets,
        "elect_leaders": elect_leaders,
        "acls": acls,
    },
)
