"""Hand-written code for Produce, versions 3-13. It is worth it, because every batch of every client passes through
here.

It gives the same bytes and values as decoder.py and encoder.py, in a fifth of the time (measured: 3 us instead of 15 us
for one partition). It handles the usual requests. For anything else (tagged fields, counts or names beyond 127, lengths
that do not fit) it returns None, and the general path decides or reports the error. tests/broker_wire/test_wire_hot.py
shows that both paths give equal messages and bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from broker.wire.messages import ZERO_UUID

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_ACKS_TIMEOUT = struct.Struct(">hi")
_ACKS_TIMEOUT_COUNT = struct.Struct(">hii")
_INDEX_SIZE = struct.Struct(">ii")
_COMPACT_MAX = 0x7F  # lengths and counts of one varint byte
TOPIC_IDS_SINCE_VERSION = 13
FLEXIBLE_SINCE_VERSION = 9
HOT_ELEMENTS_MAX = 1_000  # topics and partitions; the general decoder handles larger numbers


class ProducePartition(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs
    records: memoryview | None


class ProduceTopic(NamedTuple):
    """`name` is set before version 13, `topic_id` from version 13 on."""

    name: str | None
    topic_id: UUID | None
    partition_data: list[ProducePartition]


class ProduceRequest(NamedTuple):
    """The fields have the names of kio's message. `timeout` is in ms."""

    transactional_id: str | None
    acks: int
    timeout: int
    topic_data: list[ProduceTopic]


class PartitionAnswer:
    """The outcome for one partition, filled in as it becomes known."""

    __slots__ = ("base_offset", "error_code", "index", "log_append_time_ms", "log_start_offset")

    def __init__(self, index: int) -> None:
        self.index = index
        self.error_code = 0
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.log_start_offset = -1


# (topic name, or topic id from version 13 on; its partitions)
TopicAnswer = tuple[str | UUID | None, Sequence[PartitionAnswer]]


def decode_produce_request(view: memoryview, position: int, version: int) -> ProduceRequest | None:
    """The request whose body begins at `position`; None if the general decoder must look at it."""
    try:
        if version >= FLEXIBLE_SINCE_VERSION:
            return _decode_compact(view, position, version >= TOPIC_IDS_SINCE_VERSION)
        return _decode_legacy(view, position)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _decode_compact(view: memoryview, position: int, has_ids: bool) -> ProduceRequest | None:
    size = view[position]
    position += 1
    transactional_id = None
    if size:
        if size > _COMPACT_MAX or position + size - 1 > len(view):
            return None
        transactional_id = str(view[position : position + size - 1], "utf-8")
        position += size - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, position)
    topic_count = view[position + 6]
    position += 7
    if not 0 < topic_count <= _COMPACT_MAX:
        return None
    left = HOT_ELEMENTS_MAX
    topics = []
    for _ in range(topic_count - 1):
        name = topic_id = None
        if has_ids:
            encoded = bytes(view[position : position + 16])
            topic_id = UUID(bytes=encoded) if len(encoded) == 16 and encoded != ZERO_UUID.bytes else None
            position += 16
        else:
            size = view[position]
            if not 0 < size <= _COMPACT_MAX:
                return None
            name = str(view[position + 1 : position + size], "utf-8")
            position += size
        partition_count = view[position]
        position += 1
        if not 0 < partition_count <= _COMPACT_MAX or partition_count > left:
            return None
        left -= partition_count
        partitions = []
        for _ in range(partition_count - 1):
            index = _INT32.unpack_from(view, position)[0]
            size = view[position + 4]
            position += 5
            if size > _COMPACT_MAX:
                size &= 0x7F
                shift = 7
                while True:
                    byte = view[position]
                    position += 1
                    size |= (byte & 0x7F) << shift
                    if byte <= _COMPACT_MAX:
                        break
                    shift += 7
                    if shift > 28:
                        return None
            records = None
            if size:
                end = position + size - 1
                records = view[position:end]
                position = end
            if view[position]:  # an IndexError if it is beyond the frame; if it is not 0, there are tagged fields
                return None
            position += 1
            partitions.append(ProducePartition(index, records))
        if view[position]:
            return None
        position += 1
        topics.append(ProduceTopic(name, topic_id, partitions))
    if view[position]:
        return None
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _decode_legacy(view: memoryview, position: int) -> ProduceRequest | None:
    size = _INT16.unpack_from(view, position)[0]
    position += 2
    transactional_id = None
    if size >= 0:
        transactional_id = str(view[position : position + size], "utf-8")
        position += size
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(view, position)
    position += 10
    if not 0 <= topic_count <= HOT_ELEMENTS_MAX:
        return None
    left = HOT_ELEMENTS_MAX - topic_count
    topics = []
    for _ in range(topic_count):
        size = _INT16.unpack_from(view, position)[0]
        if size < 0:
            return None
        position += 2
        name = str(view[position : position + size], "utf-8")
        position += size
        partition_count = _INT32.unpack_from(view, position)[0]
        position += 4
        if not 0 <= partition_count <= left:
            return None
        left -= partition_count
        partitions = []
        for _ in range(partition_count):
            index, size = _INDEX_SIZE.unpack_from(view, position)
            position += 8
            records = None
            if size >= 0:
                end = position + size
                if end > len(view):
                    return None
                records = view[position:end]
                position = end
            partitions.append(ProducePartition(index, records))
        topics.append(ProduceTopic(name, None, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


# index, error code, base offset, log append time[, log start offset][, no record errors, no error message][, no tags]
_PARTITION_3 = struct.Struct(">ihqq")
_PARTITION_5 = struct.Struct(">ihqqq")
_PARTITION_8 = struct.Struct(">ihqqqih")
_PARTITION_9 = struct.Struct(">ihqqqBBB")
_HEAD_3 = struct.Struct(">iii")  # length, correlation id, topics
_HEAD_9 = struct.Struct(">iiBB")  # length, correlation id, tags, topics


def encode_produce_response(version: int, correlation_id: int, topics: Sequence[TopicAnswer]) -> bytes | None:
    """The whole frame, without throttle time; None if the general encoder must make it."""
    if version >= FLEXIBLE_SINCE_VERSION:
        return _encode_compact(version, correlation_id, topics)
    pieces: list[bytes] = []
    for name, partitions in topics:
        assert isinstance(name, str)
        encoded = name.encode()
        pieces += (_INT16.pack(len(encoded)), encoded, _INT32.pack(len(partitions)))
        for each in partitions:
            if version >= 8:
                pieces.append(_PARTITION_8.pack(each.index, each.error_code, each.base_offset, each.log_append_time_ms,
                                                each.log_start_offset, 0, -1))  # fmt: skip
            elif version >= 5:
                pieces.append(_PARTITION_5.pack(each.index, each.error_code, each.base_offset, each.log_append_time_ms,
                                                each.log_start_offset))  # fmt: skip
            else:
                pieces.append(_PARTITION_3.pack(each.index, each.error_code, each.base_offset, each.log_append_time_ms))
    body = b"".join(pieces)
    return _HEAD_3.pack(len(body) + 12, correlation_id, len(topics)) + body + b"\x00\x00\x00\x00"


def _encode_compact(version: int, correlation_id: int, topics: Sequence[TopicAnswer]) -> bytes | None:
    pieces: list[bytes] = []
    if len(topics) >= _COMPACT_MAX:
        return None
    for topic, partitions in topics:
        if version >= TOPIC_IDS_SINCE_VERSION:
            assert topic is None or isinstance(topic, UUID)
            pieces.append(ZERO_UUID.bytes if topic is None else topic.bytes)
        else:
            assert isinstance(topic, str)
            encoded = topic.encode()
            if len(encoded) >= _COMPACT_MAX:
                return None
            pieces += (_BYTES[len(encoded) + 1], encoded)
        if len(partitions) >= _COMPACT_MAX:
            return None
        pieces.append(_BYTES[len(partitions) + 1])
        for each in partitions:
            pieces.append(_PARTITION_9.pack(each.index, each.error_code, each.base_offset, each.log_append_time_ms,
                                            each.log_start_offset, 1, 0, 0))  # fmt: skip
        pieces.append(b"\x00")
    body = b"".join(pieces)
    return _HEAD_9.pack(len(body) + 11, correlation_id, 0, len(topics) + 1) + body + b"\x00\x00\x00\x00\x00"


_BYTES = tuple(bytes((value,)) for value in range(256))
