"""The memory of arriving requests: order, the limit, and a real broker that lets the others wait."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest
from cluster_helper import Cluster
from confluent_helper import create_topic, wait_brokers
from hypothesis import given
from hypothesis import strategies as st
from link_helper import RawClient

from broker.node.net.memory import RequestMemory
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.framing import INITIAL_BUFFER_BYTES, KEPT_BUFFER_BYTES, FrameReader
from broker.wire.messages import request
from broker.wire.records import encode_batch


@given(sizes=st.lists(st.integers(1, 500), min_size=1, max_size=40), limit=st.integers(1, 600))
def test_everybody_gets_in_turn_and_the_limit_is_passed_by_one_request_at_most(sizes: list[int], limit: int) -> None:
    memory = RequestMemory(limit_bytes=limit)
    held: list[int] = []
    order: list[int] = []
    for number, size in enumerate(sizes):

        def granted(number: int = number, size: int = size) -> None:
            order.append(number)
            held.append(size)

        if memory.take(size, granted):
            granted()
        assert memory.used_bytes == sum(held)
        assert memory.used_bytes - (held[-1] if held else 0) < limit
    while held:
        memory.give_back(held.pop(0))
    assert order == list(range(len(sizes)))
    assert (memory.used_bytes, memory.waiting) == (0, 0)


def test_who_has_gone_does_not_block_the_others() -> None:
    memory = RequestMemory(limit_bytes=10)
    events: list[str] = []
    assert memory.take(10, lambda: None)

    def first() -> None:
        events.append("first")

    assert not memory.take(5, first)
    assert not memory.take(5, lambda: events.append("second"))
    memory.give_up(first)
    memory.give_back(10)
    assert events == ["second"]


def test_a_large_buffer_is_let_go_once_it_is_empty() -> None:
    reader = FrameReader()
    size = KEPT_BUFFER_BYTES + 1
    reader.receive_bytes(struct.pack(">i", size))
    assert reader.unfinished_frame_bytes == size + 4
    reader.receive_bytes(bytes(size))
    assert reader.next_frame() is not None
    assert reader.unfinished_frame_bytes == 0
    assert len(reader.writable()) == INITIAL_BUFFER_BYTES


@pytest.mark.slow
def test_a_request_waits_until_an_unfinished_one_is_gone(tmp_path: Path) -> None:
    settings = {"queued.max.request.bytes": 1_000_000}
    with Cluster(tmp_path, brokers=1, settings=settings) as running:
        wait_brokers(running)
        create_topic(running, "t")
        hog = socket.create_connection(("127.0.0.1", running.ports[1]["DIRECT"]), 60)
        hog.sendall(struct.pack(">i", 2_000_000) + bytes(1000))  # and then nothing
        topics = [
            {"name": "t", "partition_data": [{"index": 0, "records": encode_batch([bytes(200_000)], timestamps_ms=-1)}]}
        ]
        message = request(ApiKey.PRODUCE, 9, transactional_id=None, acks=1, timeout=5000, topic_data=topics)
        with RawClient(running.ports[1]["DIRECT"], timeout_s=1.0) as client:
            client.send(ApiKey.PRODUCE, 9, message)
            with pytest.raises(TimeoutError):
                client.receive(ApiKey.PRODUCE, 9)
            with RawClient(running.ports[1]["DIRECT"]) as small:  # which needs none of it
                small.call(ApiKey.API_VERSIONS, 0, request(ApiKey.API_VERSIONS, 0))
            hog.close()
            client._socket.settimeout(60)
            _, answer = client.receive(ApiKey.PRODUCE, 9)
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def test_a_few_huge_requests_leave_room_for_ordinary_ones() -> None:
    huge, limit = 100 << 20, 1 << 30
    memory = RequestMemory(limit_bytes=limit)
    granted: list[str] = []
    taken = sum(memory.take(huge, lambda: granted.append("huge")) for _ in range(11))
    assert taken == 8
    assert memory.take(1 << 20, lambda: granted.append("ordinary"))
    memory.give_back(huge)
    assert granted == ["huge"]
    assert memory.waiting == 2
