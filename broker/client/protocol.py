"""Translates between the requests and answers of the client's APIs and the values of the core. It does no I/O.

The highest versions are the last ones that identify topics by name: Produce 12, Fetch 12, Metadata 12, DeleteTopics 5,
OffsetCommit and OffsetFetch 9. Later versions use topic ids. Left out: fetch sessions, leader hints of Produce v10,
OffsetForLeaderEpoch as a replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from broker.client.core.batch import Batch, TopicPartition
from broker.client.core.fetch_state import FetchPosition, FetchResult
from broker.client.core.metadata import NO_LEADER, BrokerAddress, MetadataAnswer, PartitionState, TopicState
from broker.client.core.sender_events import PartitionResult
from broker.client.core.uniform import uniform_body, with_header
from broker.wire.apis import ApiKey
from broker.wire.compression import CodecId
from broker.wire.messages import field_or, request, request_types, to_ms
from broker.wire.records import BATCH_OVERHEAD_BYTES, encode_batch_buffers

if TYPE_CHECKING:
    from broker.wire.shapes.fetch import FetchPartitionFields, FetchRequest, FetchResponse
    from broker.wire.shapes.init_producer_id import InitProducerIdRequest
    from broker.wire.shapes.metadata import (
        MetadataRequest,
        MetadataRequestTopicFields,
        MetadataResponse,
        MetadataResponseTopic,
    )
    from broker.wire.shapes.produce import ProduceRequest, ProduceResponse

Entry = TypeVar("Entry")

HIGHEST: dict[ApiKey, int] = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.SHARE_GROUP_HEARTBEAT: 1,
    ApiKey.SHARE_GROUP_DESCRIBE: 1,
    ApiKey.SHARE_FETCH: 2,
    ApiKey.SHARE_ACKNOWLEDGE: 2,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 1,
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.UNREGISTER_BROKER: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.CREATE_ACLS: 3,
    ApiKey.DELETE_ACLS: 3,
    ApiKey.DESCRIBE_QUORUM: 2,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 4,
    ApiKey.END_TXN: 5,
    ApiKey.TXN_OFFSET_COMMIT: 5,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.DESCRIBE_CLUSTER: 1,
}
_DEFAULT_LZ4_LEVEL = 9  # Kafka's default level stands for the fast compressor, which is the default of our codec


def encode_records(batch: Batch, codec: CodecId, level: int | None) -> tuple[list[bytes], int]:
    """Returns ([header, body] of a closed batch, its size in bytes without compression, including the header)."""
    body = None
    if batch.keys is None and batch.headers is None:
        body = uniform_body(batch.values, batch.stamps)
    if body is None:
        body = encode_batch_buffers(
            batch.values, timestamps_ms=batch.timestamps_ms(), keys=batch.keys, headers=batch.headers
        )[1]
    return with_header(batch, body, codec, _wire_level(codec, level)), BATCH_OVERHEAD_BYTES + len(body)


def _wire_level(codec: CodecId, level: int | None) -> int | None:
    if (codec is CodecId.LZ4 and level == _DEFAULT_LZ4_LEVEL) or (codec is CodecId.GZIP and level == -1):
        return None
    return level


def produce_request(
    version: int, batches: Sequence[Batch], acks_code: int, timeout_ms: int, transactional_id: str | None = None
) -> ProduceRequest:
    """Each batch must be encoded. The request is built from kio's types directly, because it is the only request that
    is sent often."""
    types = request_types(ApiKey.PRODUCE, version)
    by_topic: dict[str, list[Any]] = {}
    for batch in batches:
        data = types.PartitionProduceData(index=batch.partition.partition, records=batch.encoded)
        by_topic.setdefault(batch.partition.topic, []).append(data)
    topics = tuple(
        [types.TopicProduceData(name=name, partition_data=tuple(partitions)) for name, partitions in by_topic.items()]
    )
    message: ProduceRequest = types.ProduceRequest(
        transactional_id=transactional_id, acks=acks_code, timeout=_duration(timeout_ms), topic_data=topics
    )
    return message


def _duration(value_ms: int) -> Any:
    """A duration in kio's type. The last value is kept, so it is not built again for each request."""
    found = _DURATIONS.get(value_ms)
    if found is None:
        from datetime import timedelta

        _DURATIONS.clear()
        found = _DURATIONS[value_ms] = timedelta(milliseconds=value_ms)
    return found


_DURATIONS: dict[int, Any] = {}


def produce_results(message: ProduceResponse) -> dict[TopicPartition, PartitionResult]:
    return {
        TopicPartition(topic.name, each.index): PartitionResult(
            error_code=int(each.error_code),
            base_offset=each.base_offset,
            log_append_time_ms=to_ms(each.log_append_time),
            message=field_or(each, "error_message", None) or "",
        )
        for topic in message.responses
        for each in topic.partition_responses
    }


def metadata_request(version: int, topics: Sequence[str] | None, *, auto_create: bool) -> MetadataRequest:
    """None asks for all topics, an empty list for the brokers only."""
    named: list[MetadataRequestTopicFields] | None = None if topics is None else [{"name": name} for name in topics]
    return request(ApiKey.METADATA, version, topics=named, allow_auto_topic_creation=auto_create)


def metadata_answer(message: MetadataResponse) -> MetadataAnswer:
    return MetadataAnswer(
        brokers=tuple(
            BrokerAddress(broker_id=each.node_id, host=each.host, port=each.port) for each in message.brokers
        ),
        topics=tuple(_topic_state(each) for each in message.topics),
        controller_id=field_or(message, "controller_id", -1),
        cluster_id=field_or(message, "cluster_id", "") or "",
    )


def _topic_state(topic: MetadataResponseTopic) -> TopicState:
    return TopicState(
        name=topic.name or "",
        error_code=int(topic.error_code),
        topic_id=str(field_or(topic, "topic_id", None) or ""),
        partitions=tuple(
            PartitionState(
                partition=each.partition_index,
                leader=each.leader_id,
                leader_epoch=field_or(each, "leader_epoch", -1),
                replicas=tuple(each.replica_nodes),
                isr=tuple(each.isr_nodes),
                error_code=int(each.error_code),
            )
            for each in topic.partitions
        ),
    )


def identity_request(version: int) -> InitProducerIdRequest:
    return request(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=None,
        transaction_timeout=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )


def by_topic(partitions: Iterable[tuple[TopicPartition, Entry]]) -> dict[str, list[Entry]]:
    """Groups partitions by topic. Most requests contain topics with partitions inside."""
    grouped: dict[str, list[Entry]] = {}
    for partition, entry in partitions:
        grouped.setdefault(partition.topic, []).append(entry)
    return grouped


def fetch_request(
    version: int,
    plan: Mapping[TopicPartition, FetchPosition],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partition_max_bytes: int,
    isolation_level: int = 0,
    rack: str = "",
) -> FetchRequest:
    """There is no fetch session: each request names all its partitions."""
    entries: Iterable[tuple[TopicPartition, FetchPartitionFields]] = (
        (
            partition,
            {
                "partition": partition.partition,
                "current_leader_epoch": position.leader_epoch,
                "fetch_offset": position.offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": partition_max_bytes,
            },
        )
        for partition, position in plan.items()
    )
    return request(
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": asked} for topic, asked in by_topic(entries).items()],
        forgotten_topics_data=(),
        rack_id=rack,
    )


def fetch_results(message: FetchResponse) -> dict[TopicPartition, FetchResult]:
    return {
        TopicPartition(topic.topic, each.partition_index): FetchResult(
            error_code=int(each.error_code),
            records=b"" if each.records is None else each.records,
            preferred_read_replica=field_or(each, "preferred_read_replica", NO_LEADER),
            aborted=tuple([(one.producer_id, one.first_offset) for one in each.aborted_transactions or ()]),
        )
        for topic in message.responses
        for each in topic.partitions
    }
