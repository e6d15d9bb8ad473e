"""Hand-written code for Fetch, versions 12-18: requests of consumers and followers, answers to both, and the requests
and answers on a follower.

It gives the same bytes and values as decoder.py and encoder.py, in a fraction of the time. This matters, because
followers send a Fetch for every few batches of every partition. For anything unusual (earlier versions, unknown tagged
fields, forgotten partitions, aborted transactions, a diverging log, a hint where the leader is) it returns None, and
the general path takes over. tests/broker_wire/test_wire_hot.py shows that both paths give equal messages and bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from broker.wire.errors import ErrorCode, RemoteProtocolError, error_code
from broker.wire.messages import ZERO_UUID
from broker.wire.varints import read_uvarint, uvarint

Buffer = bytes | bytearray | memoryview

FIRST_VERSION = 12  # flexible, and with last_fetched_epoch
TOPIC_IDS_SINCE_VERSION = 13
REPLICA_STATE_SINCE_VERSION = 15
HOT_ELEMENTS_MAX = 10_000  # topics and partitions; the general decoder handles larger numbers
_COMPACT_MAX = 0x7F  # lengths and counts of one varint byte
_NONE = ErrorCode.none
_INT32 = struct.Struct(">i")
# [replica id,] max wait, min bytes, max bytes, isolation level, session id, session epoch
_HEAD_12 = struct.Struct(">iiiibii")
_HEAD_15 = struct.Struct(">iiibii")
# partition, current leader epoch, fetch offset, last fetched epoch, log start offset, max bytes, tags
_ASKED = struct.Struct(">iiqiqiB")
_REPLICA_STATE = struct.Struct(">BBBiqB")  # one tag, its number and size; replica id, replica epoch, no tags
_REPLICA_STATE_BYTES = 13


class ReplicaState(NamedTuple):
    replica_id: int
    replica_epoch: int


class FetchPartition(NamedTuple):
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int


class FetchTopic(NamedTuple):
    """`topic` is set in version 12, `topic_id` in later versions."""

    topic: str | None
    topic_id: UUID | None
    partitions: list[FetchPartition]


class FetchRequest(NamedTuple):
    """The fields have the names of kio's message. `max_wait` is in ms."""

    replica_id: int
    replica_state: ReplicaState
    max_wait: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten_topics_data: tuple[()] = ()
    rack_id: str = ""


_CONSUMER = ReplicaState(-1, -1)


def decode_fetch_request(view: memoryview, position: int, version: int) -> FetchRequest | None:
    """The request whose body begins at `position`; None if the general decoder must look at it."""
    if version < FIRST_VERSION:
        return None
    try:
        return _decode_request(view, position, version)
    except (struct.error, IndexError, UnicodeDecodeError, RemoteProtocolError):
        return None


def _decode_request(view: memoryview, position: int, version: int) -> FetchRequest | None:
    replica_id = -1
    if version >= REPLICA_STATE_SINCE_VERSION:
        max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = _HEAD_15.unpack_from(view, position)
        position += _HEAD_15.size
    else:
        replica_id, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = _HEAD_12.unpack_from(
            view, position
        )
        position += _HEAD_12.size
    topic_count, position = read_uvarint(view, position)
    if not 0 < topic_count <= HOT_ELEMENTS_MAX:
        return None
    left = HOT_ELEMENTS_MAX - topic_count
    topics = []
    for _ in range(topic_count - 1):  # a count beyond the frame ends with an IndexError
        topic = topic_id = None
        if version >= TOPIC_IDS_SINCE_VERSION:
            encoded = bytes(view[position : position + 16])
            topic_id = UUID(bytes=encoded) if len(encoded) == 16 and encoded != ZERO_UUID.bytes else None
            position += 16
        else:
            size = view[position]
            if not 0 < size <= _COMPACT_MAX:
                return None
            topic = str(view[position + 1 : position + size], "utf-8")
            position += size
        partition_count, position = read_uvarint(view, position)
        if not 0 < partition_count <= left:
            return None
        left -= partition_count
        partitions = []
        for _ in range(partition_count - 1):
            index, leader_epoch, offset, last_epoch, log_start, size, tags = _ASKED.unpack_from(view, position)
            if tags:
                return None
            position += _ASKED.size
            partitions.append(FetchPartition(index, leader_epoch, offset, last_epoch, log_start, size))
        if view[position]:
            return None
        position += 1
        topics.append(FetchTopic(topic, topic_id, partitions))
    if view[position] != 1 or not 0 < view[position + 1] <= _COMPACT_MAX:  # forgotten partitions; the rack's name
        return None
    rack_end = position + 1 + view[position + 1]
    rack_id = str(view[position + 2 : rack_end], "utf-8")
    state = _CONSUMER
    if view[rack_end]:
        if version < REPLICA_STATE_SINCE_VERSION:
            return None
        count, tag, size, state_id, state_epoch, tags = _REPLICA_STATE.unpack_from(view, rack_end)
        if (count, tag, size, tags) != (1, 1, _REPLICA_STATE_BYTES, 0):
            return None
        state = ReplicaState(state_id, state_epoch)
    return FetchRequest(
        replica_id, state, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch, topics, (), rack_id
    )


def encode_follower_fetch(
    version: int,
    correlation_id: int,
    client_id: bytes,
    state: ReplicaState,
    limits: tuple[int, int, int],
    session: tuple[int, int],
    topics: Iterable[tuple[UUID, Sequence[FetchPartition]]],
    forgotten: Iterable[tuple[UUID, Sequence[int]]] = (),
) -> bytes:
    """The whole frame of a follower's request, version 15-18. `limits` are max wait in ms, min bytes and max bytes.
    `session` is its id and epoch. `forgotten` are partitions that leave the session."""
    pieces = [
        _HEAD_15.pack(*limits, 0, *session),
        b"",
    ]
    count = 0
    for topic_id, partitions in topics:
        count += 1
        pieces += (topic_id.bytes, uvarint(len(partitions) + 1))
        pieces += [_ASKED.pack(*each, 0) for each in partitions]
        pieces.append(b"\x00")
    pieces[1] = uvarint(count + 1)
    gone = list(forgotten)
    pieces.append(uvarint(len(gone) + 1))
    for topic_id, indexes in gone:
        pieces += (topic_id.bytes, uvarint(len(indexes) + 1), struct.pack(f">{len(indexes)}iB", *indexes, 0))
    # no rack, one tagged field
    pieces.append(b"\x01" + _REPLICA_STATE.pack(1, 1, _REPLICA_STATE_BYTES, *state, 0))
    body = b"".join(pieces)
    head = struct.pack(">hhih", 1, version, correlation_id, len(client_id)) + client_id + b"\x00"
    return _INT32.pack(len(head) + len(body)) + head + body


class PartitionData(NamedTuple):
    """The part of an answer for one partition that has neither aborted transactions nor tagged fields.

    With `is_read_committed` the answer has an empty list of aborted transactions. Otherwise it has null, because nobody
    looked for them.
    """

    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: Buffer
    is_read_committed: bool = False


# index, error, high watermark, last stable offset, log start offset, aborted transactions, preferred read replica
_TOLD = struct.Struct(">ihqqqBi")
_ANSWER_HEAD = struct.Struct(">iiBihi")  # length, correlation id, tags; throttle time, error code, session id


def encode_fetch_response(
    version: int,
    correlation_id: int,
    session_id: int,
    topics: Iterable[tuple[str | UUID | None, Sequence[PartitionData]]],
) -> list[Buffer]:
    """The whole frame, version 12-18. Records are not copied."""
    assert version >= FIRST_VERSION
    out: list[Buffer] = []
    small: list[Buffer] = []
    count = 0
    for topic, partitions in topics:
        count += 1
        if isinstance(topic, str):
            encoded = topic.encode()
            small += (uvarint(len(encoded) + 1), encoded)
        else:
            small.append(ZERO_UUID.bytes if topic is None else topic.bytes)
        small.append(uvarint(len(partitions) + 1))
        for each in partitions:
            index, error, high_watermark, stable, log_start, records, is_read_committed = each
            small.append(_TOLD.pack(index, error, high_watermark, stable, log_start, is_read_committed, -1))
            small.append(uvarint(len(records) + 1))
            if len(records):
                out.append(b"".join(small))
                out.append(records)
                small = [b"\x00"]
            else:
                small.append(b"\x00")
        small.append(b"\x00")
    small.append(b"\x00")
    out.append(b"".join(small))
    counted = uvarint(count + 1)
    size = _ANSWER_HEAD.size - 4 + len(counted) + sum(map(len, out))
    head = _ANSWER_HEAD.pack(size, correlation_id, 0, 0, 0, session_id) + counted
    out[0] = head + bytes(out[0])
    return out


class DivergingEpoch(NamedTuple):
    epoch: int
    end_offset: int


_NOT_DIVERGING = DivergingEpoch(-1, -1)


class FollowedPartition(NamedTuple):
    """The fields have the names of kio's message. `diverging_epoch` always says that the log does not diverge."""

    partition_index: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: memoryview | None
    diverging_epoch: DivergingEpoch = _NOT_DIVERGING


class FollowedTopic(NamedTuple):
    topic_id: UUID | None
    partitions: list[FollowedPartition]


class FetchResponse(NamedTuple):
    error_code: ErrorCode
    session_id: int
    responses: list[FollowedTopic]


def decode_fetch_response(frame: memoryview, version: int) -> FetchResponse | None:
    """The answer to a follower, version 13-18; None if the general decoder must look at it. Records are views."""
    if version < TOPIC_IDS_SINCE_VERSION:
        return None
    try:
        return _decode_response(frame)
    except (struct.error, IndexError, RemoteProtocolError):
        return None


def _decode_response(view: memoryview) -> FetchResponse | None:
    if view[4]:
        return None
    error, session_id = struct.unpack_from(">hi", view, 9)
    topic_count, position = read_uvarint(view, 15)
    if not topic_count:
        return None
    topics = []
    for _ in range(topic_count - 1):
        encoded = bytes(view[position : position + 16])
        topic_id = UUID(bytes=encoded) if len(encoded) == 16 and encoded != ZERO_UUID.bytes else None
        partition_count, position = read_uvarint(view, position + 16)
        if not partition_count:
            return None
        partitions = []
        for _ in range(partition_count - 1):
            index, code, high_watermark, stable, log_start, aborted, _ = _TOLD.unpack_from(view, position)
            if aborted > 1:
                return None
            size, position = read_uvarint(view, position + _TOLD.size)
            records = None
            if size:
                records = view[position : position + size - 1]
                position += size - 1
            if view[position]:  # an IndexError if it is beyond the frame; if it is not 0, there are tagged fields
                return None
            position += 1
            told = _NONE if not code else error_code(code)
            partitions.append(FollowedPartition(index, told, high_watermark, stable, log_start, records))
        if view[position]:
            return None
        position += 1
        topics.append(FollowedTopic(topic_id, partitions))
    if view[position]:
        return None
    return FetchResponse(_NONE if not error else error_code(error), session_id, topics)
