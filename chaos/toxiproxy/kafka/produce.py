"""The parts of Produce requests and responses, versions 3 to 13, that the proxy needs.

Left out: message sets (versions 0-2), the content of record_errors, the tagged leader hints of version 10. In version
13 topics are named by id. `TopicNames` learns their names from the Metadata responses that pass.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.toxiproxy.kafka.fields import MalformedFrame, Reader, Writer

PRODUCE = 0
METADATA = 3
VERSION_MIN, VERSION_MAX = 3, 13
FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_ID = 13
TOPIC_IDS_MAX = 10_000
TOPIC_NAME_CHARACTERS_MAX = 249  # the limit of brokers
_CRC_OFFSET, _COUNT_OFFSET, _BATCH_HEADER_BYTES = 17, 57, 61
_LENGTH_AND_OVERHEAD = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One record batch in a request, and where it is in the frame. `topic_id` is set from version 13 on."""

    topic: str
    topic_id: bytes
    partition: int
    crc: int
    records: int
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    api_version: int
    correlation_id: int
    client_id: str
    transactional_id: str = ""
    acks: int
    # One entry per record batch. A partition with several batches (allowed but unusual) has several entries.
    batches: tuple[Batch, ...]
    records_end: int = 0  # position in the frame where the last batch ends


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    partition: int
    error_code: int
    base_offset: int


@dataclass(slots=True)
class TopicNames:
    """Maps topic ids to names, with a bound. For an unknown id the name is its hexadecimal digits."""

    by_id: dict[bytes, str] = field(default_factory=dict)

    def name(self, topic_id: bytes) -> str:
        return self.by_id.get(topic_id, topic_id.hex())

    def learn(self, topic_id: bytes, name: str) -> None:
        if len(name) > TOPIC_NAME_CHARACTERS_MAX:
            return
        if len(self.by_id) >= TOPIC_IDS_MAX:
            self.by_id.clear()
        self.by_id[topic_id] = name


def read_header(frame: bytes) -> RequestHeader:
    """The header of a request frame. The frame begins with its 4 bytes of length."""
    reader = Reader(frame, position=4)
    return RequestHeader(api_key=reader.int16(), api_version=reader.int16(), correlation_id=reader.int32())


def read_client_id(frame: bytes) -> str:
    """The client id of any request. It is never compact in the header."""
    return Reader(frame, position=12).legacy_text() or ""


def read_request(frame: bytes, names: Mapping[bytes, str]) -> ProduceRequest:
    header = read_header(frame)
    if header.api_key != PRODUCE or not VERSION_MIN <= header.api_version <= VERSION_MAX:
        raise MalformedFrame(f"not a Produce request of version 3..13: {header}")
    version = header.api_version
    reader = Reader(frame, position=12)
    client_id = reader.legacy_text() or ""  # the client_id in the header is never compact
    reader.is_compact = version >= FIRST_FLEXIBLE
    reader.skip_tags()
    transactional_id = reader.text() or ""
    acks = reader.int16()
    reader.int32()  # timeout_ms
    batches: list[Batch] = []
    records_end = 0
    for _ in range(reader.count()):
        topic_id = reader.uuid() if version >= FIRST_WITH_TOPIC_ID else b""
        topic = names.get(topic_id, topic_id.hex()) if topic_id else reader.text() or ""
        for _ in range(reader.count()):
            partition, blob = reader.int32(), reader.blob()
            batches += _read_batches(frame, blob, topic, topic_id, partition)
            records_end = sum(blob) if blob else records_end
            reader.skip_tags()
        reader.skip_tags()
    return ProduceRequest(
        api_version=version,
        correlation_id=header.correlation_id,
        client_id=client_id,
        transactional_id=transactional_id,
        acks=acks,
        batches=tuple(batches),
        records_end=records_end,
    )


def _read_batches(
    frame: bytes, blob: tuple[int, int] | None, topic: str, topic_id: bytes, partition: int
) -> list[Batch]:
    if blob is None:
        return []
    position, end = blob[0], blob[0] + blob[1]
    found: list[Batch] = []
    while end - position >= _BATCH_HEADER_BYTES:
        (crc,) = struct.unpack_from(">I", frame, position + _CRC_OFFSET)
        (records,) = struct.unpack_from(">i", frame, position + _COUNT_OFFSET)
        (length,) = struct.unpack_from(">i", frame, position + 8)
        if length <= 0:
            raise MalformedFrame(f"record batch of {length} bytes")
        next_position = position + _LENGTH_AND_OVERHEAD + length
        found.append(
            Batch(
                topic=topic,
                topic_id=topic_id,
                partition=partition,
                crc=crc,
                records=records,
                start=position,
                end=min(next_position, end),
            )
        )
        position = next_position
    return found


def read_response(frame: bytes, version: int, names: Mapping[bytes, str]) -> dict[tuple[str, int], PartitionResult]:
    """The results by (topic, partition)."""
    reader = Reader(frame, position=8, is_compact=version >= FIRST_FLEXIBLE)
    reader.skip_tags()
    results: dict[tuple[str, int], PartitionResult] = {}
    for _ in range(reader.count()):
        topic_id = reader.uuid() if version >= FIRST_WITH_TOPIC_ID else b""
        topic = names.get(topic_id, topic_id.hex()) if topic_id else reader.text() or ""
        for _ in range(reader.count()):
            partition, error_code, base_offset = reader.int32(), reader.int16(), reader.int64()
            _skip_rest_of_partition(reader, version)
            results[topic, partition] = PartitionResult(
                partition=partition, error_code=error_code, base_offset=base_offset
            )
        reader.skip_tags()
    return results


def _skip_rest_of_partition(reader: Reader, version: int) -> None:
    reader.int64()  # log_append_time_ms
    if version >= 5:
        reader.int64()  # log_start_offset
    if version >= 8:
        for _ in range(reader.count()):
            reader.int32()
            reader.text()
            reader.skip_tags()
        reader.text()  # error_message
    reader.skip_tags()


def refusal_frame(request: ProduceRequest, error_code: int) -> bytes:
    """A response with `error_code` for every partition of the request. Nothing of the request was appended."""
    version = request.api_version
    writer = Writer(is_compact=version >= FIRST_FLEXIBLE)
    writer.int32(request.correlation_id)
    writer.no_tags()
    partitions_of: dict[tuple[str, bytes], list[int]] = {}
    for batch in request.batches:
        partitions = partitions_of.setdefault((batch.topic, batch.topic_id), [])
        if batch.partition not in partitions:
            partitions.append(batch.partition)
    writer.count(len(partitions_of))
    for (topic, topic_id), partitions in partitions_of.items():
        if version >= FIRST_WITH_TOPIC_ID:
            writer.raw(topic_id)
        else:
            writer.text(topic)
        writer.count(len(partitions))
        for partition in partitions:
            _write_refused_partition(writer, version, partition, error_code)
        writer.no_tags()
    writer.int32(0)  # throttle_time_ms
    writer.no_tags()
    return writer.frame()


def _write_refused_partition(writer: Writer, version: int, partition: int, error_code: int) -> None:
    writer.int32(partition)
    writer.int16(error_code)
    writer.int64(-1)  # base_offset
    writer.int64(-1)  # log_append_time_ms
    if version >= 5:
        writer.int64(-1)  # log_start_offset
    if version >= 8:
        writer.count(0)  # record_errors
        writer.text(None)  # error_message
    writer.no_tags()


def learn_topic_ids(frame: bytes, version: int, names: TopicNames) -> None:
    """Learn the topic names in a Metadata response of version 10 to 13."""
    if not 10 <= version <= 13:
        return
    reader = Reader(frame, position=8, is_compact=True)
    reader.skip_tags()
    reader.int32()  # throttle_time_ms
    for _ in range(reader.count()):
        reader.int32()  # node_id
        reader.text()  # host
        reader.int32()  # port
        reader.text()  # rack
        reader.skip_tags()
    reader.text()  # cluster_id
    reader.int32()  # controller_id
    for _ in range(reader.count()):
        reader.int16()  # error_code
        name, topic_id = reader.text(), reader.uuid()
        if name:
            names.learn(topic_id, name)
        reader.int8()  # is_internal
        for _ in range(reader.count()):
            reader.skip(2 + 4 + 4 + 4)  # error_code, partition_index, leader_id, leader_epoch
            for _ in range(3):  # replicas, isr, offline replicas
                reader.skip(4 * reader.count())
            reader.skip_tags()
        reader.int32()  # topic_authorized_operations
        reader.skip_tags()
