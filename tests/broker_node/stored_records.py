"""Requests of a client over a socket of its own: Produce of one batch, and look-ups by time."""

from __future__ import annotations

import socket

from broker.wire.apis import ApiKey
from broker.wire.codec import decode_response, encode_request
from broker.wire.messages import Message, request


def asked(connection: socket.socket, api: ApiKey, version: int, **fields: object) -> Message:
    """One request of a client, and its answer."""
    connection.sendall(b"".join(encode_request(api, version, 1, "test", request(api, version, **fields))))
    with connection.makefile("rb") as answers:
        size = int.from_bytes(answers.read(4))
        return decode_response(api, version, answers.read(size))[1]


def produced(connection: socket.socket, batch: bytes, *, topic: str = "t", index: int = 0) -> Message:
    topics = [{"name": topic, "partition_data": [{"index": index, "records": batch}]}]
    answer = asked(connection, ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=30_000, topic_data=topics)
    return answer.responses[0].partition_responses[0]


def offset_at(connection: socket.socket, timestamp: int, *, topic: str = "t", index: int = 0) -> Message:
    part = {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": -1}
    topics = [{"name": topic, "partitions": [part]}]
    answer = asked(connection, ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=topics)
    return answer.topics[0].partitions[0]
