"""A real broker says which record check it uses, and refuses the same batch with the same words by either."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import crc32c
import pytest
from cluster_helper import Cluster

from broker.door.clients import Admin, NewTopic
from broker.wire.apis import ApiKey
from broker.wire.batch_encoder import encode_batch
from broker.wire.codec import decode_response, encode_request
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, request
from broker.wire.record_check import PURE_VARIABLE, use_compiled

pytestmark = pytest.mark.slow
VERSION = 9
CRC_AT, CRC_FROM = 17, 21


def produced(connection: socket.socket, batch: bytes) -> Message:
    topics = [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
    fields = {"transactional_id": None, "acks": -1, "timeout": 30_000, "topic_data": topics}
    frame = encode_request(ApiKey.PRODUCE, VERSION, 1, "test", request(ApiKey.PRODUCE, VERSION, **fields))
    connection.sendall(b"".join(frame))
    with connection.makefile("rb") as answers:
        size = int.from_bytes(answers.read(4))
        answer = decode_response(ApiKey.PRODUCE, VERSION, answers.read(size))[1]
    return answer.responses[0].partition_responses[0]


def with_wrong_delta(batch: bytes) -> bytes:
    """The last record's offset delta is one too many. It has one byte, and before it stand length, attributes, time."""
    changed = bytearray(batch)
    at = batch.rindex(b"\x0c\x01\x08last", CRC_FROM)  # 6, no key, a value of four bytes
    changed[at] = 0x0E
    changed[CRC_AT:CRC_FROM] = crc32c.crc32c(changed[CRC_FROM:]).to_bytes(4)
    return bytes(changed)


@pytest.mark.parametrize("pure", ["", "1"])
def test_both_ways_refuse_the_same_with_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pure: str
) -> None:
    monkeypatch.setenv(PURE_VARIABLE, pure)
    values = [b"x" * size for size in (1, 70, 3, 500, 0, 2)] + [b"last"]
    batch = encode_batch(values, timestamps_ms=[time.time_ns() // 1_000_000] * len(values))
    with Cluster(tmp_path, brokers=1) as cluster:
        expected = not pure and use_compiled(True)
        assert f"record_check compiled={expected}" in cluster.stderr(1)
        port = cluster.ports[1]["EXTERNAL"]
        with Admin({"bootstrap.servers": f"127.0.0.1:{port}"}) as admin:
            admin.create_topics([NewTopic(name="t", partitions=1, replication_factor=1)])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            answer = produced(connection, batch)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)
            answer = produced(connection, with_wrong_delta(batch))
            assert answer.error_code is ErrorCode.invalid_record
            assert answer.error_message == "record 6 has the offset delta 7: expected 6"
            assert produced(connection, batch).base_offset == 7
