"""aiokafka as a driver: `aiokafka_driver.py BOOTSTRAP`. Its event loop runs in a thread; a call waits for it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from threading import Thread
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import for_code
from aiokafka.structs import OffsetAndMetadata
from python_clients import consumer_arguments, polled, producer_arguments
from rpc import data, need, serve

BOOTSTRAP = sys.argv[1].split(",")
WAIT_S = 220
producers: dict[str, Any] = {}
consumers: dict[str, Any] = {}
_admin: list[Any] = []
loop = asyncio.new_event_loop()


def waits(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    return lambda **arguments: asyncio.run_coroutine_threadsafe(function(**arguments), loop).result(WAIT_S)


async def admin() -> Any:
    if not _admin:
        made = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP, request_timeout_ms=30_000)
        await made.start()
        _admin.append(made)
    return _admin[0]


async def producer_open(name: str, config: dict[str, Any]) -> None:
    producers[name] = AIOKafkaProducer(
        bootstrap_servers=BOOTSTRAP, max_request_size=5_000_000, **producer_arguments(config)
    )
    await producers[name].start()


async def send(name: str, topic: str, partition: int, records: list[dict[str, Any]]) -> list[int]:
    sent = [
        await producers[name].send(
            topic,
            data(record["value"]),
            key=data(record["key"]),
            partition=partition,
            timestamp_ms=record["timestamp"],
            headers=[(key, value.encode()) for key, value in record["headers"]],
        )
        for record in records
    ]
    found = [await asyncio.wait_for(future, 200) for future in sent]
    return [-1 if each is None else each.offset for each in found]


async def send_offsets(name: str, consumer: str, group: str, topic: str, partition: int, offset: int) -> None:
    await producers[name].send_offsets_to_transaction({TopicPartition(topic, partition): offset}, group)


async def consumer_open(name: str, config: dict[str, Any]) -> None:
    need(config.get("protocol") != "consumer", "AIOKafkaConsumer has no setting for the group protocol")
    arguments = consumer_arguments(config)
    if config.get("assignor"):
        known = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
        need(config["assignor"] in known, f"no assignor {config['assignor']}")
        arguments["partition_assignment_strategy"] = [known[config["assignor"]]]
    consumers[name] = AIOKafkaConsumer(bootstrap_servers=BOOTSTRAP, **arguments)
    await consumers[name].start()


async def assign(name: str, topic: str, partition: int, offset: int) -> None:
    consumers[name].assign([TopicPartition(topic, partition)])
    consumers[name].seek(TopicPartition(topic, partition), offset)


async def subscribe(name: str, topics: list[str]) -> None:
    consumers[name].subscribe(topics)


async def poll(name: str, timeout_ms: int) -> dict[str, Any]:
    return polled(await consumers[name].getmany(timeout_ms=timeout_ms), consumers[name])


async def commit_offset(name: str, topic: str, partition: int, offset: int) -> None:
    await consumers[name].commit({TopicPartition(topic, partition): offset})


async def committed(name: str, topic: str, partition: int) -> Any:
    return await consumers[name].committed(TopicPartition(topic, partition))


async def offset_for_time(name: str, topic: str, partition: int, timestamp: int) -> int | None:
    one = TopicPartition(topic, partition)
    found = (await consumers[name].offsets_for_times({one: timestamp}))[one]
    return None if found is None else found.offset


async def end_offsets(name: str, topic: str, partition: int) -> list[int]:
    one = TopicPartition(topic, partition)
    begin, end = await consumers[name].beginning_offsets([one]), await consumers[name].end_offsets([one])
    return [begin[one], end[one]]


async def consumer_close(name: str) -> None:
    await consumers.pop(name).stop()


async def reset() -> None:
    for consumer in consumers.values():
        await consumer.stop()
    consumers.clear()
    for producer in producers.values():
        await producer.stop()
    producers.clear()


# -- administration


def check(code: int, message: str | None = None) -> None:
    if code:
        raise for_code(code)(message)


async def describe_cluster() -> list[int]:
    return [each["node_id"] for each in (await (await admin()).describe_cluster())["brokers"]]


async def create_topic(topic: str, partitions: int, replication: int, config: dict[str, str]) -> None:
    found = await (await admin()).create_topics([NewTopic(topic, partitions, replication, topic_configs=config)])
    for each in found.topic_errors:
        check(each[1], each[2] if len(each) > 2 else None)


async def delete_topic(topic: str) -> None:
    found = await (await admin()).delete_topics([topic])
    for each in found.topic_error_codes:
        check(each[1])


async def list_topics() -> list[str]:
    return list(await (await admin()).list_topics())


async def describe_topic(topic: str) -> Any:
    (found,) = await (await admin()).describe_topics([topic])
    return [{"replicas": each["replicas"]} for each in found["partitions"]]


async def create_partitions(topic: str, total: int) -> None:
    found = await (await admin()).create_partitions({topic: NewPartitions(total)})
    for each in found.topic_errors:
        check(each[1], each[2])


async def describe_configs(kind: str, name: str) -> dict[str, str]:
    type_ = ConfigResourceType.TOPIC if kind == "topic" else ConfigResourceType.BROKER
    (found,) = await (await admin()).describe_configs([ConfigResource(type_, name)])
    return {entry[0]: entry[1] for entry in found.resources[0][4]}


async def alter_configs(topic: str, config: dict[str, str], incremental: bool) -> None:
    need(not incremental, "no method for IncrementalAlterConfigs")
    found = await (await admin()).alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, config)])
    for answer in found if isinstance(found, list) else [found]:
        for each in answer.resources:
            check(each[0], each[1])


async def list_groups() -> list[str]:
    return [each[0] for each in await (await admin()).list_consumer_groups()]


async def describe_group(group: str) -> dict[str, Any]:
    (answer,) = await (await admin()).describe_consumer_groups([group])
    found = answer.groups[0]
    return {"state": found[2], "members": len(found[5])}


async def group_offsets(group: str, topic: str, partition: int) -> int | None:
    one = TopicPartition(topic, partition)
    found = await (await admin()).list_consumer_group_offsets(group, partitions=[one])
    offset: OffsetAndMetadata = found[one]
    return None if offset.offset < 0 else offset.offset


async def delete_records(topic: str, partition: int, offset: int) -> None:
    await (await admin()).delete_records({TopicPartition(topic, partition): RecordsToDelete(offset)})


Thread(target=loop.run_forever, daemon=True).start()


async def _transaction(name: str, call: str) -> None:
    await getattr(producers[name], call)()


serve(
    "aiokafka",
    {
        # start() of a transactional producer gets its id
        "init_transactions": lambda name: None,
        "begin": lambda name: waits(_transaction)(name=name, call="begin_transaction"),
        "commit": lambda name: waits(_transaction)(name=name, call="commit_transaction"),
        "abort": lambda name: waits(_transaction)(name=name, call="abort_transaction"),
        **{
            function.__name__: waits(function)
            for function in (
                producer_open, send, send_offsets, consumer_open, assign, subscribe, poll, commit_offset, committed,
                offset_for_time, end_offsets, consumer_close, reset, describe_cluster, create_topic, delete_topic,
                list_topics, describe_topic, create_partitions, describe_configs, alter_configs, list_groups,
                describe_group, group_offsets, delete_records,
            )
        },
    },
)  # fmt: skip
