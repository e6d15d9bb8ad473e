"""A tiny Kafka broker and frames for the tests of the Kafka toxics, made with broker.wire so that both must agree."""

from __future__ import annotations

import contextlib
import itertools
import queue
import socket
import struct
import threading
import time
from uuid import UUID

from broker.wire import codec, messages

TOPIC = "orders"
TOPIC_ID = UUID(int=0x1234)
PRODUCE, METADATA = 0, 3
_crcs = itertools.count(1000)


def record_batch(crc: int, records: int, payload_bytes: int = 20) -> bytes:
    payload = b"p" * payload_bytes
    header = struct.pack(">qiibIhiqqqhii", 0, 49 + len(payload), 0, 2, crc, 0, records - 1, 0, 0, -1, -1, -1, records)
    assert len(header) == 61
    return header + payload


def frame(parts) -> bytes:
    return b"".join(bytes(part) for part in parts)


def produce_frame(
    version: int,
    correlation_id: int,
    *,
    crc: int | None = None,
    records=3,
    partitions=(0,),
    acks=-1,
    client_id="c1",
    topic_name: str | None = None,
    payload_bytes: int = 20,
) -> bytes:
    topic = {
        "partition_data": [
            {"index": partition, "records": record_batch(next(_crcs) if crc is None else crc, records, payload_bytes)}
            for partition in partitions
        ]
    }
    topic |= {"topic_id": TOPIC_ID} if version >= 13 else {"name": topic_name or TOPIC}
    message = messages.request(PRODUCE, version, transactional_id=None, acks=acks, timeout=1000, topic_data=[topic])
    return frame(codec.encode_request(PRODUCE, version, correlation_id, client_id, message))


def produce_response_frame(
    version: int, correlation_id: int, results: dict[int, tuple[int, int]], topic_name: str | None = None
) -> bytes:
    topic = {
        "partition_responses": [
            {"index": partition, "error_code": error_code, "base_offset": base_offset}
            for partition, (error_code, base_offset) in results.items()
        ]
    }
    topic |= {"topic_id": TOPIC_ID} if version >= 13 else {"name": topic_name or TOPIC}
    return frame(
        codec.encode_response(PRODUCE, version, correlation_id, messages.response(PRODUCE, version, responses=[topic]))
    )


def metadata_frame(correlation_id: int) -> bytes:
    message = messages.request(METADATA, 12, topics=None)
    return frame(codec.encode_request(METADATA, 12, correlation_id, "c1", message))


def metadata_response_frame(correlation_id: int) -> bytes:
    message = messages.response(
        METADATA,
        12,
        brokers=[{"node_id": 1, "host": "127.0.0.1", "port": 9092, "rack": None}],
        cluster_id="c",
        controller_id=1,
        topics=[
            {
                "name": TOPIC,
                "topic_id": TOPIC_ID,
                "partitions": [
                    {
                        "partition_index": 0,
                        "leader_id": 1,
                        "leader_epoch": 3,
                        "replica_nodes": [1, 2],
                        "isr_nodes": [1],
                        "offline_replicas": [],
                    }
                ],
            }
        ],
    )
    return frame(codec.encode_response(METADATA, 12, correlation_id, message))


def connected(listen: str) -> socket.socket:
    """A connection to a proxy."""
    host, _, port = listen.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def read_frame(connection: socket.socket) -> bytes:
    """Without its length; empty at the end of the stream."""
    head = _read(connection, 4)
    return _read(connection, struct.unpack(">i", head)[0]) if head else b""


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            assert not data, "connection ended inside a frame"
            return b""
        data += part
    return bytes(data)


class FakeKafka:
    """Appends what it gets and answers in order; while `gate` is clear it reads and appends but does not answer."""

    def __init__(self) -> None:
        self.appended: list[tuple[int, int, int]] = []  # correlation id, partition, base offset
        self.gate = threading.Event()
        self.gate.set()
        self._next_offset = 0

    def serve(self, connection: socket.socket) -> None:
        answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        sender = threading.Thread(target=self._send, args=(connection, answers), daemon=True)
        sender.start()
        try:
            while data := read_frame(connection):
                answers.put(self._handle(data))
        finally:
            answers.put(None)
            sender.join()

    def _send(self, connection: socket.socket, answers: queue.SimpleQueue[bytes | None]) -> None:
        with contextlib.suppress(OSError):  # the connection was cut
            while (answer := answers.get()) is not None:
                self.gate.wait(60)
                connection.sendall(answer)

    def wait_appended(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while len(self.appended) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(self.appended) >= count

    def _handle(self, data: bytes) -> bytes:
        header, message = codec.decode_request(data)
        if header.api_key == METADATA:
            return metadata_response_frame(header.correlation_id)
        if header.api_key != PRODUCE:
            raise ConnectionError("it knows Produce and Metadata")
        results: dict[int, tuple[int, int]] = {}
        for topic in message.topic_data:
            for partition in topic.partition_data:
                results[partition.index] = (0, self._next_offset)
                self.appended.append((header.correlation_id, partition.index, self._next_offset))
                self._next_offset += struct.unpack_from(">i", partition.records, 57)[0]
        if message.acks == 0:
            return b""
        name = message.topic_data[0].name if header.api_version < 13 else None
        return produce_response_frame(header.api_version, header.correlation_id, results, name)


def serve_api_versions(connection):
    """Answers any request by its correlation id and an empty body: enough for a probe. A torn request ends it."""
    with contextlib.suppress(AssertionError):
        while data := read_frame(connection):
            connection.sendall(struct.pack(">i", 4) + data[4:8])
